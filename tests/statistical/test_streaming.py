"""`partial_fit` in 20 chunks, N = 20,000, D = 20: each chunk gets EP, and little is lost against all rows at once."""

import numpy as np
import pytest

import cavity

pytestmark = pytest.mark.slow

N, DIM, CHUNKS = 20_000, 20, 20


def draw(inputs, seed):
    """Rows from the probit model; clustered inputs come from five places, and chunk after chunk from the next."""
    rng = np.random.default_rng([seed, 7])
    features = rng.normal(size=(N, DIM))
    if inputs == "clustered":
        features = 2 * rng.normal(size=(5, DIM))[np.arange(N) * 5 // N] + 0.5 * features
    theta = rng.normal(size=DIM) / np.sqrt(DIM)
    return features, np.where(features @ theta + rng.normal(size=N) > 0, 1, 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("inputs", ["homogeneous", "clustered"])
def test_chunks(inputs, seed):
    features, labels = draw(inputs, seed)
    stream = cavity.ProbitClassifier(fit_intercept=False, standardize=False)
    before = cavity.Gaussian.isotropic(DIM)
    worst = 0.0
    for chunk in np.array_split(np.arange(N), CHUNKS):
        stream.partial_fit(features[chunk], labels[chunk], classes=[0, 1])
        signs = 2.0 * labels[chunk] - 1
        exact = cavity.fit(cavity.factors.probit(), before, (features[chunk], signs), cavity.ep(), tol=1e-8)
        worst = max(worst, exact.posterior.kl(stream.posterior_))
        before = stream.posterior_
    whole = cavity.ProbitClassifier(fit_intercept=False, standardize=False).fit(features, labels).posterior_
    one_pass = cavity.ProbitClassifier(fit_intercept=False, standardize=False, algorithm="adf").fit(features, labels)
    distance, by_adf = whole.kl(stream.posterior_), whole.kl(one_pass.posterior_)
    print(f"{inputs}, seed {seed}: chunk ‖ {worst:.1e}, all rows ‖ {distance:.2e}, one pass of ADF ‖ {by_adf:.2e}")
    assert worst <= 1e-3
    if inputs == "homogeneous":
        assert distance <= 0.02
        assert distance <= by_adf / 5
