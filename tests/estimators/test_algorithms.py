"""Algorithms by name: one table, of which docstrings, errors and "auto" of all estimators speak."""

import re

import numpy as np
import pytest

import cavity
from cavity.estimators.algorithms import FOR_ANY, FOR_NETWORKS, NAMES, choose, choose_for_mixture, choose_for_network
from cavity.inference.named import Algorithm

TAKEN = {
    cavity.ProbitClassifier: FOR_ANY,
    cavity.StudentTRegressor: FOR_ANY,
    cavity.GaussianMixture: FOR_ANY,
    cavity.NetworkRegressor: FOR_NETWORKS,
    cavity.NetworkClassifier: FOR_NETWORKS,
}
CHOICES = {
    FOR_ANY: [
        lambda name, size: choose(name, np.empty((50, 3)), size)[0],
        lambda name, size: choose_for_mixture(name, (50, 3), 2, size),
    ],
    FOR_NETWORKS: [lambda name, size: choose_for_network(name, 1000, 50, size)],
}
X = np.random.default_rng(0).normal(size=(30, 2))
LABELS = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("kind", [*TAKEN])
def test_docstrings_and_errors_list_the_names(kind):
    text = re.search(r"^algorithm : .*\n((?: {4}.*\n)+)", kind.__doc__, re.MULTILINE)[1]
    assert set(re.findall(r'"([a-z-]+)"', text)) - {"auto"} == set(TAKEN[kind])
    with pytest.raises(ValueError, match="algorithm must be one of") as caught:
        kind(algorithm="laplace").fit(X, LABELS)
    assert re.findall(r"'([a-z-]+)'", str(caught.value)) == ["auto", *TAKEN[kind], "laplace"]


def test_every_name_is_an_algorithm_of_its_own():
    for names, choices in CHOICES.items():
        for of in choices:
            made = [of(name, None) for name in names]
            assert all(isinstance(algorithm, Algorithm) for algorithm in made)
            assert of("auto", None) in made
    assert set(FOR_NETWORKS) < set(FOR_ANY) == set(NAMES)


def test_rows_in_a_batch_are_the_user_s():
    for names, choices in CHOICES.items():
        for of in choices:
            assert {of(name, 7).batch_size for name in names if name not in ("aep", "daep")} == {7}
            assert of("auto", 7).batch_size == 7
    for name in ("aep", "daep", cavity.ep()):
        with pytest.raises(ValueError, match="batch_size must be None with algorithm"):
            choose(name, X, 7)


def test_auto_goes_on_with_few_rows_at_a_time():
    assert choose("auto", np.empty((1000, 3)), None) == [cavity.ep(250), cavity.ep(50)]
    assert choose("ep", np.empty((1000, 3)), None) == [cavity.ep(250)]


def test_auto_is_a_shared_site_where_own_ones_are_too_many():
    class Long:
        shape = 10**9, 2

    assert choose("auto", Long(), None) == [cavity.aep()]
    assert choose("auto", Long(), 100) == [cavity.sep(100)]
    assert choose_for_mixture("auto", (10**6, 2), 3, None) == cavity.aep()
    assert choose_for_mixture("auto", (10**6, 2), 3, 100) == cavity.sep(100)
    assert choose_for_network("auto", 10**12, 10**6, None) == cavity.sep(rate=1.0)
