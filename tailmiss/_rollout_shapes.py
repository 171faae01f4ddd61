"""From nested records to rollouts: where in a JSON value the rollouts lie, and what they belong to.

An *entry* is one record: a rollout, or a prompt that holds its rollouts as a list of objects or as
parallel lists. A prompt that holds its rollouts is a group by that alone, whatever its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._rollout_names import (
    CONTAINERS,
    METRICS,
    SUCCESSES,
    TOTALS,
    is_role,
    is_status,
    label,
    prompt_rank,
    rank,
    reward_rank,
)

Entry = tuple[str, dict[str, Any]]
Found = dict[str, list[Entry]]
_DEPTH = 6
_UNNAMED = 4


def flatten(record: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The scalars and the lists of a record, by dotted name."""
    scalars: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    stack = [("", record, 0)]
    while stack:
        prefix, value, depth = stack.pop()
        for key, item in value.items():
            name = f"{prefix}{key}"
            if isinstance(item, dict):
                if depth < _DEPTH:
                    stack.append((f"{name}.", item, depth + 1))
            elif isinstance(item, list):
                lists[name] = item
            else:
                scalars[name] = item
    return scalars, lists


def matches(name: str, wanted: str) -> bool:
    """Whether a dotted name is meant by what the user wrote: all of it or its last parts."""
    return name == wanted or name.endswith(f".{wanted}")


def quality(name: str, wanted: str | None) -> tuple[int, int] | None:
    """How well a field serves as the reward, less is better: by its name, then by its depth."""
    depth = name.count(".")
    if wanted is not None:
        return (0, depth) if matches(name, wanted) else None
    level = reward_rank(name)
    return None if level is None else (level, depth)


def inner(
    record: dict[str, Any], wanted: str | None = None, *, strict: bool = False
) -> tuple[str, tuple[str, ...]] | None:
    """How a record holds its rollouts: ("objects", (list,)), ("columns", lists), or not at all.

    Two lists that would serve as well as each other are an error where `strict`.
    """
    _, lists = flatten(record)
    options: list[tuple[tuple[int, int], str, tuple[str, ...]]] = []
    for name, items in lists.items():
        depth = name.count(".")
        if items and all(isinstance(item, dict) for item in items):
            names = {leaf for item in items[:20] for leaf in flatten(item)[0]}
            asked = wanted.removeprefix(f"{name}.") if wanted else None
            best = min((q for leaf in names if (q := quality(leaf, asked))), default=None)
            if best is not None:
                options.append(((best[0], depth + best[1]), "objects", (name,)))
        elif items and _is_column(items):
            best = quality(name, wanted)
            if best is None and wanted is None and all(isinstance(i, bool) for i in items):
                best = (_UNNAMED, depth)
            if best is not None:
                options.append((best, "columns", (name,)))
    if not options:
        return None
    options.sort()
    if options[0][0][0] == _UNNAMED and len(options) > 1:
        return None
    best_quality, kind, names_ = options[0]
    tied = [o[2][0] for o in options[1:] if o[0] == best_quality and o[1] == kind == "objects"]
    if tied and strict:
        both = ", ".join([names_[0], *tied])
        raise ValueError(f"rollouts stand in several lists ({both}); name the reward in full")
    if kind == "columns":
        size = len(lists[names_[0]])
        beside = (n for n, items in lists.items() if len(items) == size and n != names_[0])
        return kind, (*names_, *beside)
    return kind, names_


def _is_column(items: list[Any]) -> bool:
    """Whether a list holds one value for each rollout: scalars, verdicts, or test outcomes."""
    return all(
        not isinstance(item, (dict, list))
        or (isinstance(item, list) and (is_verdict(item) or _is_tests(item)))
        for item in items
    )


def is_verdict(item: list[Any]) -> bool:
    """["failed", details]: a verdict with something about it."""
    return bool(item) and is_status(item[0])


def _is_tests(item: list[Any]) -> bool:
    return all(isinstance(v, (bool, int, float)) for v in item)


