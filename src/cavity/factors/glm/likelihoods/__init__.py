"""Likelihoods p(y|a) of one activation a = xᵀθ: what distinguishes one generalised linear model from another.

Each says log p(y|a), its derivatives and where it varies most; quadrature does the rest, and closed forms replace it
where they exist. Hyper-parameters are leaves, so that the evidence can be differentiated in them.
"""

from cavity.factors.glm.likelihoods.base import Likelihood
from cavity.factors.glm.likelihoods.counts import Poisson
from cavity.factors.glm.likelihoods.labels import Logit, Probit
from cavity.factors.glm.likelihoods.noise import GaussianNoise, StudentT, gaussian_noise, student_t
from cavity.factors.glm.likelihoods.offset import Offset
from cavity.factors.glm.likelihoods.user import UserLikelihood, user

__all__ = [
    "GaussianNoise",
    "Likelihood",
    "Logit",
    "Offset",
    "Poisson",
    "Probit",
    "StudentT",
    "UserLikelihood",
    "gaussian_noise",
    "student_t",
    "user",
]
