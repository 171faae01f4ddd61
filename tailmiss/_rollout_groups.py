"""From columns to groups: rewards become successes, rows become the rollouts of a prompt."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _rollout_roles as roles
from ._rollout_names import COMPLETIONS, FLAGS, SUCCESSES, TOTALS, is_status, label, rank
from ._rollout_table import Table
from ._rollout_text import Texts, texts_of

Array = NDArray[Any]
_MOST = 10**12


def assemble(
    table: Table,
    wanted: dict[str, str | None],
    threshold: float | None,
    counts: tuple[str | None, str | None],
) -> dict[str, Any]:
    """The fields of `Rollouts` but its source."""
    if not table.size:
        raise ValueError("holds no rollouts")
    notes = list(table.notes)
    if table.entry is None and wanted["reward"] is None:
        found = _as_counts(table, wanted, counts)
        if found is not None:
            for role in ("answer", "text"):
                if wanted[role] not in (None, "none"):
                    what = f"there is no {role} {wanted[role]!r}"
                    raise ValueError(f"holds counts, no responses: {what}")
            return found
    if any(counts):
        raise ValueError("n and c are for a table of counts: one row a prompt, no reward")
    _refuse_filters(table)
    reward_name, reward, more = roles.choose_reward(table, wanted["reward"])
    notes += more
    prompt_name, keys, more = roles.choose_prompt(table, wanted["prompt"])
    notes += more
    kept = _drop_summaries(table, keys, reward, reward_name, prompt_name, notes)
    keys, reward = [keys[i] for i in kept], reward[kept]
    step_name = roles.choose_step(table, wanted["step"])
    steps = None
    if step_name is not None:
        steps = [label(table.columns[step_name][i]) or None for i in kept]
        if None in steps:
            row = int(kept[steps.index(None)])
            raise ValueError(f"{table.place(row)}: no step in {step_name!r}; --step none pools all")
    threshold = _threshold(reward, threshold, reward_name)
    notes += _reward_notes(table, reward, threshold, reward_name)
    if any(isinstance(v, list) for v in table.columns.get(reward_name, ())):
        notes.append("a list of test outcomes is a success where all of them are above 0")
    if steps is None and len(table.names) > 1 and not table.names[0][1].member:
        notes.append(f"{len(table.names)} files read as one: rollouts of equal prompts are pooled")
    if step_name is None and wanted["step"] is None:
        notes += roles.pooled_epochs(table, keys, kept)
    group, prompts, step_of = _groups(keys, steps)
    scored = ~np.isnan(reward)
    hit = scored & (reward >= threshold)
    size = len(prompts)
    n = np.bincount(group[scored], minlength=size)
    c = np.bincount(group[hit], minlength=size)
    unscored = np.bincount(group[~scored], minlength=size)
    if not n.any():
        raise ValueError(f"no rollout has a number in {reward_name!r}")
    answer_name = roles.choose_answer(table, wanted["answer"])
    answers = None
    if wanted["answer"] is not None and answer_name in prompt_name.split(","):
        raise ValueError(f"{answer_name!r} is the prompt, so it cannot be the answer too")
    if answer_name is not None:
        answers = [label(table.columns[answer_name][i]) for i in kept]
        flags = np.where(scored, hit, np.nan)
        plain = answer_name.startswith("answer") and wanted["answer"] is None
        if plain and roles.is_reference(answers, group, flags):
            answers = answer_name = None
    text = _text(table, wanted["text"], kept, group, np.where(scored, hit, np.nan), notes)
    if text is None and wanted["text"] is None and answers is not None:
        text = texts_of(answers, str(answer_name))
    notes += _count_notes(table, n, unscored, reward_name)
    notes += _other_counts(table, kept, group, n, c)
    return {
        "format": _format(table),
        "prompt": np.array(prompts, dtype=object),
        "step": None if step_of is None else np.array(step_of, dtype=object),
        "n": n,
        "c": c,
        "unscored": unscored,
        "group": group,
        "reward": reward,
        "answer": None if answers is None else np.array(answers, dtype=object),
        "text": text,
        "identical": _identical(table, kept, group, n, c),
        "columns": {
            "prompt": prompt_name,
            "reward": reward_name,
            "answer": answer_name,
            "step": step_name,
        },
        "threshold": threshold,
        "warnings": tuple(notes),
    }


def _text(
    table: Table, wanted: str | None, kept: Array, group: Array, success: Array, notes: list[str]
) -> Texts | None:
    """The responses of the rollouts kept, unless they are the reference solution."""
    if table.text is None:
        if wanted not in (None, "none") and not (table.store and table.store.full):
            raise ValueError(
                f"no rollout has a text in {wanted!r}; there are {table.names_known()}"
            )
        return None
    text = table.text.take(kept)
    several = np.unique(text.hash[text.size >= 0]).size > 1
    if wanted is None and several and roles.is_reference(text.hash.tolist(), group, success):
        notes.append(
            f"{text.column!r} is the same for all rollouts of a prompt although success varies: a"
            f" reference, it seems, and not the responses (--text {text.column} takes it)"
        )
        return None
    return text


def _drop_summaries(
    table: Table,
    keys: list[Any],
    reward: Array,
    reward_name: str,
    prompt_name: str,
    notes: list[str],
) -> Array:
    """Rows that are rollouts; a row with neither prompt nor reward is a header or a summary."""
    no_prompt = np.array([key is None for key in keys], bool)
    stray = no_prompt & np.isnan(reward)
    if (no_prompt & ~stray).any():
        row = int(np.argmax(no_prompt & ~stray))
        raise ValueError(f"{table.place(row)}: no prompt in {prompt_name!r}")
    if stray.sum() > max(1, table.size // 10):
        row = int(np.argmax(stray))
        raise ValueError(f"{table.place(row)}: neither {prompt_name!r} nor {reward_name!r}")
    if stray.any():
        row = int(np.argmax(stray))
        notes.append(
            f"{int(stray.sum())} row(s) without prompt and reward left out, the first at"
            f" {table.place(row)}"
        )
    return np.flatnonzero(~stray)


def _threshold(reward: Array, threshold: float | None, name: str) -> float:
    values = Counter(reward[~np.isnan(reward)].tolist())
    if threshold is not None:
        return threshold
    if set(values) <= {0.0, 1.0} or set(values) <= {-1.0, 1.0}:
        return 1.0
    common = sorted(values.items(), key=lambda item: (-item[1], item[0]))[:8]
    seen = ", ".join(f"{value:g} ({count}x)" for value, count in sorted(common))
    more = f" and {len(values) - 8} other values" if len(values) > 8 else ""
    raise ValueError(
        f"rewards in {name!r} are not binary: {seen}{more}; say what a success is with --threshold"
    )


def _reward_notes(table: Table, reward: Array, threshold: float, name: str) -> list[str]:
    """Words among numbers, and a threshold that nothing reaches."""
    notes = []
    cells = table.columns.get(name, [])
    texts = Counter(cell for cell in cells if isinstance(cell, str))
    words = [text for text in texts if is_status(text)]
    number = sum(texts[text] for text in words)
    if 0 < number < np.count_nonzero(~np.isnan(reward)):
        shown = ", ".join(map(repr, sorted(words)[:3]))
        notes.append(f"{number} reward(s) in {name!r} are words ({shown}): read as 1 or 0")
    largest = float(np.nanmax(reward, initial=-np.inf))
    if -np.inf < largest < threshold:
        notes.append(f"no reward in {name!r} reaches {threshold:g}: the largest is {largest:g}")
    return notes


def _groups(
    keys: list[Any], steps: list[Any] | None
) -> tuple[Array, list[str], list[str | None] | None]:
    """Number the groups in order of appearance."""
    pairs: list[Any] = keys if steps is None else list(zip(steps, keys, strict=True))
    number: dict[Any, int] = {}
    group = np.array([number.setdefault(pair, len(number)) for pair in pairs], dtype=np.int64)
    if steps is None:
        return group, [str(key) for key in number], None
    return group, [str(key) for _, key in number], [step for step, _ in number]


def _identical(table: Table, kept: Array, group: Array, n: Array, c: Array) -> int:
    """Groups of at least two, all right or all wrong, that hold one text many times."""
    names = sorted((r, x) for x in table.columns if (r := rank(x, COMPLETIONS)) is not None)
    names = [(r, x) for r, x in names if x not in table.shared]
    if not names:
        return 0
    texts = table.columns[names[0][1]]
    distinct: dict[int, set[Any]] = {}
    for g, row in zip(group.tolist(), kept.tolist(), strict=True):
        distinct.setdefault(g, set()).add(texts[row])
    same = [g for g, seen in distinct.items() if len(seen) == 1 and None not in seen]
    return sum(1 for g in same if n[g] > 1 and c[g] in (0, n[g]))


def _count_notes(table: Table, n: Array, unscored: Array, reward_name: str) -> list[str]:
    notes = []
    if missing := int(unscored.sum()):
        notes.append(f"{missing} rollouts without a number in {reward_name!r} are unscored")
    if empty := int((n == 0).sum()) + table.empty:
        notes.append(f"{empty} prompts without a scored rollout are left out")
    repeats = [r for r in table.columns.get("resps", ()) if isinstance(r, int)]
    if (most := max(repeats, default=1)) > 1:
        notes.append(f"{most} responses to a prompt but one score: {most - 1} are unscored, n = 1")
    return notes


def _other_counts(table: Table, kept: Array, group: Array, n: Array, c: Array) -> list[str]:
    """Where a prompt also states its counts, and they are not those of its rollouts."""
    notes = []
    first = kept[np.unique(group, return_index=True)[1]]
    for name in sorted(table.shared):
        for names, counted in ((TOTALS[:-1], n), (SUCCESSES, c)):
            if rank(name, names) is None:
                continue
            stated = [table.columns[name][row] for row in first]
            if all(isinstance(v, int) and not isinstance(v, bool) for v in stated):
                off = int((np.array(stated) != counted).sum())
                if off:
                    notes.append(
                        f"{name!r} differs from the rollouts in {off} prompts; the rollouts count"
                    )
    return notes


def _refuse_filters(table: Table) -> None:
    """lm-evaluation-harness scores each document once for every filter."""
    filters = table.columns.get("filter")
    if filters and "doc_id" in table.columns:
        names = sorted({str(f) for f in filters})
        if len(names) > 1:
            raise ValueError(
                f"every document is scored by {len(names)} filters ({', '.join(names)}); choose one"
                f" with --where filter={names[0]}"
            )


def _as_counts(
    table: Table, wanted: dict[str, str | None], counts: tuple[str | None, str | None]
) -> dict[str, Any] | None:
    """The table as counts of successes, where each row is a prompt with n and c."""
    chosen = roles.choose_counts(table, *counts)
    if chosen is None:
        return None
    prompt_name, keys, notes = roles.prompt_of_counts(table, wanted["prompt"], chosen)
    if None in keys:
        raise ValueError(f"{table.place(keys.index(None))}: no prompt in {prompt_name!r}")
    step_name = roles.choose_step(table, wanted["step"])
    steps = None if step_name is None else [label(v) for v in table.columns[step_name]]
    group, prompts, step_of = _groups(keys, steps)
    asked = any(counts)
    if len(prompts) < table.size and not asked:
        return None
    if not asked and any(isinstance(v, bool) for v in table.columns[chosen[1]]):
        return None
    numbers = []
    for name in chosen:
        values = roles.rewards(table, name)
        bad = ~((values >= 0) & (values == np.floor(values)) & (values <= _MOST))
        if bad.any():
            row = int(np.argmax(bad))
            value = table.columns[name][row]
            if not asked and rank(chosen[1], FLAGS) is not None:
                return None
            what = "a whole number" if not values[row] > _MOST else f"at most {_MOST:,}"
            raise ValueError(f"{table.place(row)}: {name!r} must be {what}; got {value!r}")
        numbers.append(values)
    total, hits = numbers
    if not asked and rank(chosen[1], FLAGS) is not None and hits.max() <= 1 < total.min():
        raise ValueError(
            f"{chosen[1]!r} is 0 or 1 beside {chosen[0]!r}: successes of many rollouts (--n"
            f" {chosen[0]} --c {chosen[1]}) or the flag of one (--reward {chosen[1]})?"
        )
    if (
        str(keys[-1]).strip().lower() in ("total", "sum", "all", "overall")
        and keys.count(keys[-1]) == 1
        and all(values[-1] == values[:-1].sum() for values in numbers)
    ):
        notes.append(
            f"{table.place(table.size - 1)}: {keys[-1]!r} is the sum of the rows: left out"
        )
        total, hits, group, prompts = total[:-1], hits[:-1], group[:-1], prompts[:-1]
        step_of = step_of and step_of[:-1]
    if (over := hits > total).any():
        row = int(np.argmax(over))
        raise ValueError(
            f"{table.place(row)}: {chosen[1]!r} is {hits[row]:g}, more than {chosen[0]!r},"
            f" {total[row]:g}"
        )
    if len(prompts) < total.size:
        notes.append(f"{total.size - len(prompts)} prompts stand in several rows: counts added up")
    if chosen[0] == "k":
        notes.append("took 'k' as the number of rollouts of a prompt")
    size = len(prompts)
    return {
        "format": "counts",
        "prompt": np.array(prompts, dtype=object),
        "step": None if step_of is None else np.array(step_of, dtype=object),
        "n": np.bincount(group, total, size).astype(int),
        "c": np.bincount(group, hits, size).astype(int),
        "unscored": np.zeros(size, int),
        "group": None,
        "reward": None,
        "answer": None,
        "text": None,
        "identical": 0,
        "columns": {
            "prompt": prompt_name,
            "reward": f"{chosen[1]} of {chosen[0]}",
            "answer": None,
            "step": step_name,
        },
        "threshold": None,
        "warnings": tuple(notes),
    }


_LAYOUTS = (
    ({"doc_id", "filter"}, "lm-evaluation-harness samples"),
    ({"input", "output", "gts", "score"}, "verl dump"),
    ({"step", "prompt", "completion"}, "TRL completion log"),
    ({"base", "plus"}, "EvalPlus results"),
    ({"base_status", "plus_status"}, "EvalPlus results"),
    ({"graded_list"}, "LiveCodeBench results"),
    ({"task_id", "completion", "passed"}, "HumanEval results"),
)


def _format(table: Table) -> str:
    names = table.columns.keys() | table.other
    for needed, layout in _LAYOUTS:
        if needed <= names:
            return layout
    return table.names[0][1].layout
