"""A grid of runs through joblib: on any backend, resumable, the same bytes for any worker count."""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from tailmiss import _rng, provenance
from tailmiss import _validate as check

_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])


def run_sweep(
    simulate: Callable[..., Any],
    configs: Sequence[Any],
    *,
    rng: _rng.RNG,
    repeats: int = 1,
    store: Path | str | None = None,
) -> list[pd.DataFrame]:
    r"""Every config, `repeats` times, each with a random stream of its own.

    The stream of a run is a child of `rng` named by the config and the repeat. What a run yields
    depends on these alone: not on its place in the grid, the number of workers or the backend.
    The name is the config as it is written: gamma=0 and gamma=0.0 have different streams.

    Parameters
    ----------
    simulate : callable
        ``simulate(config, rng=Generator)``, returning a DataFrame or a run with a method
        ``frame()``. A function of a module, so that a worker elsewhere can import it.
    configs : sequence of dataclasses or dicts
        One per run; distinct. Anything JSON or NumPy.
    rng : int, SeedSequence or Generator
        The root of the streams; a Generator is not advanced.
    repeats : int >= 1
        Seeds per config.
    store : path, optional
        Folder where each finished run is written at once, as one CSV. A later sweep with the same
        config, repeat and root reads it instead of running it, after a kill or with a larger grid.

    Returns
    -------
    list of DataFrame
        Ordered by config, then repeat, with a column ``repeat`` in front. Read back from their CSV
        (17 digits), so that a run that was kept and one that was just made are the same.

    Raises
    ------
    ValueError
        A config given twice, or `repeats` below 1.

    Notes
    -----
    Workers, their number and the backend are joblib's: wrap the call in
    ``joblib.parallel_config(backend="loky" | "threading" | "dask" | "ray", n_jobs=...)``. Only the
    calling process writes, so workers on other machines need no shared disk. Held by
    tests/test_sweep.py.

    Examples
    --------
    >>> from tailmiss.sims import CategoricalConfig, simulate_categorical
    >>> grid = [CategoricalConfig(n_actions=50, n_correct=5, group_size=N, steps=4) for N in (2, 8)]
    >>> runs = run_sweep(simulate_categorical, grid, rng=0, repeats=3)
    >>> len(runs), int(runs[0]["step"].iloc[-1])
    (6, 4)
    """
    repeats = check.whole_number("repeats", repeats)
    described = [_describe(config) for config in configs]
    names = [_key(one) for one in described]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"configs must be distinct; got {configs[i]!r} again at index {i}")
    root = _rng.generator(rng).bit_generator.seed_seq
    origin = {"entropy": root.entropy, "spawn_key": list(root.spawn_key)}  # type: ignore[attr-defined]
    what = f"{simulate.__module__}.{simulate.__qualname__}"
    version = provenance.record()["software"].get("tailmiss")

    if store is not None:
        provenance.discard_abandoned(Path(store))
    texts: dict[tuple[int, int], str] = {}
    wanted, paths = [], {}
    for i, config in enumerate(configs):
        for repeat in range(repeats):
            identity = {
                "simulate": what, "version": version, "config": described[i],
                "repeat": repeat, "root": origin,
            }  # fmt: skip
            if store is not None:
                paths[i, repeat] = Path(store) / f"{provenance.key(identity)}.csv"
                if paths[i, repeat].exists():
                    texts[i, repeat] = paths[i, repeat].read_text()
                    continue
            wanted.append(((i, repeat), config, _stream(root, described[i], repeat)))

    with progress() as shown:
        task = shown.add_task("runs", total=len(wanted))
        for place, text in _parallel(simulate, wanted):
            if store is not None:
                provenance.write(paths[place], text)
            texts[place] = text
            shown.advance(task)
    return [
        _read(texts[i, repeat], repeat) for i in range(len(configs)) for repeat in range(repeats)
    ]


def progress() -> Any:
    """A progress display on standard error; silent where that is not a terminal. They may nest."""
    from rich.progress import Progress

    console = _console()
    return Progress(console=console, disable=not console.is_terminal, transient=True)


@functools.cache
def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True)


def _parallel(simulate: Callable[..., Any], wanted: list[Any]) -> Iterator[tuple[Any, str]]:
    """Results as they finish, in whatever order."""
    backend, jobs = joblib.parallel.get_active_backend()
    calls = [
        joblib.delayed(_run)(simulate, place, config, stream) for place, config, stream in wanted
    ]
    if getattr(backend, "supports_return_generator", False):
        yield from joblib.Parallel(return_as="generator_unordered")(calls)
        return
    # Ray hands results back only at the end of a call: short calls keep what is finished
    chunk = 4 * backend.effective_n_jobs(jobs)
    for start in range(0, len(calls), chunk):
        yield from joblib.Parallel()(calls[start : start + chunk])


def _run(
    simulate: Callable[..., Any], place: Any, config: Any, stream: np.random.SeedSequence
) -> tuple[Any, str]:
    result = simulate(config, rng=np.random.default_rng(stream))
    frame = result if isinstance(result, pd.DataFrame) else result.frame()
    return place, frame.to_csv(index=False, float_format="%.17g", lineterminator="\n")


def _read(text: str, repeat: int) -> pd.DataFrame:
    # pandas 3.1 reads every digit by default and deprecates saying so
    digits: Any = {"float_precision": "round_trip"} if _PANDAS < (3, 1) else {}
    frame = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=["", "nan"], **digits)
    frame.insert(0, "repeat", repeat)
    return frame


def _describe(config: Any) -> Any:
    return asdict(config) if is_dataclass(config) and not isinstance(config, type) else config


def _key(described: Any) -> str:
    return provenance.key(described)


def _stream(root: Any, described: Any, repeat: int) -> np.random.SeedSequence:
    digest = hashlib.sha256(_key(described).encode()).digest()
    words = np.frombuffer(digest[:16], "<u4").tolist()
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *words, repeat))
