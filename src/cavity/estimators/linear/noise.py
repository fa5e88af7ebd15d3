"""What likelihoods have besides coefficients: a noise, and the shape of its tails. They are given, or learned.

All are positive, and looked for in the logarithm. One that has none is `outright`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import polygamma

from cavity.factors import GLM, gaussian, student_t

LEAST_VARIANCE, MOST = 1e-7, np.exp(10.0)  # beside the target's own; with less, sums of squares lack the digits to tell
DFS = 2.1, 200.0  # of a learned Student t: with a variance, and what nobody can tell from a normal
DF_RATE = 0.02  # of a Gamma(2, ·) prior: Juárez and Steel (2010) take 0.1, which costs normal data 0.003 nats a row


@dataclass(frozen=True)
class Noise:
    """The parameters of a likelihood by their names in an estimator."""

    names: tuple[str, ...]
    factor: Callable[[np.ndarray], GLM]
    powers: tuple[int, ...] = ()  # of the target's unit, in each
    first: tuple[float, ...] = ()  # where the search begins, where the target's unit is its spread
    bounds: tuple[tuple[float, float], ...] = ()
    information: Callable[[np.ndarray], np.ndarray] = lambda _: np.zeros((0, 0))  # Fisher's of a row, of logarithms
    variance: Callable[[np.ndarray], float] = lambda _: np.nan  # of an observation whose coefficients are known
    conjugate: bool = False  # whether a Gaussian prior of the coefficients has a Gaussian posterior
    log_prior: Callable[[np.ndarray], tuple[float, np.ndarray]] = lambda values: (0.0, np.zeros(len(values)))

    @property
    def vanishing(self) -> np.ndarray:
        """Which of them are sizes of the noise, whose lowest value stands for none."""
        return np.array(self.powers, dtype=int) > 0

    @property
    def log_bounds(self) -> np.ndarray:
        """Lowest and highest logarithm of each."""
        return np.log(np.reshape(self.bounds, (-1, 2)).T)

    def in_units(self, values: np.ndarray, spread: float) -> np.ndarray:
        """Values in units of a spread, from those in units of one."""
        return values / spread ** np.array(self.powers, dtype=float)


def outright(factor: Callable[[], GLM]) -> Noise:
    """A likelihood that has no parameters but the coefficients."""
    return Noise((), lambda _: factor())


def normal() -> Noise:
    """A variance."""
    return Noise(
        ("noise_variance",),
        lambda values: gaussian(float(values[0])),
        powers=(2,),
        first=(1.0,),
        bounds=((LEAST_VARIANCE, MOST),),
        information=lambda _: np.array([[0.5]]),
        variance=lambda values: float(values[0]),
        conjugate=True,
        log_prior=normal_log_prior,
    )


def heavy_tailed() -> Noise:
    """Scale and degrees of freedom of Student's t."""
    return Noise(
        ("scale", "df"),
        lambda values: student_t(df=float(values[1]), scale=float(values[0])),
        powers=(1, 0),
        first=(1.0, 10.0),
        bounds=((np.sqrt(LEAST_VARIANCE), MOST), DFS),
        information=student_information,
        variance=lambda values: float(values[0] ** 2 * values[1] / (values[1] - 2)) if values[1] > 2 else np.inf,
        log_prior=student_log_prior,
    )


def normal_log_prior(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Of the logarithm, where the standard deviation is thought to be exponential with that of the target as its mean.

    Few rows, which coefficients can go through, do not say that there is no noise.
    """
    deviation = float(np.sqrt(values[0]))
    return float(np.log(deviation)) - deviation, np.array([0.5 * (1 - deviation)])


def student_information(values: np.ndarray) -> np.ndarray:
    """Fisher's information of one observation about log scale and log df: Lange, Little and Taylor (1989)."""
    df = values[1]
    of_scale = 2 * df / (df + 3)
    both = -2 * df / ((df + 1) * (df + 3))
    of_df = 0.25 * (polygamma(1, df / 2) - polygamma(1, (df + 1) / 2)) - (df + 5) / (2 * df * (df + 1) * (df + 3))
    return np.array([[of_scale, both], [both, df**2 * of_df]])


def student_log_prior(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Of log scale, exponential as that of a normal, and of log df; but for a constant, and its gradient."""
    scale, df = values.tolist()
    value = np.log(scale) - scale + 2 * np.log(df) - DF_RATE * df
    return float(value), np.array([1 - scale, 2 - DF_RATE * df])
