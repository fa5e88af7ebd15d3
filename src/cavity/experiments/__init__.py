"""Experiments that use public names only."""
