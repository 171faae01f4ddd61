"""Broken inputs: one line that names the file and the place, or the right answer."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sys
from typing import Any

import numpy as np
import pytest
from rollout_files import REAL, lines, zipped

from tailmiss import read_rollouts

ROWS = [{"prompt": f"q{i % 5}", "reward": int(i % 3 == 0), "note": "é" * 5} for i in range(40)]
N, C = 40, 14
JSONL = lines(ROWS).encode()
CSV = (
    "prompt,reward,note\n" + "".join(f"q{i % 5},{int(i % 3 == 0)},x\n" for i in range(40))
).encode()
NESTED = json.dumps({f"q{i}": [j % 3 == 0 for j in range(8)] for i in range(5)}).encode()
COUNTS = b"prompt,n,c\n" + b"".join(b"q%d,8,%d\n" % (i, i) for i in range(9))
PARQUET = (REAL / "trl_completions_00001.parquet").read_bytes()
PACKED = {
    "gzip": gzip.compress(JSONL, mtime=0),
    "bzip2": bz2.compress(JSONL),
    "xz": lzma.compress(JSONL),
    "zip": zipped({"rollouts.jsonl": JSONL.decode()}),
    "parquet": PARQUET,
}
REFUSE = None
Case = tuple[bytes, str | tuple[int, int] | None]


def line(text: Any, number: int = 20) -> bytes:
    """The JSON lines with one replaced."""
    rows = JSONL.splitlines(keepends=True)
    new = text if isinstance(text, bytes) else json.dumps(text).encode()
    return b"".join([*rows[: number - 1], new + b"\n", *rows[number:]])


def reward(value: bytes) -> bytes:
    """The JSON lines with another reward in line 20, which is a failure."""
    return line(b'{"prompt": "q4", "reward": ' + value + b"}")


def csv_row(text: bytes, number: int = 20) -> bytes:
    rows = CSV.splitlines(keepends=True)
    return b"".join([*rows[: number - 1], text + b"\n", *rows[number:]])


def build() -> dict[str, Case]:
    """name -> (content, what the message must say, or None for any, or the true (n, c))."""
    cases: dict[str, Case] = {}
    for name, data in PACKED.items():
        for tenth in range(1, 10):
            cases[f"{name} cut at {tenth}/10"] = (data[: len(data) * tenth // 10], REFUSE)
        for back in (1, 2, 4, 8):
            cases[f"{name} short by {back}"] = (data[:-back], REFUSE)
    for name in ("gzip", "bzip2", "xz"):
        data = PACKED[name]
        for i in range(12):
            place = 20 + (len(data) - 40) * i // 12
            flipped = bytearray(data)
            flipped[place] ^= 0xFF
            cases[f"{name} damaged at {place}"] = (bytes(flipped), REFUSE)
    for cut in range(1, 25):
        place = len(JSONL) * cut // 25
        place += JSONL[place - 1 : place + 1].count(b"\n") * 3
        number = JSONL[:place].count(b"\n") + 1
        cases[f"line cut at {place}"] = (JSONL[:place], f"line {number}: ")
    for number in (1, 2, 3, 20, 39, 40):
        garbage = (b"{", b"}", b"nonsense", b"{'prompt': 'a'}", b'{"prompt": "q1", "reward": }')
        for text in garbage:
            expected = "" if number == 1 else f"line {number}: not JSON"
            cases[f"{text.decode()} in line {number}"] = (line(text, number), expected)
        for value in ([1, 0], 3, "text", None):
            expected = "" if number == 1 else f"line {number}: an object with named fields"
            cases[f"{value!r} in line {number}"] = (line(value, number), expected)
    for text in (b'"maybe"', b'{"a": "b"}', b'["x"]', b'"1,5"', b'"0x10"'):
        cases[f"reward {text.decode()}"] = (reward(text), "line 20: 'reward' is no reward")
    for text in (b"Infinity", b"-Infinity", b"1e999", b'"inf"'):
        cases[f"reward {text.decode()}"] = (reward(text), "line 20: 'reward' is infinite")
    for text in (b"0.5", b"2", b"-1", b"1e-9", b"0.9999999", b'"0.5"', b"10000000000000000000000"):
        cases[f"reward {text.decode()}"] = (reward(text), "are not binary")
    for text in (b"null", b"NaN", b'""', b'"nan"', b'"None"', b"[]"):
        cases[f"reward {text.decode()}"] = (reward(text), (N - 1, C))
    for text in (b"1", b"true", b'"1"', b'"1.0"', b'"passed"', b'"True"', b"1.0"):
        cases[f"reward {text.decode()}"] = (reward(text), (N, C + 1))
    for text in (b"0", b"false", b'"0"', b'"failed: timeout"', b"-0.0"):
        cases[f"reward {text.decode()}"] = (reward(text), (N, C))
    twice = b'{"prompt": "q4", "reward": 0, "reward": 1}'
    cases["a field twice"] = (line(twice), "line 20: the field 'reward' stands twice")
    cases["no prompt"] = (line({"reward": 1}), "line 20: no prompt in 'prompt'")
    cases["no reward"] = (line({"prompt": "q4"}), (N - 1, C))
    cases["null prompt"] = (line({"prompt": None, "reward": 1}), "line 20: no prompt")
    cases["a summary"] = (JSONL + b'{"accuracy": 0.35}\n', (N, C))
    cases["many strays"] = (JSONL + b'{"x": 1}\n' * 20, "neither 'prompt' nor 'reward'")
    for i, byte in enumerate((b"\xff", b"\xe9", b"\xc3\x28", b"\xed\xa0\x80", b"\xfe\xfe")):
        bad = b'{"prompt": "' + byte + b'", "reward": 1}'
        cases[f"not UTF-8, {i}"] = (line(bad), "line 20: not UTF-8")
        cases[f"csv not UTF-8, {i}"] = (csv_row(b"q" + byte + b",1,x"), "not UTF-8")
        cases[f"first line not UTF-8, {i}"] = (line(bad, 1), "not UTF-8")
    for code in ("utf-16-le", "utf-16-be", "utf-32"):
        cases[f"{code} without a mark"] = (JSONL.decode().encode(code), REFUSE)
        cases[f"csv in {code}"] = (CSV.decode().encode(code), REFUSE)
    cases["utf-16 cut"] = (JSONL.decode().encode("utf-16")[:-1], REFUSE)
    empty = ("", "\n", "  \n\n ", "{}", "[]", "null", "0", '""', "[[]]", "[{}]", '{"a": {}}')
    for text in (*empty, '{"a": []}', '{"results": []}', "[[], []]", "true", "[1, 0]", "\ufeff"):
        cases[f"only {text!r}"] = (text.encode(), REFUSE)
    for name, head in {
        "PNG": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "ELF": b"\x7fELF\2\1\1" + b"\0" * 9,
        "PDF": b"%PDF-1.4\n%\xe2\xe3\n", "npy": b"\x93NUMPY\1\0v\0{'descr': '<f8'}",
        "pickle": b"\x80\4\x95\x1a\0\0\0\0\0\0\0", "sqlite": b"SQLite format 3\0" + b"\0" * 50,
        "zstd": b"\x28\xb5\x2f\xfd" + b"\1" * 30, "PAR1": b"PAR1", "PK": b"PK\x03\x04",
        "empty zip": zipped({}), "gzip head": b"\x1f\x8b", "HTML": b"<!doctype html><p>404</p>",
        "zip of text": zipped({"a.txt": "x"}), "zip of bad": zipped({"a.json": "{"}),
        "gzip of nothing": gzip.compress(b""), "gzip of zeros": gzip.compress(b"\0" * 99),
        "arrow": b"ARROW1\0\0" + b"\xff" * 20,
    }.items():  # fmt: skip
        cases[name] = (head, REFUSE)
    source = np.random.default_rng(0)
    for i in range(12):
        cases[f"noise {i}"] = (source.bytes(200 + 50 * i), REFUSE)
    cases["csv header alone"] = (b"prompt,reward\n", "holds no rollouts")
    cases["csv columns twice"] = (b"prompt,reward,reward\na,1,0\n", "line 1: the column 'reward'")
    cases["csv prompt twice"] = (b"prompt,prompt,reward\na,b,0\n", "line 1: the column 'prompt'")
    for number in (2, 20, 41):
        for text in (b"q1", b"q1,1", b"q1,1,x,y"):
            expected = f"line {number}: "
            cases[f"{text.decode()} in csv line {number}"] = (csv_row(text, number), expected)
        cases[f"csv word in line {number}"] = (
            csv_row(b"q1,perhaps,x", number), f"line {number}: 'reward' is no reward: 'perhaps'",
        )  # fmt: skip
    cases["csv open quote"] = (csv_row(b'q1,"1,x'), REFUSE)
    cases["csv NUL"] = (CSV * 200 + b"q\0,1,x\n", REFUSE)
    cases["csv without header"] = (b"a,1\na,0\nb,1\n", REFUSE)
    cases["csv of one column"] = (b"reward\n1\n0\n", "what tells prompts apart is missing")
    cases["csv, blank lines"] = (CSV.replace(b"\n", b"\n\n"), (N, C))
    cases["csv, blank lines before it"] = (b"\r\n\n" + CSV, (N, C))
    cases["csv, a short row after blank lines"] = (b"\n\n" + csv_row(b"q1"), "line 22: ")
    cases["csv, CRLF"] = (CSV.replace(b"\n", b"\r\n"), (N, C))
    for text, message in {
        "q,8,9": "'c' is 9, more than 'n', 8", "q,-1,0": REFUSE, "q,8,-1": REFUSE,
        "q,8.5,1": REFUSE, "q,1e18,1": "'n' must be at most 1,000,000,000,000",
        "q,x,1": REFUSE, "q,8,": REFUSE, "q,nan,1": REFUSE, "q,inf,1": REFUSE,
    }.items():  # fmt: skip
        cases[f"counts {text}"] = (COUNTS + text.encode() + b"\n", message)
    cases["counts, n = 0"] = (COUNTS + b"q,0,0\n", (72, 36))
    for tenth in range(1, 10):
        cut = NESTED[: len(NESTED) * tenth // 10]
        cases[f"document cut at {tenth}/10"] = (cut, "line 1: not JSON")
    for value in ('"x"', "2", "0.5", '{"a": 1}', '[["x"]]'):
        bad = NESTED.replace(b"[true, false", f"[{value}, false".encode(), 1)
        cases[f"{value} among flags"] = (bad, REFUSE)
    cases["null among flags"] = (NESTED.replace(b"[true, ", b"[null, ", 1), (39, 14))
    cases["no flags"] = (NESTED.replace(b"}", b', "q9": []}'), (40, 15))
    deep = b"[" * 100_000 + b"]" * 100_000
    cases["deep nesting"] = (deep, REFUSE)
    cases["deep in a line"] = (line(b'{"prompt": ' + deep + b"}"), "line 20: nested too deeply")
    cases["a reward of 400 digits"] = (reward(b"1" + b"0" * 400), "line 20: 'reward' is no reward")
    for kind, data in (("UTF-16", b"\xff\xfe" + b"1\n" * 2**18), ("blanks", b" " * 2**19)):
        cases[f"gzip of {kind}, cut"] = (gzip.compress(data)[:-9], "is cut or damaged")
    responses = [{"prompt": "a", "reward": i, "resps": ["x", None][i]} for i in range(2)]
    split = {"columns": ["prompt", {"reward": 1}], "data": [["a", 1]]}
    cases["a column named by an object"] = (json.dumps(split).encode(), (1, 1))
    split = {"columns": ["prompt", "reward", "reward"], "data": [["a", 1, 0]]}
    cases["split columns twice"] = (json.dumps(split).encode(), "stands twice among 'columns'")
    cases["resps beside entries"] = (
        json.dumps([{"key": i, "flags": [1, 0], "resps": ["x", True][i]} for i in (0, 1)]).encode(),
        (4, 2),
    )
    events = [
        {"run_id": 1, "event_id": i, "sample_id": [i // 2], "type": "match",
         "data": {"correct": i % 2 == 0}} for i in range(4)
    ]  # fmt: skip
    cases["an event of a sample named by a list"] = (lines(events).encode(), (4, 2))
    cases["responses of some"] = (lines(responses).encode(), (2, 1))
    cases["nothing scored"] = (lines([{"prompt": "a", "reward": None}] * 3).encode(), REFUSE)
    cases["NaN only"] = (b'{"prompt": "a", "reward": NaN}\n' * 3, REFUSE)
    cases["one rollout"] = (b'{"prompt": "a", "reward": 1}', (1, 1))
    cases["one prompt"] = (b'{"prompt": "a", "reward": 1}\n{"prompt": "a", "reward": 0}', (2, 1))
    cases["n = 1"] = (lines([{"prompt": i, "reward": i % 2} for i in range(6)]).encode(), (6, 3))
    cases["all right"] = (
        lines([{"prompt": i % 2, "reward": 1} for i in range(6)]).encode(),
        (6, 6),
    )
    return cases


CASES = build()


def test_there_are_300():
    assert len(CASES) >= 300


@pytest.mark.parametrize("name", CASES)
def test_broken_input(name, run_audit, tmp_path):
    content, expected = CASES[name]
    path = tmp_path / "rollouts.data"
    path.write_bytes(content)
    few = ("--k", 1, "--N", 2, "--rho", 0.1, "--rules", "rloo", "--gamma", 0)
    code, out, err = run_audit(path, "--json", *few)
    if isinstance(expected, tuple):
        assert code == 0, err
        got = json.loads(out)
        assert (got["scored"], got["correct"]) == expected
        if got["rollouts"] != got["scored"] or got["prompts"] == 1:
            assert got["warnings"]
        return
    assert (code, out) == (2, ""), err
    assert err.startswith(f"tailmiss: {path}"), err
    assert err.count("\n") == 1
    assert (expected or "") in err


def test_paths_that_are_no_files(run_audit, tmp_path):
    for path, message in ((tmp_path, "is a directory"), (tmp_path / "x", "No such file")):
        code, out, err = run_audit(path)
        assert (code, out) == (2, "")
        assert f"{path}" in err
        assert message in err
        assert err.count("\n") == 1


def test_broken_standard_input(run_audit, monkeypatch):
    for data in (b"", b"{", gzip.compress(JSONL)[:-9], b"\0" * 50):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code, out, err = run_audit("-")
        assert (code, out) == (2, "")
        assert err.startswith("tailmiss: standard input: ")
        assert err.count("\n") == 1


def test_nesting_of_any_depth_is_read_or_refused(run_audit, tmp_path):
    """The reader, the search for fields and the search for text give up at depths of their own."""
    path = tmp_path / "r.jsonl"
    for depth in range(100, 1000, 100):
        for name, key in (("info", "x"), ("completion", "content")):
            nested = f'{{"{key}": ' * depth + '"text"' + "}" * depth
            path.write_text(f'{{"prompt": "a", "reward": 1, "{name}": {nested}}}\n' * 2)
            code, _, err = run_audit(path, "--k", 1, "--N", 2, "--gamma", 0, "--rules", "rloo")
            assert (code, err) == (0, "") or (code == 2 and "nested too deeply" in err)


def test_half_a_surrogate_pair_is_escaped(run_audit, tmp_path):
    """As a cut emoji leaves it in JSON; neither a terminal nor a table can hold it."""
    path = tmp_path / "r.jsonl"
    row = '{"prompt": "a\\ud83d", "step": "\\ud800", "answer": "\\udfff", "reward": %d}\n'
    path.write_text(row % 0 + row % 1)
    code, out, err = run_audit(path, "--k", 1, "--N", 2, "--out", tmp_path / "out")
    assert code == 0, err
    assert r"step \ud800: success 0.5000" in out
    assert (tmp_path / "out" / "report.html").exists()
    assert read_rollouts(path).to_frame()["prompt"].tolist() == [r"a\ud83d"] * 2


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs names of open pipes")
def test_a_pipe_is_read(run_audit):
    """As the shell makes one of <(zstdcat rollouts.jsonl.zst)."""
    out, into = os.pipe()
    os.write(into, JSONL)
    os.close(into)
    code, text, _ = run_audit(f"/dev/fd/{out}", "--json", "--k", 1, "--N", 2)
    os.close(out)
    assert (code, json.loads(text)["correct"]) == (0, C)
