"""Which column is what. Where the file does not say, an error lists the choices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._rollout_names import (
    ANSWERS,
    EPOCHS,
    MEMBER,
    METRICS,
    NO_REWARD,
    PROMPT_IDS,
    PROMPT_LAST,
    PROMPT_TEXTS,
    STEPS,
    SUCCESSES,
    TOTALS,
    label,
    plain,
    prompt_rank,
    rank,
    reward_number,
)
from ._rollout_shapes import matches, quality
from ._rollout_table import Table

Array = NDArray[np.float64]


def find(table: Table, role: str, wanted: str) -> str:
    """The column that the user named."""
    names = [name for name in table.columns if matches(name, wanted)]
    if wanted in names:
        return wanted
    if len(names) == 1:
        return names[0]
    known = ", ".join([*table.columns, *sorted(table.other)])
    if names:
        raise ValueError(f"{role} {wanted!r} could be {', '.join(names)}; name it in full")
    raise ValueError(f"no column {wanted!r} for the {role}; there are {known}")


def rewards(table: Table, name: str) -> Array:
    """A column as numbers, NaN where it holds none."""
    values = np.empty(table.size)
    for row, value in enumerate(table.columns[name]):
        try:
            values[row] = reward_number(value)
        except NO_REWARD:
            text = repr(value)
            text = text if len(text) <= 40 else f"{text[:37]}..."
            raise ValueError(f"{table.place(row)}: {name!r} is no reward: {text}") from None
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise ValueError(f"{table.place(row)}: {name!r} is infinite")
    return values


def choose_reward(table: Table, wanted: str | None) -> tuple[str, Array, list[str]]:
    """The reward column, its numbers, and what to say about the columns beside it."""
    if wanted is not None:
        whole = wanted in table.columns or "," not in wanted
        names = [
            find(table, "reward", w.strip()) for w in ([wanted] if whole else wanted.split(","))
        ]
        return ",".join(names), np.min([rewards(table, name) for name in names], axis=0), []
    found = sorted((q, name) for name in _rollout_columns(table) if (q := _quality(table, name)))
    held = {name: sum(v is not None for v in table.columns[name]) for _, name in found}
    most = max(held.values(), default=0)
    usable = [
        (q, name) for q, name in found if 2 * held[name] > most and _reads_as_reward(table, name)
    ]
    if not usable:
        if found:
            rewards(table, found[0][1])
        raise _missing(table, "a reward or flag of correctness for each rollout", "reward")
    best = [name for q, name in usable if q == usable[0][0]]
    values = {name: rewards(table, name) for name in best}
    name = best[0]
    for other in best[1:]:
        if not np.array_equal(values[name], values[other], equal_nan=True):
            raise ValueError(
                f"{' and '.join(best)} could each be the reward, and they differ;"
                " choose one with --reward"
            )
    others = [other for _, other in usable if other not in best]
    notes = []
    if others:
        if {name, *others} >= {"base", "plus"} or "plus_status" in others:
            others.append(f"{name},{others[0]} (both, as EvalPlus scores its plus tests)")
        notes.append(f"took {name!r} as the reward; --reward takes another: {', '.join(others)}")
    return name, values[name], notes


def _rollout_columns(table: Table) -> list[str]:
    return [name for name in table.columns if name not in table.shared]


def _quality(table: Table, name: str) -> tuple[int, int] | None:
    listed = table.columns.get("metrics")
    if listed and "doc_id" in table.columns and isinstance(listed[0], (list, str)):
        return (0, listed[0].index(name)) if name in listed[0] else None
    if {"prompt", "completion", "step"} <= table.columns.keys() and table.size:
        found = quality(name, None)
        known = prompt_rank(name) is not None or name in ("completion", "step", "answer")
        return found or (None if known or not _numeric(table, name) else (3, 0))
    return quality(name, None)


def _numeric(table: Table, name: str) -> bool:
    values = [v for v in table.columns[name] if v is not None]
    return bool(values) and all(isinstance(v, (bool, int, float)) for v in values[:50])


def _reads_as_reward(table: Table, name: str) -> bool:
    """Whether a column whose name fits holds numbers or verdicts at all."""
    values = [v for v in table.columns[name] if v is not None][:50]
    readable = 0
    for value in values:
        try:
            reward_number(value)
            readable += 1
        except NO_REWARD:
            continue
    return 2 * readable > len(values)


def _missing(table: Table, what: str, option: str) -> ValueError:
    names = ", ".join([*table.columns, *sorted(table.other)][:15])
    if METRICS & table.other:
        return ValueError(f"holds training metrics, not rollouts: {what} is missing ({names})")
    return ValueError(f"{what} is missing; name its column with --{option}: {names}")


def choose_counts(table: Table, total: str | None, successes: str | None) -> tuple[str, str] | None:
    """The columns of (prompt, n, c) where rows are prompts; None where rows are rollouts."""
    chosen = []
    for role, names, wanted, what in (
        ("n", TOTALS, total, "a number of rollouts"),
        ("c", SUCCESSES, successes, "a number of successes"),
    ):
        if wanted is not None:
            chosen.append(find(table, role, wanted))
            continue
        fits = sorted((r, n) for n in table.columns if (r := rank(n, names)) is not None)
        if not fits and (total or successes):
            raise _missing(table, f"{what} for each prompt", role)
        if not fits:
            return None
        differing = [n for _, n in fits if table.columns[n] != table.columns[fits[0][1]]]
        exact = fits[0][0] == 0
        others = [n for n in differing if n not in ("k", *chosen)]
        if others and not exact:
            raise ValueError(
                f"{fits[0][1]} and {', '.join(others)} could each be {role}; choose with --{role}"
            )
        chosen.append(fits[0][1])
    return chosen[0], chosen[1]


def prompt_of_counts(
    table: Table, wanted: str | None, chosen: tuple[str, str]
) -> tuple[str, list[Any], list[str]]:
    """As `choose_prompt`, where a row is a prompt: a table of n and c alone needs no names."""
    if wanted is None and not table.other and set(table.columns) == set(chosen):
        return "row", [str(row) for row in range(table.size)], []
    name, keys, notes = choose_prompt(table, wanted)
    if wanted is None and plain(name).endswith("s") and all(key and key.isdigit() for key in keys):
        raise ValueError(
            f"{name!r} may number the prompts or say how many share the counts; with --prompt"
            f" {name} it numbers them"
        )
    return name, keys, notes


def choose_prompt(table: Table, wanted: str | None) -> tuple[str, list[Any], list[str]]:
    """A name for the grouping, the group key of every rollout, and warnings."""
    if wanted is not None:
        return _named_prompt(table, wanted)
    if table.entry is not None:
        return _entry_prompt(table)
    names = _prompt_columns(table, [*table.columns])
    distinct = {name: len({label(v) for v in table.columns[name]}) for name in names}
    if table.names[0][1].member:
        names = [n for n in names if n not in MEMBER or n in _of_members(table, distinct)]
    if not names:
        raise _missing(table, "what tells prompts apart", "prompt")
    name = names[0]
    if distinct[name] == table.size and table.size > 1:
        coarser = [n for n in names if 2 * distinct[n] <= table.size and distinct[n] > 0]
        if coarser:
            name = coarser[0]
    return name, _keys(table, name), _two_names(table, name, names)


def _of_members(table: Table, distinct: dict[str, int]) -> list[str]:
    """Which of folder and file name tells prompts apart in an archive of one file a rollout."""
    vary = [n for n in MEMBER if distinct.get(n, 0) > 1]
    if len(table.names) < table.size:
        return []
    if len(vary) > 1:
        pairs = set(zip(*(table.columns[n] for n in vary), strict=True))
        vary = [n for n in vary if distinct[n] == len(pairs)][:1]
    return vary


def _prompt_columns(table: Table, names: list[str]) -> list[str]:
    order = (*PROMPT_IDS, *PROMPT_TEXTS, *PROMPT_LAST)
    ranked = sorted(
        (rank(name, order), name.count("."), name)
        for name in names
        if prompt_rank(name) is not None
        and 2 * sum(v is not None for v in table.columns[name]) > table.size
    )
    return [name for _, _, name in ranked]


def _named_prompt(table: Table, wanted: str) -> tuple[str, list[Any], list[str]]:
    if "," in wanted and wanted not in table.columns:
        names = [find(table, "prompt", part.strip()) for part in wanted.split(",")]
        keys = [_keys(table, name) for name in names]
        return ", ".join(names), ["|".join(map(str, key)) for key in zip(*keys, strict=True)], []
    name = find(table, "prompt", wanted)
    return name, _keys(table, name), []


def _keys(table: Table, name: str) -> list[Any]:
    """The column as text; an empty cell names nothing."""
    return [label(value) or None for value in table.columns[name]]


def _entry_prompt(table: Table) -> tuple[str, list[Any], list[str]]:
    entry = list(table.entry or [])
    own = _prompt_columns(table, _rollout_columns(table))
    own = [n for n in own if prompt_rank(n) in (0, 1)]
    for name in own:
        keys = _keys(table, name)
        if len(set(zip(entry, keys, strict=True))) > len(set(entry)):
            return name, keys, []
    named = _prompt_columns(table, sorted(table.shared))
    if not named and table.entries == 1 and not table.shared and not _single_source(table):
        raise ValueError(
            "nothing tells prompts apart: these may be rollouts of one prompt or of many;"
            " a column or a field beside them must name the prompt"
        )
    if "key" in named and table.entries == len(set(_keys(table, "key"))):
        return "key", _keys(table, "key"), []
    notes = []
    for name in named:
        texts = len(set(_keys(table, name)))
        if texts < table.entries and rank(name, PROMPT_TEXTS) is not None:
            notes.append(
                f"{table.entries} entries hold {texts} different values of {name!r}; each entry is"
                f" a prompt of its own (--prompt {name} pools equal ones)"
            )
    where = table.path or "record"
    return f"entry of {where}" + (f" ({named[0]})" if named else ""), entry, notes


def _single_source(table: Table) -> bool:
    """Whether a lone record says anything about itself, as a single prompt does."""
    _, part, _ = table.names[0]
    value = part.content
    return isinstance(value, dict) and any(not isinstance(v, (dict, list)) for v in value.values())


def _two_names(table: Table, name: str, names: list[str]) -> list[str]:
    """Warn where ids and texts group rollouts differently; refuse where an id has many texts."""
    others = [n for n in names if rank(n, PROMPT_TEXTS) is not None and "." not in n and n != name]
    if name == "doc_id" and "doc_hash" in table.columns:
        others.insert(0, "doc_hash")
    if rank(name, PROMPT_TEXTS) is not None:
        return _ids_of_equal_texts(table, name, names)
    if not others:
        return []
    keys, texts = _keys(table, name), _keys(table, others[0])
    pairs = set(zip(keys, texts, strict=True))
    if len(pairs) > len(set(keys)):
        raise ValueError(
            f"one {name!r} stands with several values of {others[0]!r}; say which one tells"
            f" prompts apart: --prompt {name} or --prompt {others[0]}"
        )
    if len(set(texts)) < len(set(keys)) and others[0] != "doc_hash":
        return [
            f"{len(set(keys))} values of {name!r} hold {len(set(texts))} of {others[0]!r}; grouped"
            f" by {name!r} (--prompt {others[0]} pools equal ones)"
        ]
    return []


def _ids_of_equal_texts(table: Table, name: str, names: list[str]) -> list[str]:
    """Warn where rollouts of several ids, each with one text, are pooled by their equal texts."""
    texts = _keys(table, name)
    for other in names:
        ids = _keys(table, other)
        finer = len(set(zip(ids, texts, strict=True))) == len(set(ids)) > len(set(texts))
        if finer and len(set(ids)) < table.size:
            return [
                f"{len(set(ids))} values of {other!r} hold {len(set(texts))} of {name!r}; grouped"
                f" by {name!r} (--prompt {other} keeps them apart)"
            ]
    return []


def choose_step(table: Table, wanted: str | None) -> str | None:
    """The training step of each rollout, if there is one."""
    if wanted is not None:
        return None if wanted == "none" else find(table, "step", wanted)
    fits = sorted((r, n) for n in table.columns if (r := rank(n, STEPS)) is not None)
    return fits[0][1] if fits and fits[0][1].count(".") == 0 else None


def pooled_epochs(table: Table, keys: list[Any], kept: NDArray[Any]) -> list[str]:
    """Warn where epochs hold several rollouts of a prompt: of one alone it numbers the rollouts."""
    for name in [n for n in table.columns if rank(n, EPOCHS) is not None]:
        epochs = [label(table.columns[name][i]) for i in kept]
        pairs = set(zip(keys, epochs, strict=True))
        if len(set(epochs)) > 1 and len(set(keys)) < len(pairs) < len(keys):
            return [f"rollouts of {len(set(epochs))} epochs are pooled; --step {name} parts them"]
    return []


def choose_answer(table: Table, wanted: str | None) -> str | None:
    """The column of model answers, if there is one; never the reference answer."""
    if wanted is not None:
        return find(table, "answer", wanted)
    names = [name for name in _rollout_columns(table) if "." not in name]
    fits = sorted((r, name) for name in names if (r := rank(name, ANSWERS)) is not None)
    return fits[0][1] if fits else None


def is_reference(answers: list[Any], group: NDArray[Any], success: Array) -> bool:
    """Whether an "answer" never varies within a prompt although success does: the gold answer."""
    first: dict[int, Any] = {}
    mixed: dict[int, set[float]] = {}
    for g, answer, flag in zip(group.tolist(), answers, success.tolist(), strict=True):
        if first.setdefault(g, answer) != answer:
            return False
        mixed.setdefault(g, set()).add(flag)
    return any({0.0, 1.0} <= flags for flags in mixed.values())
