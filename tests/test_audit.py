"""Audits of real files against exact fractions, and of every warning a reader needs."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from rollout_files import OPTIONS, REAL, TRUTH, VIEWS, lines

from tailmiss import audit, read_rollouts
from tailmiss._audit_output import advice, shown_p
from tailmiss.advantages import advantage_table
from tailmiss.audit import Audit
from tailmiss.prompts import PromptPopulation

TWELVE = 1e-12
FEW = {"rho": 0.05, "rules": ["rloo"], "gamma": [0.0]}


@pytest.mark.parametrize(("file", "view"), VIEWS, ids=["/".join(v) for v in VIEWS])
def test_real_files_to_twelve_digits(file, view):
    truth = TRUTH[file]["views"][view]
    ks, sizes = [int(k) for k in truth["pass@k"]], [int(N) for N in truth["mixed_share@N"]]
    rollouts = read_rollouts(REAL / file, **OPTIONS.get((file, view), {}))
    got = audit(rollouts, k=ks, N=sizes, **FEW).to_dict()
    assert got["prompts"] == truth["n_prompts"]
    assert got["rollouts"] == truth["total_rollouts"]
    assert got["correct"] == truth["total_correct"]
    assert got["success_rate"] == pytest.approx(truth["pooled_success_rate"]["float"], abs=TWELVE)
    spread = truth["samples_per_prompt"]
    assert got["rollouts_per_group"] == {
        "smallest": spread["min"],
        "median": spread["median"],
        "largest": spread["max"],
    }
    for name, key, value in (
        ("pass@k", "pass_at_k", "value"),
        ("mixed_share@N", "mixed_share", "unbiased"),
    ):
        for at, exact in truth[name].items():
            row = got[key][at]
            assert abs(row[value] - float(Fraction(exact["fraction"]))) < TWELVE, (name, at)
            assert row["prompts"] == exact["prompts_used"]
    for k, exact in truth.get("pass^k_all_k_succeed", {}).items():
        powers = audit(rollouts, k=[int(k)], N=[2], **FEW).pass_hat_k[int(k)].value
        assert abs(powers - float(Fraction(exact["fraction"]))) < TWELVE


def test_cruxeval_says_what_the_file_says_of_itself():
    got = audit(read_rollouts(REAL / "cruxeval_codellama7b_input_n10.json"), k=[1, 5], N=[8], **FEW)
    claims = TRUTH["cruxeval_codellama7b_input_n10.json"]["views"]["raw_scored_generations"]
    for k in (1, 5):
        claim = claims["file_claims"][f"pass_at_{k}"]
        assert 100 * got.pass_at_k[k].value == pytest.approx(claim, rel=1e-12)
    assert got.mixed_share[8].naive > 0.97
    assert got.mixed_share[8].value == pytest.approx(0.2006, abs=1e-4)


def test_aime_answers():
    got = audit(read_rollouts(REAL / "aime25_one_prompt_n80_answers_scores.json")).answers
    truth = TRUTH["aime25_one_prompt_n80_answers_scores.json"]["views"]["correct"]
    assert got.distinct == truth["distinct_answers"] == 15
    assert got.once == truth["answers_seen_once"] == 12
    assert got.majority_correct == truth["majority_is_correct"] == 0
    assert (got.distinct_correct, got.singletons, got.unseen_mass) == (1, 0, 0.0)
    everything = read_rollouts(
        REAL / "aime25_one_prompt_n80_answers_scores.json", reward="correct", threshold=0
    )
    mass = Fraction(truth["good_turing_unseen_answer_mass"]["fraction"])
    assert audit(everything).answers.unseen_mass == float(mass)


LAWS = {
    "two points": lambda rng, size: rng.choice([0.05, 0.8], size),
    "log-normal": lambda rng, size: np.minimum(np.exp(rng.normal(-3, 1.2, size)), 1),
    "beta": lambda rng, size: rng.beta(0.7, 2, size),
    "mostly never": lambda rng, size: np.where(rng.random(size) < 0.7, 0.0, rng.random(size)),
}


@pytest.mark.parametrize("law", LAWS)
def test_any_law_bounds_hold_where_the_fit_does_not(law, rng):
    p = LAWS[law](rng, 3000)
    got = audit((np.full(p.size, 8), rng.binomial(8, p)), k=[64], N=[64], **FEW)
    passed, mixed = (1 - (1 - p) ** 64).mean(), (1 - (1 - p) ** 64 - p**64).mean()
    for row, truth in ((got.pass_at_k[64], passed), (got.mixed_share[64], mixed)):
        assert row.extrapolated
        assert row.least < truth < row.most
        assert row.least < row.fitted < row.most
    assert np.isnan([got.tail_miss[0.05][64].least, got.pass_at_k[64].value]).all()
    if law == "two points":
        assert got.pass_at_k[64].fitted_high < passed - 0.1
        assert got.fit_p_value < 0.05
        assert any("does not fit the counts" in w for w in got.warnings)
    if law == "beta":
        assert got.fit_p_value > 0.01


def test_any_law_bounds_by_hand():
    """Rates 0.5 and 0: up to n = 4 the sample is all that is known; past it Jensen bounds it."""
    n, c = np.full(400, 4), np.repeat([0, 2], 200)
    got = audit((n, c), k=[4, 8], N=[8], **FEW)
    base = got.pass_at_k[4]
    row = got.pass_at_k[8]
    assert (row.least, row.most) == (base.low, 1 - (1 - base.high) ** 2)
    assert got.mixed_share[8].most == pytest.approx(row.most)
    assert math.isnan(base.least)
    every = audit((np.full(50, 4), np.repeat([1, 2], 25)), k=[8], N=[8], **FEW).pass_at_k[8]
    assert (every.least, every.most) == (pytest.approx(0.025 ** (1 / 50)), 1)


def test_every_extrapolated_value_says_what_it_assumes():
    from tailmiss._audit_rows import CAUTION
    from tailmiss._cli_audit import _text
    from tailmiss.report import render

    got = audit(([8] * 40, [0, 1, 3, 8] * 10), k=[4, 16, 32], N=[4, 16], **FEW)
    found = got.to_dict()
    for table in (found["pass_at_k"], found["mixed_share"], found["tail_miss"]["0.05"]):
        for at, row in table.items():
            assert row.get("caution") == (CAUTION if int(at) > 8 else None)
    assert found["extrapolation"] == {
        "from": 8, "fit_p_value": got.fit_p_value, "caution": CAUTION,
    }  # fmt: skip
    rows = [line for line in _text(got) if line[:22].isspace() and line.split()[0].isdigit()]
    assert rows
    for line in rows:
        assert ("if Beta" in line) == (int(line.split()[0]) > 8), line
    page = render(got)
    assert page.count("†</td>") == sum(int(line.split()[0]) > 8 for line in rows)
    assert page.count("† Caution, past the rollouts") == 3
    assert any("Caution: if success rates follow another law" in s for s in got.summary())
    inside = audit(([8] * 40, [0, 1, 3, 8] * 10), k=[4], N=[4], group_size=4, **FEW)
    assert "†</td>" not in render(inside)


def test_two_prompts_by_hand():
    got = audit(([8, 8], [0, 4]), N=[4], k=[8])
    assert got.mixed_share[4].value == pytest.approx(17 / 35)
    assert got.mixed_share[4].naive == pytest.approx(0.6796875)
    assert got.pass_at_k[8].value == 0.5
    assert any("only 2 prompts" in w for w in got.warnings)


def test_tail_miss_up_to_n_is_unbiased_and_past_n_is_fitted(rng):
    rates = rng.beta(0.8, 1.5, 4000)
    c = rng.binomial(12, rates)
    got = audit((np.full(4000, 12), c), rho=0.1, N=[8, 64], k=[1])
    inside, outside = got.tail_miss[0.1][8], got.tail_miss[0.1][64]
    truth = PromptPopulation(0.8, 1.5)
    assert inside.low < truth.tail_miss_prob(8, 0.1) < inside.high
    assert outside.fitted == pytest.approx(truth.tail_miss_prob(64, 0.1), abs=0.03)
    assert math.isnan(outside.value)
    assert outside.prompts == 0


def test_uneven_groups_are_said():
    got = audit(([2, 2, 8], [1, 0, 4]), k=[2, 4], N=[2], **FEW)
    assert [got.pass_at_k[k].prompts for k in (2, 4)] == [3, 1]
    assert any("rests on fewer prompts (1 of 3 at k = 4)" in w for w in got.warnings)


def test_k_beyond_every_prompt_rests_on_nothing():
    got = audit(([2], [0]), k=[5], N=[2]).to_dict()["pass_at_k"]["5"]
    assert (got["value"], got["low"], got["prompts"]) == (None, None, 0)


def test_sentences_of_small_audits():
    none = audit(([2], [0]), k=[5], N=[2]).summary()
    assert none[2] == "0 of 2 scored rollouts succeed (0.0%); no prompt has k rollouts."
    large = audit(([4, 4], [4, 4]), group_size=8).summary()
    assert large[0] == "Group size 8: no prompt has so many rollouts."
    singles = audit(([1, 1, 1, 4, 4], [0, 1, 1, 1, 2]), k=[1], N=[2], **FEW).summary()
    assert singles[0].startswith("Group size 1: no group can be mixed")


def test_what_was_not_scored_does_not_stop_the_rest(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("step,prompt,reward\n1,a,1\n1,a,0\n2,a,\n2,a,\n")
    got = audit(read_rollouts(path), k=[1], N=[2], **FEW)
    assert list(got.by_step) == ["1"]
    assert "no rollout is scored at step 2" in got.warnings
    assert audit(([0, 0, 8], [0, 0, 2]), k=[1], N=[2], **FEW).group_size == 8


def test_nothing_succeeded_is_no_proof():
    got = audit(read_rollouts(REAL / "evalplus_old_eval_results_n10_all_failed.json"))
    assert got.population is None
    assert got.regime is None
    assert got.mixed_share[8].value == 0
    assert any("not proof; the pooled rate may be up to 0.0018" in w for w in got.warnings)
    assert got.summary()[0].startswith("Group size 10: 0.0% of groups are mixed")
    assert got.summary()[1].startswith("Nothing is said of other sizes")
    assert got.to_dict()["by_step"] is None


def test_identical_completions_are_said():
    got = audit(read_rollouts(REAL / "rookworld_continuous_rewards_n8.json", threshold=1))
    assert any("4 groups without a signal hold one completion" in w for w in got.warnings)


def test_steps_are_never_pooled(tmp_path):
    rows = [
        {"step": step, "prompt": f"q{q}", "reward": int(i < step * (q + 1))}
        for step in (0, 1)
        for q in range(3)
        for i in range(4)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text(lines(rows))
    got = audit(read_rollouts(path), N=[4], k=[1], **FEW)
    assert (got.prompts, got.groups) == (3, 6)
    assert list(got.by_step) == ["0", "1"]
    assert got.mixed_share[4].value == 0.5
    assert [got.by_step[s].mixed_share[4].value for s in ("0", "1")] == [0.0, 1.0]
    pooled = audit(read_rollouts(path, step="none"), N=[4], k=[1], **FEW)
    assert pooled.mixed_share[4].value > 0.5
    alone = got.to_dict()["by_step"]["1"]
    assert alone["mixed_share"]["4"]["unbiased"] == 1.0


def test_interval_draws_the_steps_of_a_prompt_together(tmp_path):
    rows = [
        {"step": step, "prompt": f"q{q}", "reward": int(q % 2)}
        for step in range(30)
        for q in range(10)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text(lines(rows))
    got = audit(read_rollouts(path), k=[1], N=[2], **FEW).pass_at_k[1]
    assert got.high - got.low > 0.5


def test_group_size_in_use_and_regime():
    rng = np.random.default_rng(0)
    c = rng.binomial(16, rng.beta(2, 3, 500))
    at = {"k": [1], "N": [16], **FEW}
    got = audit((np.full(500, 16), c), **at)
    assert got.regime.group_size == 16
    assert got.regime.place == "concentration zone"
    curve = got.population.tail_miss_prob
    where = got.regime
    assert curve(where.last, 0.05) >= where.peak / 2 > curve(where.leaves, 0.05)
    assert where.leaves == where.last + 1
    assert where.cost == where.leaves / 16
    assert audit((np.full(500, 16), c), group_size=2048, **at).regime.place == "covering"
    hard = rng.binomial(16, rng.beta(0.5, 12, 500))
    assert audit((np.full(500, 16), hard), group_size=2, **at).regime.place == "inactive"


def test_the_region_is_said_as_surely_as_it_is_known():
    r = np.random.default_rng(7)
    at = {"k": [1], "N": [8], **FEW}
    many = audit((np.full(2000, 8), r.binomial(8, r.beta(0.5, 1, 2000))), **at)
    where, text = many.regime, "\n".join(many.summary())
    assert where.worst_interval[0] <= 13 <= where.worst_interval[1]
    assert where.last_interval[0] <= 120 <= where.last_interval[1]
    low, high = where.last_interval
    assert where.end_known
    assert f"ends at {where.last} [{low}, {high}]; the first size past it is" in text
    found = many.to_dict()["regime"]
    assert (found["last_interval"], found["end_known"]) == ([low, high], True)
    assert found["advice"].startswith("What to do, if correct answers that are 5%")

    some = audit((np.full(20, 8), [0] * 8 + [1, 1, 2, 2, 3, 5, 7, 8, 8, 8, 8, 8]), **at)
    low, high = some.regime.last_interval
    assert high > 10 * low
    text = "\n".join(some.summary())
    assert "20 prompts do not tell where it ends to within a factor of 10: anywhere from" in text
    assert "times the rollouts" not in text + str(some.to_dict()["regime"]["advice"])

    few = audit((np.full(4, 4), [0, 1, 2, 4]), **at)
    assert (few.regime.worst_interval, few.regime.last_interval) == (None, None)
    text = "\n".join(few.summary())
    assert "From 4 prompts nothing can be said of the worst size and the zone's end." in text
    assert few.to_dict()["regime"]["advice"] is None


def test_advice_needs_numbers_that_support_it():
    rng = np.random.default_rng(0)
    at = {"k": [1], "N": [16], **FEW}
    counts = (np.full(500, 16), rng.binomial(16, rng.beta(2, 3, 500)))
    inside = advice(audit(counts, **at))
    assert "times the rollouts; or the focal weight at this N (README, Put the weight" in inside
    assert inside.endswith("If only pass@1 matters, neither.")
    past = advice(audit(counts, group_size=2048, **at))
    assert past.startswith("What to do: nothing for correct answers that are 5%")
    hard = rng.binomial(16, rng.beta(0.5, 12, 500))
    assert advice(audit((counts[0], hard), group_size=2, **at)) == ""
    assert advice(audit(([16] * 200, [1, 9] * 100), **at)) == ""
    assert advice(audit(([4, 4], [4, 4]), **at)) == ""


def test_the_least_p_value_is_said_to_be_a_bound():
    got = audit(([16] * 200, [1, 9] * 100), k=[1], N=[16], **FEW)
    assert got.fit_p_value == pytest.approx(1 / 60)
    assert any("do not fit this one (p <= 0.017)" in line for line in got.summary())
    assert any("does not fit the counts (p <= 0.017)" in line for line in got.warnings)
    assert shown_p(2 / 60) == "p = 0.033"


def test_shares_that_do_not_move_are_not_said():
    got = audit(([8] * 30, [3, 4, 4, 4, 5] * 6), k=[1], N=[8])
    assert got.gradient is not None
    assert not any("F-GRPO" in line for line in got.summary())


def test_gradient_shares_and_learning_rate():
    rng = np.random.default_rng(1)
    c = rng.binomial(8, rng.beta(1, 1, 3000))
    got = audit((np.full(3000, 8), c), k=[1], N=[8]).gradient
    for shares in (*got.shares.values(), got.prompts):
        assert sum(shares) == pytest.approx(1, abs=1e-9)
    assert got.shares["grpo", 1.0][0] > got.shares["grpo", 0.0][0]
    assert got.shares["maxrl", 0.0][0] > got.shares["rloo", 0.0][0]
    assert got.learning_rate[0.0] == 1
    law = PromptPopulation(1, 1).expected_counts(8)
    K = np.arange(9)
    strength = {}
    for gamma in (0.0, 1.0):
        a, b = advantage_table("grpo", 8, gamma=gamma)
        strength[gamma] = law @ (K * abs(a) + (8 - K) * abs(b))
    assert got.learning_rate[1.0] == pytest.approx(strength[1.0] / strength[0.0], abs=0.03)
    assert got.uniform[1.0] == 0.5
    # flat prompts under rloo: the update is proportional to p(1-p)
    edges = np.array(got.edges)
    cubic = edges**2 / 2 - edges**3 / 3
    assert got.shares["rloo", 0.0] == pytest.approx(np.diff(cubic) * 6, abs=0.03)


def test_output_forms():
    result = audit(
        read_rollouts(sorted(REAL.glob("trl_completions_*.parquet"))), k=[1, 4], N=[4, 8]
    )
    assert isinstance(result, Audit)
    text = json.dumps(result.to_dict(), allow_nan=False)
    again = json.loads(text)
    needed = {
        "prompts", "rollouts", "scored", "correct", "success_rate", "pass_at_k", "mixed_share",
        "tail_miss", "unseen_correct_mass", "columns", "threshold", "warnings", "by_step",
    }  # fmt: skip
    assert needed <= again.keys()
    assert again["columns"].keys() == {"prompt", "reward", "answer", "step"}
    assert (again["rollouts"], again["scored"]) == (32, 30)
    assert {"value", "low", "high", "prompts"} <= again["pass_at_k"]["4"].keys()
    assert {"unbiased", "fitted", "naive", "prompts"} <= again["mixed_share"]["4"].keys()
    frame = result.to_frame()
    assert set(frame["quantity"]) == {"pass_at_k", "pass_hat_k", "mixed_share", "tail_miss"}
    assert set(frame["step"]) == {"", "1", "2"}
    assert len(result.summary()) >= 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_size": 1}, "group_size must be whole, >= 2; got 1"),
        ({"rho": 0.0}, r"rho must be in \(0, 1\); got 0.0"),
        ({"k": [0]}, "k must be whole, >= 1; got 0"),
        ({"N": [2.5]}, "N must be whole, >= 1; got 2.5"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\)"),
        ({"rules": ["ppo"]}, "rule must be one of"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        audit(([8] * 30, list(range(9)) * 3 + [1, 2, 3]), **{"k": [1], "N": [8], **options})
    with pytest.raises(ValueError, match=r"c must be <= n"):
        audit(([4], [5]))
    with pytest.raises(ValueError, match="no rollout is scored"):
        audit(([0], [0]))
    table = pd.DataFrame({"n": [4], "c": [1]})
    for rollouts in ("rollouts.jsonl", ([4], [1], [0]), None, table, table["n"], [8, 8], (8, 8)):
        with pytest.raises(ValueError, match=r"what read_rollouts returns, or counts.*DataFrame"):
            audit(rollouts)
    for name in ("rho", "rules", "gamma"):
        with pytest.raises(ValueError, match=f"{name} must hold at least one value"):
            audit(([4], [1]), **{name: ()})


def test_one_value_may_stand_for_a_sequence():
    counts = ([8] * 4, [0, 1, 4, 8])
    one = audit(counts, k=2, N=4, rho=0.1, rules="grpo", gamma=0.5)
    many = audit(counts, k=[2], N=[4], rho=[0.1], rules=["grpo"], gamma=[0.5])
    assert one.to_dict() == many.to_dict()
    square = audit(([[8, 8], [8, 8]], [[0, 1], [4, 8]]), k=2, N=4, rho=0.1, rules="grpo", gamma=0.5)
    assert square.to_dict() == one.to_dict()
