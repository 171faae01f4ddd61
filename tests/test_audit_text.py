"""The audit measures the responses of a file, within groups, when it is told their column."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tailmiss._audit_text import audit_text
from tailmiss.cli import app
from tailmiss.diversity import distinct_n, self_bleu

ASKED = ["--reward", "accuracy", "--text", "completion"]


@pytest.fixture
def rows(rng):
    words = ["so", "the", "answer", "is", "四", "5", "6"]
    return [
        {
            "step": 1,
            "prompt": f"p{i // 4}",
            "completion": " ".join(rng.choice(words, size=rng.integers(2, 9))),
            "accuracy": int(i % 3 == 0),
        }
        for i in range(20)
    ]


@pytest.fixture
def path(rows, tmp_path):
    file = tmp_path / "completions.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return str(file)


def test_json_holds_the_mean_over_groups(rows, path):
    result = CliRunner().invoke(app, ["audit", path, *ASKED, "--json"])
    found = json.loads(result.stdout)["text_diversity"]
    texts = [row["completion"] for row in rows]
    groups = [texts[start : start + 4] for start in range(0, 20, 4)]
    for name, measure in (("distinct_2", distinct_n), ("self_bleu", self_bleu)):
        expected = np.mean([measure(group) for group in groups])
        assert found[name]["value"] == pytest.approx(expected)
        assert found[name]["low"] < expected < found[name]["high"]
        assert found[name]["groups"] == 5


def test_table_follows_the_report_and_nothing_changes_without_the_option(path):
    plain = CliRunner().invoke(app, ["audit", path, *ASKED[:2]]).stdout
    asked = CliRunner().invoke(app, ["audit", path, *ASKED]).stdout
    assert asked.startswith(plain)
    assert "self_bleu" in asked
    assert "self_bleu" not in plain
    found = json.loads(CliRunner().invoke(app, ["audit", path, *ASKED[:2], "--json"]).stdout)
    assert "text_diversity" not in found


def test_one_response_a_prompt_leaves_nothing_to_compare(rows, tmp_path):
    file = tmp_path / "single.jsonl"
    file.write_text("\n".join(json.dumps(row | {"prompt": i}) for i, row in enumerate(rows)))
    result = CliRunner().invoke(app, ["audit", str(file), *ASKED, "--json"])
    found = json.loads(result.stdout)["text_diversity"]
    assert found["self_bleu"] == {"value": None, "low": None, "high": None, "groups": 0}


def test_what_has_no_text_is_refused(path, tmp_path):
    counts = tmp_path / "counts.csv"
    counts.write_text("prompt,n,c\na,4,1\nb,4,2\n")
    with pytest.raises(ValueError, match=r"no column|holds counts"):
        audit_text([str(counts)], "completion")
    with pytest.raises(ValueError, match="no column 'essay'"):
        audit_text([path], "essay", reward="accuracy")
    with pytest.raises(ValueError, match="standard input"):
        audit_text(["-"], "completion")
