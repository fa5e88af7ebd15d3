"""Where a fit to many rows begins: at what some of them say, as if all of them said the same.

From the prior, sites of all rows at once overshoot. From a q that is a few of its standard deviations away, each sweep
leaves a hundredth of what was left before, or less: three or four are enough. Some of the rows, drawn at random, are
that near, and their fit takes little time: it begins at some of them in turn.
"""

from dataclasses import replace

import numpy as np

from cavity import _tree as tree
from cavity.estimators.algorithms import SHARE, choose, enough_for_some
from cavity.estimators.linear.by_engine import ByEngine
from cavity.estimators.linear.learning import ROUGHLY, Search
from cavity.estimators.linear.task import Hyper, Task
from cavity.families import Gaussian
from cavity.inference.order import generator


def begun(task: Task, start: Hyper) -> tuple[Hyper, Gaussian | None]:
    """Hyper-parameters and a q from which all rows can go on at once; the latter None where they are too few."""
    n_used, n_features = int(np.count_nonzero(task.weight)), task.data[0].shape[1]
    if task.algorithms[0].batch_size is not None or not enough_for_some(n_used, n_features):
        return start, None
    some = some_rows(task)
    hyper, near = begun(some, start)
    fits = ByEngine(some, near)
    hyper = Search(some, hyper, fits).roughly()
    before, ratio = task.before(hyper), float(task.weight.sum() / some.weight.sum())
    return hyper, before + ratio * (fits.posterior(hyper, ROUGHLY) - before)


def some_rows(task: Task) -> Task:
    """The task for a share of the rows."""
    design, y = task.data
    used, rng = np.flatnonzero(task.weight > 0), generator(task.options["seed"], 0, 1)
    chosen = used[np.sort(rng.choice(len(used), -(-len(used) // SHARE), replace=False, shuffle=False))]
    data = design[chosen], tree.map(lambda leaf: leaf[chosen], y)
    return replace(task, data=data, weight=task.weight[chosen], algorithms=choose("auto", data[0], None))
