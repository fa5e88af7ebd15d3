"""What the linear models compute: against closed forms, the engine itself, and brute force."""

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.special import expit, log_expit
from scipy.stats import gamma, multivariate_normal, norm
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import log_loss

import cavity
from cavity.estimators import algorithms
from tests.registry import thinned

RNG = np.random.default_rng(8)
N = 120
X = RNG.normal(size=(N, 3)) * [1.0, 5.0, 0.2] + [0.0, 30.0, -1.0]
ACTIVATION = (X - X.mean(0)) / X.std(0) @ [1.0, -0.5, 0.3] + 0.4
LABELS = np.where(ACTIVATION + RNG.logistic(size=N) > 0, "yes", "no")
NOISY = ACTIVATION + 0.5 * RNG.normal(size=N)


def test_the_posterior_is_that_of_the_engine():
    model = cavity.ProbitClassifier(prior_variance=2.0, intercept_variance=7.0, standardize=False).fit(X, LABELS)
    prior = cavity.Gaussian(np.zeros(4), np.diag([0.5, 0.5, 0.5, 1 / 7]))
    design, y = np.column_stack([X, np.ones(N)]), np.where(LABELS == "yes", 1.0, -1.0)
    result = cavity.fit(cavity.factors.probit(), prior, (design, y), cavity.ep(), tol=1e-9)
    assert result.posterior.kl(model.posterior_) < 1e-10
    assert model.log_evidence_ == pytest.approx(result.log_evidence, abs=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_standardised_coefficients_are_reported_in_the_units_of_the_features(fit_intercept):
    given = cavity.ProbitClassifier(prior_variance=1.0, fit_intercept=fit_intercept).fit(X, LABELS)
    scaled = (X - X.mean(0) * fit_intercept) / X.std(0)
    by_hand = cavity.ProbitClassifier(standardize=False, fit_intercept=fit_intercept).fit(scaled, LABELS)
    np.testing.assert_allclose(given.coef_ * X.std(0), by_hand.coef_, rtol=1e-6)
    np.testing.assert_allclose(given.predict_proba(X), by_hand.predict_proba(scaled), rtol=1e-6)
    assert given.log_evidence_ == pytest.approx(by_hand.log_evidence_, abs=1e-6)
    sd = np.sqrt(np.diag(given.posterior_.covariance))[:3] * X.std(0)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(by_hand.posterior_.covariance))[:3], rtol=1e-6)


def test_gaussian_regression_is_exact_at_the_learned_noise():
    model = cavity.GaussianRegressor(standardize=False).fit(X, NOISY)
    design = np.column_stack([X, np.ones(N)])
    prior = np.diag([1.0, 1.0, 1.0, 100.0])
    log_evidence = lambda noise: multivariate_normal(np.zeros(N), design @ prior @ design.T + noise * np.eye(N)).logpdf(
        NOISY
    )
    assert model.log_evidence_ == pytest.approx(log_evidence(model.noise_variance_), abs=1e-6)
    unit = NOISY.std()
    before = lambda noise: np.log(np.sqrt(noise) / unit) - np.sqrt(noise) / unit  # exponential, of the logarithm
    value = lambda noise: log_evidence(noise) + before(noise)
    for factor in (0.99, 1.01):  # the learned noise is the best
        assert value(factor * model.noise_variance_) < value(model.noise_variance_)
    covariance = np.linalg.inv(np.linalg.inv(prior) + design.T @ design / model.noise_variance_)
    np.testing.assert_allclose(model.posterior_.covariance, covariance, rtol=1e-6)
    _, total = model.predict(X[:5], return_std=True)
    parts = model.predict_components(X[:5])
    np.testing.assert_allclose(total**2, parts.noise_std**2 + parts.model_std**2)
    np.testing.assert_allclose(parts.model_std**2, np.sum((design[:5] @ covariance) * design[:5], 1), rtol=1e-6)


