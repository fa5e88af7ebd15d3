"""Warnings that point to the user's line."""

import os
import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parent) + os.sep


def warn(message: str, category: type[Warning]) -> None:
    """Warn with the place that called this package, however many functions lie between."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
