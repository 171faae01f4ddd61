"""Random streams: any seed becomes a Generator, and work items get children of their own."""

from __future__ import annotations

import numpy as np

RNG = int | np.random.SeedSequence | np.random.Generator | None


def generator(rng: RNG) -> np.random.Generator:
    """`rng` as a NumPy Generator; a Generator is passed through."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(
            f"rng must be a whole number >= 0, a SeedSequence, a Generator or None; got {rng!r}"
        ) from None


def spawn(rng: RNG, n: int) -> list[np.random.Generator]:
    """n independent child streams; what each yields never depends on who runs it or when."""
    return generator(rng).spawn(n)
