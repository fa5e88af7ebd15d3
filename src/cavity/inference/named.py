"""The named algorithms: points of one space with four knobs.

| name              | n_sites K | batch_size M | power α | rate ε               |
|-------------------|-----------|--------------|---------|----------------------|
| ADF               | 0         | 1            | 1       | 1, one pass          |
| EP                | N         | 1            | 1       | 1                    |
| parallel EP       | N         | N            | 1       | ≤ 1                  |
| power EP          | N         | 1            | α       | 1                    |
| VMP               | N         | 1            | 0       | 1                    |
| SEP               | 1         | M            | 1       | settling, or yours   |
| AEP               | 1         | N            | 1       | 1                    |
| stochastic power EP | 1       | M            | α       | settling, or yours   |
| SVI (= SVMP)      | 1         | M            | 0       | settling, or ρN/M    |
| averaged VMP      | 1         | N            | 0       | 1                    |
| DSEP / DAEP       | 1 < K < N | M / N_k      | 1       | settling / 1         |

`rate=None`, the default everywhere, converges by itself: it is 1, damped where moves overshoot, and for
the stochastic algorithms the sites are averaged at the end of each sweep. A number or a function is taken as it is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity._checks import is_integer
from cavity.inference import rates

ALL = "all"
AUTO = "auto"
MOST_GROUPS = 10  # that are found in the data, unless n_sites says otherwise


@dataclass(frozen=True)
class Algorithm:
    """A point of the space. `n_sites` is a number or "all"; `batch_size` a number or None for all rows of a site."""

    n_sites: int | str
    batch_size: int | None
    power: float = 1.0
    rate: Any = None
    groups: Any = None
    replace: bool = False

    def __post_init__(self) -> None:
        check_power(self.power)
        rates.check(self.rate)
        check_positive("batch_size", self.batch_size)
        if self.n_sites != ALL and not (is_integer(self.n_sites) and self.n_sites >= 0):  # type: ignore[operator]
            raise ValueError(f"n_sites must be a non-negative integer or 'all'; got n_sites={self.n_sites!r}.")
        if self.groups is not None:
            if self.n_sites == ALL:
                raise ValueError("groups must be None for n_sites='all': every datum has its own site.")
            check_groups(self.groups, self.n_sites)  # type: ignore[arg-type]
        elif self.n_sites not in (0, 1, ALL):
            raise ValueError(f"groups must be given for n_sites={self.n_sites}; for one site per datum use 'all'.")
        if self.replace and self.n_sites == ALL:
            raise ValueError("replace must be False where every datum has its own site: it is visited once per sweep.")
        if self.replace and self.rate is None and self.n_sites != 0:
            raise ValueError("rate must be given with replace=True, for instance cavity.robbins_monro().")

    @property
    def max_sweeps(self) -> int:
        """Passes over the data unless `fit` is told otherwise: ADF is meant for one."""
        return 1 if self.n_sites == 0 else 500

    @property
    def finds_groups(self) -> bool:
        """Whether groups are the library's to choose: `n_sites` is then the most there may be."""
        return isinstance(self.groups, str) and self.groups == AUTO

    @property
    def settles(self) -> bool:
        """Whether the rate is the library's to choose: shared sites are averaged over a sweep, and moves damped."""
        return self.rate is None and self.n_sites != 0


def adf(batch_size: int = 1) -> Algorithm:
    """Assumed density filtering (K = 0): one pass, nothing remembered. Further passes count the data again."""
    check_batched(batch_size, "cavity.Algorithm(0, None)")
    return Algorithm(0, batch_size)


def ep(batch_size: int = 1, power: float = 1.0, rate: Any = None) -> Algorithm:
    """Expectation propagation (K = N): one site per datum."""
    return Algorithm(ALL, batch_size, power, rate)


def parallel_ep(power: float = 1.0, rate: Any = None) -> Algorithm:
    """EP with all sites updated at once (K = M = N); a rate below one damps it."""
    return Algorithm(ALL, None, power, rate)


def power_ep(power: float, batch_size: int = 1, rate: Any = None) -> Algorithm:
    """Power EP: EP that minimises an α-divergence instead of KL."""
    return Algorithm(ALL, batch_size, power, rate)


def vmp(batch_size: int = 1, rate: Any = None) -> Algorithm:
    """Variational message passing (power 0): its fixed points are those of variational inference."""
    return Algorithm(ALL, batch_size, 0, rate)


def aep(power: float = 1.0, rate: Any = None) -> Algorithm:
    """Averaged EP (K = 1, M = N): one shared site, updated by all data at once."""
    return Algorithm(1, None, power, rate)


