"""Simulation-based calibration: the study behind docs/figures/calibration.png, for EP."""

import pytest

from docs.figures.calibration import p_values, ranks

pytestmark = pytest.mark.slow


def test_credible_intervals_of_ep_are_right_on_average():
    places = ranks("ep")
    assert places.shape == (300, 5)
    assert p_values(places).min() > 0.01
