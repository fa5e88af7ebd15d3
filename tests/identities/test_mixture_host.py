"""Sums over the rows of a Gaussian mixture on the host are those of compiled programs, lot by lot."""

import numpy as np
import pytest

import cavity
from cavity.factors.mixtures.host import OnHost
from cavity.families import Product
from cavity.inference.contract import Rows, Setting
from cavity.inference.contract import View as Given
from tests.registry import assert_trees_close, leaves

RNG = np.random.default_rng(0)
FACTOR = cavity.factors.gaussian_mixture()
J, D, N = 3, 4, 60
MEANS = RNG.normal(size=(J, D))
X = MEANS[np.arange(N) % J] + RNG.normal(size=(N, D))
WEIGHTS = np.where(np.arange(N) < 50, RNG.uniform(0.3, 2.0, N), 0.0)
SCALE = np.stack([np.diag(RNG.uniform(0.5, 2.0, D)) for _ in range(J)])
COMPONENTS = {
    "full": cavity.NormalWishart.from_parameters(MEANS, np.full(J, 2.0), np.full(J, D + 3.0), SCALE),
    "spherical": cavity.NormalGamma.from_parameters(MEANS, np.full(J, 2.0), np.full(J, 4.0), np.ones(J)),
    "diag": cavity.NormalGamma.from_parameters(MEANS[..., None], 1 + MEANS**2, 2 + MEANS**2, np.ones((J, D))),
}


def prior_of(kind):
    return Product({"weights": cavity.Dirichlet([1.0, 2.0, 3.0]), "components": COMPONENTS[kind]})


def both(kind, algorithm):
    """The host's sums, and programs."""
    host = OnHost(FACTOR, prior_of(kind), D, algorithm)
    return host, host.traced()


def fitted(kind, algorithm):
    with pytest.warns(cavity.ConvergenceWarning):
        result = cavity.fit(FACTOR, prior_of(kind), X, algorithm, weights=WEIGHTS, max_sweeps=2, evidence=False)
    return result.progress.state


def assert_alike(host, traced, rtol):
    for ours, wanted in zip(host, traced, strict=True):
        if ours is None or wanted is None:
            continue
        scale = max((np.abs(leaf).max() for leaf in leaves(wanted)), default=0.0)
        assert_trees_close(ours, wanted, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("kind", COMPONENTS)
def test_rows_that_share_a_site(kind, power):
    state = fitted(kind, cavity.aep())
    host, traced = both(kind, cavity.aep())
    site = state.sites["weights"], state.sites["components"]
    site = Product({"weights": first(site[0]), "components": first(site[1])})
    rows, setting = Rows(X, WEIGHTS), Setting(power)
    view, given = host.view(state.q, site, 1.0, power, N), Given(state.q, site, 1.0)
    assert_alike(host.estimates(view, rows, setting), traced.estimates(given, rows, setting), 1e-11)
    if power:  # at power 0 with the site of another power the cavity is q
        assert_alike(host.terms(view, rows, setting), traced.terms(given, rows, setting), 1e-10)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("kind", COMPONENTS)
def test_rows_with_sites_of_their_own_or_none(kind, power):
    state = fitted(kind, cavity.ep(batch_size=10))
    host, traced = both(kind, cavity.ep())
    setting, q, n = Setting(power), state.q, len(WEIGHTS[WEIGHTS > 0])
    rows = Rows(X[:n], WEIGHTS[:n], state.sites[0])
    view, given = host.view(q, None, 1.0, power, n), Given(q, None, 1.0)
    found, wanted = host.estimates(view, rows, setting), traced.estimates(given, rows, setting)
    assert_alike(found, wanted._replace(log_scale=None), 1e-10)  # is asked for where nothing is remembered
    assert_alike(host.terms(view, rows, setting), traced.terms(given, rows, setting), 1e-10)
    assert_trees_close(host.total(rows), traced.total(rows), rtol=1e-12)
    alone = rows._replace(sites=None)
    assert_alike(host.estimates(view, alone, setting), traced.estimates(given, alone, setting), 1e-10)


@pytest.mark.parametrize("kind", COMPONENTS)
def test_rows_that_leave_no_proper_cavity_are_counted(kind):
    state = fitted(kind, cavity.ep(batch_size=10))
    host, traced = both(kind, cavity.ep())
    n = len(WEIGHTS[WEIGHTS > 0])
    sites = 1.0 * state.sites[0]
    sites["components"].count[3] += 1e3
    rows = Rows(X[:n], WEIGHTS[:n], sites)
    found = host.estimates(host.view(state.q, None, 1.0, 1.0, n), rows, Setting(1.0))
    wanted = traced.estimates(Given(state.q, None, 1.0), rows, Setting(1.0))
    assert int(found.skipped) == int(wanted.skipped) > 0
    assert_alike(found, wanted._replace(log_scale=None), 1e-10)


def first(stack):
    from cavity import _tree as tree

    return tree.map(lambda leaf: leaf[0], stack)
