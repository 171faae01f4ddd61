"""Obvious reference versions of the fast kernels."""
