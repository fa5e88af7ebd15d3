"""Generalised linear models, with a Gaussian over their coefficients."""
