"""`check_posterior` where the exact posterior is known: what it measures, and that chance has no say in its verdict."""

import numpy as np
import pytest
from scipy.stats import loggamma, pareto

import cavity
from cavity.diagnostics import PosteriorCheck, check_posterior
from cavity.diagnostics.importance import Tail, khat_limit, smoothed, weighed
from cavity.diagnostics.reweighting import least_share, reweighted

STANDARD = cavity.Gaussian.isotropic


def check_of(q, log_joint, n_draws=20_000, seed=0):
    return PosteriorCheck.of(reweighted(q, log_joint, n_draws, 16 * n_draws, seed), 0.0)


@pytest.mark.parametrize(
    ("wider", "dim", "reliable"),
    [(1.05, 1, True), (1.05, 40, True), (0.95, 20, True), (1.3, 1, False), (1.2, 10, False), (0.85, 3, False)],
)
def test_standard_deviations_that_are_off_by_a_known_factor(wider, dim, reliable):
    # p = N(0, I), q = N(0, w² I): E_q[r²] = (w²/√(2w² − 1))ᴰ
    check = check_of(STANDARD(dim, wider**2), STANDARD(dim).log_prob)
    assert check.sd_shift == pytest.approx(abs(1 / wider - 1), abs=0.02)
    assert check.mean_shift < 0.03
    assert check.effective_share == pytest.approx((np.sqrt(2 * wider**2 - 1) / wider**2) ** dim, rel=0.03)
    assert check.log_evidence == pytest.approx(0.0, abs=0.02)
    assert check.reliable is reliable
    assert ("a standard deviation is off" in check.verdict) is not reliable
    assert check.verdict.startswith("Reliable" if reliable else "Not reliable")


@pytest.mark.parametrize(("shift", "reliable"), [(0.05, True), (0.2, False), (-0.5, False)])
def test_a_mean_that_is_off_by_a_known_number_of_standard_deviations(shift, reliable):
    covariance = np.array([[4.0, 1.9], [1.9, 1.0]])
    exact = cavity.Gaussian.from_mean(np.array([3.0 + 2.0 * shift, -1.0]), covariance)
    check = check_of(cavity.Gaussian.from_mean(np.array([3.0, -1.0]), covariance), exact.log_prob)
    assert check.mean_shift == pytest.approx(abs(shift), abs=0.02)
    assert check.sd_shift < 0.03
    assert check.reliable is reliable


def test_one_effective_draw_in_a_hundred_is_not_reliable():
    # q is too wide in each of ten directions: weights are bounded, and k-hat has nothing to say against it
    wide = check_of(STANDARD(10, 4.4), STANDARD(10).log_prob)
    assert wide.effective_share == pytest.approx(0.01, abs=0.003)
    assert wide.khat < 0.5
    assert not wide.reliable

    # means and standard deviations are right in each of forty directions, which are skewed
    law = loggamma(1.5)
    log_joint = lambda theta: law.logpdf(theta).sum(axis=1)
    skewed = check_of(cavity.Gaussian.from_mean(np.full(40, law.mean()), law.var() * np.eye(40)), log_joint)
    assert 0.002 < skewed.effective_share < 0.02
    assert not skewed.reliable
    assert "of the draws are effective" in skewed.verdict


def test_many_directions_may_cost_a_little_each():
    assert [round(least_share(dim), 2) for dim in (1, 10, 40)] == [0.48, 0.3, 0.07]
    law = loggamma(20.0)  # a skewness of −0.23
    log_joint = lambda theta: law.logpdf(theta).sum(axis=1)
    q = cavity.Gaussian.from_mean(np.full(60, law.mean()), law.var() * np.eye(60))
    check = check_of(q, log_joint)
    assert check.effective_share < 0.65
    assert check.reliable


@pytest.mark.parametrize(("n_rows", "dim"), [(200, 2), (30, 2), (1000, 40), (400, 40)])
def test_ep_on_logistic_regression_is_reliable(n_rows, dim):
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, dim))
    y = X @ rng.normal(size=dim) * (2 / np.sqrt(dim)) + rng.logistic(size=n_rows) > 0
    check = check_posterior(cavity.LogisticClassifier(prior_variance=1.0).fit(X, y), X, y)
    assert check.reliable, check.verdict
    assert check.mean_shift < 0.05
    assert check.sd_shift < 0.06


COUNTS = [([3, 2], 100.0), ([1, 1, 1], 10.0), ([2, 1], 100.0), ([1], 3.0)]


