"""What is said of a posterior, from the numbers of its check."""

from typing import NamedTuple

import numpy as np

from cavity.diagnostics.importance import khat_limit
from cavity.diagnostics.reweighting import MOST_SHIFT, Reweighted, least_share

MOST_CORRECTION = 0.1  # nats


class PosteriorCheck(NamedTuple):
    """What can be said of a posterior without knowing the exact one."""

    khat: float  # tail of the importance weights: below 0.5 good, above 0.7 do not trust the posterior
    effective_share: float  # of draws from the posterior, as draws from the exact one
    log_evidence: float  # by importance sampling; as good as khat
    correction: float  # second-order estimate of log Z − log Z_EP; not small where EP is poor
    mean_shift: float  # the most that reweighting moves the mean of a coefficient, in its standard deviations
    sd_shift: float  # the most that it changes a standard deviation, relatively
    n_draws: int
    n_coefficients: int
    converged: bool = True  # the fit, and the search for what is learned besides coefficients: taken as known here

    @classmethod
    def of(cls, found: Reweighted, correction: float, converged: bool = True) -> "PosteriorCheck":
        """The largest of what draws say of each coefficient."""
        return cls(
            found.khat,
            found.share,
            found.log_evidence,
            correction,
            float(np.max(np.abs(found.means))),
            float(np.max(np.abs(found.sds))),
            found.n_draws,
            len(found.means),
            converged,
        )

    @property
    def reliable(self) -> bool:
        """Whether means and standard deviations can be read as those of the exact posterior."""
        return not self.doubts

    @property
    def doubts(self) -> list[str]:
        """Whatever speaks against the posterior; nothing where it is reliable."""
        least, limit = least_share(self.n_coefficients), khat_limit(self.n_draws)
        share, wrong = self.effective_share, abs(self.correction)
        said = {
            f"k-hat is {self.khat:.3g}, above {limit:.3g}": self.khat <= limit,
            f"{100 * share:.2g} % of the draws are effective, below {100 * least:.2g} %": share >= least,
            f"a mean is off by {self.mean_shift:.3g} standard deviations": self.mean_shift <= MOST_SHIFT,
            f"a standard deviation is off by {100 * self.sd_shift:.3g} %": self.sd_shift <= MOST_SHIFT,
            f"EP's evidence is off by {wrong:.2g} nats": wrong <= MOST_CORRECTION,
            "the fit did not converge": self.converged,
        }
        return [doubt for doubt, is_good in said.items() if not is_good]

    @property
    def verdict(self) -> str:
        """In a sentence, why the posterior is reliable, or why not."""
        if self.doubts:
            return f"Not reliable: {', '.join(self.doubts)}."
        return (
            f"Reliable: no mean is off by more than {self.mean_shift:.2f} standard deviations, no "
            f"standard deviation by more than {100 * self.sd_shift:.1f} % (k-hat {self.khat:.2f}, "
            f"{100 * self.effective_share:.0f} % of {self.n_draws:,} draws effective)."
        )