def test_the_learned_prior_variance_maximises_the_evidence_times_its_own_prior():
    groups = [0, 0, 1]
    model = cavity.ProbitClassifier(feature_groups=groups).fit(X, LABELS)
    assert model.prior_variance_.shape == (2,)
    shared = cavity.ProbitClassifier().fit(X, LABELS)
    refit = lambda v: cavity.ProbitClassifier(prior_variance=v).fit(X, LABELS).log_evidence_
    best = shared.prior_variance_
    assert refit(best) == pytest.approx(shared.log_evidence_, abs=1e-7)
    value = lambda v: refit(v) + norm.logpdf(0.5 * np.log(3 * v), np.log(2.0), 1.5)  # the sd that all features add
    assert value(best) > max(value(0.98 * best), value(1.02 * best))
    other = cavity.ProbitClassifier(prior_variance="auto", standardize=False).fit((X - X.mean(0)) / X.std(0), LABELS)
    assert other.prior_variance_ == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("make", [cavity.ProbitClassifier, cavity.LogisticClassifier])
def test_separable_classes_have_a_finite_prior_variance(make):
    features = np.linspace(-2.0, 2.0, 12)[:, None]
    model = make().fit(features, features[:, 0] > 0)
    assert model.converged_
    assert 1 < model.prior_variance_ < 1000
    assert np.all(np.isfinite(model.predict_log_proba(features)))


def test_predictions_integrate_over_the_posterior():
    for model, likelihood in ((cavity.ProbitClassifier(), norm.cdf), (cavity.LogisticClassifier(), expit)):
        model.fit(X, LABELS)
        far = np.concatenate([X[:3], 40 * X[:2]])
        design = np.column_stack([far, np.ones(5)])
        mean = design @ model.posterior_.mean
        sd = np.sqrt(np.sum((design @ model.posterior_.covariance) * design, 1))
        for row, m, s in zip(model.predict_proba(far), mean, sd, strict=True):
            integrand = lambda t, m=m, s=s, f=likelihood: norm.pdf(t) * f(m + s * t)
            exact = quad(integrand, -12, 12, points=[np.clip(-m / s, -11, 11)], epsabs=1e-12)[0]
            np.testing.assert_allclose(row, [1 - exact, exact], atol=1e-9)


def test_log_probabilities_keep_their_digits_in_the_tail():
    model = cavity.LogisticClassifier(prior_variance=100.0).fit([[-1.0], [1.0]], [0, 1])
    sure = model._state.functions[0]._replace(posterior=cavity.Gaussian([1e9, 0.0], np.diag([1e9, 1e9])))
    model._state = model._state.with_functions([sure])
    np.testing.assert_allclose(model.predict_log_proba([[-700.0]])[0, 1], log_expit(-700.0), rtol=1e-6)


@pytest.mark.parametrize("make", [cavity.LogisticClassifier, cavity.ProbitClassifier])
def test_several_classes_average_their_normalised_odds(make):
    labels = np.digitize(ACTIVATION, [-0.5, 0.8])
    model = make(prior_variance=1.0).fit(X, labels)
    probability = model.predict_proba(X[:5])
    np.testing.assert_allclose(probability.sum(1), 1.0)
    draws = model.sample_posterior(200_000, random_state=0)
    activation = np.einsum("scd,nd->nsc", draws, np.column_stack([X[:5], np.ones(5)]))
    odds = np.exp(activation) if make is cavity.LogisticClassifier else norm.cdf(activation) / norm.sf(activation)
    odds = odds**model.sharpness_
    np.testing.assert_allclose(probability, np.mean(odds / odds.sum(2, keepdims=True), axis=1), atol=2e-3)
    assert model.posterior_.mean.shape == (3, 4)


