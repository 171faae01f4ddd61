"""Readers of rollout files: what trainers and evaluations write, as one table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _rollout_roles as roles
from . import _validate as check
from ._rollout_files import Progress, ReadError, parts
from ._rollout_groups import assemble
from ._rollout_names import label
from ._rollout_table import Table, gather
from ._rollout_text import Texts

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Rollouts in groups: the rollouts of one prompt, at one training step where steps are given.

    Attributes
    ----------
    source, format : str
        Where they come from, and as what they were read.
    prompt : array of str, one a group
        What the group's prompt is called.
    step : array of str or None
        Training step of each group.
    n, c, unscored : int arrays, one value a group
        Rollouts with a reward, successes among them, rollouts without a reward.
    group : int array or None
        Group of each rollout, by place in the arrays above; None where the file holds counts.
    reward, answer : arrays or None
        Of each rollout: NaN and None where it has none.
    text : Texts or None
        The response of each rollout, kept in a temporary file; ``text.read()`` gives strings and
        None, ``text.column`` the field.
    identical : int
        Groups without a signal whose completions are all the same text.
    columns : dict
        What was taken as prompt, reward, answer and step.
    threshold : float or None
        Success is reward >= threshold.
    warnings : tuple of str
        What a reader of the numbers should know.
    """

    source: str
    format: str
    prompt: Array
    step: Array | None
    n: Array
    c: Array
    unscored: Array
    group: Array | None
    reward: Array | None
    answer: Array | None
    text: Texts | None
    identical: int
    columns: dict[str, str | None]
    threshold: float | None
    warnings: tuple[str, ...] = ()

    @property
    def success(self) -> Array | None:
        """1 or 0 of each rollout, NaN where it is unscored."""
        if self.reward is None or self.threshold is None:
            return None
        hits = (self.reward >= self.threshold).astype(float)
        return np.where(np.isnan(self.reward), np.nan, hits)

    def to_frame(self) -> Any:
        """A pandas table: one row a rollout, or one row a prompt where the file holds counts."""
        import pandas as pd

        if self.group is None:
            frame = pd.DataFrame({"prompt": self.prompt, "n": self.n, "c": self.c})
        else:
            frame = pd.DataFrame(
                {
                    "prompt": self.prompt[self.group],
                    "reward": self.reward,
                    "success": self.success,
                    "answer": self.answer if self.answer is not None else None,
                }
            )
        if self.step is not None:
            steps = self.step if self.group is None else self.step[self.group]
            frame.insert(0, "step", steps)
        return frame

    def by_step(self) -> Iterator[tuple[str, Array, Rollouts]]:
        """Name, groups and rollouts of each step, in the order of the first group of each."""
        if self.step is None:
            return
        names = {name: i for i, name in enumerate(dict.fromkeys(self.step.tolist()))}
        step = np.array([names[name] for name in self.step.tolist()], int)
        ends = range(1, len(names))
        groups = np.argsort(step, kind="stable")
        parts = np.split(groups, np.searchsorted(step[groups], ends))
        rows: list[Array | None] = [None] * len(names)
        if self.group is not None:
            order = np.argsort(step[self.group], kind="stable")
            rows = [*np.split(order, np.searchsorted(step[self.group[order]], ends))]
        for name, own, kept in zip(names, parts, rows, strict=True):
            yield str(name), own, self._part(own, kept)

    def select(self, groups: Array) -> Rollouts:
        """Some of the groups, as a table of their own."""
        kept = None if self.group is None else np.flatnonzero(np.isin(self.group, groups))
        return self._part(groups, kept)

    def _part(self, groups: Array, kept: Array | None) -> Rollouts:
        """Some of the groups, as a table of their own; `kept` are their rollouts."""
        place = np.empty(self.n.size, int)
        place[groups] = np.arange(groups.size)
        return Rollouts(
            **{
                **self.__dict__,
                "prompt": self.prompt[groups],
                "step": None if self.step is None else self.step[groups],
                "n": self.n[groups],
                "c": self.c[groups],
                "unscored": self.unscored[groups],
                "group": None if kept is None else place[self.group[kept]],  # type: ignore[index]
                "reward": None if self.reward is None else self.reward[kept],
                "answer": None if self.answer is None else self.answer[kept],
                "text": None if self.text is None else self.text.take(kept),
            }
        )

    @classmethod
    def from_counts(cls, n: ArrayLike, c: ArrayLike) -> Rollouts:
        """Rollouts known by their counts alone: c successes among n of each prompt.

        Raises
        ------
        ValueError
            A count that is not whole or negative; c > n; shapes that do not broadcast.

        Examples
        --------
        >>> Rollouts.from_counts([8, 8], [0, 4]).c
        array([0, 4])
        """
        total, hits = np.atleast_1d(check.whole("n", n, 0)), np.atleast_1d(check.whole("c", c, 0))
        check.at_most("c", hits, "n", total)
        total, hits = (a.ravel() for a in np.broadcast_arrays(total, hits))
        names = np.array([str(i) for i in range(total.size)], dtype=object)
        columns: dict[str, str | None] = dict.fromkeys(("prompt", "reward", "answer", "step"))
        return cls(
            "counts", "counts", names, None, total.astype(int), hits.astype(int),
            np.zeros(total.size, int), None, None, None, None, 0, columns, None,
        )  # fmt: skip


