"""File formats of the datasets, as functions from bytes to features and targets."""

import csv
import gzip
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Table(NamedTuple):
    """Features (rows, columns) and one target per row."""

    X: np.ndarray
    y: np.ndarray


def labelled_csv(files: Sequence[bytes], labels: Mapping[str, int], n_features: int) -> Table:
    """Comma- or space-separated numbers, the label last.

    Rows with a missing number ("?") are left out, and so are a header and a column of identifiers at the beginning:
    copies of the same set differ in whether they have these.
    """
    text = files[0].decode()
    rows = [line.replace(",", " ").split() for line in text.splitlines() if line.strip() and "?" not in line]
    if rows and rows[0][-1] not in labels:
        del rows[0]
    return Table(
        np.array([row[-1 - n_features : -1] for row in rows], dtype=np.float64),
        np.array([labels[row[-1]] for row in rows], dtype=np.int64),
    )


def columns(files: Sequence[bytes], n_features: int, target: int) -> Table:
    """Numbers separated by white space: the first columns are the features, and one of the others is the target."""
    numbers = np.loadtxt(io.BytesIO(files[0]), dtype=np.float64, ndmin=2)
    return Table(np.ascontiguousarray(numbers[:, :n_features]), numbers[:, target].copy())


def crabs(files: Sequence[bytes]) -> Table:
    """R's table: species, sex and index among five measurements; the species is a feature, the sex the label."""
    rows = list(csv.DictReader(io.StringIO(files[0].decode())))
    measured = [[float(row[name]) for name in ("FL", "RW", "CL", "CW", "BD")] for row in rows]
    species = [{"B": 0.0, "O": 1.0}[row["sp"]] for row in rows]
    return Table(np.column_stack([species, measured]), np.array([int(row["sex"] == "M") for row in rows]))


def idx(files: Sequence[bytes]) -> Table:
    """MNIST's four files: images and labels for training, then for the test."""
    arrays = [idx_array(gzip.decompress(file)) for file in files]
    images = [array.reshape(len(array), -1) for array in arrays[::2]]
    return Table(np.concatenate(images), np.concatenate(arrays[1::2]))


def idx_array(raw: bytes) -> np.ndarray:
    """One array of bytes: two zeros, a type (8: unsigned bytes), the number of dimensions, and then the dimensions."""
    if raw[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of unsigned bytes")
    n_dim = raw[3]
    shape = np.frombuffer(raw, ">i4", n_dim, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dim).reshape(shape)


def year(files: Sequence[bytes]) -> Table:
    """UCI's archive of one text file: the year first, then ninety features."""
    with zipfile.ZipFile(io.BytesIO(files[0])) as archive, archive.open("YearPredictionMSD.txt") as text:
        return year_text([text.read()])


def year_text(files: Sequence[bytes]) -> Table:
    """The text file itself."""
    numbers = np.loadtxt(io.BytesIO(files[0]), dtype=np.float64, delimiter=",", ndmin=2)
    return Table(np.ascontiguousarray(numbers[:, 1:]), numbers[:, 0].copy())


def target_last(files: Sequence[bytes]) -> Table:
    """A compressed comma-separated file with a header, the target last."""
    numbers = np.loadtxt(io.BytesIO(gzip.decompress(files[0])), dtype=np.float64, delimiter=",", skiprows=1, ndmin=2)
    return Table(np.ascontiguousarray(numbers[:, :-1]), numbers[:, -1].copy())


def arrays(files: Sequence[bytes]) -> Table:
    """NumPy's archive of X and y."""
    with np.load(io.BytesIO(files[0]), allow_pickle=False) as file:
        return Table(file["X"], file["y"])