@pytest.mark.slow
def test_odds_are_as_sharp_as_the_rows_left_out_say():
    features = RNG.normal(size=(3000, 2))
    clear = np.argmax(features @ RNG.normal(size=(2, 3)) * 4 + RNG.gumbel(size=(3000, 3)), axis=1)
    noisy = np.where(RNG.random(3000) < 0.6, RNG.integers(3, size=3000), clear)
    fit = lambda labels: cavity.LogisticClassifier().fit(features[:300], labels[:300])
    loss = lambda model, labels: log_loss(labels[300:], model.predict_proba(features[300:]))
    for labels in (clear, noisy):
        model = fit(labels)
        learned = loss(model, labels)
        best = model.sharpness_
        for other in (0.6 * best, 1.7 * best):
            model.sharpness_ = other
            assert learned < loss(model, labels)
    assert fit(noisy).sharpness_ < 0.9


@pytest.mark.slow
def test_sharpness_gathers_over_chunks():
    features = RNG.normal(size=(600, 2))
    clear = np.argmax(features @ RNG.normal(size=(2, 3)) * 4, axis=1)
    labels = np.where(RNG.random(600) < 0.6, RNG.integers(3, size=600), clear)
    at_once = cavity.LogisticClassifier().fit(features, labels)
    in_chunks = cavity.LogisticClassifier()
    for start in range(0, 600, 50):
        here = slice(start, start + 50)
        in_chunks.partial_fit(features[here], labels[here], classes=[0, 1, 2])
    np.testing.assert_allclose(in_chunks.sharpness_, at_once.sharpness_, rtol=0.15)


def test_a_group_without_a_say_is_found():
    features = RNG.normal(size=(60, 9))
    y = features @ np.repeat([1.0, 0.5, 0.0], 3) + RNG.normal(size=60)
    learned = cavity.GaussianRegressor(feature_groups=np.repeat([0, 1, 2], 3)).fit(features, y)
    assert learned.prior_variance_[2] < 0.1 * learned.prior_variance_[1] < learned.prior_variance_[0]


@pytest.mark.slow
def test_class_weights_are_named_and_counted():
    with pytest.raises(ValueError, match="class_weight must leave weight to two classes"):
        cavity.ProbitClassifier(class_weight={"yes": 0.0}).fit(X, LABELS)
    with pytest.raises(ValueError, match="class_weight must name classes"):
        cavity.ProbitClassifier(class_weight={"perhaps": 2.0}).fit(X, LABELS)
    with pytest.raises(ValueError, match="at least two labels; got"):
        cavity.ProbitClassifier().partial_fit(X, LABELS, classes=["yes"])
    weight = (np.arange(N) % 3 > 0).astype(float)
    balanced = cavity.ProbitClassifier(class_weight="balanced")
    without = balanced.fit(X[weight > 0], LABELS[weight > 0]).posterior_.mean
    np.testing.assert_allclose(balanced.fit(X, LABELS, sample_weight=weight).posterior_.mean, without, rtol=1e-8)
    model = cavity.ProbitClassifier(class_weight={"yes": 2.0}).partial_fit(X, LABELS, classes=["no", "yes"])
    model.partial_fit(X[LABELS == "no"], LABELS[LABELS == "no"])  # a chunk without the class that has a weight


def test_weights_count_rows_and_class_weights_are_weights():
    weight = RNG.integers(0, 4, N).astype(float)
    weighted = cavity.ProbitClassifier().fit(X, LABELS, sample_weight=weight)
    repeated = cavity.ProbitClassifier().fit(X.repeat(weight.astype(int), 0), LABELS.repeat(weight.astype(int)))
    np.testing.assert_allclose(weighted.posterior_.mean, repeated.posterior_.mean, rtol=1e-6)
    by_class = cavity.ProbitClassifier(class_weight={"yes": 2.0, "no": 0.5}).fit(X, LABELS)
    by_hand = cavity.ProbitClassifier().fit(X, LABELS, sample_weight=np.where(LABELS == "yes", 2.0, 0.5))
    np.testing.assert_allclose(by_class.posterior_.mean, by_hand.posterior_.mean, rtol=1e-8)


