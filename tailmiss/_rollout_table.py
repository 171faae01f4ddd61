"""Rollouts as columns: one list of values for each field that may matter."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from ._rollout_fields import Shapes, fields, first_values, may_be_late
from ._rollout_files import Part, ReadError
from ._rollout_names import COMPLETIONS, PROMPT_TEXTS, is_role, label, rank
from ._rollout_shapes import entries, explode, flatten, has_reward, inner, matches
from ._rollout_text import Texts, TextStore, dig, text_field

_SAMPLE = 200
_NUMBER = re.compile(r"([_-](sample|rollout|attempt|trial|run))?[_-]?\d+$")
Columns = dict[str, list[Any]]


@dataclass
class Table:
    """Columns over rollouts. `entry` numbers the record that held a rollout, where one held many.

    `shared` names the columns that belong to the entry rather than to the rollout; `other` are
    names of fields that were not kept.
    """

    columns: Columns = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)
    entry: array[int] | None = None
    entries: int = 0
    empty: int = 0
    places: array[int] = field(default_factory=lambda: array("q"))
    names: list[tuple[int, Part, list[str] | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    path: str = ""
    store: TextStore | None = None
    text: Texts | None = None

    @property
    def size(self) -> int:
        return len(self.places)

    def names_known(self) -> str:
        """The fields of the file, in words."""
        return _few([*self.columns, *sorted(self.other)], 30)

    def place(self, row: int) -> str:
        """Where a rollout stands, in words."""
        _, part, labels = [n for n in self.names if n[0] <= row][-1]
        number = self.places[row]
        if labels is not None:
            return f"{part.name}: {labels[number]}"
        return f"{part.name}: {part.kind} {number}"


def gather(parts: Iterable[Part], wanted: dict[str, str | None], asked: list[str]) -> Table:
    """All rollouts of the parts. `asked` are names that the user gave: they are kept whole.

    The text of responses is kept apart, unless `wanted` says "none" of it.
    """
    table = Table()
    if wanted["text"] != "none":
        table.store = TextStore(wanted["text"])
    reward = wanted["reward"].split(",")[0] if wanted["reward"] else None
    for part in parts:
        if part.kind == "document":
            _add_document(table, part, reward, asked)
        else:
            records = ((number, record_of(part, number, r)) for number, r in part.content)
            _add(table, part, records, None, reward, asked)
    if table.store is not None:
        table.text = table.store.finish(table.size)
        if table.store.full:
            table.notes.append(
                f"no room for the responses, so nothing is said of their diversity"
                f" ({table.store.full}); --no-text leaves them out"
            )
    return table


def record_of(part: Part, number: int, record: Any) -> dict[str, Any]:
    """A record of a part, which must have named fields."""
    if not isinstance(record, dict):
        what = f"an object with named fields is needed, not {type(record).__name__}"
        raise ReadError(part.name, what, f"{part.kind} {number}")
    return record


def _add_document(table: Table, part: Part, reward: str | None, asked: list[str]) -> None:
    try:
        found = entries(part.content, reward)
    except ValueError as error:
        raise ReadError(part.name, str(error)) from None
    if not found:
        raise ReadError(part.name, _nothing(part.content, reward))
    if len(found) > 1:
        places = ", ".join(repr(path) for path in found)
        raise ReadError(part.name, f"rollouts stand in several places ({places}); keep one")
    [(path, rows)] = found.items()
    table.path = path
    labels = [label for label, _ in rows]
    _add(table, part, ((i, r) for i, (_, r) in enumerate(rows)), labels, reward, asked)


def _nothing(document: Any, reward: str | None) -> str:
    what = f"a field {reward!r}" if reward else "a reward, a score or a flag of correctness"
    if not document:
        return "holds no rollouts"
    if isinstance(document, dict):
        return f"no rollouts: {what} is missing; its fields are {_few(document)}"
    if isinstance(document, list) and isinstance(document[0], dict):
        return f"no rollouts: {what} is missing; the fields are {_few(document[0])}"
    return f"no rollouts: {what} is missing"


def _few(names: Iterable[Any], most: int = 12) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _add(
    table: Table,
    part: Part,
    records: Iterator[tuple[int, dict[str, Any]]],
    labels: list[str] | None,
    reward: str | None,
    asked: list[str],
) -> None:
    if part.member:
        file = _of_member(part)
        records = ((number, {**file, **record}) for number, record in records)
    sample = list(islice(records, _SAMPLE))
    if not sample:
        raise ReadError(part.name, "holds no rollouts")
    records = chain(sample, records)
    table.names.append((table.size, part, labels))
    try:
        how = _how([record for _, record in sample], reward)
    except ValueError as error:
        raise ReadError(part.name, str(error)) from None
    if how is None:
        if table.entry is not None:
            raise ReadError(part.name, "holds rollouts one by one, the files before it by prompt")
        _add_flat(table, records, [record for _, record in sample], part, asked)
        return
    if table.entry is None:
        if table.size:
            raise ReadError(part.name, "holds rollouts by prompt, the files before it one by one")
        table.entry = array("q")
    _add_entries(table, part, records, how, labels, asked)


def _of_member(part: Part) -> dict[str, str]:
    """The folder and the name of an archive's member, which may tell prompts apart.

    The number that ends the name of a lone rollout is the rollout's.
    """
    folder, _, file = part.member.rpartition("/")
    file = file.split(".", 1)[0]
    if isinstance(part.content, dict):
        file = _NUMBER.sub("", file)
    return {"folder": folder, "file": file}


def _how(sample: list[dict[str, Any]], reward: str | None) -> Any:
    """How most records hold their rollouts; None where each record is one."""
    ways = [way for record in sample if (way := _way(record, reward)) is not None]
    return ways[0] if 2 * len(ways) > len(sample) else None


def _way(record: dict[str, Any], reward: str | None) -> Any:
    how = inner(record, reward, strict=True)
    if how is None:
        return None
    if reward is None:
        return None if how[0] == "columns" and _plain_reward(record) else how
    return None if any(matches(name, reward) for name in flatten(record)[0]) else how


def _plain_reward(record: dict[str, Any]) -> bool:
    """A top-level reward beside lists: the record is one rollout, the lists are about its parts."""
    top = {name: v for name, v in record.items() if not isinstance(v, (dict, list))}
    return has_reward(top, None) and not (set(top) & {"n", "c", "k", "total"})


def _add_flat(
    table: Table,
    records: Iterator[tuple[int, dict[str, Any]]],
    sample: list[dict[str, Any]],
    part: Part,
    asked: list[str],
) -> None:
    flat: dict[str, None] = {}
    for record in sample:
        flat.update(dict.fromkeys(fields(record)))
    if table.size and not table.columns.keys() & flat.keys():
        raise ReadError(part.name, f"has other columns ({_few(flat)}) than the files before it")
    trl = {"step", "prompt", "completion", "advantage"} <= flat.keys()
    keep = [n for n in flat if trl or is_role(n) or _asked(n, asked)]
    keep += [n for n in table.columns if n not in keep]
    keep = [n for n in keep if not (trl and n == "advantage")]
    table.other |= flat.keys() - set(keep)
    for name in keep:
        table.columns.setdefault(name, [None] * table.size)
    getters = [_getter(table, name, asked) for name in keep]
    store, number_of = table.store, table.places.append
    text = None if store is None else text_field(first_values(sample), store.wanted)
    late: dict[str, str] = {}
    shapes = Shapes(sample)
    for number, record in records:
        number_of(number)
        if not (shapes.names >= record.keys()) or (shapes.nested and not shapes.knows(record)):
            new = [name for name in fields(record) if name not in flat]
            flat.update(dict.fromkeys(new))
            for name in new:
                if not (trl or _asked(name, asked) or may_be_late(name)):
                    table.other.add(name)
                    continue
                late[name] = table.place(table.size - 1)
                table.columns[name] = [None] * (table.size - 1)
                getters.append(_getter(table, name, asked))
            if store is not None and text is None:
                text = text_field(record, store.wanted)
            shapes.add(record)
        for append, name, nested, read in getters:
            value = record.get(name)
            if value is None and nested:
                value = dig(record, name)
            append(value if value is None else read(value))
        if store is not None and text is not None:
            store.add(table.size - 1, record, text)
    _settle(table, late, asked)


def _getter(table: Table, name: str, asked: list[str]) -> tuple[Any, str, bool, Any]:
    return table.columns[name].append, name, "." in name, _reader(name, asked)


def _settle(table: Table, late: dict[str, str], asked: list[str]) -> None:
    """Say which columns began late, and leave out those that most rollouts lack."""
    for name, place in late.items():
        held = sum(value is not None for value in table.columns[name])
        note = f"{name!r} first appears at {place} and is in {held} of {table.size} rollouts"
        if 2 * held < table.size and not _asked(name, asked):
            del table.columns[name]
            table.other.add(name)
            note += ": left out; naming it as an option takes it"
        table.notes.append(note)


def _asked(name: str, asked: list[str]) -> bool:
    return any(matches(name, wanted) for wanted in asked)


def _reader(name: str, asked: list[str]) -> Any:
    """Prompts are stored once, completions as a hash: only their equality matters."""
    if name == "resps":
        return _repeats
    if rank(name, COMPLETIONS) is not None and not _asked(name, asked):
        return lambda value: hash(label(value))
    if rank(name, PROMPT_TEXTS) is not None or _asked(name, asked):
        seen: dict[Any, Any] = {}

        def once(value: Any) -> Any:
            value = label(value) if isinstance(value, (dict, list)) else value
            return seen.setdefault(value, value)

        return once
    return lambda value: value


def _repeats(responses: Any) -> int:
    """Responses to one request; a multiple choice is many requests with one response each."""
    if isinstance(responses, list) and len(responses) == 1 and isinstance(responses[0], list):
        return len(responses[0])
    return 1


def _add_entries(
    table: Table,
    part: Part,
    records: Iterator[tuple[int, dict[str, Any]]],
    how: tuple[str, tuple[str, ...]],
    labels: list[str] | None,
    asked: list[str],
) -> None:
    assert table.entry is not None
    readers: dict[str, Any] = {}
    names: dict[tuple[str, ...], str | None] = {}
    store, list_of = table.store, f"{how[1][0]}." if how[0] == "objects" else ""
    for number, record in records:
        try:
            shared, rollouts = explode(record, how)
        except ValueError as error:
            place = labels[number] if labels else f"{part.kind} {number}"
            raise ReadError(part.name, str(error), place) from None
        start = table.size
        for row, whole in rollouts:
            if store is not None:
                if names.get(shape := tuple(whole)) is None:
                    wanted = store.wanted and store.wanted.removeprefix(list_of)
                    names[shape] = text_field(whole, wanted)
                store.add(table.size, whole, names[shape])
            for name, value in row.items():
                if name not in table.columns:
                    table.columns[name] = [None] * table.size
                    readers[name] = _reader(name, asked)
                if name not in readers:
                    readers[name] = _reader(name, asked)
                read = readers[name]
                table.columns[name].append(value if value is None else read(value))
            table.places.append(number)
            table.entry.append(table.entries)
            _level(table, table.size)
        table.empty += table.size == start
        for name, value in shared.items():
            if name in table.columns and name not in table.shared:
                continue
            if is_role(name) or _asked(name, asked):
                table.shared.add(name)
                column = table.columns.setdefault(name, [None] * start)
                column[start:] = [value] * (table.size - start)
        _level(table, table.size)
        table.entries += 1


def _level(table: Table, size: int) -> None:
    for column in table.columns.values():
        if len(column) < size:
            column.extend([None] * (size - len(column)))
