"""Linear models in any units: columns and targets shifted and scaled, far from zero, in chunks of any size."""

import pickle

import jax
import mpmath as mp
import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import t as student
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge

import cavity
from cavity.estimators.linear import climbing
from cavity.estimators.linear.affine import Affine
from cavity.estimators.linear.noise import student_information
from cavity.estimators.linear.targets import Medians
from cavity.estimators.linear.units import Units

RNG = np.random.default_rng(11)
N, D = 80, 3
X = RNG.normal(size=(N, D)) @ [[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]]
SIGNAL = X @ [1.0, -0.5, 0.3] + 0.4
REAL = SIGNAL + 0.5 * RNG.normal(size=N)
LABELS = np.where(SIGNAL + RNG.logistic(size=N) > 0, "yes", "no")
THREE = np.digitize(SIGNAL, [-0.5, 0.8])
COUNTS = RNG.poisson(np.exp(0.5 * SIGNAL))
MODELS = [
    (cavity.ProbitClassifier, LABELS),
    (cavity.LogisticClassifier, LABELS),
    (cavity.LogisticClassifier, THREE),
    (cavity.PoissonRegressor, COUNTS),
    (cavity.GaussianRegressor, REAL),
    (cavity.StudentTRegressor, REAL),
]
NAMES = [f"{make.__name__}-{y.dtype.kind}" for make, y in MODELS]


