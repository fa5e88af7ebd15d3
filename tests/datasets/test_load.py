"""Datasets: found in a directory, in the cache, or on a server; never with the wrong numbers."""

import functools
import gzip
import http.client
import http.server
import io
import re
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import cavity.datasets
from cavity.datasets import DatasetError, formats
from cavity.datasets.catalogue import CATALOGUE, MNIST_FILES, Entry
from cavity.datasets.load import checksum, given, load_entry
from tests.statistical.sources import needs_data

RNG = np.random.default_rng(0)
TABLE = formats.Table(RNG.normal(size=(5, 2)), np.array([0, 1, 1, 0, 1]))


def entry(urls=(), parse=None, table=TABLE):
    return Entry("a toy set", True, table.X.shape, ("a", "b"), tuple(urls), parse, checksum(table))


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A directory for CAVITY_DATA and an empty cache."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("CAVITY_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return data, tmp_path / "cache" / "cavity"


@pytest.fixture
def server(tmp_path):
    """Files of a directory on a local port; what was asked for is counted."""
    root = tmp_path / "served"
    root.mkdir()
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=root))
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()  # seconds until it stops
    yield root, f"http://127.0.0.1:{running.server_port}/", asked
    running.shutdown()
    running.server_close()


def as_text(table, labels=str):
    rows = [",".join([*map(repr, map(float, x)), labels(y)]) for x, y in zip(table.X, table.y, strict=True)]
    return ("\n".join(rows) + "\n").encode()


def test_a_directory_comes_before_the_cache(places):
    data, cache = places
    np.savez(data / "toy.npz", X=TABLE.X, y=TABLE.y)
    found = load_entry("toy", entry(["http://127.0.0.1:9/never"]))
    np.testing.assert_array_equal(found.X, TABLE.X)
    assert found.feature_names == ["a", "b"]
    assert not cache.exists()


def test_csv_with_the_target_last(places):
    header = b"a,b,target\n"
    (places[0] / "toy.csv.gz").write_bytes(gzip.compress(header + as_text(TABLE)))
    found = load_entry("toy", entry())
    np.testing.assert_array_equal(found.X, TABLE.X)
    assert found.y.dtype == np.int64


IMAGES = formats.Table(RNG.integers(0, 256, (7, 6)).astype(np.uint8), RNG.integers(0, 10, 7).astype(np.uint8))


def as_idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(header + np.ascontiguousarray(array).tobytes())


def write_npz(directory, table):
    np.savez(directory / "mnist.npz", X=table.X, y=table.y.astype(np.int64))


def write_csv(directory, table):
    text = b"p1,p2,p3,p4,p5,p6,target\n" + as_text(table, labels=str)
    (directory / "mnist.csv.gz").write_bytes(gzip.compress(text))


def write_idx(directory, table):
    (directory / "mnist").mkdir()
    images = table.X.reshape(-1, 3, 2)
    for name, array in zip(MNIST_FILES, (images[:5], table.y[:5], images[5:], table.y[5:]), strict=True):
        (directory / "mnist" / name).write_bytes(as_idx(array))


@pytest.mark.parametrize(
    ("named", "write"),
    [("mnist.npz", write_npz), ("mnist.csv.gz", write_csv), ("mnist/ with the four .gz files", write_idx)],
)
def test_images_in_every_layout_that_the_message_names(places, named, write):
    images = entry(["http://127.0.0.1:9/never"], table=IMAGES)._replace(is_bytes=True)
    with pytest.raises(DatasetError, match=re.escape(named)):
        load_entry("mnist", images)
    write(places[0], IMAGES)
    found = load_entry("mnist", images)
    assert found.X.dtype == found.y.dtype == np.uint8
    np.testing.assert_array_equal(found.X, IMAGES.X)
    np.testing.assert_array_equal(found.y, IMAGES.y)


@pytest.mark.parametrize("change", [0.5, 256.0, np.nan])
def test_numbers_that_a_byte_cannot_hold_are_refused(places, change):
    images = entry(table=IMAGES)._replace(is_bytes=True)
    np.savez(places[0] / "mnist.npz", X=IMAGES.X + change, y=IMAGES.y)
    with pytest.raises(DatasetError, match="float64 holds what uint8 cannot"):
        load_entry("mnist", images)


def test_labels_that_are_not_whole_are_refused(places):
    text = as_text(TABLE, labels=lambda y: str(y + 0.5))
    (places[0] / "toy.csv.gz").write_bytes(gzip.compress(b"a,b,target\n" + text))
    with pytest.raises(DatasetError, match="float64 holds what int64 cannot"):
        load_entry("toy", entry())


