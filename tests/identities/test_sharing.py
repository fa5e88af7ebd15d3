"""`Result.sharing_error` is what one visit of EP, from the data's own sites, does to the means of q."""

import jax
import numpy as np
import pytest
from scipy import sparse

import cavity
from cavity.families import Beta
from cavity.inference.contract import Setting
from tests.registry import FACTORS, assert_trees_close, member, thinned
from tests.steps import general, walk_of

RNG = np.random.default_rng(4)
N, D = 40, 6
X = RNG.normal(size=(N, D)) * np.where(np.arange(N) < 2, 5.0, 1.0)[:, None]
Y = np.where(X @ RNG.normal(size=D) + RNG.normal(size=N) > 0, 1.0, -1.0)
WEIGHTS = RNG.choice([0.0, 0.4, 1.0, 2.0], size=N)
FULL, DIAGONAL = cavity.Gaussian.isotropic(D), cavity.DiagonalGaussian(np.zeros(D), np.ones(D))


@pytest.fixture(autouse=True)
def shared_sites_of_few_rows(recwarn):
    """Fits here are of so few rows that they warn."""


def probit(algorithm=None, prior=FULL, data=(X, Y), **options):
    return cavity.fit(cavity.factors.probit(), prior, data, algorithm or cavity.aep(), tol=1e-9, **options)


def by_hand(factor, prior, data, weights, q, sites):
    """The largest move of a mean, in standard deviations, from sites formed row by row."""
    total = 0.0 * prior
    with jax.enable_x64(True):
        for x, y, weight, site in zip(*data, weights, sites, strict=True):
            if weight > 0:
                own = factor.site(q - site, (x, y), 1.0)
                again = factor.site(q - min(1.0, weight) * own, (x, y), 1.0)
                total = total + float(weight) * (again - own)
        visited = jax.tree.map(np.asarray, q + total)
    return np.max(np.abs(visited.mean - q.mean) / np.sqrt(q.variance))


@pytest.mark.parametrize("prior", [FULL, DIAGONAL], ids=["full", "diagonal"])
@pytest.mark.parametrize("weights", [np.ones(N), WEIGHTS], ids=["", "weights"])
def test_it_is_a_visit_of_every_row(prior, weights):
    result = probit(prior=prior, weights=weights)
    site = (1 / weights.sum()) * (result.posterior - prior)
    wanted = by_hand(cavity.factors.probit(), prior, (X, Y), weights, result.posterior, [site] * N)
    assert result.sharing_error == pytest.approx(wanted, rel=1e-6)
    assert wanted > 0.01


def test_it_is_that_of_the_coefficients_where_rows_are_fewer():
    wide = RNG.normal(size=(10, 14))
    prior = cavity.Gaussian.isotropic(14)
    result = probit(prior=prior, data=(wide, Y[:10]))
    site = 0.1 * (result.posterior - prior)
    wanted = by_hand(cavity.factors.probit(), prior, (wide, Y[:10]), np.ones(10), result.posterior, [site] * 10)
    assert result.sharing_error == pytest.approx(wanted, rel=1e-6)


def test_groups_are_judged_by_their_own_sites():
    labels = (np.arange(N) % 4).astype(int)
    result = probit(cavity.daep(groups=labels))
    sites = result.progress.state.sites
    of_rows = [type(FULL)(sites.shift[k], sites.precision[k]) for k in labels]
    wanted = by_hand(cavity.factors.probit(), FULL, (X, Y), np.ones(N), result.posterior, of_rows)
    assert result.sharing_error == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("name", thinned(["probit", "clutter", "student-t"], lambda name: name == "probit"))
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_moves_are_those_of_the_general_programs(name, kind):
    case = FACTORS[name]
    prior = case.prior if kind == "full" else cavity.DiagonalGaussian.from_mean(case.prior.mean, case.prior.variance)
    if name == "clutter" and kind == "diagonal":
        pytest.skip("clutter has a family of its own")
    weights = np.random.default_rng(0).uniform(0.3, 2.0, 12)
    state = cavity.fit(case.factor, prior, case.data, cavity.aep(), weights=weights).progress.state
    walk = walk_of(case.factor, prior, case.data, cavity.aep(), weights)
    fast, slow = (each.terms(state, Setting(1.0)).moves for each in (walk, general(walk)))
    assert_trees_close(fast, slow, rtol=1e-6)


def test_sparse_rows_and_threads_give_the_same():
    thin = np.where(RNG.random((5000, 30)) < 0.05, RNG.normal(size=(5000, 30)), 0.0)
    thin[:, 0] = 1.0
    labels = np.where(RNG.random(5000) < 0.2, 1.0, -1.0)
    prior = cavity.Gaussian.isotropic(30)
    dense, two = (probit(prior=prior, data=(thin, labels), n_threads=n).sharing_error for n in (1, 2))
    assert dense == two
    assert probit(prior=prior, data=(sparse.csr_array(thin), labels)).sharing_error == pytest.approx(dense, rel=1e-6)