def test_exposure_is_an_offset_and_rates_are_recovered():
    exposure = RNG.uniform(0.5, 20.0, 400)
    features = RNG.normal(size=(400, 2))
    y = RNG.poisson(exposure * np.exp(features @ [0.5, -0.3] + 1.0))
    model = cavity.PoissonRegressor().fit(features, y, exposure=exposure)
    np.testing.assert_allclose(model.posterior_.mean, [0.5, -0.3, 1.0], atol=0.1)
    same = cavity.PoissonRegressor().fit(features, y, offset=np.log(exposure))
    np.testing.assert_allclose(same.posterior_.mean, model.posterior_.mean, rtol=1e-9)
    np.testing.assert_allclose(model.predict(features, exposure=exposure), exposure * model.predict(features))
    assert model.score(features, y, exposure=exposure) > 0.7
    with pytest.raises(ValueError, match="offset and exposure must not both be given"):
        model.predict(features, offset=0.0, exposure=1.0)


def test_the_score_of_counts():
    features = RNG.normal(size=(60, 2))
    y = RNG.poisson(np.exp(features[:, 0]))
    model = cavity.PoissonRegressor().fit(features, y)
    with pytest.warns(DataConversionWarning):
        assert model.score(features, y[:, None]) == model.score(features, y)
    exposure = np.full(60, 3.0)  # an exposure that all rows share explains nothing
    assert model.score(features, 3 * y, exposure=exposure) == pytest.approx(model.score(features, y))
    assert model.score(features[:3], [2, 2, 2]) == 0.0


@pytest.mark.slow
def test_rows_that_weigh_less_than_one_climb_the_evidence_too():
    weight = np.tile([0.3, 0.6, 2.0], N // 3)
    fit = lambda **options: cavity.StudentTRegressor(**options).fit(X, NOISY, sample_weight=weight)
    model = fit()
    best = {"scale": model.scale_, "prior_variance": model.prior_variance_, "df": model.df_}
    deviation = lambda v: norm.logpdf(0.5 * np.log(3 * v), 0.0, 1.5)
    prior = lambda at: deviation(at["prior_variance"]) + gamma.logpdf(at["df"], 2, scale=50) + np.log(at["df"])
    value = lambda at: fit(**at).log_evidence_ + prior(at)
    for name in best:
        for factor in (0.9, 1.1):
            assert value({**best, name: factor * best[name]}) < value(best)


def test_columns_far_from_zero_are_called_out():
    far = X + np.array([0.0, 1e7, 0.0])
    with pytest.warns(RuntimeWarning, match="such as 1, .* use standardize=True"):
        cavity.GaussianRegressor(standardize=False).fit(far, NOISY)
    with pytest.warns(RuntimeWarning, match="sparse columns are not centred"):
        cavity.GaussianRegressor().fit(sparse.csr_array(far), NOISY)


def test_outliers_do_not_move_a_student_t():
    y = NOISY.copy()
    y[:6] += 50.0
    robust = cavity.StudentTRegressor().fit(X, y)
    clean = cavity.GaussianRegressor().fit(X[6:], NOISY[6:])
    np.testing.assert_allclose(robust.coef_ * X.std(0), clean.coef_ * X.std(0), atol=0.12)
    assert 0.2 < robust.scale_ < 0.7


def test_chunks_are_bayesian_updates():
    whole = cavity.GaussianRegressor(noise_variance=0.25, standardize=False).fit(X, NOISY)
    parts = cavity.GaussianRegressor(noise_variance=0.25, standardize=False)
    for chunk in np.array_split(np.arange(N), 4):
        parts.partial_fit(X[chunk], NOISY[chunk])
    np.testing.assert_allclose(parts.posterior_.mean, whole.posterior_.mean, rtol=1e-8)
    np.testing.assert_allclose(parts.posterior_.covariance, whole.posterior_.covariance, rtol=1e-8)
    assert parts.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-7)


