"""Small files in the layouts that trainers and evaluations write, for the tests of the readers."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

REAL = Path(__file__).parent / "data" / "rollouts"
TRUTH = json.loads((REAL / "truth.json").read_text())
TINY = 1e-9
OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("reasoning_gym_word_ladder_partial_n3.json", "entry_score_eq_1"): {"threshold": 1},
    ("reasoning_gym_word_ladder_partial_n3.json", "entry_score_gt_0"): {"threshold": TINY},
    ("reasoning_gym_word_ladder_partial_n3.json", "question_text_score_eq_1"): {
        "threshold": 1,
        "prompt": "question",
    },
    ("reasoning_gym_hanoi_dup_questions_n3.json", "entry_score_eq_1"): {"threshold": 1},
    ("reasoning_gym_hanoi_dup_questions_n3.json", "entry_score_gt_0"): {"threshold": TINY},
    ("reasoning_gym_hanoi_dup_questions_n3.json", "question_text_score_eq_1"): {
        "threshold": 1,
        "prompt": "question",
    },
    ("tau_bench_gpt4o_airline_n4.json", "trap_trial_as_prompt"): {"prompt": "trial"},
    ("aime25_one_prompt_n80_answers_scores.json", "trap_scores_gt_0.5"): {
        "reward": "scores",
        "threshold": 0.5,
    },
    ("evalplus_old_eval_results_n10_all_failed.json", "plus"): {"reward": "plus"},
    ("rookworld_continuous_rewards_n8.json", "reward_eq_1"): {"threshold": 1},
    ("rookworld_continuous_rewards_n8.json", "trap_reward_gt_0"): {"threshold": TINY},
}
VIEWS = [(file, view) for file, entry in TRUTH.items() for view in entry["views"]]


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def harness(doc: int, value: float, *, filter_: str = "none", repeats: int = 1) -> dict[str, Any]:
    """One line of samples_*.jsonl of lm-evaluation-harness."""
    return {
        "doc_id": doc,
        "doc": {"question": f"q{doc}", "answer": "gold"},
        "target": "3",
        "arguments": {"gen_args_0": {"arg_0": "x"}},
        "resps": [["3"] * repeats],
        "filtered_resps": ["3"],
        "filter": filter_,
        "metrics": ["exact_match"],
        "doc_hash": "h",
        "exact_match": value,
    }


def verl(i: int, **extra: Any) -> dict[str, Any]:
    """One line of a rollout or validation dump of verl: inputs, outputs, gts, scores, step."""
    score = [1.0, -1.0][i // 2 % 2]
    return {"input": f"q{i % 2}", "output": f"o{i}", "gts": "1", "score": score, "step": 5, **extra}


def zipped(members: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return data.getvalue()


def _by_file(folder: str) -> dict[str, str]:
    return {
        f"{folder}q{i}_sample{j}.json": json.dumps({"success": j < i})
        for i in range(3)
        for j in range(4)
    }


def _rollouts(step: int) -> list[dict[str, Any]]:
    return [{"prompt": f"q{i % 2}", "reward": int(i < 2 * step)} for i in range(4)]


_SAMPLES = [
    {
        "task_id": f"HumanEval/{i}",
        "completion": "x",
        "result": "passed" if j == 0 else "failed: AssertionError",
        "passed": j == 0,
    }
    for i in range(3)
    for j in range(4)
]
_EVALPLUS = {
    "date": "x",
    "hash": "y",
    "eval": {
        f"HumanEval/{i}": [
            {
                "task_id": f"HumanEval/{i}",
                "solution": "def f",
                "base_status": "pass" if j < i else "fail",
                "plus_status": "fail" if j else "pass",
                "base_fail_tests": [],
            }
            for j in range(4)
        ]
        for i in range(3)
    },
}
_LCB = [
    {
        "question_id": f"{i}",
        "question_content": "c",
        "output_list": ["a", "b"],
        "code_list": ["a", "b"],
        "graded_list": [True, i == 0],
        "pass@1": 0.5,
        "metadata": ["{}", "{}"],
    }
    for i in range(3)
]
_LCB_TESTS = [
    {"pass@1": 0.5, "detail": {"pass@1": {"0": 0.5}}},
    {"0": [[True, True], [-2]], "1": [[True, False], [-1]]},
    ["m"],
]
_MULTIPL = {
    f"HumanEval_{i}.results.json": json.dumps(
        {
            "name": f"HumanEval_{i}",
            "prompt": f"p{i}",
            "results": [
                {"program": "a", "status": "OK" if j < i else "Exception"} for j in range(4)
            ],
        }
    )
    for i in range(3)
}
_ROWS = [{"prompt": "a", "reward": r} for r in (1, 0)]
_STEPS = {
    "columns": ["step", "prompt", "completion", "reward"],
    "data": [[1, "a", "x", 1], [1, "a", "y", 0], [2, "a", "x", 1], [2, "a", "z", 1]],
}
_BY_FOLDER = {
    f"out/q{i}/sample_{j}.json": json.dumps({"completion": "x", "reward": int(j < i)})
    for i in range(3)
    for j in range(4)
}
_BY_NAME = {
    f"q{i}_{j}.json": json.dumps({"prompt": f"p{i}", "reward": int(j < i)})
    for i in range(3)
    for j in range(4)
} | {"README.txt": "not data"}
_OBJECTS = {
    "q1": [{"answer": "3", "score": 1}, {"answer": "4", "score": 0}],
    "q2": [{"answer": "3", "score": 0}, {"answer": "4", "score": 0}],
}
_CHAT = [
    {
        "prompt": [{"role": "user", "content": f"q{i % 2}"}],
        "completion": [{"role": "assistant", "content": "x"}],
        "reward": float(i // 2),
    }
    for i in range(4)
]
_TRL = {"step": 1, "prompt": "a", "completion": "c", "advantage": 0.0}
_GOLD = [
    {"question": f"q{i % 3}", "answer": f"g{i % 3}", "correct": bool(i // 3 % 2)} for i in range(12)
]
_HARNESS = [harness(i, float(i % 2)) for i in range(6)]
_REPEATED = [harness(i, float(i % 2), repeats=4) for i in range(6)]
_PARALLEL = [{"problem": f"q{i}", "preds": ["1", "2"], "rewards": [1, 0]} for i in range(3)]
_BOTH = [{"task_id": i, "n": 3, "c": 2, "correct": [True, False, True]} for i in range(3)]
_UNIQUE = [{"id": i, "question": f"q{i % 3}", "correct": bool(i % 2)} for i in range(12)]
_SOME_NONE = [{"prompt": "a", "reward": r} for r in (1, None, 0, None)]
_ALL_NONE = [{"prompt": "b", "reward": None}] * 2
_MINUS = [{"prompt": "a", "reward": r} for r in (1, -1, -1, -1)]

# name -> (file name, content, n, c, unscored in all, {role: column})
UNDERSTOOD: dict[str, tuple[str, Any, list[int], list[int], int, dict[str, str]]] = {
    "verl": (
        "5.jsonl",
        lines([verl(i, acc=i // 2 % 2 == 0, pred="a") for i in range(8)]),
        [4, 4], [2, 2], 0, {"prompt": "input", "reward": "acc", "step": "step", "answer": "pred"},
    ),
    "verl, score only": (
        "6.jsonl", lines([verl(i) for i in range(8)]), [4, 4], [2, 2], 0, {"reward": "score"},
    ),
    "harness": ("s.jsonl", lines(_HARNESS), [1] * 6, [0, 1] * 3, 0, {"reward": "exact_match"}),
    "harness, repeats": ("s.jsonl", lines(_REPEATED), [1] * 6, [0, 1] * 3, 0, {"prompt": "doc_id"}),
    "EvalPlus": (
        "e.json", json.dumps(_EVALPLUS), [4] * 3, [0, 1, 2], 0, {"reward": "base_status"},
    ),
    "HumanEval": ("h.jsonl", lines(_SAMPLES), [4] * 3, [1] * 3, 0, {"reward": "passed"}),
    "LiveCodeBench": ("l.json", json.dumps(_LCB), [2] * 3, [2, 1, 1], 0, {"reward": "graded_list"}),
    "LiveCodeBench tests": ("l.json", json.dumps(_LCB_TESTS), [2, 2], [1, 0], 0, {}),
    "flags by prompt": (
        "n.json", '{"q1": [true, false, true], "q2": [false]}', [3, 1], [2, 0], 0, {},
    ),
    "0/1/null by prompt": (
        "n.json", '{"q1": [1, 0, 1], "q2": [0, null, 0]}', [3, 2], [2, 0], 1, {},
    ),
    "counts by prompt": (
        "n.json", '{"q1": {"n": 8, "c": 3}, "q2": {"n": 8, "c": 0}}', [8, 8], [3, 0], 0, {},
    ),
    "objects by prompt": (
        "n.json", json.dumps(_OBJECTS), [2, 2], [1, 0], 0, {"reward": "score", "answer": "answer"},
    ),
    "lists by prompt": (
        "n.json", '{"q1": {"answers": ["3", "4"], "correct": [1, 0]},'
        ' "q2": {"answers": ["3", "4"], "correct": [0, 0]}}',
        [2, 2], [1, 0], 0, {"reward": "correct", "answer": "answers"},
    ),
    "numbered flags": (
        "n.json", '{"q1": {"0": true, "1": false}, "q2": {"0": true, "1": true}}',
        [2, 2], [1, 2], 0, {},
    ),
    "one flag a prompt": ("n.json", '{"q1": true, "q2": false}', [1, 1], [1, 0], 0, {}),
    "csv": (
        "r.csv", "prompt,reward,answer\na,1,x\nb,0,y\na,0,z\nb,1,w\n",
        [2, 2], [1, 1], 0, {"prompt": "prompt", "reward": "reward", "answer": "answer"},
    ),
    "csv, empty cell": ("r.csv", "prompt,reward\na,1\nb,0\na,\n", [1, 1], [1, 0], 1, {}),
    "tsv": ("r.tsv", "problem_id\tcorrect\na\tTrue\na\tFalse\n", [2], [1], 0, {}),
    "semicolons": ("r.txt", "prompt;reward\r\na;1\r\na;0\r\n", [2], [1], 0, {}),
    "quoted lines": ("r.csv", 'prompt,reward\n"a\nb, c",1\n"a\nb, c",0\n', [2], [1], 0, {}),
    "counts": ("c.csv", "prompt,n,c\na,8,3\nb,8,0\n", [8, 8], [3, 0], 0, {"reward": "c of n"}),
    "counts, n called k": ("c.csv", "problem,k,num_correct\na,8,3\nb,8,0\n", [8, 8], [3, 0], 0, {}),
    "counts with a decoy": (
        "c.csv", "prompt,n,c,num_passed\na,8,3,5\nb,8,0,8\n", [8, 8], [3, 0], 0, {},
    ),
    "counts, total": ("c.csv", "task_id,total,correct\na,8,3\nb,8,0\n", [8, 8], [3, 0], 0, {}),
    "group size beside flags": (
        "c.csv", "prompt,n,correct\na,2,1\na,2,0\nb,2,1\nb,2,1\n", [2, 2], [1, 2], 0, {},
    ),
    "counts without names": ("c.csv", "n,c\n8,3\n8,0\n", [8, 8], [3, 0], 0, {"prompt": "row"}),
    "counts with their sum": (
        "c.csv", "prompt,n,c\na,8,3\nb,8,0\nTotal,16,3\n", [8, 8], [3, 0], 0, {},
    ),
    "columns": (
        "k.json", '{"prompt": ["a", "b", "a"], "reward": [1, 0, 0]}', [2, 1], [1, 0], 0, {},
    ),
    "pandas columns": (
        "k.json", '{"prompt": {"0": "a", "1": "a"}, "reward": {"0": 1, "1": 0}}', [2], [1], 0, {},
    ),
    "split table": ("k.json", json.dumps(_STEPS), [2, 2], [1, 2], 0, {"step": "step"}),
    "records": ("k.json", json.dumps(_ROWS), [2], [1], 0, {}),
    "one record": ("k.json", '{"prompt": "a", "reward": 1}', [1], [1], 0, {}),
    "matrix": ("k.json", "[[1, 0, 1], [0, 0, 0]]", [3, 3], [2, 0], 0, {}),
    "zip by folder": ("z.zip", zipped(_BY_FOLDER), [4] * 3, [0, 1, 2], 0, {"prompt": "folder"}),
    "zip by prompt": ("z.zip", zipped(_BY_NAME), [4] * 3, [0, 1, 2], 0, {"prompt": "prompt"}),
    "zip by file": ("z.zip", zipped(_by_file("run/")), [4] * 3, [0, 1, 2], 0, {"prompt": "file"}),
    "zip of results": ("z.zip", zipped(_MULTIPL), [4] * 3, [0, 1, 2], 0, {"reward": "status"}),
    "summary line": ("s.jsonl", lines([*_ROWS, {"mean_reward": 0.5, "total": 2}]), [2], [1], 0, {}),
    "blank lines": ("s.jsonl", "\n\n" + lines(_ROWS).replace("\n", "\n\n"), [2], [1], 0, {}),
    "byte order mark": ("s.jsonl", b"\xef\xbb\xbf" + lines(_ROWS).encode(), [2], [1], 0, {}),
    "utf-16": ("s.jsonl", lines(_ROWS).encode("utf-16"), [2], [1], 0, {}),
    "abstentions": ("s.jsonl", lines(_SOME_NONE + _ALL_NONE), [2, 0], [1, 0], 4, {}),
    "failure is -1": ("s.jsonl", lines(_MINUS), [4], [1], 0, {}),
    "one reward function": (
        "s.jsonl", lines([{**_TRL, "my_checker": float(i % 2)} for i in range(4)]),
        [4], [2], 0, {"reward": "my_checker"},
    ),
    "chat messages": ("s.jsonl", lines(_CHAT), [2, 2], [1, 1], 0, {"prompt": "prompt"}),
    "unique ids": ("s.jsonl", lines(_UNIQUE), [4] * 3, [2] * 3, 0, {"prompt": "question"}),
    "gold answers": ("s.jsonl", lines(_GOLD), [4] * 3, [2] * 3, 0, {"prompt": "question"}),
    "lists in rows": ("s.jsonl", lines(_PARALLEL), [2] * 3, [1] * 3, 0, {"answer": "preds"}),
    "prompts called by common words": (
        "n.json", '{"code": [true, false], "text": [true, true]}', [2, 2], [1, 2], 0, {},
    ),
    "counts, pass of total": (
        "n.json", '{"q1": {"pass": 3, "total": 8}, "q2": {"pass": 0, "total": 8}}',
        [8, 8], [3, 0], 0, {},
    ),
    "group size beside one flag": (
        "s.jsonl", lines([{"task_id": i, "n": 8, "correct": i > 0} for i in range(3)]),
        [1] * 3, [0, 1, 1], 0, {"reward": "correct"},
    ),
    "one line a step": (
        "s.jsonl",
        lines([{"step": s, "rollouts": _rollouts(s)} for s in range(2)]),
        [2] * 4, [0, 0, 1, 1], 0, {"prompt": "prompt", "step": "step"},
    ),
    "flags and counts": ("s.jsonl", lines(_BOTH), [3] * 3, [2] * 3, 0, {"reward": "correct"}),
}  # fmt: skip


_LOG = [{"loss": 0.1, "reward": 0.4, "reward_std": 0.2, "step": i} for i in range(5)]
_TWO_FILTERS = [harness(i, 0.0, filter_=f) for i in range(3) for f in ("strict", "flexible")]
_TWO_REWARDS = [{**_TRL, "format_reward": float(i % 2), "len_reward": 1.0} for i in range(4)]

# name -> (file name, content, what the message says)
REFUSED: dict[str, tuple[str, Any, str]] = {
    "two filters": ("s.jsonl", lines(_TWO_FILTERS), "--where filter=flexible"),
    "two reward functions": ("s.jsonl", lines(_TWO_REWARDS), "format_reward and len_reward"),
    "training log": ("s.jsonl", lines(_LOG), "training metrics, not rollouts"),
    "trainer state": ("s.json", json.dumps({"log_history": _LOG}), "training metrics"),
    "partial credit": ("s.json", '{"q1": [0.5, 0, 1]}', "0 (1x), 0.5 (1x), 1 (1x)"),
    "bare rewards": ("s.json", '{"reward": [1, 0, 0]}', "nothing tells prompts apart"),
    "two counts": ("s.csv", "prompt,n,num_correct,num_passed\na,8,3,5\n", "choose with --c"),
    "counts or flags": ("s.csv", "prompt,n,correct\na,8,1\nb,8,0\n", "or the flag of one"),
    "counts below 0": ("s.csv", "prompt,n,c\na,8,-1\n", "line 2: 'c' must be a whole number"),
    "counts of counts": ("s.csv", "n,c,prompts\n8,0,10\n8,1,3\n", "how many share the counts"),
    "counts without a name": ("s.csv", "prompt,n,c\na,8,1\n,8,2\n", "line 3: no prompt"),
    "no name": ("s.csv", "prompt,reward\na,1\n,0\na,1\n", "line 3: no prompt in 'prompt'"),
    "no step": ("s.csv", "prompt,step,reward\na,0,1\na,,0\n", "line 3: no step in 'step'"),
    "zip of numbers": (
        "s.zip", zipped({f"{i}.json": '{"reward": 1}' for i in range(4)}), "tells prompts apart",
    ),
    "zip by folder and file": (
        "s.zip", zipped({**_by_file("a/"), **_by_file("b/")}), "tells prompts apart",
    ),
    "zip of tables": (
        "s.zip", zipped({f"{q}.csv": "reward\n1\n0\n" for q in "ab"}), "tells prompts apart",
    ),
    "shares of tests": ("s.json", '{"q": [[0.5, 0.2], [1, 1]]}', "'flags' is no reward: [0.5"),
    "c above n": ("s.csv", "prompt,n,c\na,8,3\nb,8,9\n", "line 3: 'c' is 9, more than 'n', 8"),
    "ids with many texts": (
        "s.csv", "task_id,prompt,reward\n0,a,1\n0,b,0\n", "--prompt task_id or --prompt prompt",
    ),
    "one id in two tasks": (
        "s.jsonl", lines([harness(0, 1.0), {**harness(0, 0.0), "doc_hash": "other"}]),
        "--prompt doc_id or --prompt doc_hash",
    ),
    "two lists of flags": (
        "s.jsonl", lines([{"a": [True, False], "b": [True, True]}] * 2), "a reward or flag",
    ),
    "two sections": (
        "s.json", json.dumps({part: [{"prompt": "a", "reward": 1}] for part in ("train", "test")}),
        "several places ('train', 'test')",
    ),
}  # fmt: skip
