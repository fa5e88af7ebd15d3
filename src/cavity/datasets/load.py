"""Where datasets are: the directory that CAVITY_DATA names, the user's cache, and, failing both, the network."""

import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cavity.datasets import formats
from cavity.datasets.catalogue import CATALOGUE, MNIST_FILES, YEAR_BEGINS, Entry, names
from cavity.datasets.formats import Table

PIECE = 2**18  # bytes
TIMEOUT = 30.0  # seconds without a byte
WORTH_A_BAR = 10**7  # bytes


class DatasetError(FileNotFoundError):
    """A dataset is not to be had: it is in no directory and cannot be downloaded, or a file of its name is not it."""


class Dataset(NamedTuple):
    """Features, targets, and how they are divided."""

    X: np.ndarray  # float64, or bytes for images
    y: np.ndarray  # labels 0, 1, …, or real numbers
    feature_names: list[str]
    n_train: int | None  # rows at the beginning that are the training set, where the split is fixed
    n_splits: int  # as many as are usual: one where the split is fixed, otherwise random ones
    about: str


def load(name: str) -> Dataset:
    """One of the paper's datasets, by name (`names()` lists them): rows in a fixed order, nothing scaled.

    It is looked for in the directory that the environment variable CAVITY_DATA names, then in the user's cache
    ($XDG_CACHE_HOME/cavity, or ~/.cache/cavity); otherwise it is downloaded into that cache. The numbers are compared
    with a checksum each time. What is not to be had is a `DatasetError`, which is a FileNotFoundError.
    """
    if name not in CATALOGUE:
        raise ValueError(f"name must be one of {', '.join(names())}; got {name!r}.")
    return load_entry(name, CATALOGUE[name])


def load_entry(name: str, entry: Entry) -> Dataset:
    """Load a data set by its entry, which need not be in the catalogue."""
    for directory in filter(None, (given(), cache_directory())):
        if at := place(directory, name):
            try:
                return dataset(checked(at.read, entry), entry)
            except Unusable as error:
                raise DatasetError(f"{at.path} must hold dataset {name!r}; {error}. Replace or remove it.") from error
    table = download(name, entry)
    keep(table, name)
    return dataset(table, entry)


def given() -> Path | None:
    """The directory that CAVITY_DATA names."""
    return Path(os.environ["CAVITY_DATA"]).expanduser() if os.environ.get("CAVITY_DATA") else None


def cache_directory() -> Path:
    """Where downloads and references are kept: $XDG_CACHE_HOME/cavity, or ~/.cache/cavity."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cavity"


class Place(NamedTuple):
    """Where a directory has a dataset, and how it is read there."""

    path: Path
    files: list[Path]
    parse: Callable[[Sequence[bytes]], Table]

    def read(self) -> Table:
        """What the files hold."""
        return self.parse([file.read_bytes() for file in self.files])


def place(directory: Path, name: str) -> Place | None:
    """The first of the formats that are looked for."""
    possible = [
        Place(path := directory / f"{name}.npz", [path], formats.arrays),
        Place(path := directory / f"{name}.csv.gz", [path], formats.target_last),
    ]
    if name == "mnist":
        path = directory / "mnist"
        possible.append(Place(path, [path / file for file in MNIST_FILES], formats.idx))
    if name == "year":
        possible.append(Place(path := directory / "YearPredictionMSD.txt", [path], formats.year_text))
    return next((at for at in possible if all(file.is_file() for file in at.files)), None)


class Unusable(Exception):
    """What was read is not the dataset; says why, as a part of a sentence."""


def checked(read: Callable[[], Table], entry: Entry) -> Table:
    """What is read, in the dataset's types; refused if it is not the dataset."""
    try:
        table = converted(read(), entry)
    except MemoryError:
        raise
    except Exception as error:  # a file of another kind, such as a log-in page, fails differently in each format
        raise Unusable(f"it cannot be read as such ({type(error).__name__}: {error})") from error
    if table.X.shape != entry.shape or table.y.shape != entry.shape[:1]:
        raise Unusable(
            f"expected {entry.shape} features and as many targets as rows, got {table.X.shape} and {table.y.shape}"
        )
    if entry.checksum is not None:
        right = checksum(table) == entry.checksum
    else:
        right = np.allclose([table.y[0], *table.X[0, :3]], YEAR_BEGINS, rtol=0, atol=1e-9)
    if not right:
        raise Unusable(f"expected the numbers of '{entry.about}', got others")
    return table


def converted(table: Table, entry: Entry) -> Table:
    """A table with its numbers in the types of the catalogue, which text and other archives do not keep."""
    target = np.uint8 if entry.is_bytes else np.int64 if entry.is_classification else np.float64
    types = (np.uint8 if entry.is_bytes else np.float64, target)
    with np.errstate(invalid="ignore"):  # numbers that do not fit are found below
        cast = Table(*(array.astype(kind, copy=False) for array, kind in zip(table, types, strict=True)))
    for new, old in zip(cast, table, strict=True):
        if new is not old and not np.array_equal(new, old):
            raise ValueError(f"{old.dtype} holds what {new.dtype} cannot")
    return cast


def checksum(table: Table) -> str:
    """SHA-256 of features and targets as little-endian doubles (bytes where they are bytes), row by row."""
    plain = lambda array: array if array.dtype == np.uint8 else array.astype("<f8")
    digest = hashlib.sha256(plain(table.X).tobytes())
    digest.update(plain(table.y).tobytes())
    return digest.hexdigest()


def dataset(table: Table, entry: Entry) -> Dataset:
    """What the user gets."""
    return Dataset(*table, list(entry.feature_names), entry.n_train, entry.n_splits, entry.about)


def download(name: str, entry: Entry) -> Table:
    """The dataset from its addresses, checked."""
    files = [fetch(url, name) for url in entry.urls]
    try:
        return checked(lambda: entry.parse(files), entry)
    except Unusable as error:
        raise missing(name, f"what {', '.join(entry.urls)} gave is not it: {error}") from error


def fetch(url: str, name: str) -> bytes:
    """What an address gives, with a bar if it is large."""
    from tqdm import tqdm

    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            length = int(response.headers.get("Content-Length") or 0)
            pieces = iter(lambda: response.read(PIECE), b"")
            with tqdm(total=length, unit="B", unit_scale=True, desc=name, disable=length < WORTH_A_BAR) as bar:
                raw = b"".join(piece for piece in pieces if bar.update(len(piece)) or True)
    except (OSError, http.client.HTTPException) as error:
        raise missing(name, f"{url} cannot be read ({error})") from error
    if length and len(raw) != length:
        raise missing(name, f"{url} broke off after {len(raw)} of {length} bytes")
    return raw


def missing(name: str, reason: str) -> DatasetError:
    """One sentence on what to do."""
    place = given()
    looked = f"{place} (CAVITY_DATA)" if place else "a directory named by CAVITY_DATA, which is not set,"
    own = {"mnist": "mnist/ with the four .gz files of its source, ", "year": "YearPredictionMSD.txt, "}.get(name, "")
    return DatasetError(
        f"Dataset {name!r} is neither in {looked} nor in {cache_directory()}, and {reason}. Connect to the network (it "
        f"may ask for a log-in), or put {own}{name}.npz with arrays X and y, or {name}.csv.gz with a header and the "
        "target last, into a directory that CAVITY_DATA names."
    )


def keep(table: Table, name: str) -> None:
    """Into the cache, all or nothing."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache_directory(), suffix=".part", delete=False) as file:
        try:
            np.savez_compressed(file, X=table.X, y=table.y)
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, cache_directory() / f"{name}.npz")
