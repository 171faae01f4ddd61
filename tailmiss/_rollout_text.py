"""The responses themselves: which field holds them, and where their text is kept while reading.

A file may hold more text than memory, and which groups are measured is known only at its end: texts
go to a temporary file (memory up to 64 MB), of which the chosen ones are read back.
"""

from __future__ import annotations

import tempfile
from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._rollout_names import CHATS, COMPLETIONS, label, rank
from ._rollout_shapes import flatten, matches

IN_MEMORY = 2**26
_BATCH = 256
_SPEAKERS = ("assistant", "model", "gpt", "ai", "bot")


class _Spool(tempfile.SpooledTemporaryFile[bytes]):
    """A temporary file that goes when the last table of its rollouts does."""

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, eq=False)
class Texts:
    """One response a rollout, read on demand; size is -1 where a rollout has none."""

    column: str
    file: Any
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    hash: NDArray[np.int64]

    @property
    def _arrays(self) -> tuple[NDArray[np.int64], ...]:
        return self.start, self.size, self.hash

    def take(self, rollouts: Any) -> Texts:
        """The responses of some of the rollouts."""
        return Texts(self.column, self.file, *(a[rollouts] for a in self._arrays))

    def read(self) -> list[str | None]:
        """The responses as strings."""
        return [self._one(s, n) for s, n in zip(self.start, self.size, strict=True)]

    def _one(self, start: int, size: int) -> str | None:
        if size < 0:
            return None
        self.file.seek(int(start))
        return str(self.file.read(int(size)).decode("utf-8", "surrogatepass"))


class TextStore:
    """Collects the responses of a file in the order of its rollouts."""

    def __init__(self, wanted: str | None = None) -> None:
        self.wanted = wanted
        self.file = _Spool(IN_MEMORY)
        self.columns: dict[str, None] = {}
        self.full = ""
        self._start, self._size, self._hash = array("q"), array("q"), array("q")
        self._end = 0
        self._waiting: list[bytes] = []

    def add(self, place: int, rollout: dict[str, Any], name: str | None) -> None:
        """Keep the text of the rollout with this place, which stands in the field `name`."""
        self.pad(place)
        value = None if name is None else rollout.get(name)
        if not isinstance(value, str) and name is not None:
            value = self._text(dig(rollout, name))
        if value is not None and name not in self.columns:
            self.columns[str(name)] = None
        self.append(value)

    def _text(self, value: Any) -> str | None:
        if self.wanted and isinstance(value, (bool, int, float)):
            return label(value)
        return response_text(value)

    def append(self, text: str | None) -> None:
        """Keep the next text."""
        if text is None or self.full:
            self._start.append(0)
            self._size.append(-1)
            self._hash.append(0)
            return
        data = text.encode("utf-8", "surrogatepass")
        self._start.append(self._end)
        self._size.append(len(data))
        self._hash.append(hash(text))
        self._end += len(data)
        self._waiting.append(data)
        if len(self._waiting) >= _BATCH:
            self._write()

    def _write(self) -> None:
        try:
            self.file.write(b"".join(self._waiting))
        except OSError as error:
            self.full = f"{tempfile.gettempdir()}: {error.strerror}"
        self._waiting.clear()

    def pad(self, rollouts: int) -> None:
        """Rollouts up to this number have no text unless they have one already."""
        while len(self._size) < rollouts:
            self.append(None)

    def finish(self, rollouts: int) -> Texts | None:
        """What was kept for so many rollouts; None where there was no text or no room for it."""
        self.pad(rollouts)
        self._write()
        start, size, hashes = (np.array(a, np.int64) for a in (self._start, self._size, self._hash))
        if self.full or not (size >= 0).any():
            return None
        return Texts(", ".join(self.columns), self.file, start, size, hashes)


def texts_of(answers: list[str | None], column: str) -> Texts | None:
    """Answers as responses, where a file holds nothing else."""
    store = TextStore()
    store.columns[column] = None
    for answer in answers:
        store.append(answer)
    return store.finish(len(answers))


def text_field(rollout: dict[str, Any], wanted: str | None = None) -> str | None:
    """Which field of a rollout holds its response: the one asked for, or the best by its name.

    A name that could be a chat's must hold a list.
    """
    if wanted is not None:
        return _asked(rollout, wanted)
    for name in _candidates(tuple(rollout)):
        value = rollout[name]
        chat = rank(name, COMPLETIONS) is None
        if not (chat and not isinstance(value, list)) and response_text(value) is not None:
            return name
    return None


@lru_cache(maxsize=4096)
def _candidates(names: tuple[str, ...]) -> list[str]:
    order = (*COMPLETIONS, *CHATS)
    ranked = [(at, n) for n in names if "." not in n and (at := rank(n, order)) is not None]
    return [name for _, name in sorted(ranked)]


def _asked(rollout: dict[str, Any], wanted: str) -> str | None:
    scalars, lists = flatten(rollout)
    names = [n for n in dict.fromkeys([*rollout, *scalars, *lists]) if matches(n, wanted)]
    if wanted in names:
        return wanted
    if len(names) > 1:
        raise ValueError(f"text {wanted!r} could be {', '.join(sorted(names))}; name it in full")
    return names[0] if names else None


def dig(record: Any, name: str) -> Any:
    """The value of a field by its dotted name."""
    if name in record:
        return record[name]
    for step in name.split("."):
        record = record.get(step) if isinstance(record, dict) else None
    return record


def response_text(value: Any) -> str | None:
    """The text of a response: a string, a chat's last assistant turn, the content of a message."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        inside = (value[name] for name in ("content", "value", "text", "message") if name in value)
        return next((text for item in inside if (text := response_text(item)) is not None), None)
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(item, dict) for item in value):
        return response_text(value[0]) if len(value) == 1 else None
    turns = [turn for turn in value if _speaker(turn) in _SPEAKERS]
    if turns:
        texts = (response_text(turn) for turn in reversed(turns))
        return next((text for text in texts if text is not None), None)
    if any(_speaker(turn) for turn in value):
        return None
    parts = [text for part in value if (text := response_text(part.get("text"))) is not None]
    return "".join(parts) if parts else None


def _speaker(turn: dict[str, Any]) -> str:
    return str(turn.get("role", turn.get("from", ""))).lower()