def covariance_of(affine, dim):
    matrix = np.zeros((dim, dim))
    matrix[np.arange(len(affine.ratio)), np.arange(len(affine.ratio))] = affine.ratio
    if affine.last is not None:
        matrix[-1, :-1], matrix[-1, -1] = affine.edge, affine.last
    return matrix


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("copies", [(), (2,)])
def test_an_affine_map_moves_densities_as_matrices_do(intercept, copies):
    dim = 3 + intercept
    last = 0.7 if intercept else None
    affine = Affine(np.array([2.0, 0.1, 30.0]), np.array([5.0, -1.0, 0.2]), last, -4.0 * intercept)
    root = RNG.normal(size=(*copies, dim, dim))
    phi = cavity.Gaussian.from_mean(RNG.normal(size=(*copies, dim)), root @ root.swapaxes(-1, -2) + np.eye(dim))
    matrix = covariance_of(affine, dim)
    theta, e = affine.density(phi), np.append(np.zeros(dim - 1), affine.offset)
    np.testing.assert_allclose(theta.mean, phi.mean @ matrix.T + e)
    np.testing.assert_allclose(theta.covariance, matrix @ phi.covariance @ matrix.T)
    fresh = cavity.Gaussian(theta.shift, theta.precision)  # read by its own precision
    for read in ("mean", "covariance"):
        np.testing.assert_allclose(getattr(fresh, read), getattr(theta, read), rtol=1e-8)
    np.testing.assert_allclose(theta.reads().chol, fresh.reads().chol, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(theta.reads().logdet, fresh.reads().logdet)
    place = RNG.normal(size=(*copies, dim))
    np.testing.assert_allclose(theta.log_prob(place), fresh.log_prob(place))
    assert fresh.kl(theta) < 1e-12
    again = pickle.loads(pickle.dumps(theta))
    np.testing.assert_array_equal(again.mean, theta.mean)
    np.testing.assert_array_equal(again.reads().chol, theta.reads().chol)


def test_units_change_without_changing_the_function():
    one = Units(np.array([1.0, -2.0]), np.array([3.0, 0.5]), 7.0, 2.0, intercept=True)
    two = Units(np.array([0.0, 4.0]), np.array([1.0, 0.1]), -1.0, 0.3, intercept=True)
    phi, rows = RNG.normal(size=3), RNG.normal(size=(5, 2))
    values = one.middle + one.spread * one.design(rows) @ phi
    np.testing.assert_allclose(two.middle + two.spread * two.design(rows) @ one.to(two)(phi), values)
    np.testing.assert_allclose(np.column_stack([rows, np.ones(5)]) @ one.to_given()(phi), values)


def test_information_of_students_t():
    scale, df = 1.3, 4.5
    log_density = lambda y, at: student.logpdf(y, np.exp(at[1]), scale=np.exp(at[0]))
    at, step = np.log([scale, df]), 1e-4
    moves = step * np.eye(2)
    slope = lambda y, i: (log_density(y, at + moves[i]) - log_density(y, at - moves[i])) / (2 * step)
    for i in range(2):
        for j in range(2):
            found = quad(lambda y, i=i, j=j: slope(y, i) * slope(y, j) * np.exp(log_density(y, at)), -np.inf, np.inf)[0]
            np.testing.assert_allclose(student_information(np.array([scale, df]))[i, j], found, rtol=1e-4)


def test_a_weight_counts_values_in_a_median():
    values, weight = RNG.normal(size=12), RNG.integers(1, 5, 12)
    parts = Medians.of(values[:5], weight[:5] * 1.0).merge(Medians.of(values[5:], weight[5:] * 1.0))
    assert parts.middle() == pytest.approx(np.median(np.repeat(values, weight)))


@pytest.mark.parametrize("order", [np.arange(30_000), RNG.permutation(30_000)])
def test_a_median_of_many_does_not_depend_on_their_order(order):
    values = np.where(np.arange(30_000) % 3 == 0, 1000.0, 0.0) + RNG.normal(size=30_000)
    found = Medians.of(values[order], np.ones(30_000))
    assert found.middle() == pytest.approx(np.median(values), abs=0.01)
    middle = np.median(values)
    assert found.spread(middle) == pytest.approx(1.4826 * np.median(np.abs(values - middle)), rel=0.02)


def test_a_spread_of_mostly_zeros_is_not_that_of_an_outlier():
    values = np.concatenate([np.zeros(60), RNG.normal(size=39), [1e9]])
    assert Medians.of(values, np.ones(100)).spread(0.0) == pytest.approx(1.0, abs=0.5)
    assert Medians.of(np.full(5, -7.0), np.ones(5)).spread(-7.0) == 7.0


def predictions(model, rows):
    if hasattr(model, "predict_proba"):
        return model.predict_log_proba(rows)
    mean, sd = model.predict(rows, return_std=True)
    return np.stack([mean, sd])


@pytest.mark.parametrize(("make", "y"), MODELS, ids=NAMES)
def test_columns_in_other_units_give_the_same_predictions(make, y):
    scale, shift = np.array([1e-6, 1e9, 2.0**10]), np.array([3e-6, -5e9, 1e6])
    other = X * scale + shift
    before, after = predictions(make().fit(X, y), X), predictions(make().fit(other, y), other)
    np.testing.assert_allclose(after, before, atol=1e-6 * np.std(before), rtol=0)


@pytest.mark.parametrize("constant", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize(("make", "y"), MODELS[-3:], ids=NAMES[-3:])
def test_a_constant_column_may_be_the_intercept_in_any_units(make, y, constant):
    with_ones = lambda value: np.column_stack([X, np.full(N, value)])
    before = make(fit_intercept=False).fit(with_ones(2.0), y)
    after = make(fit_intercept=False).fit(with_ones(constant), y)
    expected = predictions(before, with_ones(2.0))
    np.testing.assert_allclose(predictions(after, with_ones(constant)), expected, atol=1e-6 * np.std(expected), rtol=0)


@pytest.mark.parametrize("slope", [1.0, 300.0])
@pytest.mark.parametrize("dim", [2, 10])
def test_the_search_finds_a_small_noise(slope, dim):
    rows = RNG.normal(size=(300, dim))
    y = slope * rows @ RNG.normal(size=dim) + RNG.normal(size=300)
    model = cavity.GaussianRegressor().fit(rows, y)
    assert model.converged_
    rest = y - np.column_stack([rows, np.ones(300)]) @ np.linalg.lstsq(np.column_stack([rows, np.ones(300)]), y)[0]
    assert model.noise_variance_ == pytest.approx(rest @ rest / (300 - dim - 1), rel=0.02)


def test_a_search_that_does_not_end_is_told(monkeypatch):
    y = 1e6 * X[:, 0] + RNG.normal(size=N)
    with pytest.warns(cavity.ConvergenceWarning, match="so little noise that it is not looked for"):
        cavity.GaussianRegressor().fit(X, y)
    monkeypatch.setattr(climbing, "MAX_STEPS", 1)
    with pytest.warns(cavity.ConvergenceWarning, match="prior variance and noise were not found"):
        model = cavity.GaussianRegressor().fit(X, REAL)
    assert not model.converged_


@pytest.mark.parametrize("make", [cavity.GaussianRegressor, cavity.StudentTRegressor])
def test_few_rows_do_not_say_that_there_is_no_noise(make):
    for n in (1, 2, 3):
        _, sd = make().fit(X[:n], REAL[:n]).predict(X[:n], return_std=True)
        assert np.all(sd > 0.02 * np.abs(REAL[:n]).max())


@pytest.mark.parametrize("make", [cavity.GaussianRegressor, cavity.StudentTRegressor])
def test_a_target_in_other_units_gives_the_same_predictions(make):
    model, other = make().fit(X, REAL), make().fit(X, 1e3 * REAL + 1e6)
    mean, sd = model.predict(X, return_std=True)
    mean_there, sd_there = other.predict(X, return_std=True)
    np.testing.assert_allclose((mean_there - 1e6) / 1e3, mean, atol=1e-6 * sd.min(), rtol=0)
    np.testing.assert_allclose(sd_there / 1e3, sd, rtol=1e-6)
    assert other.log_evidence_ == pytest.approx(model.log_evidence_ - N * np.log(1e3), abs=1e-5)


def test_the_old_prior_is_in_the_units_of_the_user():
    far = X * [1.0, 20.0, 0.1] + [3.0, -40.0, 0.0]
    model = cavity.GaussianRegressor(standardize=False, noise_variance=0.3).fit(far, REAL)
    design, prior = np.column_stack([far, np.ones(N)]), np.diag([1.0, 1.0, 1.0, 0.01])
    precision = prior + design.T @ design / 0.3
    np.testing.assert_allclose(model.posterior_.covariance, np.linalg.inv(precision), rtol=1e-7)
    np.testing.assert_allclose(model.posterior_.mean, np.linalg.solve(precision, design.T @ REAL / 0.3), rtol=1e-7)


def exact_posterior(rows, y, noise, prior_variance, intercept_variance):
    """Mean and covariance in the user's units, with 60 digits."""
    number = np.vectorize(mp.mpf, otypes=[object])
    rows, y = number(rows), number(y)
    n, dim = rows.shape
    mean, middle = rows.sum(0) / n, y.sum() / n
    root = np.vectorize(mp.sqrt, otypes=[object])
    scale, spread = root(((rows - mean) ** 2).sum(0) / n), mp.sqrt(((y - middle) ** 2).sum() / n)
    precision = mp.matrix(dim + 1, dim + 1)
    edge = [*mean, mp.mpf(1)]
    design = np.column_stack([rows, number(np.ones(n))])
    gram = design.T @ design / mp.mpf(noise)
    for i in range(dim + 1):
        for j in range(dim + 1):
            precision[i, j] = gram[i, j] + edge[i] * edge[j] / (intercept_variance * spread**2)
        if i < dim:
            precision[i, i] += scale[i] ** 2 / (prior_variance * spread**2)
    shift = design.T @ y / mp.mpf(noise)
    shift = mp.matrix([shift[i] + edge[i] * middle / (intercept_variance * spread**2) for i in range(dim + 1)])
    covariance = precision**-1
    to_floats = lambda matrix: np.array(matrix.tolist(), dtype=float)
    return to_floats(covariance * shift)[:, 0], to_floats(covariance)


@pytest.mark.parametrize("far", [1e8, 1e9, 1.7e9])
def test_a_conjugate_fit_far_from_zero_is_exact(far):
    rows = np.round(X, 6) * [1.0, 10.0, 0.1] + far
    with mp.workdps(60):
        mean, covariance = exact_posterior(rows, REAL + far, 0.25, 2.0, 100.0)
    model = cavity.GaussianRegressor(noise_variance=0.25, prior_variance=2.0).fit(rows, REAL + far)
    sd = np.sqrt(np.diag(covariance))
    assert np.max(np.abs(model.posterior_.mean - mean) / sd) < 1e-6
    np.testing.assert_allclose(model.posterior_.covariance / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=1e-6)
    learned = cavity.GaussianRegressor().fit(rows, REAL + far)
    near = cavity.GaussianRegressor().fit(rows - far, REAL)
    assert learned.noise_variance_ == pytest.approx(near.noise_variance_, rel=1e-5)


def test_a_robust_fit_far_from_zero():
    y = 1000 + X[:, 0] + 0.3 * RNG.normal(size=N)
    model = cavity.StudentTRegressor().fit(X, y)
    assert model.converged_
    assert model.intercept_ == pytest.approx(1000, abs=0.2)
    assert 0.2 < model.scale_ < 0.4
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("make", [cavity.GaussianRegressor, cavity.StudentTRegressor])
def test_raw_targets_are_fitted_as_well_as_by_others(make):
    rows, y = load_diabetes(return_X_y=True, scaled=False)
    train = np.arange(len(y)) % 4 > 0
    theirs = BayesianRidge().fit((rows[train] - rows[train].mean(0)) / rows[train].std(0), y[train])
    bar = theirs.score((rows[~train] - rows[train].mean(0)) / rows[train].std(0), y[~train])
    assert make().fit(rows[train], y[train]).score(rows[~train], y[~train]) > bar - 0.01


RAGGED = [(0, 1), (1, 2), (2, 30), (30, 31), (31, N)]


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
@pytest.mark.parametrize("options", [{"noise_variance": 700.0, "prior_variance": 2.0}, {}])
def test_ragged_chunks_are_one_fit(options, scale):
    rows, y = X * [1.0, 100.0, 1e-3] + [0.0, 1e4, 5.0], scale * (50 * REAL + 2000)
    fixed = {name: value * (scale**2 if name == "noise_variance" else 1.0) for name, value in options.items()}
    whole, parts = cavity.GaussianRegressor(**fixed).fit(rows, y), cavity.GaussianRegressor(**fixed)
    for begin, end in RAGGED:
        parts.partial_fit(rows[begin:end], y[begin:end])
    sd = np.sqrt(whole.posterior_.variance)
    np.testing.assert_allclose(parts.posterior_.mean / sd, whole.posterior_.mean / sd, rtol=0, atol=1e-4)
    np.testing.assert_allclose(parts.posterior_.variance, whole.posterior_.variance, rtol=1e-3)
    assert parts.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-3)
    assert parts.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-3)