def test_what_is_downloaded_is_kept(places, server):
    root, url, asked = server
    (root / "toy.txt").write_bytes(as_text(TABLE, labels=lambda y: "yes" if y else "no"))
    parse = functools.partial(formats.labelled_csv, labels={"yes": 1, "no": 0}, n_features=2)
    for _ in range(2):
        found = load_entry("toy", entry([url + "toy.txt"], parse))
        np.testing.assert_array_equal(found.X, TABLE.X)
        np.testing.assert_array_equal(found.y, TABLE.y)
    assert len(asked) == 1
    assert [path.name for path in places[1].iterdir()] == ["toy.npz"]


def test_other_numbers_are_refused(places, server):
    root, url, _ = server
    other = TABLE._replace(X=TABLE.X + 1e-9)
    (root / "toy.txt").write_bytes(as_text(other))
    parse = functools.partial(formats.labelled_csv, labels={"0": 0, "1": 1}, n_features=2)
    with pytest.raises(DatasetError, match=r"toy\.txt gave is not it: expected the numbers of 'a toy set', got others"):
        load_entry("toy", entry([url + "toy.txt"], parse))
    assert not places[1].exists()
    np.savez(places[0] / "toy.npz", X=TABLE.X[:3], y=TABLE.y[:3])
    with pytest.raises(
        DatasetError, match=r"toy\.npz must hold dataset 'toy'; expected \(5, 2\) features .* got \(3, 2\)"
    ):
        load_entry("toy", entry())


def test_without_a_network_one_sentence_says_what_to_do(places, server):
    _, url, _ = server
    for address, reason in ((url + "missing.txt", "HTTP Error 404"), ("http://127.0.0.1:9/toy.txt", "refused")):
        with pytest.raises(DatasetError, match=f"Dataset 'toy' is neither in .* nor in .*{reason}.*CAVITY_DATA"):
            load_entry("toy", entry([address], lambda files: TABLE))
    with pytest.raises(ValueError, match="name must be one of australian, breast"):
        cavity.datasets.load("toy")


def test_a_download_that_breaks_off_is_not_kept(places, server, monkeypatch):
    root, url, _ = server
    (root / "toy.txt").write_bytes(b"x" * 1000)
    original = http.server.SimpleHTTPRequestHandler.send_header

    def lie(self, key, value):
        original(self, key, "2000" if key == "Content-Length" else value)

    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "send_header", lie)
    with pytest.raises(DatasetError, match=r"broke off after 1000 of 2000 bytes|IncompleteRead"):
        load_entry("toy", entry([url + "toy.txt"], lambda files: TABLE))
    assert not places[1].exists()


def test_a_download_in_chunks_that_breaks_off_is_not_kept(places, server, monkeypatch):
    _, url, _ = server

    def half(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n1,2,3\r\n")

    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "do_GET", half)
    with pytest.raises(DatasetError, match=r"Dataset 'toy' .*toy\.txt cannot be read \(IncompleteRead") as caught:
        load_entry("toy", entry([url + "toy.txt"], lambda files: TABLE))
    assert isinstance(caught.value.__cause__, http.client.IncompleteRead)
    assert not places[1].exists()


LOGIN = b"<!DOCTYPE html>\n<html><head><title>Log in</title></head>\n<body>Welcome, please log in.</body></html>\n"


@pytest.mark.parametrize("name", sorted(CATALOGUE))
@pytest.mark.parametrize("page", [LOGIN, LOGIN.replace(b"\n", b" "), b""], ids=["lines", "line", "empty"])
@pytest.mark.filterwarnings("ignore:loadtxt")  # of an empty file
def test_the_page_of_a_network_that_asks_for_a_login(places, server, name, page):
    root, url, _ = server
    (root / "page").write_bytes(page)
    known = CATALOGUE[name]._replace(urls=(url + "page",) * len(CATALOGUE[name].urls))
    with pytest.raises(
        DatasetError, match=f"Dataset '{name}' .*{url}page.* is not it: .*log-in.*CAVITY_DATA"
    ) as caught:
        load_entry(name, known)
    assert caught.value.__cause__ is not None
    assert not places[1].exists()


@pytest.mark.parametrize("file", ["mnist.npz", "mnist.csv.gz", "mnist"])
def test_files_of_another_kind_are_named(places, file):
    for path in [places[0] / file / name for name in MNIST_FILES] if file == "mnist" else [places[0] / file]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(LOGIN)
    with pytest.raises(
        DatasetError, match=f"{file} must hold dataset 'mnist'; it cannot be read.*Replace or remove it"
    ):
        cavity.datasets.load("mnist")


def test_errors_are_those_of_a_missing_file():
    assert issubclass(DatasetError, FileNotFoundError)  # which the command line prints without a traceback


