"""The path of a posterior against the clock: of ours sweep by sweep, of the No-U-Turn sampler and SVI as they go.

No clock counts compilation: every program is run once before it is timed. Ours runs from the call of `fit` to the end
of each sweep, set-up included; the sampler's and SVI's from a state that is set up already.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cavity

WARMUPS = (100, 300, 1000)  # lengths that NUTS may choose from
STEP_SIZES = (0.003, 0.01, 0.03, 0.1)  # and SVI, each constant and falling as 1/√t
SVI_LENGTHS = {None: (30_000, 300), 100: (20_000, 500)}  # steps, and how many between two looks, by rows in a step
PEERS: dict[str, dict[str, Any]] = {  # what decides the results of each, besides the problem
    "NUTS": {"warmups": WARMUPS},
    "SVI": {"step_sizes": STEP_SIZES, "lengths": list(SVI_LENGTHS.items())},
}


class Trace(NamedTuple):
    """Seconds, without compilation, and a score at each of them."""

    seconds: list[float]
    score: list[float]

    def time_to(self, level: float) -> float | None:
        """When the score was first at the level or below; None if never."""
        return next((s for s, value in zip(self.seconds, self.score, strict=True) if value <= level), None)


def soonest(traces: dict[str, Trace], level: float) -> str:
    """The one that is first at the level; if none gets there, the one that gets nearest."""
    return min(traces, key=lambda name: (traces[name].time_to(level) or np.inf, min(traces[name].score)))


def of_fit(
    factor: Any,
    prior: Any,
    data: Any,
    algorithm: cavity.Algorithm,
    score: Callable[[Any], float],
    **options: Any,
) -> tuple[Trace, cavity.Result]:
    """The score of q after every sweep; options are those of `path_of_fit`."""
    seconds, posteriors, result = path_of_fit(factor, prior, data, algorithm, **options)
    return Trace(seconds, [score(q) for q in posteriors]), result


def path_of_fit(
    factor: Any,
    prior: Any,
    data: Any,
    algorithm: cavity.Algorithm,
    *,
    max_sweeps: int,
    tol: float = 1e-6,
    seed: int = 0,
    start: Any = None,
) -> tuple[list[float], list[Any], cavity.Result]:
    """Seconds and q after every sweep of a second fit: the first compiles."""
    path: list[tuple[float, Any]] = []
    begin = 0.0
    record = lambda sweep: path.append((time.perf_counter() - begin, sweep))
    limits: dict[str, Any] = {"max_sweeps": max_sweeps, "tol": tol, "seed": seed, "start": start}
    run = lambda: cavity.fit(factor, prior, data, algorithm, callback=record, evidence=False, **limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # paths end where the picture does
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # and are there to show it
        run()
        path.clear()
        begin = time.perf_counter()
        result = run()
    return [seconds for seconds, _ in path], [sweep.posterior for _, sweep in path], result


def of_nuts(
    potential: Callable[[Any], Any], dim: int, score: Callable[[Any], float], level: float, n_draws: int = 4000
) -> Trace:
    """The score of a Gaussian with the moments of the draws so far, for the warm-up that is soonest at the level."""
    found = {str(n_warmup): one_nuts(potential, dim, score, n_warmup, n_draws) for n_warmup in WARMUPS}
    return found[soonest(found, level)]


def one_nuts(
    potential: Callable[[Any], Any], dim: int, score: Callable[[Any], float], n_warmup: int, n_draws: int
) -> Trace:
    """One chain. NumPyro's `MCMC` compiles in every run, so its kernel is driven here by two programs of our own."""
    import jax
    from numpyro.infer import NUTS

    with jax.enable_x64(True):
        kernel = NUTS(potential_fn=potential)
        begin = kernel.init(jax.random.key(0), n_warmup, np.zeros(dim), (), {})

        def move(state: Any, _: Any) -> tuple[Any, Any]:
            state = kernel.sample(state, (), {})
            return state, state.z

        programs = [jax.jit(lambda state, n=n: jax.lax.scan(move, state, length=n)) for n in (n_warmup, n_draws)]
        warm, seconds_warm = timed(lambda: programs[0](begin)[0])
        (_, draws), seconds = timed(lambda: programs[1](warm))
    draws = np.asarray(draws)
    sizes = np.unique(np.geomspace(5 * dim, n_draws, 40).astype(int))
    fitted = lambda n: cavity.Gaussian.from_mean(draws[:n].mean(0), np.cov(draws[:n].T).reshape(dim, dim))
    return Trace([seconds_warm + n * seconds / n_draws for n in sizes], [score(fitted(n)) for n in sizes])


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a program gives, and the seconds of its second run."""
    import jax

    jax.block_until_ready(run())
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    return result, time.perf_counter() - start


def of_svi(
    log_lik: Callable[[Any], Any], signed: np.ndarray, prior_variance: float, score: Callable[[Any], float]
) -> dict[str, Trace]:
    """NumPyro's SVI with a Gaussian of full rank, for each step size, with all rows or a hundred at a time."""
    found = {}
    for batch_size in SVI_LENGTHS:
        for size in STEP_SIZES:
            falling = lambda i, size=size: size / (1 + i / 100) ** 0.5
            for name, rate in ((f"{size:g}", size), (f"{size:g}/√t", falling)):
                path = one_svi(log_lik, signed, prior_variance, score, rate, batch_size)
                rows = "all rows" if batch_size is None else f"{batch_size} rows"
                found[f"step {name}, {rows}"] = Trace(*map(list, zip(*path, strict=True)))
    return found


def one_svi(
    log_lik: Callable[[Any], Any],
    signed: np.ndarray,
    prior_variance: float,
    score: Callable[[Any], float],
    rate: Any,
    batch_size: int | None,
) -> Iterator[tuple[float, float]]:
    """Seconds and score, every so many steps; the first steps are made twice, to compile."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    n, dim = signed.shape
    n_steps, look = SVI_LENGTHS[batch_size]

    def model() -> None:
        scale = jnp.full(dim, prior_variance**0.5)
        theta = numpyro.sample("theta", numpyro.distributions.Normal(0.0, scale).to_event(1))
        with numpyro.plate("rows", n, subsample_size=batch_size) as chosen:
            rows = jnp.asarray(signed) if batch_size is None else jnp.asarray(signed)[chosen]
            numpyro.factor("log_likelihood", log_lik(rows @ theta))

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a site without observed values
        guide = AutoMultivariateNormal(model, init_loc_fn=numpyro.infer.init_to_value(values={"theta": jnp.zeros(dim)}))
        svi = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO())
        state = svi.init(jax.random.key(0))
        step = jax.jit(lambda state: jax.lax.scan(lambda s, _: (svi.update(s)[0], None), state, length=look)[0])
        jax.block_until_ready(step(state))
        seconds = 0.0
        for _ in range(n_steps // look):
            start = time.perf_counter()
            state = jax.block_until_ready(step(state))
            seconds += time.perf_counter() - start
            q = guide.get_posterior(svi.get_params(state))
            yield seconds, score(cavity.Gaussian.from_mean(np.asarray(q.mean), np.asarray(q.covariance_matrix)))