@pytest.mark.parametrize(("counts", "variance"), COUNTS)
def test_few_counts_are_no_false_alarm(counts, variance):
    """Skewed posteriors of which EP has mean and standard deviation nearly right: one tail of 20,000 draws misleads."""
    X, y = np.ones((len(counts), 1)), np.array(counts, dtype=float)
    model = cavity.PoissonRegressor(fit_intercept=False, prior_variance=variance).fit(X, y)
    line = np.linspace(-60.0, 15.0, 300_001)
    log_joint = y.sum() * line - len(y) * np.exp(line) - 0.5 * line**2 / variance
    density = np.exp(log_joint - log_joint.max())
    density /= density.sum()
    mean = density @ line
    sd = np.sqrt(density @ (line - mean) ** 2)
    of_q = np.sqrt(model.posterior_.variance[0])
    for seed in range(20):
        check = check_posterior(model, X, y, random_state=seed)
        assert check.reliable, check.verdict
        assert check.mean_shift == pytest.approx(abs(mean - model.posterior_.mean[0]) / of_q, abs=0.02)
        assert check.sd_shift == pytest.approx(abs(sd / of_q - 1), abs=0.02)


def test_two_peaks_are_not_reliable_whatever_the_seed():
    # what draws of q alone say of the standard deviation is a fifth of the truth; the other peak nobody sees
    X, y = np.ones((4, 1)), np.array([-5.0, -5.1, 5.0, 5.1])
    model = cavity.StudentTRegressor(df=1.0, scale=0.1, prior_variance=100.0, fit_intercept=False).fit(X, y)
    assert not any(check_posterior(model, X, y, random_state=seed).reliable for seed in range(20))


def test_more_is_drawn_only_where_chance_would_decide():
    right, near, wrong = (check_of(STANDARD(2, 1 / over**2), STANDARD(2).log_prob) for over in (1.02, 1.1, 1.4))
    assert right.n_draws == 20_000
    assert near.n_draws == 320_000  # as far off as is allowed
    assert wrong.n_draws == 80_000  # what speaks against a posterior must do so twice


def test_the_same_seed_gives_the_same_check():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.logistic(size=60) > 0
    model = cavity.LogisticClassifier().fit(X, y)
    check = lambda seed: check_posterior(model, X, y, n_draws=5000, random_state=seed)
    assert check(3) == check(3)
    assert check(3) != check(4)
    assert check(3).verdict == check(3).verdict


def test_the_limit_of_khat_grows_with_the_draws():
    published = {100: 0.5, 320: 0.6, 1000: 0.67, 2200: 0.7, 10_000: 0.7}  # Vehtari et al. (2024)
    for n, limit in published.items():
        assert khat_limit(n) == pytest.approx(limit, abs=0.005)


def test_smoothed_weights_estimate_better():
    # weights of Pareto distribution with shape k have mean 1/(1 − k), and for k > ½ no variance
    k, raw, smooth = 0.65, [], []
    for seed in range(200):
        log_weights = np.log(pareto(1 / k).rvs(1000, random_state=seed))
        raw.append(np.mean(np.exp(log_weights)))
        smooth.append(np.mean(np.exp(smoothed(log_weights)[0])))
    error = lambda means: np.sqrt(np.mean((np.array(means) * (1 - k) - 1) ** 2))
    assert error(smooth) < 0.8 * error(raw)
    assert abs(np.mean(smooth) * (1 - k) - 1) < 0.05


def test_a_hump_is_not_taken_for_a_tail():
    # of the 949 largest weights less than half have a tail of shape 0.4, the others lie together just below
    hump, beyond = 1 - 1e-3 * np.random.default_rng(0).random(9600), pareto(1 / 0.4).rvs(400, random_state=1)
    weights = np.concatenate([np.full(90_000, 0.5), hump, beyond])
    check, _, tail = weighed(np.log(weights))
    assert Tail.of(np.sort(weights), 949).khat > 1
    assert tail.length < 400
    assert check.khat == pytest.approx(0.4, abs=2 * tail.error)
    assert check.effective_size / 100_000 == pytest.approx(np.mean(weights) ** 2 / np.mean(weights**2), rel=0.02)


def test_draws_are_counted():
    X, y = np.ones((4, 1)), np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match="n_draws must be an integer of at least 100; got 99"):
        check_posterior(cavity.LogisticClassifier(fit_intercept=False).fit(X, y), X, y, n_draws=99)