def test_ragged_chunks_of_another_likelihood():
    whole, parts = cavity.StudentTRegressor().fit(X, REAL), cavity.StudentTRegressor()
    for begin, end in RAGGED:
        parts.partial_fit(X[begin:end], REAL[begin:end])
    assert parts.scale_ == pytest.approx(whole.scale_, rel=0.4)
    sd = np.sqrt(whole.posterior_.variance)
    assert np.max(np.abs(parts.posterior_.mean - whole.posterior_.mean) / sd) < 1.0


@pytest.mark.parametrize(("make", "y"), MODELS, ids=NAMES)
def test_one_pass_learns_by_sites_what_is_free(make, y):
    once, settled = (make(algorithm=algorithm).fit(X, y) for algorithm in ("adf", "auto"))
    np.testing.assert_allclose(once.prior_variance_, settled.prior_variance_, rtol=1e-4)
    off = np.abs(np.atleast_2d(once.coef_ - settled.coef_)) / np.sqrt(np.atleast_2d(settled.posterior_.variance)[:, :D])
    assert 0 < np.max(off) < 3.0


def test_what_is_learned_may_change_between_chunks():
    first, second = slice(0, 40), slice(40, N)
    model = cavity.GaussianRegressor(noise_variance=9.0).partial_fit(X[first], REAL[first])
    assert model.noise_variance_ == 9.0
    model.set_params(noise_variance="auto").partial_fit(X[second], REAL[second])
    assert 0.1 < model.noise_variance_ < 0.6
    model.set_params(noise_variance=2.5).partial_fit(X[first], REAL[first])
    assert model.noise_variance_ == 2.5
    fixed = cavity.GaussianRegressor(noise_variance=0.25, prior_variance=1e-8).partial_fit(X[first], REAL[first])
    assert np.all(np.abs(fixed.coef_) < 1e-3)
    fixed.set_params(prior_variance=2.0).partial_fit(X[second], REAL[second])
    whole = cavity.GaussianRegressor(noise_variance=0.25, prior_variance=2.0).fit(X, REAL)
    np.testing.assert_allclose(fixed.posterior_.mean, whole.posterior_.mean, rtol=1e-6)