def test_stochastic_fits_end_at_the_same():
    assert probit(cavity.sep(batch_size=5)).sharing_error == pytest.approx(probit().sharing_error, rel=1e-3)


def test_nothing_is_lost_where_sites_do_not_depend_on_the_cavity():
    exact = cavity.fit(cavity.factors.gaussian(0.5), FULL, (X, Y), cavity.aep())
    assert exact.sharing_error < 1e-9
    assert cavity.fit(cavity.factors.probit(), FULL, (X, Y), cavity.averaged_vmp()).sharing_error < 1e-6


def test_it_is_nan_where_there_is_nothing_to_tell():
    assert np.isnan(probit(cavity.ep()).sharing_error)
    assert np.isnan(probit(cavity.adf()).sharing_error)
    assert np.isnan(probit(evidence=False).sharing_error)
    case = FACTORS["gaussian-normal-wishart"]  # a family that knows no variance of θ
    assert np.isnan(cavity.fit(case.factor, case.prior, case.data, cavity.aep()).sharing_error)


def test_a_visit_that_loses_q_is_judged_by_how_it_begins():
    # far outliers of a heavy tail ask for so much negative precision that EP's visit has no posterior
    rng = np.random.default_rng([9, 2])
    n, dim = int(rng.integers(15, 120)), int(rng.integers(1, 12))
    features = rng.standard_t(3, size=(n, dim))
    df, scale = float(rng.choice([1.0, 2.0])), float(rng.choice([0.1, 0.5]))
    theta, draws = rng.normal(size=dim), rng.random() < 0.5
    y = features @ theta + scale * rng.standard_t(df if draws else 1.0, size=n) * rng.choice([1, 5])
    prior = cavity.Gaussian.isotropic(dim, float(rng.choice([1.0, 100.0])))
    given = cavity.factors.student_t(df, scale), prior, (features, y)
    result = cavity.fit(*given, cavity.aep(), tol=1e-7)
    moves = walk_of(*given, cavity.aep()).terms(result.progress.state, Setting(1.0)).moves
    q = result.posterior
    assert not (q + moves).is_proper()
    first_order = q.covariance @ (moves.shift - moves.precision @ q.mean) / np.sqrt(q.variance)
    assert result.sharing_error == pytest.approx(np.max(np.abs(first_order)), rel=1e-3)
    assert result.sharing_error > 1


def test_a_warning_says_how_far_and_what_to_do():
    few = cavity.Gaussian.isotropic(30), (RNG.normal(size=(60, 30)), np.repeat([-1.0, 1.0], 30))
    with pytest.warns(cavity.SharingWarning, match=r"about 0\.\d+ standard deviations away .* algorithm='ep'"):
        result = cavity.fit(cavity.factors.probit(), *few, cavity.aep())
    assert [category for category, _ in result.complaints] == [cavity.SharingWarning]
    assert cavity.fit(cavity.factors.probit(), *few, cavity.ep()).complaints == ()


@pytest.mark.parametrize("name", ["gaussian", "diagonal-gaussian", "gamma", "dirichlet", "product"])
def test_means_are_apart_by_standard_deviations(name):
    if name == "product":
        one, other = (cavity.Product((Beta(2.0, a), cavity.Gaussian.isotropic(2, b))) for a, b in ((3.0, 1), (4.0, 2)))
        assert one.means_apart(other) == pytest.approx(float(one[0].means_apart(other[0])))
        assert np.isnan(cavity.Product((one, member("normal-gamma"))).means_apart(
            cavity.Product((other, member("normal-gamma", 1)))))  # fmt: skip
        return
    one, other = member(name), member(name, 1)
    wanted = np.max(np.abs(one.mean - other.mean) / np.sqrt(one.variance))
    assert float(one.means_apart(other)) == pytest.approx(float(wanted))


def test_a_fit_that_still_moves_is_not_judged():
    given = (
        cavity.factors.probit(),
        cavity.Gaussian.isotropic(30),
        (RNG.normal(size=(60, 30)), np.repeat([-1.0, 1.0], 30)),
    )
    with pytest.warns(cavity.ConvergenceWarning):
        begun = cavity.fit(*given, cavity.aep(rate=0.2), max_sweeps=2)
    assert begun.history.change[-1] > begun.sharing_error
    assert begun.sharing_error > 0.1
    assert cavity.SharingWarning not in [category for category, _ in begun.complaints]
