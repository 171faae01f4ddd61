"""The command `tailmiss audit` through its real entry point, and the report it writes."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys

import pytest
from rollout_files import REAL, REFUSED, TRUTH, UNDERSTOOD

from tailmiss import audit, read_rollouts
from tailmiss.report import render, write_report


def test_json_is_one_object_on_standard_output(run_audit):
    file = "tau_bench_gpt4o_airline_n4.json"
    code, out, _ = run_audit(REAL / file, "--json", "--k", "1,2,4", "--N", "2,4")
    assert code == 0
    got = json.loads(out)
    truth = TRUTH[file]["views"]["task_id"]
    assert got["pass_at_k"]["4"]["value"] == pytest.approx(truth["pass@k"]["4"]["float"], abs=1e-12)
    assert got["pass_hat_k"]["4"]["value"] == pytest.approx(0.2, abs=1e-12)
    assert got["columns"]["reward"] == "reward"


def test_text_says_what_was_taken(run_audit):
    code, out, err = run_audit(
        REAL / "rookworld_continuous_rewards_n8.json", "--threshold", 1, "--k", 1, "--N", "2,8"
    )
    assert code == 0
    assert "reward = rewards, text = completions; success is reward >= 1" in out
    assert "prompt = entry of sample_results" in out
    assert "warning: 4 groups without a signal" in out
    assert err == ""


def test_refusals_are_one_line_and_exit_2(run_audit, tmp_path):
    for name, (file, content, message) in REFUSED.items():
        path = tmp_path / file
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        code, out, err = run_audit(path)
        assert (code, out) == (2, ""), name
        assert err.startswith(f"tailmiss: {path}"), name
        assert message in err
        assert err.count("\n") == 1


def test_options_reach_the_reader(run_audit, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(REFUSED["two filters"][1])
    few = ("--json", "--k", 1, "--N", 2)
    code, out, _ = run_audit(path, "--where", "filter=strict", *few)
    assert (code, json.loads(out)["rollouts"]) == (0, 3)
    code, _, err = run_audit(path, "--where", "strict")
    assert (code, "--where must be COLUMN=VALUE" in err) == (2, True)
    code, _, err = run_audit(path, "--k", "a")
    assert (code, "--k must be numbers" in err) == (2, True)
    assert run_audit()[0] == 2
    code, _, err = run_audit(path, "--curve", path)
    assert (code, "give one of the two" in err) == (2, True)


def test_options_that_cannot_be_served_are_refused_not_ignored(run_audit, tmp_path):
    counts, rollouts, nested = (tmp_path / name for name in ("c.csv", "r.csv", "n.json"))
    counts.write_text("problem,n,c\na,8,1\nb,8,3\n")
    rollouts.write_text("prompt,reward,total\na,1,2\na,0,2\n")
    nested.write_text('[{"prompt": "a", "rewards": [1, 0]}, {"prompt": "b", "rewards": [1, 1]}]')
    for arguments, said in {
        (counts, "--answer", "x"): "holds counts, no responses: there is no answer 'x'",
        (counts, "--n", "n", "--reward", "c"): "n and c are for a table of counts",
        (nested, "--n", "rewards"): "n and c are for a table of counts",
        (rollouts, "--n", "total"): "a number of successes for each prompt is missing",
        (rollouts, "--answer", "prompt"): "'prompt' is the prompt, so it cannot be the answer too",
        (rollouts, "--where", "prompt=a", "--where", "prompt=b"): "--where takes a column once",
        (rollouts, "--rho", ","): "rho must hold at least one value",
        (rollouts, "--gamma", ","): "gamma must hold at least one value",
    }.items():
        code, out, err = run_audit(*arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err
        assert err.count("\n") == 1


def test_words_among_numbers_and_a_threshold_out_of_reach_are_said(run_audit, tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("prompt,reward\na,1\na,yes\nb,0\nb,1\n")
    assert "1 reward(s) in 'reward' are words ('yes'): read as 1 or 0" in run_audit(path)[1]
    path.write_text("prompt,reward\na,yes\na,no\nb,no\nb,yes\n")
    assert "are words" not in run_audit(path)[1]
    path.write_text("prompt,reward\na,.8\na,.2\nb,.1\nb,.5\n")
    out = run_audit(path, "--threshold", 5)[1]
    assert "no reward in 'reward' reaches 5: the largest is 0.8" in out
    assert "no reward" not in run_audit(path, "--threshold", 0.8)[1]


def test_the_last_line_says_what_to_do(run_audit, tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("problem,n,c\n" + "".join(f"{i},16,{i * 7 % 17}\n" for i in range(500)))
    last = run_audit(path, "--k", 1, "--N", 2)[1].splitlines()[-1]
    assert last.startswith("What to do, if correct answers that are 5% of the correct mass matter")
    assert last in html.unescape(render(audit(read_rollouts(path), k=[1], N=[2])))


def test_a_focal_exponent_that_leaves_nothing_is_not_reported(run_audit, tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("problem,n,c\n" + "".join(f"{i},8,{1 + i % 7}\n" for i in range(20)))
    few = ("--k", 1, "--N", 2, "--rho", 0.1, "--rules", "grpo", "--gamma", "0,1e6")
    code, out, err = run_audit(path, *few)
    assert (code, err, "F-GRPO" in out) == (0, "", False)
    shares = json.loads(run_audit(path, *few, "--json")[1])["gradient"]["shares"]
    assert [set(each["shares"]) == {None} for each in shares] == [False, True]


def test_scipy_does_not_share_four_unknowns_among_threads(tmp_path):
    """On busy cores the fit takes 100 times as long where it does."""
    (tmp_path / "r.csv").write_text("prompt,reward\na,1\na,0\nb,1\nb,1\n")
    program = """
