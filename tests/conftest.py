"""Compiled programs are dropped after each file: thousands of them in one process exhaust its memory maps."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def drop_compiled_programs():
    yield
    jax.clear_caches()
