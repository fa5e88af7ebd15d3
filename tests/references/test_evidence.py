"""log Z against brute-force integration, and its gradient against finite differences of whole fits."""

import jax
import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr, logsumexp

import cavity
from tests.registry import thinned

RNG = np.random.default_rng(11)
N = 60
X = RNG.normal(size=(N, 2))
SIGNS = np.where(X @ np.array([1.0, -1.5]) + RNG.logistic(size=N) > 0, 1.0, -1.0)
NOISY = X @ np.array([1.0, -0.5]) + 0.6 * RNG.normal(size=N)


def integrate(log_likelihood, variance):
    """log ∫ N(θ; 0, variance I) Π p(y_n | θ) dθ on a grid of 1,201² points over ± 8 prior deviations."""
    line = np.linspace(-8, 8, 1201) * np.sqrt(variance)
    theta = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    log_joint = -0.5 * np.sum(theta**2, 1) / variance - np.log(2 * np.pi * variance)
    for x, y in zip(X, SIGNS, strict=True):
        log_joint += log_likelihood(y * (theta @ x))
    return logsumexp(log_joint) + 2 * np.log(line[1] - line[0])


@pytest.mark.parametrize(
    ("factor", "log_likelihood"),
    [(cavity.factors.probit(), log_ndtr), (cavity.factors.logit(), log_expit)],
    ids=["probit", "logit"],
)
def test_evidence_of_ep_is_close_to_the_integral(factor, log_likelihood):
    prior = cavity.Gaussian.isotropic(2, 2.0)
    result = cavity.fit(factor, prior, (X, SIGNS), cavity.ep())
    np.testing.assert_allclose(result.log_evidence, integrate(log_likelihood, 2.0), atol=0.02)


ROBUST = (lambda scale: cavity.factors.student_t(4.0, scale)), NOISY, lambda factor: factor.likelihood.scale
PROBIT = (lambda _: cavity.factors.probit()), SIGNS, lambda factor: 0.0
COUNTS = (lambda _: cavity.factors.poisson()), np.maximum(np.round(np.exp(NOISY / 2)), 0.0), lambda factor: 0.0

POINTS = {
    "ep": (cavity.ep(batch_size=N), ROBUST),
    "aep": (cavity.aep(), ROBUST),
    "daep": (cavity.daep(groups=np.arange(N) % 3), PROBIT),
    "averaged-vmp": (cavity.averaged_vmp(), COUNTS),
    "light rows": (cavity.ep(batch_size=N), ROBUST),  # whose cavities keep a part of their sites
}
WEIGHTS = {"light rows": np.tile([0.2, 0.7, 1.5], N // 3)}


@pytest.mark.parametrize("name", thinned(list(POINTS), lambda name: name in ("ep", "averaged-vmp")))
def test_gradient_is_that_of_the_refitted_evidence(name):
    # hyper-parameters h = (prior variance, prior mean of the first coefficient, scale of the noise)
    algorithm, (build_factor, y, scale_of) = POINTS[name]
    h, step = np.array([1.5, 0.4, 0.6]), 1e-4
    with jax.enable_x64(True):
        build_prior = lambda v, m: cavity.Gaussian.from_mean(jax.numpy.stack([m, 0 * m]), v * jax.numpy.eye(2))
        _, pull_back = jax.vjp(build_prior, *map(jax.numpy.float64, h[:2]))

    def fitted(variance, mean, scale):
        prior = cavity.Gaussian.from_mean([mean, 0.0], variance * np.eye(2))
        options = {"weights": WEIGHTS.get(name), "tol": 1e-11, "max_sweeps": 400, "keep_data": True}
        return cavity.fit(build_factor(scale), prior, (X, y), algorithm, **options)

    by_factor, by_prior = fitted(*h).evidence_gradient()
    with jax.enable_x64(True):
        got = [*map(float, pull_back(by_prior)), float(scale_of(by_factor))]
    for i in range(2 if name in ("daep", "averaged-vmp") else 3):
        up, down = h.copy(), h.copy()
        up[i] += step
        down[i] -= step
        difference = fitted(*up).log_evidence - fitted(*down).log_evidence
        np.testing.assert_allclose(got[i], difference / (2 * step), rtol=1e-5, atol=1e-5)


def test_adf_has_no_gradient():
    prior = cavity.Gaussian.isotropic(2)
    result = cavity.fit(cavity.factors.probit(), prior, (X, SIGNS), cavity.adf(), keep_data=True)
    for ask in (result.evidence_gradient, lambda: result.evidence_with(cavity.factors.probit())):
        with pytest.raises(ValueError, match="ADF remembers no sites"):
            ask()


@pytest.mark.slow
def test_gradient_in_the_n_by_n_form():
    # with fewer rows than features the fit runs in other coordinates; the gradient is in the user's
    rng = np.random.default_rng(2)
    features, y = rng.normal(size=(4, 6)), np.array([1.0, -1.0, 1.0, 1.0])
    value = lambda v: cavity.fit(
        cavity.factors.probit(), cavity.Gaussian.isotropic(6, v), (features, y), cavity.aep(), tol=1e-11, keep_data=True
    )
    _, by_prior = value(1.5).evidence_gradient()
    got = -np.trace(by_prior.precision) / 1.5**2
    step = 1e-4
    difference = (value(1.5 + step).log_evidence - value(1.5 - step).log_evidence) / (2 * step)
    np.testing.assert_allclose(got, difference, rtol=1e-6)
