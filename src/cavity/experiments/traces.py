"""The path of a posterior against the clock: of ours sweep by sweep, of the No-U-Turn sampler and SVI as they go."""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cavity

WARMUPS = (100, 300, 1000)  # lengths that NUTS may choose from
STEP_SIZES = (0.003, 0.01, 0.03, 0.1)  # and SVI, each constant and falling as 1/√t
SVI_STEPS, SVI_LOOK = 4000, 100


class Trace(NamedTuple):
    """Seconds, without compilation, and a score at each of them."""

    seconds: list[float]
    score: list[float]

    def time_to(self, level: float) -> float | None:
        """When the score was first at the level or below; None if never."""
        return next((s for s, value in zip(self.seconds, self.score, strict=True) if value <= level), None)


def of_fit(
    factor: Any,
    prior: Any,
    data: Any,
    algorithm: cavity.Algorithm,
    score: Callable[[Any], float],
    *,
    max_sweeps: int,
    tol: float = 1e-6,
    seed: int = 0,
) -> tuple[Trace, cavity.Result]:
    """The score of q after every sweep; a first fit of two sweeps compiles."""
    path: list[tuple[float, Any]] = []
    record = lambda sweep: path.append((sweep.seconds, sweep.posterior))
    run = lambda sweeps, callback: cavity.fit(
        factor, prior, data, algorithm, max_sweeps=sweeps, tol=tol, seed=seed, callback=callback, evidence=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # paths end where the picture does
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # and are there to show it
        run(2, None)
        result = run(max_sweeps, record)
    return Trace([seconds for seconds, _ in path], [score(q) for _, q in path]), result


def of_nuts(potential: Callable[[Any], Any], dim: int, score: Callable[[Any], float], n_draws: int = 4000) -> Trace:
    """The score of a Gaussian with the moments of the draws so far, for the warm-up that is soonest at its best level.

    Compilation, one run of each, is not counted.
    """
    traces = [one_nuts(potential, dim, score, n_warmup, n_draws) for n_warmup in WARMUPS]
    level = 1.5 * min(min(trace.score) for trace in traces)
    return min(traces, key=lambda trace: trace.time_to(level) or np.inf)


def one_nuts(
    potential: Callable[[Any], Any], dim: int, score: Callable[[Any], float], n_warmup: int, n_draws: int
) -> Trace:
    """One chain, timed in its second run."""
    import jax
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = MCMC(NUTS(potential_fn=potential), num_warmup=n_warmup, num_samples=n_draws, progress_bar=False)
        start = {"init_params": np.zeros(dim)}
        clock = [0.0, 0.0, 0.0]
        for attempt in range(2):
            key = jax.random.key(attempt)
            clock[0] = time.perf_counter()
            sampler.warmup(key, **start)
            jax.block_until_ready(sampler.post_warmup_state)
            clock[1] = time.perf_counter()
            sampler.run(sampler.post_warmup_state.rng_key, **start)
            draws = np.asarray(sampler.get_samples())
            clock[2] = time.perf_counter()
            sampler.post_warmup_state = None
    warm, each = clock[1] - clock[0], (clock[2] - clock[1]) / n_draws
    sizes = np.unique(np.geomspace(5 * dim, n_draws, 40).astype(int))
    fitted = lambda n: cavity.Gaussian.from_mean(draws[:n].mean(0), np.cov(draws[:n].T).reshape(dim, dim))
    return Trace([warm + n * each for n in sizes], [score(fitted(n)) for n in sizes])


def of_svi(potential: Callable[[Any], Any], dim: int, score: Callable[[Any], float]) -> dict[str, Trace]:
    """NumPyro's SVI with a Gaussian of full rank, for each step size."""
    rates: dict[str, Any] = {f"{size:g}": size for size in STEP_SIZES}
    rates |= {f"{size:g}/√t": lambda i, size=size: size / (1 + i / 100) ** 0.5 for size in STEP_SIZES}
    return {
        name: Trace(*map(list, zip(*one_svi(potential, dim, score, rate), strict=True))) for name, rate in rates.items()
    }


def one_svi(
    potential: Callable[[Any], Any], dim: int, score: Callable[[Any], float], rate: Any
) -> Iterator[tuple[float, float]]:
    """Seconds and score, every so many steps; the first steps are made twice, to compile."""
    import jax
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    def model() -> None:
        theta = numpyro.sample(
            "theta", numpyro.distributions.ImproperUniform(numpyro.distributions.constraints.real, (), (dim,))
        )
        numpyro.factor("log_joint", -potential(theta))

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        guide = AutoMultivariateNormal(model, init_loc_fn=numpyro.infer.init_to_value(values={"theta": np.zeros(dim)}))
        svi = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO())
        begin = state = svi.init(jax.random.key(0))
        step = jax.jit(lambda state: jax.lax.scan(lambda s, _: (svi.update(s)[0], None), state, length=SVI_LOOK)[0])
        jax.block_until_ready(step(begin))
        seconds = 0.0
        for _ in range(SVI_STEPS // SVI_LOOK):
            start = time.perf_counter()
            state = jax.block_until_ready(step(state))
            seconds += time.perf_counter() - start
            q = guide.get_posterior(svi.get_params(state))
            yield seconds, score(cavity.Gaussian.from_mean(np.asarray(q.mean), np.asarray(q.covariance_matrix)))