import ctypes, pathlib, sys
from tailmiss import cli
sys.argv = ["tailmiss", "audit", "r.csv", "--k", "1", "--N", "2"]
try:
    cli.main()
finally:
    import scipy
    for path in (pathlib.Path(scipy.__file__).parents[1] / "scipy.libs").glob("*openblas*"):
        print("threads", ctypes.CDLL(path).scipy_openblas_get_num_threads())
"""
    plain = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr
    if "threads" not in done.stdout:
        pytest.skip("SciPy has no OpenBLAS of its own")
    assert done.stdout.splitlines()[-1] == "threads 1"


def test_names_are_shown_on_a_terminal_that_cannot_write_them(tmp_path):
    (tmp_path / "é.csv").write_text("prompt,reward\na,1\na,0\n")
    command = [sys.executable, "-m", "tailmiss", "audit", "é.csv", "--k", "1", "--N", "2"]
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(r"\xe9.csv: read as CSV")


def test_a_curve_that_cannot_be_exits_1(run_audit, tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("k,value\n1,10.0\n2,40.0\n")
    code, out, _ = run_audit("--curve", path, "--samples", 64, "--json", "--N", "2,8")
    got = json.loads(out)
    assert (code, got["feasible"]) == (1, False)
    assert got["misfit_points"] == pytest.approx(7.8, abs=0.2)
    code, out, _ = run_audit("--curve", path, "--samples", 64, "--N", 2)
    assert code == 1
    assert "impossible: no problems in any proportions come closer than" in out
    path.write_text("k,value\n1,20.0\n4,40.0\n")
    code, out, _ = run_audit(
        "--curve", path, "--samples", 64, "--N", "2,8", "--out", tmp_path / "out"
    )
    assert (code, "possible: some problems have this curve" in out) == (0, True)
    assert (tmp_path / "out" / "bounds.csv").exists()
    code, _, err = run_audit("--curve", path)
    assert (code, "--samples" in err) == (2, True)


def test_a_newcomer_from_another_folder(tmp_path):
    (tmp_path / "r.csv").write_text("prompt,reward\na,1\na,0\nb,1\nb,1\n")
    command = [sys.executable, "-m", "tailmiss.cli", "audit", "r.csv", "--json", "--k", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["success_rate"] == 0.75
    broken = subprocess.run(
        [*command[:4], "-"], input="{", cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (broken.returncode, broken.stdout) == (2, "")
    assert broken.stderr.startswith("tailmiss: standard input: line 1: not JSON")


def small(path=REAL / "aime25_one_prompt_n80_answers_scores.json", **options):
    return audit(read_rollouts(path, **options), k=[1, 2, 128], N=[2, 4, 128])


def test_report_is_one_file_that_stands_alone(tmp_path):
    written = write_report(audit(([8] * 40, [0, 1, 3, 8] * 10), k=[1, 16], N=[4, 16]), tmp_path)
    assert {path.name for path in written} == {
        "report.html", "audit.json", "audit.csv", "mixed_share.svg", "mixed_share.png",
        "pass_at_k.svg", "pass_at_k.png", "success_rates.svg", "success_rates.png",
    }  # fmt: skip
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "Group size 8:" in page
    outside = re.findall(r'(?:src|href)="(?!#)[^"]*"|url\((?!#)[^)]*\)|@import|<script', page)
    assert outside == []
    assert json.loads((tmp_path / "audit.json").read_text())["prompts"] == 40
    assert page == render(audit(([8] * 40, [0, 1, 3, 8] * 10), k=[1, 16], N=[4, 16]))


def test_report_of_awkward_audits(tmp_path):
    for result in (
        small(),
        small(REAL / "evalplus_old_eval_results_n10_all_failed.json"),
        audit(([1], [1])),
        audit(read_rollouts(sorted(REAL.glob("trl_completions_*.parquet"))), k=[1], N=[2, 4]),
    ):
        page = render(result)
        assert "nan" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.S)
        assert result.format in page


def test_report_escapes_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("<script>alert(1)</script>,reward\na,1\na,0\nb,0\nb,0\n")
    result = audit(read_rollouts(path, prompt="<script>alert(1)</script>"), k=[1], N=[2])
    assert "<script" not in render(result)


def test_layouts_can_be_audited(tmp_path):
    for file, content, n, c, *_ in list(UNDERSTOOD.values())[::3]:
        path = tmp_path / file
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        got = audit(read_rollouts(path), k=[1], N=[2], rho=0.1, rules=["rloo"], gamma=[0.0])
        assert (got.scored, got.correct) == (sum(n), sum(c))
        assert json.dumps(got.to_dict(), allow_nan=False)