@pytest.mark.parametrize("change", [{"standardize": False}, {"fit_intercept": False}, {"feature_groups": [0, 0, 1]}])
def test_what_may_not_change_between_chunks_is_refused(change):
    model = cavity.GaussianRegressor(prior_variance="auto").partial_fit(X, REAL)
    before = predictions(model, X)
    with pytest.raises(ValueError, match=f"{next(iter(change))} must be as in earlier calls of partial_fit"):
        model.set_params(**change).partial_fit(X, REAL)
    np.testing.assert_array_equal(predictions(model, X), before)


@pytest.mark.parametrize(("make", "y"), MODELS, ids=NAMES)
def test_answers_are_those_of_the_fit_whatever_parameters_say_later(make, y):
    model = make().fit(X, y)
    asked = lambda: (predictions(model, X), model.coef_, model.intercept_, model.summary().to_numpy())
    before = asked()
    for name in model.get_params():
        model.set_params(**{name: None})
    for old, new in zip(before, asked(), strict=True):
        np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weight", [None, RNG.integers(0, 4, N)])
def test_fits_from_sums_are_those_of_the_engine(as_given, weight):
    fit = lambda algorithm: cavity.GaussianRegressor(algorithm=algorithm).fit(as_given(X), REAL, weight)
    direct, engine = fit("auto"), fit(cavity.parallel_ep())
    np.testing.assert_allclose(direct.posterior_.mean, engine.posterior_.mean, rtol=1e-6)
    np.testing.assert_allclose(direct.posterior_.covariance, engine.posterior_.covariance, rtol=1e-5, atol=1e-9)
    assert direct.noise_variance_ == pytest.approx(engine.noise_variance_, rel=1e-5)
    assert direct.log_evidence_ == pytest.approx(engine.log_evidence_, abs=1e-6)  # each at what its search has found
    assert direct.history_.log_evidence[-1] == pytest.approx(direct.log_evidence_, abs=1e-9)
    given = {"noise_variance": 0.3, "prior_variance": 1.5, "standardize": False}
    models = [cavity.GaussianRegressor(algorithm=algorithm, **given) for algorithm in ("auto", cavity.parallel_ep())]
    for rows in (slice(0, 20), slice(20, N)):
        parts = [model.partial_fit(as_given(X[rows]), REAL[rows]).log_evidence_ for model in models]
        assert parts[0] == pytest.approx(parts[1], abs=1e-7)


