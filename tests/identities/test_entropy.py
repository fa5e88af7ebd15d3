"""H(q) = A(η) − ⟨η, E_q[T]⟩ − E_q[log h] = −E_q[log q]."""

import numpy as np
import pytest

from tests.registry import FAMILIES, draws, member


@pytest.mark.parametrize("name", FAMILIES)
def test_entropy_is_minus_the_mean_log_density(name):
    # Five standard errors at a fixed key.
    q = member(name)
    log_prob = q.log_prob(draws(name))
    assert abs(q.entropy() + log_prob.mean()) < 5 * log_prob.std() / np.sqrt(len(log_prob))
