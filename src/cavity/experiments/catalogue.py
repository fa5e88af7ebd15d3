"""All experiments, by the name the command line knows."""

from cavity.experiments.fig2_mnist import FIG2C
from cavity.experiments.fig2_synthetic import FIG2A, FIG2B
from cavity.experiments.runner import Experiment
from cavity.experiments.table1 import TABLE1

EXPERIMENTS: dict[str, Experiment] = {experiment.id: experiment for experiment in (FIG2A, FIG2B, FIG2C, TABLE1)}