def averaged_vmp(rate: Any = None) -> Algorithm:
    """VMP with one shared site (K = 1, M = N, power 0): natural-gradient variational inference on all data."""
    return Algorithm(1, None, 0, rate)


def sep(batch_size: int = 1, power: float = 1.0, rate: Any = None, replace: bool = False) -> Algorithm:
    """Stochastic EP (K = 1): EP's accuracy with one shared site.

    By default it converges by itself. `rate=1.0` is the paper's literal constant step, which hovers;
    `rate=cavity.robbins_monro()` a decreasing one, which is also the default where `replace=True` draws data with
    replacement: the mean over a sweep of such draws never settles by itself.
    """
    check_batched(batch_size, "cavity.aep()")
    return Algorithm(1, batch_size, power, for_draws(rate, replace), replace=replace)


def svi(batch_size: int = 1, rate: Any = None, replace: bool = False) -> Algorithm:
    """Stochastic variational inference (K = 1, power 0). A `rate` is SVI's step size ρ: ε = ρ N / M."""
    check_batched(batch_size, "cavity.averaged_vmp()")
    rates.check(rate)
    epsilon = for_draws(None, replace) if rate is None else rates.NaturalGradient(rate)
    return Algorithm(1, batch_size, 0, epsilon, replace=replace)


def dsep(
    n_sites: int | None = None,
    groups: Any = "random",
    batch_size: int = 1,
    power: float = 1.0,
    rate: Any = None,
    replace: bool = False,
) -> Algorithm:
    """Distributed SEP: one shared site for each of K groups.

    `groups` is an integer array of labels 0 … n_sites − 1, one per row, or "random", or "auto": groups are then found
    from what sharing a site does to q, at most `n_sites` of them (10 unless you say), and only where one site for all
    data is not enough (`cavity.inference.grouping`). The result says which: `result.groups` and `result.n_sites`.
    """
    check_batched(batch_size, "cavity.daep()")
    groups, n_sites = check_groups(groups, n_sites)
    return Algorithm(n_sites, batch_size, power, for_draws(rate, replace), groups, replace)


def daep(n_sites: int | None = None, groups: Any = "random", power: float = 1.0, rate: Any = None) -> Algorithm:
    """Distributed AEP: one shared site per group, each updated by all of its rows at once. `groups` as for `dsep`."""
    groups, n_sites = check_groups(groups, n_sites)
    return Algorithm(n_sites, None, power, rate, groups)


def for_draws(rate: Any, replace: bool) -> Any:
    """A rate that decreases, where data are drawn with replacement and none is given."""
    return rates.robbins_monro() if replace and rate is None else rate


def check_groups(groups: Any, n_sites: int | None) -> tuple[Any, int]:
    """Labels as an integer array, and the number of groups, or a ValueError."""
    if isinstance(groups, str):
        if groups not in ("random", AUTO):
            raise ValueError(f"groups must be an integer array of labels, 'random' or 'auto'; got {groups=!r}.")
        n_sites = MOST_GROUPS if groups == AUTO and n_sites is None else n_sites
        if n_sites is None:
            raise ValueError("n_sites must be given when groups='random'.")
        check_positive("n_sites", n_sites)
        return groups, int(n_sites)
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size == 0 or not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise ValueError(
            f"groups must be a one-dimensional array of labels 0, 1, …; got shape {labels.shape}, dtype {labels.dtype}."
        )
    if n_sites is None:
        n_sites = int(labels.max()) + 1
    check_positive("n_sites", n_sites)
    if labels.max() >= n_sites:
        raise ValueError(f"groups must hold labels below n_sites={n_sites}; got {labels.max()}.")
    return labels, int(n_sites)


def check_power(power: float) -> None:
    """0, or large enough for the division by α not to drown in rounding."""
    if not (isinstance(power, int | float | np.number) and (power == 0 or 0.01 <= power <= 1)):
        raise ValueError(f"power must be 0 or in [0.01, 1]; got {power=}. For the variational limit use power=0.")


def check_batched(batch_size: Any, instead: str) -> None:
    """Raise where the user asks a stochastic algorithm for all rows at once: that is another algorithm."""
    if batch_size is None:
        raise ValueError(f"batch_size must be a positive integer; got None. For all rows at once use {instead}.")


def check_positive(name: str, value: Any) -> None:
    """A positive integer, or None."""
    if value is not None and not (is_integer(value) and value >= 1):
        raise ValueError(f"{name} must be a positive integer; got {name}={value!r}.")