def test_a_target_without_noise_is_fitted_to_many_digits():
    with pytest.warns(cavity.ConvergenceWarning, match="so little noise"):
        model = cavity.GaussianRegressor().fit(X, X @ [1.0, -2.0, 0.5] + 3.0)
    np.testing.assert_allclose(model.coef_, [1.0, -2.0, 0.5], rtol=1e-6)
    assert np.isfinite(model.log_evidence_)


def test_every_read_of_a_posterior_far_from_zero_is_exact():
    far = X + np.array([0.0, 1e9, 0.0])
    fit = lambda rows, noise: cavity.GaussianRegressor(prior_variance=1.0, noise_variance=noise).fit(rows, REAL)
    (p, other), (near, close) = ([fit(rows, v).posterior_ for v in (0.25, 0.3)] for rows in (far, X))
    np.testing.assert_allclose(p.mean[:D], near.mean[:D], rtol=1e-6)
    np.testing.assert_allclose(p.variance[:D], near.variance[:D], rtol=1e-6)
    assert p.entropy() == pytest.approx(near.entropy(), rel=1e-6)
    assert p.kl(other) == pytest.approx(near.kl(close), rel=1e-5)
    assert p.distance(other) == pytest.approx(near.distance(close), rel=1e-5)
    with jax.enable_x64(True):
        draws = np.stack([p.draw(jax.random.key(i)) for i in range(200)])
    np.testing.assert_allclose(draws.std(0), np.sqrt(p.variance), rtol=0.25)
    assert np.mean(p.log_prob(draws)) == pytest.approx(-p.entropy(), abs=0.4)
