"""All experiments, by the name the command line knows."""

from cavity.experiments.fig2_mnist import FIG2C
from cavity.experiments.fig2_synthetic import FIG2A, FIG2B
from cavity.experiments.fig3 import FIG3
from cavity.experiments.memory import MEMORY
from cavity.experiments.runner import Experiment
from cavity.experiments.supplement import SUPPLEMENT
from cavity.experiments.table1 import TABLE1
from cavity.experiments.table2 import TABLE2

ALL = (FIG2A, FIG2B, FIG2C, TABLE1, FIG3, TABLE2, MEMORY, SUPPLEMENT)
EXPERIMENTS: dict[str, Experiment] = {experiment.id: experiment for experiment in ALL}
