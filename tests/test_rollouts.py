"""Readers of rollout files: real files, the layouts of trainers and evaluations, refusals."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from rollout_files import OPTIONS, REAL, REFUSED, TRUTH, UNDERSTOOD, VIEWS, lines, verl, zipped

from tailmiss.rollouts import Rollouts, read_rollouts


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(("file", "view"), VIEWS, ids=["/".join(v) for v in VIEWS])
def test_real_files_give_the_true_counts(file, view):
    truth = TRUTH[file]["views"][view]
    got = read_rollouts(REAL / file, **OPTIONS.get((file, view), {}))
    pairs = Counter(zip(got.n.tolist(), got.c.tolist(), strict=True))
    if "nc_histogram" in truth:
        assert sorted([n, c, m] for (n, c), m in pairs.items()) == truth["nc_histogram"]
    assert got.n.size == truth["n_prompts"]
    assert got.n.sum() == truth["total_rollouts"]
    assert got.c.sum() == truth["total_correct"]


@pytest.mark.parametrize("file", [f for f in TRUTH if (f, TRUTH[f]["primary_view"]) in OPTIONS])
def test_partial_credit_needs_a_threshold(file):
    with pytest.raises(ValueError, match=r"not binary: .*--threshold") as caught:
        read_rollouts(REAL / file)
    assert file in str(caught.value)


def test_every_entry_is_a_prompt_even_where_texts_are_equal():
    got = read_rollouts(REAL / "reasoning_gym_hanoi_dup_questions_n3.json", threshold=1)
    assert any("50 entries hold 38" in note for note in got.warnings)


def test_identical_completions_are_counted():
    got = read_rollouts(REAL / "rookworld_continuous_rewards_n8.json", threshold=1)
    assert got.identical == 4


def test_trl_logs_by_step():
    files = sorted(REAL.glob("trl_completions_*.parquet"))
    got = read_rollouts(files)
    assert got.format == "TRL completion log"
    assert got.columns["reward"] == "accuracy_reward"
    assert got.step.tolist() == ["1"] * 4 + ["2"] * 4
    assert got.n.tolist() == [3, 4, 4, 4, 3, 4, 4, 4]
    assert got.c.tolist() == [1, 1, 0, 0, 0, 2, 1, 0]
    assert got.unscored.tolist() == [1, 0, 0, 0, 1, 0, 0, 0]
    other = read_rollouts(files, reward="length_reward", threshold=0.375)
    assert other.c.sum() == 24
    pooled = read_rollouts(files, step="none")
    assert pooled.n.tolist() == [6, 8, 8, 8]
    assert len(got.to_frame()) == 32
    assert got.to_frame()["success"].isna().sum() == 2


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_layouts(name, write):
    file, content, n, c, unscored, columns = UNDERSTOOD[name]
    got = read_rollouts(write(file, content))
    assert (got.n.tolist(), got.c.tolist(), got.unscored.sum()) == (n, c, unscored)
    for role, column in columns.items():
        assert got.columns[role] == column
    frame = got.to_frame()
    assert len(frame) == (len(n) if got.group is None else sum(n) + unscored)


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_where_the_file_does_not_say(name, write):
    file, content, message = REFUSED[name]
    path = write(file, content)
    with pytest.raises(ValueError, match=r".") as caught:
        read_rollouts(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_answer_the_refusals(write):
    two = write("a.jsonl", REFUSED["two filters"][1])
    assert read_rollouts(two, where={"filter": "strict"}).n.tolist() == [1, 1, 1]
    rewards = write("b.jsonl", REFUSED["two reward functions"][1])
    assert read_rollouts(rewards, reward="format_reward").c.tolist() == [2]
    both = read_rollouts(rewards, reward="format_reward,len_reward")
    assert (both.c.tolist(), both.columns["reward"]) == ([2], "format_reward,len_reward")
    counts = write("c.csv", REFUSED["two counts"][1])
    assert read_rollouts(counts, c="num_passed").c.tolist() == [5]
    flags = write("f.csv", REFUSED["counts or flags"][1])
    assert read_rollouts(flags, reward="correct").n.tolist() == [1, 1]
    assert read_rollouts(flags, n="n", c="correct").n.tolist() == [8, 8]
    texts = write("d.csv", REFUSED["ids with many texts"][1])
    assert read_rollouts(texts, prompt="task_id").n.tolist() == [2]
    assert read_rollouts(texts, prompt="prompt").n.tolist() == [1, 1]
    assert read_rollouts(texts, prompt="task_id,prompt").n.tolist() == [1, 1]
    assert read_rollouts(two, where={"filter": "strict"}, prompt="doc_id,filter").n.size == 3


def test_notes_on_what_was_counted(write):
    rows = [{"task_id": i, "n": 3, "c": 3 - i, "correct": [True, False, True]} for i in range(3)]
    got = read_rollouts(write("a.jsonl", lines(rows)))
    assert got.c.tolist() == [2, 2, 2]
    assert "'c' differs from the rollouts in 2 prompts; the rollouts count" in got.warnings
    tests = read_rollouts(write("b.json", '{"q": [[true, true], [true, false]]}'))
    assert (tests.c.tolist(), len(tests.warnings)) == ([1], 1)
    paths = [write(name, "prompt,reward\na,1\n") for name in ("c.csv", "d.csv")]
    assert any("2 files read as one" in note for note in read_rollouts(paths).warnings)


def test_equal_texts_under_several_ids_are_told(write):
    rows = [{"id": i // 2, "prompt": "a", "reward": i % 2} for i in range(4)]
    path = write("a.jsonl", lines(rows))
    got = read_rollouts(path)
    assert (got.n.tolist(), len(got.warnings)) == ([4], 1)
    assert "2 values of 'id' hold 1 of 'prompt'" in got.warnings[0]
    assert read_rollouts(path, prompt="id").n.tolist() == [2, 2]


def test_epochs_are_told_apart_from_numbers_of_rollouts(write):
    numbered = [{"id": "a", "epoch": e, "reward": e % 2} for e in range(4)]
    assert read_rollouts(write("a.jsonl", lines(numbered))).warnings == ()
    path = write("b.jsonl", lines(numbered + numbered))
    assert read_rollouts(path).warnings == (
        "rollouts of 4 epochs are pooled; --step epoch parts them",
    )
    assert read_rollouts(path, step="epoch").n.tolist() == [2] * 4


def test_files_are_called_by_what_they_hold(write, monkeypatch):
    table, rows = b"prompt,reward\na,1\n", lines([{"prompt": "a", "reward": 1}] * 2)
    assert read_rollouts(write("a.gz", gzip.compress(table))).format == "CSV"
    assert read_rollouts(write("a", rows)).format == "JSON lines"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table)))
    assert read_rollouts("-").source == "standard input"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"prompt,reward\na,2\n")))
    with pytest.raises(ValueError, match=r"^standard input: rewards"):
        read_rollouts("-")


def test_decimals_are_numbers(tmp_path):
    import pandas as pd

    rewards = [Decimal("1.0"), Decimal("0.0")]
    pd.DataFrame({"prompt": ["a", "a"], "reward": rewards}).to_parquet(tmp_path / "a.parquet")
    assert read_rollouts(tmp_path / "a.parquet").c.tolist() == [1]


def test_the_wrong_names_are_named(write):
    path = write("a.csv", "prompt,reward\na,1\n")
    with pytest.raises(ValueError, match=r"no column 'score' for the reward; there are prompt"):
        read_rollouts(path, reward="score")
    with pytest.raises(ValueError, match=r"no rollout has prompt=z"):
        read_rollouts(path, where={"prompt": "z"})
    with pytest.raises(ValueError, match="threshold must be a number"):
        read_rollouts(path, threshold=float("nan"))


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, lambda d: zipped({"a.jsonl": d.decode()})]
)
def test_compression_is_told_by_content(pack, write):
    data = lines([verl(i) for i in range(8)]).encode()
    assert read_rollouts(write("no_ending", pack(data))).c.tolist() == [2, 2]


def test_standard_input(monkeypatch):
    for data in (b"prompt,reward\na,1\na,0\n", gzip.compress(b'{"q": [true, false]}')):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert read_rollouts("-").n.tolist() == [2]
    parquet = (REAL / "trl_completions_00001.parquet").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(parquet)))
    assert read_rollouts("-").n.tolist() == [3, 4, 4, 4]


def test_order_of_rows_does_not_matter(rng, write):
    rows = [{"task_id": i % 7, "reward": int(i % 3 == 0)} for i in range(70)]
    first = read_rollouts(write("a.jsonl", lines(rows)))
    rng.shuffle(rows)
    second = read_rollouts(write("b.jsonl", lines(rows)))
    by_name = dict(zip(first.prompt, first.c, strict=True))
    assert dict(zip(second.prompt, second.c, strict=True)) == by_name


def test_threshold_decides_never_truthiness(write):
    path = write("a.jsonl", lines([{"prompt": "a", "reward": r} for r in (-1, 0.2, 0.7, 1)]))
    assert read_rollouts(path, threshold=0.5).c.tolist() == [2]
    assert read_rollouts(path, threshold=-1).c.tolist() == [4]


def test_columns_of_a_table_made_by_pandas_and_parquet(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(
        {
            "problem": ["a", "a", "b", "b"],
            "flags": [[True, False], [True, True], [False, False], [False, True]],
        }
    )
    frame.to_parquet(tmp_path / "lists.parquet")
    got = read_rollouts(tmp_path / "lists.parquet")
    assert got.n.tolist() == [2, 2, 2, 2]
    pooled = read_rollouts(tmp_path / "lists.parquet", prompt="problem")
    assert (pooled.n.tolist(), pooled.c.tolist()) == ([4, 4], [3, 1])


def test_several_files_must_fit_together(write):
    flat = write("a.csv", "prompt,reward\na,1\n")
    nested = write("b.json", '{"q1": [true, false]}')
    other = write("c.csv", "x,y\n1,2\n")
    for pair in ((flat, nested), (nested, flat), (flat, other)):
        with pytest.raises(ValueError, match=r"the files before it"):
            read_rollouts(pair)
    assert read_rollouts([flat, write("d.csv", "prompt,reward\na,0\n")]).n.tolist() == [2]
    with pytest.raises(ValueError, match="at least one file"):
        read_rollouts([])


def test_a_file_given_twice_does_not_count_twice(write):
    path = write("r.csv", "prompt,reward\na,1\na,0\n")
    with pytest.raises(ValueError, match=r"r.csv: given twice"):
        read_rollouts([path, path])


def test_selected_groups_keep_their_rollouts():
    got = read_rollouts(sorted(REAL.glob("trl_completions_*.parquet")))
    second = got.select(np.flatnonzero(got.step == "2"))
    assert second.n.tolist() == [3, 4, 4, 4]
    assert np.bincount(second.group).tolist() == [4, 4, 4, 4]
    assert np.nansum(second.success) == second.c.sum() == 3


def test_a_total_is_left_out_only_where_it_is_one_row(write):
    for rows, n in {
        "a,3,1\nb,5,2\ntotal,8,3\n": [3, 5],
        "a,3,1\nb,5,2\ntotal,9,3\n": [3, 5, 9],
        "total,3,1\ntotal,3,1\n": [6],
    }.items():
        got = read_rollouts(write("c.csv", f"prompt,n,c\n{rows}"), n="n", c="c")
        assert (got.n.tolist(), got.prompt.size) == (n, len(n))


def test_counts_without_a_file():
    got = Rollouts.from_counts([4, 4], [1, 2])
    assert got.to_frame().to_dict("list") == {"prompt": ["0", "1"], "n": [4, 4], "c": [1, 2]}
    with pytest.raises(ValueError, match=r"c must be <= n"):
        Rollouts.from_counts([4], [5])


def test_progress_reaches_the_end(write):
    path = write("a.jsonl", lines([verl(i) for i in range(5000)]))
    seen = []
    read_rollouts(path, progress=lambda done, size: seen.append((done, size)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert len(seen) >= 2


def test_real_json_is_the_same_read_as_lines(write):
    rows = json.loads((REAL / "tau_bench_gpt4o_airline_n4.json").read_text())
    got = read_rollouts(write("t.jsonl", lines(rows)))
    assert (got.n.size, got.c.sum()) == (50, 84)


@pytest.mark.parametrize("given", [pd.DataFrame({"prompt_id": [1]}), {"n": [8]}, [8, 8], None, 5])
def test_rollouts_in_memory_are_pointed_to_the_counts(given):
    with pytest.raises(ValueError, match=r"path must be a file.*DataFrame.*audit\(\(n, c\)\)"):
        read_rollouts(given)
