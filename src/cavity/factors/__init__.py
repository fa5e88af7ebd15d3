"""Likelihood factors, each loaded when it is first used: most of them import JAX."""

from importlib import import_module
from typing import TYPE_CHECKING

from cavity._lazy import lazily
from cavity._pytree import pytree

if TYPE_CHECKING:
    from cavity.factors.base import Factor
    from cavity.factors.blocks.base import in_blocks
    from cavity.factors.blocks.nested import nested
    from cavity.factors.blocks.sampled import sampled
    from cavity.factors.by_log_mean import autodiff, custom
    from cavity.factors.clutter_problem import clutter
    from cavity.factors.conjugate_likelihoods import (
        bernoulli,
        categorical,
        conjugate,
        exponential,
        gaussian_mean_precision,
        poisson_rate,
    )
    from cavity.factors.glm.factor import GLM
    from cavity.factors.glm.models import gaussian, glm, logit, offset_of, poisson, probit, student_t
    from cavity.factors.mixtures.conjugate import mixture_of
    from cavity.factors.mixtures.gaussian import gaussian_mixture
    from cavity.factors.mixtures.known import mixture
    from cavity.factors.networks.factor import network

import_module(f"{__name__}.glm")  # a package is put in its parent's dictionary when it is first imported, not again:
del globals()["glm"]  # from now on the name is free for the function

_MODULES = {
    "base": ["Factor"],
    "blocks.base": ["in_blocks"],
    "blocks.nested": ["nested"],
    "blocks.sampled": ["sampled"],
    "by_log_mean": ["autodiff", "custom"],
    "clutter_problem": ["clutter"],
    "conjugate_likelihoods": [
        "bernoulli",
        "categorical",
        "conjugate",
        "exponential",
        "gaussian_mean_precision",
        "poisson_rate",
    ],
    "glm.factor": ["GLM"],
    "glm.models": ["gaussian", "glm", "logit", "offset_of", "poisson", "probit", "student_t"],
    "mixtures.conjugate": ["mixture_of"],
    "mixtures.gaussian": ["gaussian_mixture"],
    "mixtures.known": ["mixture"],
    "networks.factor": ["network"],
}

__getattr__, __dir__ = lazily(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)

__all__ = [
    "GLM",
    "Factor",
    "autodiff",
    "bernoulli",
    "categorical",
    "clutter",
    "conjugate",
    "custom",
    "exponential",
    "gaussian",
    "gaussian_mean_precision",
    "gaussian_mixture",
    "glm",
    "in_blocks",
    "logit",
    "mixture",
    "mixture_of",
    "nested",
    "network",
    "offset_of",
    "poisson",
    "poisson_rate",
    "probit",
    "pytree",
    "sampled",
    "student_t",
]