def has_reward(record: dict[str, Any], wanted: str | None) -> bool:
    """Whether a record is a rollout with a reward, or counts of rollouts."""
    scalars, _ = flatten(record)
    if any(quality(name, wanted) for name in scalars):
        return True
    return any(rank(n, TOTALS) is not None for n in record) and any(
        rank(n, SUCCESSES) is not None for n in record
    )


def explode(
    record: dict[str, Any], how: tuple[str, tuple[str, ...]]
) -> tuple[dict[str, Any], Iterator[tuple[dict[str, Any], dict[str, Any]]]]:
    """The scalars of an entry, and its rollouts one by one: scalars, and all that one holds."""
    scalars, lists = flatten(record)
    kind, names = how
    if names[0] not in lists:
        raise ValueError(f"has no list {names[0]!r}, where the others keep their rollouts")
    if kind == "objects":
        items = lists[names[0]]
        if not all(isinstance(item, dict) for item in items):
            raise ValueError(f"{names[0]!r} holds something that is not an object")
        return scalars, ((flatten(item)[0], item) for item in items)
    size = len(lists[names[0]])
    for name in names[1:]:
        if name in lists and len(lists[name]) != size:
            raise ValueError(
                f"{name!r} has {len(lists[name])} values beside {size} of {names[0]!r}"
            )
    late = [n for n, items in lists.items() if n not in names and len(items) == size]
    names = (*names, *late)
    columns = [[_first(v) for v in lists.get(name, [None] * size)] for name in names]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return scalars, ((row, row) for row in rows)


def _first(item: Any) -> Any:
    return item[0] if isinstance(item, list) and is_verdict(item) else item


def entries(document: Any, wanted: str | None) -> Found:
    """Every collection of entries in a JSON value, by where it stands."""
    found: Found = {}
    if special := _live_code_bench(document):
        return {"": special}
    _collect(document, "", wanted, found)
    return found


def _collect(value: Any, path: str, wanted: str | None, found: Found) -> None:
    if isinstance(value, list):
        _collect_list(value, path, wanted, found)
    elif isinstance(value, dict):
        table = _table(value)
        if table is not None:
            found.setdefault(path, []).extend(table)
        elif keyed := _keyed(value, path, wanted):
            found.setdefault(path, []).extend(keyed)
        elif _is_entry(value, wanted):
            found.setdefault(path, []).append((path or "the record", value))
        else:
            before = len(found)
            for key, item in value.items():
                if isinstance(item, (dict, list)):
                    _collect(item, f"{path}.{key}" if path else key, wanted, found)
            if len(found) == before and has_reward(value, wanted):
                found.setdefault(path, []).append((path or "the record", value))


def _collect_list(value: list[Any], path: str, wanted: str | None, found: Found) -> None:
    if not value:
        return
    if all(isinstance(item, dict) for item in value):
        sample = value[:50]
        if any(has_reward(item, wanted) or inner(item, wanted) for item in sample):
            names = ((f"{path}[{i}]", item) for i, item in enumerate(value))
            found.setdefault(path, []).extend(names)
        else:
            for item in value:
                _collect(item, f"{path}[]", wanted, found)
    elif all(isinstance(item, list) and item and _is_column(item) for item in value):
        rows = ((f"{path}[{i}]", {"row": i, "flags": row}) for i, row in enumerate(value))
        found.setdefault(path, []).extend(rows)


def _is_entry(value: dict[str, Any], wanted: str | None) -> bool:
    """One prompt with its rollouts: parallel lists, or a list of objects beside a prompt's text."""
    how = inner(value, wanted)
    if how is None:
        return False
    depth = how[1][0].count(".")
    if how[0] == "columns":
        return depth == 0
    return depth == 0 and any((prompt_rank(name) or 0) < 2 for name in value if _names_prompt(name))


def _names_prompt(name: str) -> bool:
    return prompt_rank(name) is not None


