"""α → 0: moves approach the variational one linearly in α, and so do the fixed points (section 3)."""

import jax
import numpy as np
import pytest

import cavity
from tests.registry import FACTORS, leaves, thinned


@pytest.mark.parametrize("name", thinned(FACTORS, lambda name: name in ("logit", "clutter", "poisson-gamma")))
def test_the_difference_of_moves_halves_with_the_power(name):
    case = FACTORS[name]
    datum = jax.tree.map(lambda leaf: leaf[0], case.data)
    with jax.enable_x64(True):
        narrow = 10.0 * case.prior  # narrow enough for powers of a few hundredths to be near the limit
        site = {a: jax.jit(lambda q, a=a: case.factor.site(q, datum, a))(narrow) for a in (0, 0.01, 0.02, 0.04)}
    size = lambda a: np.sqrt(sum(np.sum((x - y) ** 2) for x, y in zip(leaves(site[a]), leaves(site[0]), strict=True)))
    if case.exact is not None:  # a conjugate site is the same at every power
        assert size(0.04) < 1e-12
    else:
        assert 1.85 < size(0.04) / size(0.02) < 2.15
        assert 1.9 < size(0.02) / size(0.01) < 2.1


@pytest.mark.parametrize("name", thinned(["probit", "poisson"], lambda name: name == "poisson"))
def test_fixed_points_meet(name):
    case = FACTORS[name]
    fitted = {
        power: cavity.fit(case.factor, case.prior, case.data, cavity.ep(batch_size=12, power=power)).posterior
        for power in (0, 0.01)
    }
    assert fitted[0].kl(fitted[0.01]) <= 1e-3
    assert fitted[0].kl(fitted[0.01]) > 0
