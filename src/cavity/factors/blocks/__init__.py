"""Data in blocks."""