def _table(value: dict[str, Any]) -> list[Entry] | None:
    """{"columns": [...], "data": [[...]]}, and {column: {row: value}}."""
    columns, data = value.get("columns"), value.get("data")
    if isinstance(columns, list) and isinstance(data, list):
        names = [str(name) for name in columns]
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice among 'columns'")
        if any(not isinstance(row, list) or len(row) != len(names) for row in data):
            raise ValueError("a row of 'data' does not fit its 'columns'")
        return [(f"data[{i}]", dict(zip(names, row, strict=True))) for i, row in enumerate(data)]
    series = list(value.values())
    if (
        len(series) > 1
        and all(isinstance(s, dict) and s.keys() == series[0].keys() for s in series)
        and any(quality(name, None) for name in value)
        and any(_names_prompt(name) for name in value)
        and all(not isinstance(v, (dict, list)) for s in series for v in s.values())
    ):
        rows = series[0]
        return [(f"row {row}", {name: value[name][row] for name in value}) for row in rows]
    return None


def _keyed(value: dict[str, Any], path: str, wanted: str | None) -> list[Entry]:
    """Objects whose keys are prompts rather than names of fields."""
    items = list(value.items())
    if transposed := {
        field: inside
        for field, inside in items
        if isinstance(inside, dict) and inside and _field(field, wanted) and _lists(inside)
    }:
        keys = list(dict.fromkeys(key for inside in transposed.values() for key in inside))
        return [
            (
                f"{path}[{key}]",
                {"key": key} | {f: i[key] for f, i in transposed.items() if key in i},
            )
            for key in keys
        ]
    if not items or any(_names_field(key, wanted) for key in value):
        return []
    if any(_is_section(key, inside) for key, inside in items):
        return []
    if all(isinstance(inside, bool) for _, inside in items):
        return [(f"{path}[{key}]", {"key": key, "flag": inside}) for key, inside in items]
    if _lists(value):
        return [
            (f"{path}[{key}]", {"key": key, ("rollouts" if _objects(i) else "flags"): i})
            for key, i in items
        ]
    if all(isinstance(inside, dict) for _, inside in items):
        sample = [inside for _, inside in items[:50]]
        if all(inside and all(isinstance(v, bool) for v in inside.values()) for inside in sample):
            return [
                (f"{path}[{key}]", {"key": key, "flags": list(inside.values())})
                for key, inside in items
            ]
        if any(has_reward(inside, wanted) or inner(inside, wanted) for inside in sample) and any(
            _shared(sample)
        ):
            return [(f"{path}[{key}]", {"key": key, **inside}) for key, inside in items]
    return []


def _names_field(key: str, wanted: str | None) -> bool:
    """Whether a key is the name of a reward, of a prompt or of a section rather than a prompt."""
    return (
        reward_rank(key) in (0, 1, 2)
        or prompt_rank(key) in (0, 1)
        or rank(key, CONTAINERS) is not None
        or (wanted is not None and matches(key, wanted))
    )


def _is_section(key: str, inside: Any) -> bool:
    """A list of rows that name their own prompts, or of training metrics."""
    if not isinstance(inside, list) or not _objects(inside):
        return False
    for row in inside[:20]:
        own = [label(v) for name, v in row.items() if prompt_rank(name) in (0, 1)]
        if METRICS & row.keys() or (own and key not in own):
            return True
    return False


def _shared(sample: list[dict[str, Any]]) -> set[str]:
    """Fields that all of the records have: without any, their keys are no prompts."""
    return set.intersection(*(set(record) for record in sample))


def _field(name: str, wanted: str | None) -> bool:
    return is_role(name) or (wanted is not None and matches(name, wanted))


def _objects(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) for item in items)


def _lists(value: dict[str, Any]) -> bool:
    """Whether every key has a list of rollouts: objects, flags, verdicts or test outcomes."""
    return all(
        isinstance(items, list) and (_objects(items) or _is_column(items))
        for items in value.values()
    ) and any(value.values())


def _live_code_bench(document: Any) -> list[Entry] | None:
    """[metrics, {question: [[outcome of each test], ...]}, ...]: passed where all tests did."""
    if (
        isinstance(document, list)
        and len(document) in (2, 3)
        and all(isinstance(part, dict) for part in document[:2])
        and "pass@1" in document[0]
        and _lists(document[1])
    ):
        results = document[1].items()
        return [(f"[1][{key}]", {"key": key, "flags": items}) for key, items in results]
    return None
