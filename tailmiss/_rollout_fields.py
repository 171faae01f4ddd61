"""Which fields the records of a table have: those that may matter, and those that come later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._rollout_names import COMPLETIONS, HARNESS, PROMPT_TEXTS, TOTALS, is_role, rank
from ._rollout_shapes import flatten

_SHAPES = 1000


def fields(record: dict[str, Any]) -> list[str]:
    """Names of the fields that may matter: scalars, and prompts or responses as lists."""
    names = flatten(record)[0]
    texts = [n for n in record if rank(n, PROMPT_TEXTS) is not None or _is_completion(n)]
    harness = [n for n in HARNESS if n in record] if "doc_id" in record else []
    return [
        n
        for n in dict.fromkeys([*names, *texts, *harness])
        if "." not in n or not _is_completion(n)
    ]


def _is_completion(name: str) -> bool:
    return rank(name, COMPLETIONS) is not None


class Shapes:
    """Which fields records have had so far, nested ones too."""

    def __init__(self, sample: list[dict[str, Any]]) -> None:
        self.names: set[str] = set()
        self.nested: set[str] = set()
        self._seen: set[tuple[Any, ...]] = set()
        for record in sample:
            self.add(record)

    def add(self, record: dict[str, Any]) -> None:
        self.names |= record.keys()
        self.nested |= {name for name, value in record.items() if isinstance(value, dict)}
        self._seen.add(_shape(record, self.nested))

    def knows(self, record: dict[str, Any]) -> bool:
        if len(self._seen) > _SHAPES:
            self._seen.clear()
        return _shape(record, self.nested) in self._seen


def _shape(record: dict[str, Any], nested: Iterable[str]) -> tuple[Any, ...]:
    """The names of the fields of the nested objects, and of those nested in them."""
    inside = ((name, record.get(name)) for name in nested)
    return tuple((n, *v, _shape(v, v)) for n, v in inside if isinstance(v, dict))


def first_values(sample: list[dict[str, Any]]) -> dict[str, Any]:
    """A record with the first value of every field that is not null."""
    values: dict[str, Any] = {}
    for record in reversed(sample):
        values.update((name, value) for name, value in record.items() if value is not None)
    return values


def may_be_late(name: str) -> bool:
    """Whether a column may begin in the middle of a file; counts of a whole prompt do not."""
    return is_role(name) and all(rank(name, names) is None for names in (TOTALS, HARNESS))
