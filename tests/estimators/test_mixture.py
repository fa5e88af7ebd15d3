"""The mixture of Gaussians: its posterior, its predictions, and what people do with it."""

import dataclasses
import pickle
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import multigammaln, polygamma
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import cavity
from cavity.estimators.algorithms import choose_for_mixture
from cavity.estimators.mixture.posterior import MixturePosterior, inverse_trigamma
from cavity.estimators.mixture.response import correction_of
from cavity.inference.source import chunks
from tests.registry import thinned

RNG = np.random.default_rng(0)
CENTRES = np.array([[-4.0, 0.0], [4.0, 1.0], [0.0, 6.0]])
TRUTH = RNG.permutation(np.repeat([0, 1, 2], [60, 36, 24]))
X = 10.0 + 3.0 * (CENTRES[TRUTH] + RNG.normal(size=(120, 2)) @ np.array([[1.0, 0.3], [0.0, 0.8]]))
NEW = RNG.normal(size=(20, 2)) * 12 + 10
KINDS = ["full", "diag", "spherical"]


@pytest.fixture(scope="module")
def fitted():
    return {kind: cavity.GaussianMixture(3, covariance_type=kind).fit(X) for kind in KINDS}


@pytest.mark.slow
@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_own_checks(n_components):
    # k-means begins at rows that are drawn by their numbers, which repeated and shuffled rows change
    drawn = {"check_sample_weight_equivalence_on_dense_data": "beginnings are random"} if n_components > 1 else {}
    results = check_estimator(cavity.GaussianMixture(n_components), on_fail=None, expected_failed_checks=drawn)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped", "xfail")] == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_the_factor(fitted, kind):
    model, factor = fitted[kind], cavity.factors.gaussian_mixture()
    q, units = model.posterior_.family, model.posterior_.units
    with jax.enable_x64(True):
        log_mean = np.asarray(jax.jit(jax.vmap(lambda z: factor.log_mean(q, z, 1.0)))(units.to_fit(NEW)))
        share = jax.jit(jax.vmap(lambda z: factor.responsibilities(q, z)))(units.to_fit(NEW))
    np.testing.assert_allclose(model.score_samples(NEW), log_mean - np.log(units.scale).sum(), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(NEW), share, rtol=1e-7, atol=1e-12)
    np.testing.assert_array_equal(model.predict(NEW), np.argmax(share, axis=1))
    assert model.score(NEW) == pytest.approx(model.score_samples(NEW).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_are_found_in_the_order_of_their_weights(fitted, kind):
    model = fitted[kind]
    assert model.converged_
    assert model.n_skipped_ == 0
    assert np.all(np.diff(model.weights_) <= 0)
    np.testing.assert_allclose(model.means_, 10 + 3 * CENTRES, atol=1.5)
    assert np.mean(model.predict(X) == TRUTH) > 0.98
    assert model.covariances_.shape == (3, 2, 2)
    np.testing.assert_allclose(np.einsum("jdd->jd", model.covariances_), 9 * np.array([[1.0, 0.73]] * 3), rtol=0.6)


def test_the_density_is_that_of_student_t():
    model = cavity.GaussianMixture(1).fit(X)
    q = model.posterior_.family["components"]
    df, units = float(q.df[0]) - 1, model.posterior_.units
    scale = (q.rate[0] - q.count[0] * np.outer(q.mean[0], q.mean[0])) * (q.count[0] + 1) / (q.count[0] * df)
    law = stats.multivariate_t(q.mean[0], scale, df)
    np.testing.assert_allclose(model.score_samples(NEW), law.logpdf(units.to_fit(NEW)) - np.log(units.scale).sum())


def test_one_component_has_the_evidence_of_the_conjugate_model():
    model = cavity.GaussianMixture(1).fit(X)
    q, units = model.posterior_.family["components"], model.posterior_.units
    n, inverse = len(X), q.rate[0] - q.count[0] * np.outer(q.mean[0], q.mean[0])
    log_det = lambda matrix: np.linalg.slogdet(matrix)[1]
    # Murphy (2007), "Conjugate Bayesian analysis of the Gaussian distribution", equation 266; R₀ = (ν₀ − D − 1) I
    wanted = -n * np.log(np.pi) + multigammaln(0.5 * q.df[0], 2) - multigammaln(2.0, 2)
    wanted += 2.0 * log_det(np.eye(2)) - 0.5 * q.df[0] * log_det(inverse) + np.log(0.01 / q.count[0])
    assert model.log_evidence_ == pytest.approx(wanted - n * np.log(units.scale).sum(), rel=1e-10)


@pytest.mark.slow
def test_the_evidence_knows_the_number_of_components_and_the_units():
    evidence = {j: cavity.GaussianMixture(j, linear_response=False).fit(X).log_evidence_ for j in (2, 3, 4)}
    assert evidence[3] > evidence[2] + 5
    assert evidence[3] > evidence[4]
    scaled = cavity.GaussianMixture(3, linear_response=False).fit(7.0 * X - 3.0)
    assert scaled.log_evidence_ == pytest.approx(evidence[3] - 2 * len(X) * np.log(7.0), abs=1e-6)


@pytest.mark.filterwarnings("ignore:Credible intervals, regions and draws")
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_are_quantiles_of_draws(fitted, kind):
    for posterior in (fitted[kind].posterior_, MixturePosterior.of(*parts(fitted[kind].posterior_))):
        draws = posterior.sample(40_000, random_state=1)
        draws["variances"] = np.einsum("sjdd->sjd", draws["covariances"])
        for name in ("weights", "means", "variances"):
            sd = draws[name].std(0)
            for end, tail in zip(posterior.interval(name, 0.8), (0.1, 0.9), strict=True):
                np.testing.assert_allclose((np.quantile(draws[name], tail, axis=0) - end) / sd, 0.0, atol=0.06)


def parts(posterior):
    return posterior.family, posterior.units


def test_covariances_and_regions(fitted):
    posterior = fitted["full"].posterior_
    draws = posterior.sample(20_000, random_state=2)
    np.testing.assert_allclose(draws["covariances"].mean(0), posterior.covariances, rtol=0.05, atol=0.3)
    lower, upper = posterior.interval("covariances")
    inside = (lower <= draws["covariances"]) & (draws["covariances"] <= upper)
    np.testing.assert_allclose(inside.mean(0), 0.9, atol=0.02)
    for j in range(3):
        centre, matrix = posterior.region(j, 0.8)
        step = draws["means"][:, j] - centre
        held = np.einsum("nd,nd->n", step, np.linalg.solve(matrix, step.T).T) <= 1
        assert held.mean() == pytest.approx(0.8, abs=0.015)


@pytest.mark.slow
def test_overlap_widens_intervals_and_separation_does_not():
    rng = np.random.default_rng(1)
    spread = {}
    for distance in (3.5, 12.0):
        points = rng.normal(size=(120, 2)) + distance * (np.arange(120) % 2)[:, None] * [1, 0]
        correction = cavity.GaussianMixture(2, covariance_type="spherical").fit(points).posterior_.correction
        spread[distance] = np.concatenate([part.ravel() for part in correction.inflation()])
    assert spread[3.5].max() > 1.3
    np.testing.assert_allclose(spread[12.0], 1.0, atol=1e-3)


def test_draws_have_the_covariance_that_was_asked_for(fitted):
    correction = fitted["full"].posterior_.correction
    root = np.linalg.cholesky(correction.own)
    drawn = correction.center + np.random.default_rng(3).normal(size=(50_000, len(root))) @ root.T
    wanted = correction.own + correction.added
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    np.testing.assert_allclose(np.cov(correction.recolour(drawn).T) / scale, wanted / scale, atol=0.03)


READS = {
    "interval": lambda model: model.posterior_.interval("weights"),
    "covariances": lambda model: model.posterior_.interval("covariances"),
    "region": lambda model: model.posterior_.region(0),
    "sample": lambda model: model.posterior_.sample(2),
    "summary": lambda model: model.summary(),
}


@pytest.mark.parametrize("read", READS)
def test_intervals_without_linear_response_are_said_to_be_narrow_where_they_are_read(fitted, read):
    stream = pickle.loads(pickle.dumps(fitted["diag"])).partial_fit(X)
    without = cavity.GaussianMixture(3, covariance_type="diag", linear_response=False).fit(X)
    for model in (stream, without):
        model.score(X), model.predict_proba(X), model.sample(3)  # these do not depend on it
        with pytest.warns(cavity.ConvergenceWarning, match="they are too narrow") as caught:
            READS[read](model)
        assert len(caught) == 1
    READS[read](fitted["diag"])  # a warning would be an error
    READS[read](cavity.GaussianMixture(1, linear_response=False).fit(X))


def test_inverse_of_trigamma():
    values = np.geomspace(0.05, 1e6, 30)
    np.testing.assert_allclose(inverse_trigamma(polygamma(1, values)), values, rtol=1e-9)


def test_summary(fitted):
    table = fitted["full"].summary(0.5)
    assert list(table.index.names) == ["parameter", "component", "feature"]
    assert len(table) == 3 + 6 + 6
    assert np.all(table["lower"] < table["mean"])
    assert np.all(table["mean"] < table["upper"])
    draws = fitted["full"].posterior_.sample(40_000, random_state=4)
    np.testing.assert_allclose(table.loc["mean"]["sd"], draws["means"].std(0).ravel(), rtol=0.05)
    np.testing.assert_allclose(table.loc["weight"]["sd"], draws["weights"].std(0).ravel(), rtol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_have_the_density_of_score_samples(fitted, kind):
    model = fitted[kind]
    rows, components = model.sample(4000, random_state=0)
    assert rows.shape == (4000, 2)
    np.testing.assert_allclose(np.bincount(components) / 4000, model.weights_, atol=0.03)
    np.testing.assert_allclose(rows[components == 0].mean(0), model.means_[0], atol=0.3)
    spread = model.covariances_[0]
    np.testing.assert_allclose(np.cov(rows[components == 0].T), spread, rtol=0.12, atol=0.06 * np.trace(spread))
    # E[f/p] over draws from p is the integral of f: here of densities in and around each cluster
    log_p = model.score_samples(rows)
    for j in range(3):
        other = stats.multivariate_normal(model.means_[j], model.covariances_[j])
        ratio = np.exp(other.logpdf(rows) - log_p)
        assert ratio.mean() == pytest.approx(1.0, abs=4 * ratio.std() / np.sqrt(len(rows)))


def test_chunks_of_one_component_add_up():
    whole = cavity.GaussianMixture(1).fit(X[:40])
    parts_ = cavity.GaussianMixture(1).partial_fit(X[:40]).partial_fit(X[40:80]).partial_fit(X[80:])
    q = whole.posterior_.family["components"]
    z = whole.posterior_.units.to_fit(X[40:])  # units are those of the first chunk
    rows = len(z)
    added = cavity.NormalWishart(q.shift + z.sum(0), q.count + rows, q.df + rows, q.rate + z.T @ z)
    assert parts_.posterior_.family["components"].kl(added) == pytest.approx(0.0, abs=1e-12)


def test_chunks_of_clusters_and_forgetting():
    chunks = np.split(X, 3)
    stream = cavity.GaussianMixture(3)
    forgetful = cavity.GaussianMixture(3, forgetting=0.5)
    for chunk in chunks:
        stream.partial_fit(chunk)
        forgetful.partial_fit(chunk)
    assert adjusted_rand_score(stream.predict(X), TRUTH) > 0.95
    total = lambda model: model.posterior_.family["weights"].concentration.sum()
    assert total(stream) == pytest.approx(123, abs=3)
    assert total(forgetful) == pytest.approx(3 + 40 * (1 + 0.5 + 0.25), abs=3)


@pytest.mark.parametrize(
    "algorithm",
    thinned(["sep", "aep", "vmp", "power-ep", "dsep", cavity.aep(power=0.5)], lambda algorithm: algorithm == "sep"),
)
def test_algorithms_agree(fitted, algorithm):
    model = cavity.GaussianMixture(3, algorithm=algorithm, covariance_type="spherical", linear_response=False).fit(X)
    reference = fitted["spherical"].posterior_
    sd = reference.interval("means", 0.683)[1] - reference.means
    np.testing.assert_allclose((model.means_ - reference.means) / sd, 0.0, atol=0.15)


def test_auto_is_ep_for_small_problems_and_aep_beyond():
    assert choose_for_mixture("auto", (2000, 2), 3, None) == cavity.ep(200)
    assert choose_for_mixture("auto", (1400, 10), 10, None) == cavity.aep()
    assert choose_for_mixture("auto", (100_000, 2), 4, 500) == cavity.sep(500)
    assert choose_for_mixture("sep", (50, 2), 3, None) == cavity.sep(50)


def test_of_several_fits_one_that_leaves_out_rows_is_not_kept(monkeypatch):
    fits = []

    def fit(*args, **options):
        fits.append(cavity.fit(*args, **options))
        history, second = fits[-1].history, len(fits) == 2
        skipped = history.skipped + 7 * second
        return dataclasses.replace(
            fits[-1], log_evidence=fits[-1].log_evidence + 100 * second, history=history._replace(skipped=skipped)
        )

    monkeypatch.setattr("cavity.estimators.mixture.estimator.fit", fit)
    model = cavity.GaussianMixture(3, n_init=2, covariance_type="spherical", linear_response=False).fit(X)
    assert len(fits) == 2
    assert model.history_.skipped[-1] == 0


@pytest.mark.slow
def test_labels_to_begin_with_are_those_of_the_first_chunk():
    stream = cavity.GaussianMixture(3, init=TRUTH[:40], covariance_type="spherical", linear_response=False)
    assert stream.partial_fit(X[:40]).partial_fit(X[40:]).converged_


def test_one_pass_has_a_place_to_begin():
    model = cavity.GaussianMixture(3, algorithm="adf", covariance_type="spherical").fit(X)
    assert np.mean(model.predict(X) == TRUTH) > 0.95
    assert model.site_bytes_ == 0


@pytest.mark.slow
def test_bytes_grow_with_the_rows_only_where_each_has_a_site():
    sizes, algorithms = {}, {"ep": cavity.parallel_ep(), "sep": cavity.sep(20)}
    for algorithm in algorithms:
        for n in (60, 120):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cavity.ConvergenceWarning)
                prior = {
                    "weights": cavity.Dirichlet(np.ones(3)),
                    "components": cavity.NormalGamma.from_parameters(CENTRES, *np.ones((3, 3))),
                }
                result = cavity.fit(
                    cavity.factors.gaussian_mixture(), prior, X[:n], algorithms[algorithm], max_sweeps=1, evidence=False
                )
                sizes[algorithm, n] = result.site_bytes
    assert sizes["ep", 120] == 2 * sizes["ep", 60]
    assert sizes["sep", 120] == sizes["sep", 60]


def test_beginnings():
    options = {"covariance_type": "spherical", "linear_response": False}
    fit = lambda **more: cavity.GaussianMixture(3, **options, **more).fit(X)
    several = fit(init="random", n_init=3)
    assert several.log_evidence_ == fit(init="random", n_init=3).log_evidence_
    assert several.log_evidence_ >= fit(init="random").log_evidence_
    np.testing.assert_allclose(fit(init=TRUTH).means_, 10 + 3 * CENTRES, atol=1.5)


@pytest.mark.slow
def test_many_features_come_to_an_end():
    """Batches of factorisations by LAPACK made a fit with more than sixteen features wait for ever."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(300, 20)) + 3.0 * (np.arange(300) < 200)[:, None]
    model = cavity.GaussianMixture(2).fit(points)
    assert model.converged_
    assert np.bincount(model.predict(points)).tolist() == [200, 100]
    assert model.posterior_.correction is not None
    assert np.isfinite(model.log_evidence_)


@pytest.mark.slow
def test_a_cluster_very_far_away_has_intervals():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(150, 2)), 2e4 + rng.normal(size=(150, 2))])
    posterior = cavity.GaussianMixture(2, prior_scale=1e-4, mean_count=1e-9).fit(points).posterior_
    assert posterior.correction is not None
    lower, upper = posterior.interval("means")
    assert np.all((upper - lower > 0.1) & (upper - lower < 1.0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Credible intervals, regions and draws")
def test_intervals_are_the_wider_the_less_tells_clusters_apart():
    rng = np.random.default_rng(1)
    noise, second = rng.normal(size=(300, 2)), (np.arange(300) >= 120)[:, None]
    fit = lambda distance: cavity.GaussianMixture(2, evidence=False).fit(noise + second * np.array([distance, 0.0]))
    width = lambda posterior: np.diff(posterior.interval("means"), axis=0)[0, :, 0]
    apart = fit(4.0).posterior_
    with pytest.warns(cavity.ConvergenceWarning, match="Clusters overlap so much"):
        close = fit(2.5).posterior_
    assert np.all(width(close) > 1.5 * width(apart))
    assert np.all(width(close) > 1.5 * width(dataclasses.replace(close, correction=None)))
    assert close.sample(5)["means"].shape == (5, 2, 2)


@pytest.mark.parametrize("kind", thinned(KINDS, lambda kind: kind == "diag"))
def test_clusters_that_no_row_doubts(kind):
    points = np.concatenate([X[:60] / 30, X[60:] / 30 + 20])
    posterior = cavity.GaussianMixture(2, covariance_type=kind).fit(points).posterior_
    np.testing.assert_allclose(posterior.correction.inflation()[1], 1.0, atol=0.1)


@pytest.mark.filterwarnings("ignore:Credible intervals, regions and draws")
def test_a_correction_lost_in_rounding_is_said(monkeypatch):
    monkeypatch.setattr("cavity.estimators.mixture.estimator.correction_of", lambda *_: None)
    with pytest.warns(cavity.ConvergenceWarning, match="lost in rounding"):
        model = cavity.GaussianMixture(3).fit(X)
    assert np.all(np.isfinite(model.posterior_.interval("means")))


def test_a_fit_that_is_refused_leaves_the_model_as_it_was(fitted):
    model = pickle.loads(pickle.dumps(fitted["full"]))
    far = np.concatenate([7 * X[:119] + 100, [[1e15, 1e15]]])
    with pytest.raises(ValueError, match="X must not hold rows as far"):
        model.fit(far)
    np.testing.assert_array_equal(model.predict_proba(NEW), fitted["full"].predict_proba(NEW))
    model.partial_fit(X)
    np.testing.assert_allclose(model.means_, fitted["full"].means_, atol=1.0)


@pytest.mark.slow
def test_regions_are_symmetric_where_clusters_overlap():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(150, 2)), np.array([3.5, 1.0]) + rng.normal(size=(150, 2))])
    for kind in KINDS:
        _, matrix = cavity.GaussianMixture(2, covariance_type=kind).fit(points).posterior_.region(0)
        np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
        assert np.all(np.linalg.eigvalsh(matrix) > 0)


def test_rows_beyond_all_numbers_have_a_component(fitted):
    points = np.array([[1e160, 0.0], [1e308, -1e308], [10.0, 10.0]])
    for kind in KINDS:
        np.testing.assert_allclose(fitted[kind].predict_proba(points).sum(1), 1.0)
        assert np.all(np.isfinite(fitted[kind].score_samples(points)))
        assert np.all(np.diff(fitted[kind].score_samples(points)[[1, 0, 2]]) > 0)


def test_the_response_in_pieces_is_that_of_all_rows(monkeypatch, fitted):
    whole = correction_of(fitted["full"].posterior_, fitted["full"]._belief.flat(2), X, np.ones(120))
    small = lambda source, size: chunks(source, 50)
    monkeypatch.setattr("cavity.estimators.mixture.response.chunks", small)
    parts = correction_of(fitted["full"].posterior_, fitted["full"]._belief.flat(2), X, np.ones(120))
    np.testing.assert_allclose(parts.added, whole.added, rtol=1e-8, atol=1e-12)


def test_without_evidence(fitted):
    model = cavity.GaussianMixture(3, covariance_type="spherical", evidence=False).fit(X)
    assert np.isnan(model.log_evidence_)
    np.testing.assert_array_equal(model.means_, fitted["spherical"].means_)


ODD = {
    "one point": (X[:1], 1),
    "one point, three components": (X[:1], 3),
    "equal points": (np.tile(X[:1], (50, 1)), 3),
    "fewer points than components": (X[:4], 8),
    "a constant column": (np.column_stack([X, np.full(120, 3.7)]), 2),
    "more components than clusters": (X, 6),
    "an outlier": (np.concatenate([X[:119], [[1e12, 1e12]]]), 3),
    "large units": (X * 1e150, 3),
    "small units, far from zero": (X * 1e-3 + 1e6, 3),
}


QUICK = [("diag", "an outlier"), ("diag", "large units"), ("full", "one point"), ("full", "equal points")]
CASES = [(kind, name) for kind in ("diag", "full") for name in ODD if (kind, name) != ("full", "an outlier")]


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning")
@pytest.mark.parametrize(("kind", "name"), thinned(CASES, lambda *case: case in QUICK))
def test_odd_data_give_a_proper_posterior(kind, name):
    points, count = ODD[name]
    model = cavity.GaussianMixture(count, covariance_type=kind).fit(points)
    posterior = model.posterior_
    assert posterior.family.is_proper()
    for values in (model.score_samples(points), model.predict_proba(points), model.log_evidence_, posterior.means):
        assert np.all(np.isfinite(values))
    for parameter in ("weights", "means", "variances"):
        assert np.all(np.isfinite(posterior.interval(parameter)))
    np.testing.assert_allclose(model.predict_proba(points).sum(1), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"n_init": 1.5}, "n_init must be a positive integer"),
        ({"covariance_type": "tied"}, "covariance_type must be one of 'full', 'diag', 'spherical'"),
        ({"algorithm": "em"}, "algorithm must be one of 'auto', 'ep', 'sep'"),
        ({"algorithm": "aep", "batch_size": 5}, "batch_size must be None with algorithm='aep'"),
        ({"batch_size": 0}, "batch_size must be a positive integer"),
        ({"weight_concentration": 0.0}, "weight_concentration must be a positive finite number"),
        ({"mean_count": -1.0}, "mean_count must be a positive finite number"),
        ({"prior_scale": "wide"}, "prior_scale must be a positive finite number"),
        ({"df": 3.0}, r"df must be a number above n_features \+ 1 = 3"),
        ({"forgetting": 1.0}, r"forgetting must lie in \[0, 1\)"),
        ({"linear_response": "yes"}, "linear_response must be True or False"),
        ({"init": "pca"}, "init must be 'kmeans', 'random' or an array of labels"),
        ({"init": np.zeros(3, int)}, "init must have a label from 0 to 0 for each of 120 rows"),
        ({"init": np.full(120, 2)}, "got an array of shape .* with labels from 2 to 2"),
        ({"weight_concentration": None}, "weight_concentration must be a positive finite number"),
        ({"mean_count": None}, "mean_count must be a positive finite number"),
        ({"evidence": None}, "evidence must be True or False"),
        ({"init": np.zeros(120, int), "n_init": 2}, "n_init must be 1 with labels to begin with"),
        ({"evidence": False, "n_init": 2}, "n_init must be 1 with evidence=False"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        cavity.GaussianMixture(**options).fit(X)


def test_calls_are_checked(fitted):
    model = fitted["full"]
    with pytest.raises(ValueError, match="n_samples must be a positive integer"):
        model.sample(0)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        model.posterior_.interval("means", 1.0)
    with pytest.raises(ValueError, match="parameter must be one of 'weights', 'means'"):
        model.posterior_.interval("precisions")
    with pytest.raises(ValueError, match="component must be a number from 0 to 2"):
        model.posterior_.region(3)
    far = np.concatenate([X[:119], [[1e12, 1e12]]])
    with pytest.raises(ValueError, match="X must not hold rows as far from the others as row 119"):
        cavity.GaussianMixture(1).fit(far)
    with pytest.raises(ValueError, match=r"as row 119, .* Remove such rows\.$"):
        cavity.GaussianMixture(1, covariance_type="diag").fit(np.concatenate([X[:119], [[1e200, 0.0]]]))
    with pytest.raises(ValueError, match="X must have at least 3 rows in the first chunk"):
        cavity.GaussianMixture(3).partial_fit(X[:1])
    changed = pickle.loads(pickle.dumps(model)).set_params(n_components=2)
    with pytest.raises(ValueError, match="n_components and covariance_type must stay as they were"):
        changed.partial_fit(X)
    with pytest.raises(ValueError, match="X must not hold rows as far"):
        pickle.loads(pickle.dumps(model)).partial_fit(far)


def test_pipelines_copies_and_scores(fitted):
    model = fitted["spherical"]
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(copy.posterior_.interval("means"), model.posterior_.interval("means"))
    assert not hasattr(clone(model), "posterior_")
    simple = cavity.GaussianMixture(3, covariance_type="spherical", linear_response=False)
    pipeline = make_pipeline(StandardScaler(), simple)
    assert np.all(np.isfinite(cross_val_score(pipeline, X, cv=3)))
    assert list(simple.fit_predict(X)) == list(model.predict(X))


def test_a_stream_keeps_the_names_of_its_features_and_a_fit_that_fails_changes_nothing():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    stream = cavity.GaussianMixture(1).partial_fit(frame[:30]).partial_fit(frame[30:])
    assert list(stream.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="n_components"):
        stream.set_params(n_components=0).fit(rng.normal(size=(10, 3)))
    assert stream.n_features_in_ == 2
