"""A neural network with Gaussian noise: y ~ N(f(x), 1/γ), weights and noise precision unknown.

With a second output g the noise depends on the input: y ~ N(f(x), e^g(x)/γ), g bounded (`varying_noise`). Labels ±1
have no noise of their own: p(y|x) = Φ(y f(x)).

Means and variances are carried through the layers as if every unit were an independent Gaussian (probabilistic
backpropagation, PBP), or covariances of a layer's units with them (`unit_covariances`). Each layer's inputs are scaled
by 1/√(n_in + 1), so that weights of size one are natural at any width, and an input of one carries the bias. All
weights are in one row, layer after layer, each as (n_in + 1, n_out) with the bias last.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cavity._array import Array, namespace
from cavity._checks import check_positive, is_integer
from cavity._lazy import jax, jnp
from cavity._pytree import pytree
from cavity.factors.base import Factor, as_rows
from cavity.factors.glm.likelihoods import Probit
from cavity.factors.networks import gamma_noise, unit_covariances, varying_noise
from cavity.factors.networks.activations import ACTIVATIONS
from cavity.factors.networks.architecture import Architecture
from cavity.factors.networks.weight_prior import LEAST_SHARE
from cavity.families import DiagonalGaussian, Gamma, Product
from cavity.families.base import describe

FUNCTIONS = {
    "relu": lambda a: jax.nn.relu(a),
    "leaky_relu": lambda a: jax.nn.leaky_relu(a),
    "sin": lambda a: jnp.sin(a),
    "identity": lambda a: a,
}


class Outputs(NamedTuple):
    """Moments of a network's outputs for one x."""

    mean: Array
    variance: Array
    shared: Any  # covariance of two outputs; zero where covariances are not carried