def test_each_chunk_gets_ep_with_the_last_posterior_as_prior():
    first, second = np.arange(60), np.arange(60, N)
    model = cavity.ProbitClassifier(standardize=False).partial_fit(X[first], LABELS[first], classes=["no", "yes"])
    prior = model.posterior_
    model.partial_fit(X[second], LABELS[second])
    design, y = np.column_stack([X[second], np.ones(60)]), np.where(LABELS[second] == "yes", 1.0, -1.0)
    result = cavity.fit(cavity.factors.probit(), prior, (design, y), cavity.ep(), tol=1e-9)
    assert result.posterior.kl(model.posterior_) < 1e-9


def test_a_learned_noise_gathers_over_chunks():
    model = cavity.GaussianRegressor()
    for chunk in np.array_split(np.arange(N), 4):
        model.partial_fit(X[chunk], NOISY[chunk])
    whole = cavity.GaussianRegressor().fit(X, NOISY)
    assert model.noise_variance_ == pytest.approx(whole.noise_variance_, rel=0.1)


def test_forgetting_follows_a_drift():
    chunks = [(RNG.normal(size=(50, 1)), 1.0 if t < 10 else -1.0) for t in range(20)]
    keep, forget = (
        cavity.GaussianRegressor(noise_variance=0.1),
        cavity.GaussianRegressor(noise_variance=0.1, forgetting=0.5),
    )
    for features, slope in chunks:
        for model in (keep, forget):
            model.partial_fit(features, slope * features[:, 0])
    assert abs(keep.coef_[0]) < 0.3
    assert forget.coef_[0] < -0.95
    assert forget.posterior_.variance[0] > keep.posterior_.variance[0]


NAMES = ["sep", "aep", "adf", "dsep", "daep", "power-ep", "vmp", "svi", cavity.ep()]


@pytest.mark.parametrize("algorithm", thinned(NAMES, lambda name: name not in ("power-ep", "vmp", "svi")))
def test_every_algorithm_by_name(algorithm):
    y = np.where(LABELS == "yes", 1, 0)
    model = cavity.ProbitClassifier(algorithm=algorithm, tol=1e-6).fit(X, y)
    reference = cavity.ProbitClassifier().fit(X, y)
    assert reference.posterior_.kl(model.posterior_) < (2.0 if algorithm == "adf" else 0.05)


def test_mistakes_in_chunks_are_named():
    model = cavity.ProbitClassifier()
    with pytest.raises(ValueError, match="classes must list all labels"):
        model.partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="y must hold labels among"):
        model.partial_fit(X, LABELS, classes=["no", "maybe"])
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X, np.ones(N))
    with pytest.raises(ValueError, match="needs all data at once"):
        cavity.ProbitClassifier(class_weight="balanced").partial_fit(X, LABELS, classes=["no", "yes"])


def test_auto_shares_a_site_only_where_rows_are_many_and_their_own_do_not_fit(monkeypatch):
    chosen = lambda *shape: algorithms.choose("auto", np.broadcast_to(0.0, shape), None)[0].n_sites
    assert chosen(500_000, 3) == "all"
    monkeypatch.setattr(algorithms, "SITES_THAT_FIT", 16 * 1000)
    assert chosen(1000, 1) == "all"
    assert chosen(4999, 5) == "all"
    assert chosen(5000, 5) == 1


def test_shared_sites_of_too_few_rows_are_warned_of():
    rng = np.random.default_rng(0)
    few, labels = rng.normal(size=(60, 30)), np.repeat([0, 1], 30)
    with pytest.warns(cavity.SharingWarning, match="Use algorithm='ep'"):
        cavity.ProbitClassifier(algorithm="sep", prior_variance=1.0).fit(few, labels)
    cavity.ProbitClassifier(prior_variance=1.0).fit(few, labels)
