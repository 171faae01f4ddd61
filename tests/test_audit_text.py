"""The audit measures the responses of a file, within groups, wherever the file has text."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys

import numpy as np
import pytest
from rollout_files import REAL, harness, lines

from tailmiss import _audit_text, _rollout_text, audit, read_rollouts
from tailmiss._rollout_names import COMPLETIONS
from tailmiss._rollout_text import response_text
from tailmiss.diversity import group_diversity, text_measures
from tailmiss.report import render, write_report

FEW = {"k": [1], "N": [2], "rho": 0.1, "rules": ["rloo"], "gamma": [0.0]}
FEWER = ("--k", 1, "--N", 2, "--rho", 0.1, "--rules", "rloo", "--gamma", 0)
WORDS = ["so", "the", "answer", "is", "四", "5", "6"]


@pytest.fixture
def rows(rng):
    """Twenty rollouts of five prompts, four each, with a response of 2 to 8 words."""
    return [
        {
            "prompt": f"p{i // 4}",
            "completion": " ".join(rng.choice(WORDS, size=rng.integers(2, 9))),
            "accuracy": int(i % 3 == 0),
        }
        for i in range(20)
    ]


@pytest.fixture
def write(tmp_path):
    def write(records, name="r.jsonl"):
        path = tmp_path / name
        path.write_text(records if isinstance(records, str) else lines(records))
        return path

    return write


@pytest.fixture
def run(run_audit):
    return lambda *arguments: run_audit(*arguments, *FEWER)


def renamed(rows, name, value=lambda text: text):
    return [{k: v for k, v in r.items() if k != "completion"} | {name: value(r["completion"])}
            for r in rows]  # fmt: skip


def expected(rows):
    return group_diversity([r["completion"] for r in rows], [r["prompt"] for r in rows])


def same(found, rows):
    """Whether what was found is what the library gives for these rows."""
    truth = expected(rows)
    for name, mean in truth.items():
        got = found[name] if isinstance(found, dict) else vars(found.measures[name])
        assert got["value"] == pytest.approx(mean.value, abs=1e-14), name
        assert got.get("groups", got.get("used")) == mean.trials
    return True


def test_json_holds_what_the_library_gives(rows, write, run):
    code, out, _ = run(write(rows), "--json")
    found = json.loads(out)["text_diversity"]
    assert code == 0
    assert same(found, rows)
    assert {k: found[k] for k in ("column", "groups", "of_groups", "cut")} == {
        "column": "completion", "groups": 5, "of_groups": 5, "cut": 0,
    }  # fmt: skip
    for name in ("distinct_1", "distinct_2", "self_bleu", "vendi", "length"):
        assert found[name]["low"] < found[name]["value"] < found[name]["high"]


@pytest.mark.parametrize("name", [*COMPLETIONS, "completions", "Responses", "modelOutput"])
def test_every_name_of_a_response_is_known(name, rows, write):
    got = read_rollouts(write(renamed(rows, name))).text
    assert got.column == name
    assert got.read() == [r["completion"] for r in rows]


def turns(text):
    return [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}]


CHATS = {
    "completion": lambda text: [{"role": "assistant", "content": text}],
    "messages": turns,
    "conversations": lambda text: [{"from": "human", "value": "q"}, {"from": "gpt", "value": text}],
    "trajectory": lambda text: [*turns("first"), {"role": "tool", "content": "t"}, *turns(text)],
    "traj": lambda text: [*turns(text), {"role": "assistant", "content": None, "tool_calls": [1]}],
    "response": lambda text: {"role": "assistant", "content": text},
    "output": lambda text: [{"role": "assistant", "content": [{"type": "text", "text": text}]}],
    "generations": lambda text: [text],
    "transcript": lambda text: [{"role": "user", "content": "q"}, {"role": "Model", "text": text}],
}


@pytest.mark.parametrize("name", CHATS)
def test_the_last_assistant_turn_of_a_chat_is_the_response(name, rows, write):
    got = read_rollouts(write(renamed(rows, name, CHATS[name]))).text
    assert got.column == name
    assert got.read() == [r["completion"] for r in rows]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""), (None, None), (3, None), ([], None), ({}, None), ([[]], None), (["a", "b"], None),
        ([{"role": "user", "content": "q"}], None), ([{"type": "image"}], None), ([["a"]], "a"),
        ([{"role": "assistant", "content": ""}], ""), ({"message": {"content": "a"}}, "a"),
        ([{"text": "a"}, {"text": "b"}], "ab"), ([None, 1], None), ({"text": 5}, None),
    ],
)  # fmt: skip
def test_text_of_odd_values(value, text):
    assert response_text(value) == text


def nested(rows):
    """One record a prompt: its rollouts as a list of objects."""
    prompts = dict.fromkeys(r["prompt"] for r in rows)
    return [
        {"question": p, "rollouts": [
            {"reward": r["accuracy"], "messages": turns(r["completion"]), "note": "n"}
            for r in rows if r["prompt"] == p
        ]}
        for p in prompts
    ]  # fmt: skip


def parallel(rows, value):
    prompts = dict.fromkeys(r["prompt"] for r in rows)
    own = {p: [r for r in rows if r["prompt"] == p] for p in prompts}
    return [
        {"question": p, "rewards": [r["accuracy"] for r in group],
         "completions": [value(r["completion"]) for r in group]}
        for p, group in own.items()
    ]  # fmt: skip


def test_responses_inside_a_prompt_are_found(rows, write):
    assert same(audit(read_rollouts(write(nested(rows))), **FEW).text, rows)
    for value in (str, turns):
        assert same(audit(read_rollouts(write(parallel(rows, value))), **FEW).text, rows)
    document = write(json.dumps({"results": nested(rows)}), "d.json")
    assert same(audit(read_rollouts(document), **FEW).text, rows)
    asked = read_rollouts(document, text="rollouts.note")
    assert audit(asked, **FEW).text.measures["distinct_texts"].value == 0.25


def test_standard_input_and_csv_and_gzip_and_parquet(rows, write, run, monkeypatch, tmp_path):
    data = gzip.compress(lines(rows).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    code, out, _ = run("-", "--json")
    assert code == 0
    assert same(json.loads(out)["text_diversity"], rows)
    table = "prompt,completion,accuracy\n" + "".join(
        f'{r["prompt"]},"{r["completion"]}",{r["accuracy"]}\n' for r in rows
    )
    assert same(audit(read_rollouts(write(table, "r.csv")), **FEW).text, rows)
    import pandas as pd

    frame = pd.DataFrame(renamed(rows, "completion", CHATS["completion"]))
    frame.to_parquet(tmp_path / "r.parquet")
    assert same(audit(read_rollouts(tmp_path / "r.parquet"), **FEW).text, rows)


def test_the_option_overrides_the_choice_and_switches_it_off(rows, write, run):
    path = write([r | {"response": "one", "info": {"essay": r["completion"]}} for r in rows])
    assert audit(read_rollouts(path), **FEW).text.column == "completion"
    for name in ("essay", "info.essay"):
        code, out, _ = run(path, "--text", name, "--json")
        found = json.loads(out)["text_diversity"]
        assert (code, found["column"]) == (0, "info.essay")
        assert same(found, rows)
    code, out, _ = run(path, "--text", "response", "--json")
    assert json.loads(out)["text_diversity"]["distinct_texts"]["value"] == 0.25
    code, out, _ = run(path, "--text", "accuracy", "--json")
    assert json.loads(out)["text_diversity"]["length"]["value"] == 1
    code, out, _ = run(path, "--no-text", "--json")
    assert json.loads(out)["text_diversity"] is None
    code, out, err = run(path, "--no-text")
    assert ("Self-BLEU" in out, code, err) == (False, 0, "")


def test_what_has_no_text_is_refused_where_it_was_asked_for(rows, write, run):
    path = write(rows)
    for options, said in (
        (("--text", "essay"), "no rollout has a text in 'essay'; there are prompt, completion"),
        (("--text", "essay", "--no-text"), "--no-text and --text essay exclude each other"),
    ):
        code, out, err = run(path, *options)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1
    counts = write("prompt,n,c\na,4,1\nb,4,2\n", "c.csv")
    code, _, err = run(counts, "--text", "completion")
    assert (code, "holds counts, no responses" in err) == (2, True)
    assert json.loads(run(counts, "--json")[1])["text_diversity"] is None
    twice = write([r | {"a": {"x": "1"}, "b": {"x": "2"}} for r in rows], "twice.jsonl")
    code, _, err = run(twice, "--text", "x")
    assert (code, "'x' could be a.x, b.x" in err) == (2, True)


def test_missing_and_empty_responses_are_counted_apart(rows, write, run):
    for i in (1, 6, 7, 8, 9, 10):
        rows[i]["completion"] = None
    rows[2]["completion"] = ""
    code, out, _ = run(write(rows), "--json")
    found = json.loads(out)["text_diversity"]
    assert code == 0
    assert same(found, rows)
    assert [found[k] for k in ("responses", "missing", "empty")] == [14, 6, 1]
    assert found["of_groups"] == 4
    assert "6 rollouts without a response; 1 empty responses" in run(write(rows))[1]


def test_one_response_a_prompt_leaves_nothing_to_compare(rows, write, run):
    path = write([r | {"prompt": i} for i, r in enumerate(rows)])
    code, out, _ = run(path, "--json")
    found = json.loads(out)["text_diversity"]
    assert (code, found["groups"], found["of_groups"]) == (0, 0, 0)
    assert found["self_bleu"] == {"value": None, "low": None, "high": None, "groups": 0}
    assert "Self-BLEU" not in run(path)[1]
    assert "No group has two responses" in render(audit(read_rollouts(path), **FEW))
    single = audit(read_rollouts(write([harness(i, 1.0) for i in range(4)])), **FEW)
    assert (single.text.column, single.text.of_groups) == ("resps", 0)


def test_by_step(rows, write, run):
    rows = [r | {"step": int(i % 4 > 1)} for i, r in enumerate(rows)]
    path = write(rows)
    got = audit(read_rollouts(path), **FEW)
    for step in (0, 1):
        own = [r for r in rows if r["step"] == step]
        assert same(got.by_step[str(step)].text, own)
        assert same(got.to_dict()["by_step"][str(step)]["text_diversity"], own)
        assert got.by_step[str(step)].text.of_groups == 5
    assert same(got.text, [r | {"prompt": f"{r['prompt']} {r['step']}"} for r in rows])
    two = got.by_step["1"].text.measures["distinct_2"].value
    assert re.search(rf"step 1: success .*, Distinct-2: {two:.4f}, Self-BLEU: 0", run(path)[1])
    page = render(got)
    assert "<th>Distinct-2</th><th>Self-BLEU</th>" in page
    assert "by step. Distinct-2 falls" in page


def test_text_and_page_show_the_measures(rows, write, run, tmp_path):
    rows = [r | {"pred": r["completion"][-1]} for r in rows]
    path = write(rows)
    got = audit(read_rollouts(path), **FEW)
    code, out, _ = run(path)
    page = render(got)
    assert code == 0
    for name, row in got.text.measures.items():
        shown = _audit_text.NAMES[name]
        assert re.search(rf"  {re.escape(shown)} +{row.value:.4f}  +\[", out), name
        assert f"<tr><th>{shown}</th><td>{row.value:.4f}</td>" in page
    assert "text = completion" in out
    assert "text = <code>completion</code>" in page
    assert "completion: 5 of 5 groups with several responses" in out
    assert page.count("<svg") == 4
    answers = [len({r["pred"] for r in rows[i : i + 4]}) / 4 for i in range(0, 20, 4)]
    assert got.text.measures["distinct_answers"].value == pytest.approx(np.mean(answers))
    written = {path.name for path in write_report(got, tmp_path / "out")}
    assert {"text_diversity.svg", "text_diversity.png"} <= written


@pytest.mark.parametrize(
    ("limit", "value", "groups", "cut", "said"),
    [
        ("MOST_GROUPS", 3, 3, 0, "3 of 30 groups with several responses, drawn at random"),
        ("MOST_BYTES", 300, 4, 0, "of 30 groups with several responses, drawn at random"),
        ("MOST_TEXTS", 5, 30, 30, "5 responses drawn from each of 30 larger ones"),
    ],
)
def test_the_cost_is_capped_and_said(limit, value, groups, cut, said, write, monkeypatch, rng):
    rows = [
        {"prompt": i // 8, "completion": " ".join(rng.choice(WORDS, size=5)), "reward": i % 2}
        for i in range(240)
    ]
    path = write(rows)
    monkeypatch.setattr(_audit_text, limit, value)
    got = audit(read_rollouts(path), **FEW).text
    again = audit(read_rollouts(path), **FEW).text
    other = audit(read_rollouts(path), **FEW, rng=1).text
    assert (got.groups, got.of_groups, got.cut) == (pytest.approx(groups, abs=2), 30, cut)
    assert said in _audit_text.how_measured(got)
    assert got.values == again.values != other.values
    if not cut:
        for group, found in got.values.items():
            own = [r["completion"] for r in rows[8 * group : 8 * group + 8]]
            assert found == text_measures(own)


def test_groups_drawn_at_random_are_unbiased(write, monkeypatch, rng):
    """The mean over seeds of what 6 of 60 groups show is what all of them show."""
    rows = [
        {"prompt": i // 4, "completion": f"{i} " * (1 + i // 4 % 5), "reward": i % 2}
        for i in range(240)
    ]
    rollouts = read_rollouts(write(rows))
    truth = audit(rollouts, **FEW).text.measures["length"].value
    monkeypatch.setattr(_audit_text, "MOST_GROUPS", 6)
    measure = _audit_text.measure_texts
    means = [
        measure(rollouts, confidence=0.95, rng=seed).measures["length"].value for seed in range(200)
    ]
    assert truth == 3
    assert abs(np.mean(means) - truth) < 6 * np.std(means) / 200**0.5


def test_a_reference_solution_is_no_response(rows, write):
    gold = write([r | {"solution": f"gold of {r['prompt']}"} for r in renamed(rows, "x")])
    got = read_rollouts(gold)
    assert got.text is None
    assert any("'solution' is the same for all rollouts" in note for note in got.warnings)
    assert read_rollouts(gold, text="solution").text.column == "solution"
    alike = read_rollouts(write([r | {"completion": "one"} for r in rows]))
    assert audit(alike, **FEW).text.measures["self_bleu"].value < 1
    assert audit(alike, **FEW).text.measures["distinct_texts"].value == 0.25


def test_answers_stand_in_where_there_is_no_response(rows, write):
    got = read_rollouts(write(renamed(rows, "prediction")))
    assert got.text.column == "prediction"
    assert same(audit(got, **FEW).text, rows)
    cruxeval = read_rollouts(REAL / "cruxeval_codellama7b_input_n10.json")
    assert cruxeval.text.column == "raw_generations"
    entry = json.loads((REAL / "cruxeval_codellama7b_input_n10.json").read_text())
    key = cruxeval.prompt[0]
    first = cruxeval.text.take(np.flatnonzero(cruxeval.group == 0)).read()
    assert first == entry["raw_generations"][key]


def test_texts_larger_than_memory_go_to_a_file(rows, write, monkeypatch):
    monkeypatch.setattr(_rollout_text, "IN_MEMORY", 100)
    monkeypatch.setattr(_rollout_text, "_BATCH", 3)
    rows[3]["completion"] = "half a pair \ud83d"
    got = read_rollouts(write(rows))
    assert got.text.file._rolled
    assert got.text.read() == [r["completion"] for r in rows]
    kept = read_rollouts(write(rows), where={"prompt": "p2"})
    assert kept.text.read() == [r["completion"] for r in rows[8:12]]
    assert got.select(np.array([3, 1])).text.read() == [
        r["completion"] for r in (*rows[4:8], *rows[12:16])
    ]


def test_no_room_for_texts_leaves_the_rest(rows, write, monkeypatch):
    def refuse(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_rollout_text._Spool, "write", refuse)
    got = read_rollouts(write(rows))
    assert (got.text, got.c.sum()) == (None, 7)
    assert any("No space left on device" in note for note in got.warnings)


def test_a_response_that_begins_late_is_read(write):
    rows = [{"prompt": i // 4, "reward": i % 2} for i in range(400)]
    rows += [{"prompt": 100 + i // 4, "reward": i % 2, "output": f"a {i}"} for i in range(8)]
    got = read_rollouts(write(rows))
    assert got.text.column == "output"
    assert (got.text.size >= 0).sum() == 8
    assert audit(got, **FEW).text.of_groups == 2