@pytree
class Network(Architecture, Factor):
    """Data are (X, y). q has "weights", "noise", and "precision", that of the weights' prior, where it is unknown.

    There is no "noise" where y are labels.
    """

    def prior(self, shape: float = 6.0, rate: float = 6.0, weight_variance: float | None = None) -> Product:
        """N(0, 1/λ) for every weight, with Gamma(shape, rate) for λ and for the precision of the noise.

        With `weight_variance` λ is known and has no part in q.
        """
        if not (shape > 1 and rate > 0):
            raise ValueError(f"shape must be above 1 and rate positive, for a finite variance; got {shape=}, {rate=}.")
        if weight_variance is not None:
            check_positive("weight_variance", weight_variance)
        variance = rate / (shape - 1) if weight_variance is None else weight_variance
        zeros: Any = np.zeros(self.n_weights)
        weights, gamma = DiagonalGaussian(zeros, zeros + 1 / variance), Gamma(*as_numbers(shape, rate))
        parts = {"weights": weights} if self.labels else {"weights": weights, "noise": gamma}
        return Product(parts if weight_variance is not None else {**parts, "precision": gamma})

    def layers(self, row: Any) -> list[Any]:
        """Anything in one row for all weights, as a matrix (n_in + 1, n_out) for each layer."""
        shapes = [(a + 1, b) for a, b in pairwise(self.sizes)]
        ends = np.cumsum([a * b for a, b in shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(namespace(row).split(row, ends), shapes, strict=True)]

    def output(self, mean: Array, variance: Array, x: Array) -> Outputs:
        """Moments of the outputs for one x, from those of the weights; for many rows where units are independent."""
        layers = zip(self.layers(mean), self.layers(variance), strict=True)
        return self._with_covariances(layers, x) if self.unit_covariances else self._independent(layers, x)

    def _independent(self, layers: Any, x: Array) -> Outputs:
        z, s = x, namespace(x).zeros_like(x)
        for number, layer in enumerate(layers):
            z, s = ACTIVATIONS[self.activation](z, s) if number else (z, s)
            z, s = through(layer[0], layer[1], z, s)
        return Outputs(z, s, 0.0)

    def _with_covariances(self, layers: Any, x: Array) -> Outputs:
        z, c = jnp.asarray(x), jnp.zeros((len(x), len(x)))
        for number, layer in enumerate(layers):
            z, c = unit_covariances.activate(self.activation, z, c) if number else (z, c)
            z, c = unit_covariances.through(layer[0], layer[1], z, c)
        return Outputs(z, jnp.diagonal(c), c[0, -1] if len(z) == 2 else 0.0)

    def log_mean(self, q: Product, datum: Any, power: float) -> Array:
        output = self.output(q["weights"].mean, q["weights"].variance, datum[0])
        return self._log_mean(output, datum[1], q.parts.get("noise"), power)

    def _log_mean(self, output: Outputs, y: Array, noise: Any, power: float) -> Array:
        if self.labels:
            return Probit().log_mean(y, output.mean[0], output.variance[0], power)
        if self.sizes[-1] == 1:
            return gamma_noise.log_mean(y - output.mean[0], output.variance[0], noise, power)
        return varying_noise.log_mean(*self._of_two(output, y), noise, power)

    def _noise_site(self, output: Outputs, y: Array, noise: Gamma, power: float) -> Gamma:
        if self.sizes[-1] == 1:
            return gamma_noise.site(y - output.mean[0], output.variance[0], noise, power)
        return varying_noise.site(*self._of_two(output, y), noise, power)

    def _of_two(self, output: Outputs, y: Array) -> tuple[Array, Array, varying_noise.LogSize]:
        (mean, middle), (variance, width), shared = output
        return y - mean, variance, varying_noise.LogSize(middle, width, shared)

    def site(self, cavity: Product, datum: Any, power: float) -> Product:
        return self.estimate(cavity, datum, power)[0]

    def estimate(self, cavity: Product, datum: Any, power: float) -> tuple[Product, Array]:
        """The projection of PBP: weights are matched by the slopes of log Z, the noise by its first two moments."""
        (x, y), weights, noise = datum, cavity["weights"], cavity.parts.get("noise")

        def value(mean: Array, variance: Array) -> tuple[Array, Outputs]:
            output = self.output(mean, variance, x)
            return self._log_mean(output, y, noise, power), output

        at = weights.mean, weights.variance
        (log_mean, output), slopes = jax.value_and_grad(value, (0, 1), has_aux=True)(*at)
        matched = weights_site((at[0], at[1]), (slopes[0], slopes[1]), power)
        found = {key: 0.0 * part for key, part in cavity.parts.items()} | {"weights": matched}
        if noise is not None:
            found["noise"] = self._noise_site(output, y, noise, power)
        return Product(found), log_mean

    def proper_parts(self, q: Product, of: Product) -> Product:
        """Weights are matched one by one, and a bad one need not hold up the others.

        A weight of which one datum holds or takes nearly all precision counts as bad: q there is what single data say.
        """
        each = q["weights"].precision > LEAST_SHARE * jnp.asarray(of["weights"].precision)
        each = each & jnp.isfinite(q["weights"].shift)
        parts: dict[str, Any] = {"weights": DiagonalGaussian(each, each)}
        for key in q.parts.keys() - {"weights"}:
            good = q[key].is_proper() & (jnp.asarray(q[key].shape) > 1)  # for a finite variance
            parts[key] = Gamma(good, good)
        return Product(parts)

    def log_lik(self, theta: Any, datum: Any) -> Array:
        output = self.evaluate(theta["weights"], datum[0])
        if self.labels:
            return Probit().log_lik(datum[1], output[0])
        nothing = jnp.zeros(())
        size = varying_noise.mean_size(varying_noise.LogSize(output[1], nothing)) if self.sizes[-1] == 2 else 1.0
        precision = theta["noise"] / size
        return 0.5 * (jnp.log(precision) - precision * (datum[1] - output[0]) ** 2 - jnp.log(2 * jnp.pi))

    def evaluate(self, weights: Array, x: Array) -> Array:
        """The outputs for given weights."""
        for number, layer in enumerate(self.layers(weights)):
            x = FUNCTIONS[self.activation](x) if number else x
            x = jnp.append(x, 1.0) @ layer / np.sqrt(len(layer))
        return x

    def check(self, prior: Any, data: Any) -> tuple[np.ndarray, np.ndarray]:
        self._check_prior(prior)
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise ValueError("data must be a pair (X, y).")
        X, y = as_rows(tuple(data))
        if X.ndim != 2 or X.shape[1] != self.sizes[0]:
            raise ValueError(f"X must have {self.sizes[0]} columns, the network's inputs; got shape {X.shape}.")
        if y.shape != (len(X),):
            raise ValueError(f"y must be one number for each row of X, ({len(X)},); got shape {y.shape}.")
        return X, Probit().check(y) if self.labels else y

    def _check_prior(self, prior: Any) -> None:
        parts: Any = getattr(prior, "parts", None)
        needed = {"weights"} if self.labels else {"weights", "noise"}
        if not (isinstance(parts, dict) and needed <= set(parts) <= needed | {"precision"}):
            listed = ", ".join(map(repr, sorted(needed, reverse=True)))
            raise ValueError(
                f"prior must be a dict with {listed} and perhaps 'precision', as prior() of the factor gives; got "
                f"{describe(prior)}."
            )
        weights = parts["weights"]
        if not isinstance(weights, DiagonalGaussian) or np.shape(weights.shift) != (self.n_weights,):
            raise ValueError(
                f"prior['weights'] must be a DiagonalGaussian of {self.n_weights} numbers in one row; got "
                f"{describe(weights)}."
            )
        for key in set(parts) - {"weights"}:
            if not isinstance(parts[key], Gamma) or np.ndim(parts[key].shape) != 0 or parts[key].shape <= 1:
                raise ValueError(
                    f"prior[{key!r}] must be a Gamma over one number, with a shape above 1; got {parts[key]}."
                )

    def sums(self, prior: Any, data: Any, algorithm: Any) -> Any:
        from cavity.factors.networks.sums import OfNetwork  # which imports Numba where it is installed: half a second

        return OfNetwork(self, prior, algorithm)


def through(weight: Array, spread: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of a layer's sums, from those of its weights and inputs."""
    xp = namespace(weight, mean)
    beside = (*mean.shape[:-1], 1)
    mean = xp.concatenate([mean, xp.ones(beside)], axis=-1)
    variance = xp.concatenate([variance, xp.zeros(beside)], axis=-1)
    total = variance @ weight**2 + (mean**2 + variance) @ spread
    return mean @ weight / np.sqrt(len(weight)), total / len(weight)


def as_numbers(*values: float) -> Any:
    """Scalars of NumPy, which families hold."""
    return tuple(np.float64(value) for value in values)


def weights_site(at: tuple[Array, Array], slopes: tuple[Array, Array], power: float) -> DiagonalGaussian:
    """Matched moments of every weight less the cavity's, over α, from the slopes of ℓ_α; nothing where there are none.

    log Z = α ℓ_α moves the mean by v ∂ₘ and the variance by −v² (∂ₘ² − 2 ∂ᵥ); at α = 0 this is the gradient of E[log p]
    in the moments.
    """
    (mean, variance), (by_mean, by_variance) = at, slopes
    bend = power * by_mean**2 - 2 * by_variance
    left = 1 - power * variance * bend
    good = (left > 0) & (left < 1 / LEAST_SHARE)
    over = jnp.where(good, 1.0, 0.0) / jnp.where(good, left, 1.0)
    return DiagonalGaussian(over * (by_mean + mean * bend), over * bend)


def network(
    sizes: Any,
    activation: str = "relu",
    site_dtype: str = "float64",
    site_directory: str | None = None,
    unit_covariances: bool = False,
    labels: bool = False,
) -> Network:
    """A network from inputs to the target: `network([8, 50, 1])` has 8 inputs and a hidden layer of 50 units.

    A second output, `network([8, 50, 2])`, is the logarithm of the noise's variance up to a constant: noise that
    depends on the input.

    With `labels` the targets are −1 and +1, and p(y|x) = Φ(y f(x)).

    `unit_covariances` carries covariances between the units of a layer, of a second hidden layer and beyond and of two
    outputs, where units are otherwise taken for independent. Compiled loops do not.

    EP keeps a site for every row. Where they do not fit, `site_dtype` halves them, and `site_directory` puts them in a
    file there while the fit lasts.

    >>> import cavity, numpy as np
    >>> from cavity.factors.networks.factor import network
    >>> factor = network([1, 10, 1])
    >>> X = np.linspace(-2, 2, 50)[:, None]
    >>> epochs = lambda sweep: sweep.number == 40  # where to stop
    >>> data = X, np.abs(X[:, 0])
    >>> q = cavity.fit(factor, factor.prior(), data, cavity.sep(rate=1.0), callback=epochs, evidence=False).posterior
    >>> [part.shape for part in factor.layers(q["weights"].mean)]
    [(2, 10), (11, 1)]
    """
    sizes = tuple(sizes)
    if len(sizes) < 2 or not all(is_integer(size) and size >= 1 for size in sizes) or sizes[-1] > 2:
        raise ValueError(
            f"sizes must be the widths of inputs, hidden layers and one output or two, [8, 50, 1]; got {sizes}."
        )
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(map(repr, ACTIVATIONS))}; got {activation!r}.")
    if site_dtype not in ("float32", "float64"):
        raise ValueError(f"site_dtype must be 'float32' or 'float64'; got {site_dtype!r}.")
    for name, value in (("unit_covariances", unit_covariances), ("labels", labels)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False; got {value!r}.")
    if labels and sizes[-1] != 1:
        raise ValueError(f"sizes must end in one output where y are labels, which have no noise; got {sizes}.")
    widths = tuple(int(size) for size in sizes)
    return Network(widths, activation, site_dtype, site_directory, bool(unit_covariances), bool(labels))