def test_the_page_on_datasets_has_the_catalogue():
    text = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| (\d+) \| (.*?) \| .* \| (.*?) \|$", text, re.MULTILINE)
    assert sorted(name for name, *_ in rows) == cavity.datasets.names()
    for name, n_rows, n_features, task, splits in rows:
        known = CATALOGUE[name]
        assert (int(n_rows.replace(",", "")), int(n_features)) == known.shape
        assert (task != "regression") == known.is_classification
        assert splits == (f"the first {known.n_train:,} rows train" if known.n_train else str(known.n_splits))


def test_addresses_of_repositories_name_a_commit():
    urls = [url for known in CATALOGUE.values() for url in known.urls if "github" in url]
    assert len(urls) == 11
    for url in urls:
        assert re.match(r"https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/[0-9a-f]{40}/", url), url


@needs_data
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_papers_sets_load(name):
    if name == "year" and not (given() / "year.npz").exists() and not (given() / "YearPredictionMSD.txt").exists():
        pytest.skip("the directory has no Year")
    found = cavity.datasets.load(name)
    assert found.X.shape == CATALOGUE[name].shape
    assert len(found.feature_names) == found.X.shape[1]
    assert np.all(np.isfinite(found.y))


# Lines of the files as others have published them: the set, its labels in these lines, the first row's ends.
PUBLISHED = {
    "australian.dat": ("australian", [0, 0, 0, 1], (1, 1213)),
    "australian-uci.dat": ("australian", [0, 1, 1, 1], (1, 45)),
    "breast-cancer-wisconsin.csv": ("breast", [1, 0, 0], (10, 1)),
    "breast-cancer-wisconsin.data": ("breast", [0, 0, 1], (3, 1)),
    "crabs.csv": ("crabs", [1, 0, 1], (0, 7)),
    "ionosphere.csv": ("ionosphere", [1, 0], (1, -0.453)),
    "pima-indians-diabetes.data.csv": ("pima", [1, 0], (1, 47)),
    "sonar.csv": ("sonar", [0, 1], (0.02, 0.0032)),
}


def published(file):
    name, *_ = PUBLISHED[file]
    return CATALOGUE[name].parse([(Path(__file__).parent / "published" / file).read_bytes()])


@pytest.mark.parametrize("file", PUBLISHED)
def test_published_lines_are_read(file):
    name, labels, ends = PUBLISHED[file]
    table = published(file)
    assert table.X.shape == (len(labels), CATALOGUE[name].shape[1])
    np.testing.assert_array_equal(table.y, labels)
    np.testing.assert_array_equal(table.X[0, [0, -1]], ends)


@needs_data
@pytest.mark.parametrize("file", PUBLISHED)
def test_published_lines_are_in_the_set(file):
    ours = cavity.datasets.load(PUBLISHED[file][0])
    for x, y in zip(*published(file), strict=True):
        assert np.any((x == ours.X).all(axis=1) & (ours.y == y))


def test_the_target_is_the_column_after_the_features():
    """The form that others read these files in (numbers and white space); naval has a second target behind."""
    power = CATALOGUE["power"].parse([b"8.34 40.77 1010.84 90.01 480.48\n23.64 58.49 1011.4 74.2 445.75\n"])
    np.testing.assert_array_equal(power.X, [[8.34, 40.77, 1010.84, 90.01], [23.64, 58.49, 1011.4, 74.2]])
    np.testing.assert_array_equal(power.y, [480.48, 445.75])
    naval = CATALOGUE["naval"].parse([b"   " + b"   ".join(b"%de+00" % i for i in range(18)) + b"\n"])
    np.testing.assert_array_equal(naval.X, [np.arange(16)])
    np.testing.assert_array_equal(naval.y, [16])


def test_images_and_their_labels():
    images = RNG.integers(0, 256, (7, 3, 2)).astype(np.uint8)
    labels = RNG.integers(0, 10, 7).astype(np.uint8)
    table = formats.idx([as_idx(a) for a in (images[:5], labels[:5], images[5:], labels[5:])])
    np.testing.assert_array_equal(table.X, images.reshape(7, 6))
    np.testing.assert_array_equal(table.y, labels)
    assert len(MNIST_FILES) == 4


