"""Mixtures of Gaussians, for clusters and densities."""