def read_rollouts(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    prompt: str | None = None,
    reward: str | None = None,
    threshold: float | None = None,
    answer: str | None = None,
    step: str | None = None,
    text: str | None = None,
    n: str | None = None,
    c: str | None = None,
    where: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Rollouts:
    r"""Read rollouts from what a trainer or an evaluation wrote.

    Success is :math:`\text{reward} \ge \text{threshold}`; a rollout without a reward is unscored,
    neither success nor failure.

    Parameters
    ----------
    path : path, "-", or a list of paths
        JSON, JSON lines, CSV or TSV, parquet, or a zip of such files; also gzipped, bzipped or
        xzipped. What a file is, is told by its content. "-" is standard input.
    prompt, reward, answer, step : str, optional
        Names of columns; "a.b" reaches into objects, "a,b" as prompt groups by both. Without
        `step`, a column of that name is taken; step="none" pools the steps.
    text : str, optional
        Name of the column of responses: strings, or chats whose last assistant turn is taken. By
        default found by its name, or else the answers; text="none" leaves texts out.
    threshold : float, optional
        Smallest reward that is a success. Needed where rewards are not 0/1 or -1/1.
    n, c : str, optional
        Columns of a table that holds counts, one row a prompt.
    where : mapping, optional
        Keep only rollouts whose column has this value.
    progress : callable, optional
        Called with bytes read and bytes in all.

    Returns
    -------
    Rollouts

    Raises
    ------
    ValueError
        A file that is cut, damaged or not understood, with its name and line; a file that does not
        say what the reward or the prompt is; rewards that are not binary without a threshold; a
        file given twice.
    OSError
        A file that cannot be opened.

    Notes
    -----
    Known layouts: TRL completion logs, verl rollout and validation dumps, lm-evaluation-harness
    samples, EvalPlus and HumanEval results, LiveCodeBench, Inspect logs (JSON, and archives without
    zstd), openai-evals logs, and any table or nesting of prompts with flags, rewards or counts.
    Checked on real files in tests/test_rollouts.py and tests/test_rollout_logs.py.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/r.csv"
    ...     with open(path, "w") as file:
    ...         _ = file.write("prompt,reward\na,1\na,0\nb,1\nb,1\n")
    ...     rollouts = read_rollouts(path)
    >>> rollouts.n, rollouts.c
    (array([2, 2]), array([1, 2]))
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else path
    try:
        if hasattr(paths, "keys"):
            raise TypeError
        names = [os.fspath(p) for p in paths]
    except TypeError:
        raise ValueError(
            f"path must be a file, or a list of files; got a {type(path).__name__}. Rollouts in"
            " memory, such as a DataFrame, are audited by their counts, audit((n, c)), or written"
            " to a file first"
        ) from None
    if not names:
        raise ValueError("path must name at least one file")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name}: given twice, so its rollouts would count twice")
    called = ["standard input" if name == "-" else name for name in names]
    source = called[0] if len(called) == 1 else f"{called[0]} and {len(called) - 1} more"
    threshold = None if threshold is None else float(check.real("threshold", threshold))
    wanted = {"prompt": prompt, "reward": reward, "answer": answer, "step": step}
    asked = [name for name in (*wanted.values(), n, c, *(where or {})) if name]
    asked += [part.strip() for name in asked for part in name.split(",")]
    wanted["text"] = text
    try:
        with ExitStack() as open_files:
            table = gather(_all(names, open_files, progress), wanted, asked)
        if where:
            _filter(table, where)
        return Rollouts(source=source, **assemble(table, wanted, threshold, (n, c)))
    except ReadError:
        raise
    except RecursionError:
        raise ValueError(f"{source}: nested too deeply") from None
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(tuple(called)) else f"{source}: {text}") from None


def _all(names: list[str], open_files: ExitStack, progress: Progress | None) -> Any:
    for name in names:
        if os.path.isdir(name):
            raise ReadError(name, "is a directory; give its files")
        yield from parts(name, open_files, progress)


def _filter(table: Table, where: Mapping[str, str]) -> None:
    keep = np.ones(table.size, bool)
    for column, value in where.items():
        cells = table.columns[roles.find(table, "where", column)]
        keep &= np.array([label(cell) == str(value) for cell in cells])
    if not keep.any():
        raise ValueError(f"no rollout has {', '.join(f'{k}={v}' for k, v in where.items())}")
    rows = np.flatnonzero(keep)
    for name, cells in table.columns.items():
        table.columns[name] = [cells[i] for i in rows]
    table.names = [(int(np.searchsorted(rows, start)), p, lab) for start, p, lab in table.names]
    table.places = type(table.places)("q", [table.places[i] for i in rows])
    if table.text is not None:
        table.text = table.text.take(rows)
    if table.entry is not None:
        table.entry = type(table.entry)("q", [table.entry[i] for i in rows])
