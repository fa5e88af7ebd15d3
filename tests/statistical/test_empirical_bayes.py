"""`prior_variance="auto"` finds the variance that the coefficients were drawn with."""

import numpy as np
import pytest

import cavity

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("variance", [0.1, 1.0])
@pytest.mark.parametrize("make", [cavity.ProbitClassifier, cavity.LogisticClassifier])
def test_the_generating_variance_is_recovered(make, variance):
    learned = []
    for seed in range(10):
        rng = np.random.default_rng([seed, 3])
        features = rng.normal(size=(5000, 50))
        activation = features @ rng.normal(scale=np.sqrt(variance), size=50)
        noise = rng.normal(size=5000) if make is cavity.ProbitClassifier else rng.logistic(size=5000)
        learned.append(make().fit(features, activation + noise > 0).prior_variance_)
    print(f"{make.__name__}, {variance}: median {np.median(learned):.3f} of {np.round(np.sort(learned), 3)}")
    assert np.median(learned) == pytest.approx(variance, rel=0.2)