def test_year_is_told_by_its_first_row(places):
    first = "2001,49.94357,21.47114,73.07750,8.74861\n"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("YearPredictionMSD.txt", first + "1998,1.0,2.0,3.0,4.0\n")
    table = formats.year([archive.getvalue()])
    np.testing.assert_array_equal(table.y, [2001, 1998])
    small = CATALOGUE["year"]._replace(shape=(2, 4), feature_names=("a", "b", "c", "d"))
    with pytest.raises(DatasetError, match=r"put YearPredictionMSD\.txt"):
        load_entry("year", small._replace(urls=("http://127.0.0.1:9/never",)))
    (places[0] / "YearPredictionMSD.txt").write_text(first + "1998,1.0,2.0,3.0,4.0\n")
    np.testing.assert_array_equal(load_entry("year", small).X, table.X)
    np.savez(places[0] / "year.npz", X=table.X, y=table.y)
    assert load_entry("year", small).n_train == 463_715
    np.savez(places[0] / "year.npz", X=table.X[::-1], y=table.y[::-1])
    with pytest.raises(DatasetError, match="expected the numbers of 'YearPredictionMSD"):
        load_entry("year", small)


@needs_data
@pytest.mark.parametrize("name", ["kin8nm", "naval", "power", "protein", "wine_red"])
def test_splits_are_those_of_the_literature(name):
    path = given() / "splits" / f"{name}.npz"
    if not path.exists():
        pytest.skip("the directory has no splits")
    with np.load(path, allow_pickle=False) as file:
        published = file["test_index"]
    found = cavity.datasets.load(name)
    ours = [test for _, test in cavity.datasets.random_splits(len(found.X), found.n_splits)]
    np.testing.assert_array_equal(np.stack(ours), published)


def test_a_fixed_split_is_one():
    fixed = {name: known.n_splits for name, known in CATALOGUE.items() if known.n_train is not None}
    assert fixed == {"mnist": 1, "year": 1}
    assert {known.n_splits for name, known in CATALOGUE.items() if name not in fixed} == {5, 20}


def test_splits_are_partitions():
    for train, test in cavity.datasets.random_splits(103, 3, test_share=0.25, seed=7):
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(103))
        assert len(test) == 26
    with pytest.raises(ValueError, match="test_share must lie strictly between 0 and 1"):
        next(cavity.datasets.random_splits(10, 1, test_share=1.0))


def test_synthetic_labels_follow_the_probit():
    from scipy.stats import norm

    made = cavity.datasets.synthetic_probit(200_000, 3, n_components=4, seed=1)
    chance = norm.cdf(made.X @ made.coefficients)
    np.testing.assert_allclose(np.mean(made.y > 0), chance.mean(), atol=4 * 0.5 / np.sqrt(200_000))
    assert np.corrcoef(made.y > 0, chance)[0, 1] > 0.7
    centres = np.stack([made.X[made.component == j].mean(0) for j in range(4)])
    within = made.X - centres[made.component]
    np.testing.assert_allclose(np.cov(within.T), np.eye(3), atol=0.02)
    assert np.std(centres) > 1.0
    flipped = cavity.datasets.synthetic_probit(200_000, 3, n_components=4, label_noise=0.5, seed=1)
    np.testing.assert_allclose(np.mean(flipped.y != made.y), 0.25, atol=0.01)


def test_a_synthetic_mixture_keeps_its_centres_apart():
    made = cavity.datasets.synthetic_mixture(100_000, 4, 2, noise=0.5, separation=1.25, seed=1)
    distances = np.linalg.norm(made.centres[:, None] - made.centres, axis=-1)[np.triu_indices(4, 1)]
    assert distances.min() >= 1.25
    np.testing.assert_allclose(np.bincount(made.component) / 100_000, 0.25, atol=0.01)
    within = made.X - made.centres[made.component]
    np.testing.assert_allclose(np.cov(within.T), 0.25 * np.eye(2), atol=0.01)
    np.testing.assert_allclose(within.mean(0), 0.0, atol=0.01)
    again = cavity.datasets.synthetic_mixture(100_000, 4, 2, noise=0.5, separation=1.25, seed=1)
    np.testing.assert_array_equal(again.X, made.X)
    near = [np.ptp(cavity.datasets.synthetic_mixture(1, 2, 1, seed=seed).centres) for seed in range(100)]
    assert min(near) < 0.1  # unless asked for, nothing is kept apart


def test_centres_of_a_synthetic_mixture_are_of_unit_variance():
    centres = [cavity.datasets.synthetic_mixture(1, 4, 2, seed=seed).centres for seed in range(2000)]
    np.testing.assert_allclose(np.cov(np.reshape(centres, (-1, 2)).T), np.eye(2), atol=0.07)


def test_a_synthetic_mixture_that_cannot_be():
    with pytest.raises(ValueError, match=r"got separation=50\.0, and no such centres"):
        cavity.datasets.synthetic_mixture(separation=50.0)
    with pytest.raises(ValueError, match=r"noise must be positive; got .*noise=-1\.0"):
        cavity.datasets.synthetic_mixture(noise=-1.0)
