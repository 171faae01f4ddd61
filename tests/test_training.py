"""The training study: its task, its exact measures against sampling, its runs against theory."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrated import assert_bernoulli
from naive import training as naive

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from tailmiss.figures._published import published  # noqa: E402
from tailmiss.figures.training import model, study, task  # noqa: E402
from tailmiss.figures.training import train as train_module  # noqa: E402
from tailmiss.figures.training.evaluate import Answers, per_problem, rare_nll_shift  # noqa: E402
from tailmiss.figures.training.launch import trl_deepscaler  # noqa: E402
from tailmiss.figures.training.record import Watch  # noqa: E402
from tailmiss.figures.training.train import LONGEST_ANSWER, TrainConfig, train  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store whose supervised start of seed 0 is a poor one, so that it takes seconds."""
    folder = tmp_path_factory.mktemp("runs")
    poor = model.new_model(seed=0)
    model.supervise(poor, rng=np.random.default_rng(0), steps=150)
    poor.save_pretrained(folder / "base-84k-0")
    return folder


@pytest.fixture
def policy(store):
    return model.base_model("84k", 0, store)


def test_the_task_has_4811_answers_over_92_targets():
    found = task.problems()
    assert sum(len(p.answers) for p in found) == 4811
    assert len({p.prompt[:2] for p in found}) == 92
    assert len(found) == 617


@pytest.mark.parametrize("terms", [2, 3])
def test_the_parser_knows_every_value(terms):
    everything = list(naive.expressions(terms))
    assert len(everything) == 9**terms * 3 ** (terms - 1)
    assert all(task.value(text) == value for text, value in everything)


@pytest.mark.parametrize("variant", ["main", "large", "four"])
def test_the_listed_answers_are_the_right_ones(variant):
    for problem in task.problems(variant)[::40]:
        tails = (
            "".join(tail)
            for terms in (2, 3, 4)
            for tail in itertools.product(*["+-*", "123456789"] * (terms - 1))
        )
        right = {tail for tail in tails if task.is_correct(problem.prompt, tail)}
        assert right == set(problem.answers)


@given(st.text("0123456789+-*=: x", max_size=8))
def test_the_parser_refuses_all_else(text):
    good = len(text) % 2 == 1 and all(
        c in ("+-*" if i % 2 else "123456789") for i, c in enumerate(text)
    )
    assert (task.value(text) is not None) == good


def test_operators_of_the_corpus_have_their_shares():
    pairs, weights = task.corpus()
    assert weights.sum() == pytest.approx(1)
    main = [(a, w) for (p, a), w in zip(pairs, weights, strict=True) if p[2] == "="]
    by_operator = {
        o: sum(w * a.count(o) for a, w in main) / sum(w * len(a) / 2 for a, w in main)
        for o in "+-*"
    }
    # of the expressions drawn with .85 / .08 / .07 some leave the range of targets
    assert by_operator["+"] == pytest.approx(0.85, abs=0.04)
    assert by_operator["-"] == pytest.approx(0.08, abs=0.03)
    assert by_operator["*"] == pytest.approx(0.07, abs=0.05)


def test_splits_partition_the_problems(rng):
    kept, held = task.split(rng)
    assert sorted([*kept, *held], key=lambda p: p.prompt) == list(task.problems())
    assert len(held) == round(617 / 4)


def test_tokens_read_back():
    words = model.tokenizer()
    assert words("37=3*9+8")["input_ids"] == model.encode([("37=3", "*9+8")])[0][0, :-1].tolist()
    assert words.decode(words("37:3")["input_ids"]) == "37:3"
    assert (words.eos_token_id, words.pad_token_id) == (model.EOS, model.PAD)


@pytest.mark.parametrize(("size", "low", "high"), [("84k", 82e3, 86e3), ("1M", 0.9e6, 1.3e6)])
def test_model_sizes(size, low, high):
    assert low < sum(p.numel() for p in model.new_model(size, seed=0).parameters()) < high


def test_teacher_forcing_equals_one_token_at_a_time(policy):
    answers = Answers.of(task.problems()[::60])

    def next_logps(tokens):
        with torch.no_grad():
            return policy(torch.tensor([tokens])).logits[0, -1].double().log_softmax(0).numpy()

    pairs = [(p.prompt, a) for p in answers.problems for a in p.answers]
    slow = [
        naive.answer_logp(next_logps, model.encode([pair])[0][0].tolist(), len(pair[0]))
        for pair in pairs
    ]
    assert answers.logps(policy) == pytest.approx(slow, rel=1e-4)


def test_all_completions_together_have_mass_one(policy):
    """Every string of up to three tokens after a prompt: what ends, and what goes on."""
    prompt = model.encode([("12=3", "")])[0][0, :-1].tolist()
    ended, open_rows = 0.0, torch.tensor([prompt])
    mass = torch.ones(1, dtype=torch.float64)
    for _ in range(3):
        with torch.no_grad():
            p = mass[:, None] * policy(open_rows).logits[:, -1].double().softmax(1)
        ended += float(p[:, model.EOS].sum())
        others = [t for t in range(model.EOS)]
        open_rows = torch.cat(
            [torch.cat([open_rows, torch.full((len(open_rows), 1), t)], 1) for t in others]
        )
        mass = torch.cat([p[:, t] for t in others])
    assert ended + float(mass.sum()) == pytest.approx(1, abs=1e-12)


def test_measures_equal_their_naive_twins(rng):
    answers = Answers.of(task.problems()[::7])
    base, now = (np.log(rng.dirichlet(np.full(len(answers.rows), 0.3)) + 1e-9) for _ in range(2))
    found = per_problem(answers, now, base)
    rare = answers.rare(base, 0.2)
    for i in range(len(answers.problems)):
        own = answers.owner == i
        slow = naive.measures(np.exp(now[own]).tolist(), np.exp(base[own]).tolist())
        assert {k: v[i] for k, v in found.items()} == pytest.approx(slow, rel=1e-9)
        assert rare[own].tolist() == naive.rare(np.exp(base[own]).tolist(), 0.2)


def test_nothing_moves_on_the_base_policy(policy):
    answers = Answers.of(task.problems()[::9])
    logps = answers.logps(policy)
    assert rare_nll_shift(answers, logps, logps) == 0
    assert rare_nll_shift(answers, logps - 0.5 * answers.lengths, logps) == pytest.approx(0.5)
    assert (per_problem(answers, logps, logps)["retained"] == 1).all()


def test_the_verifier_reads_tokens_not_text(policy):
    watch = Watch(task.problems()[:1], policy, group_size=6)
    (problem,) = watch.problems
    right = [model.CHARACTERS.index(c) for c in problem.answers[0]]
    samples = [
        [*right, model.EOS],
        right,
        [right[0], model.PAD, *right[1:], model.EOS],
        [*right, model.PAD, model.EOS],
        [model.EOS],
        [*right, model.EOS],
    ]
    rewards = watch.correct(completion_ids=samples, problem=[0] * 6)
    assert rewards == [1, 0, 0, 0, 0, 1]
    assert watch.rows[0]["right"] == 2


def ancestral_samples(policy, prompt, samples, rng):
    """Counts of completions: tokens drawn one after another, equal prefixes drawn together."""
    start = model.encode([(prompt, "")])[0][0, :-1].tolist()
    going, ended = {(): samples}, {}
    for _ in range(LONGEST_ANSWER):
        rows = torch.tensor([[*start, *prefix] for prefix in going])
        with torch.no_grad():
            p = policy(rows).logits[:, -1].double().softmax(1).numpy()
        counts = rng.multinomial(list(going.values()), p / p.sum(1, keepdims=True))
        drawn = {
            (*prefix, token): int(row[token])
            for prefix, row in zip(going, counts, strict=True)
            for token in np.flatnonzero(row)
        }
        ended |= {text: count for text, count in drawn.items() if text[-1] == model.EOS}
        going = {text: count for text, count in drawn.items() if text[-1] != model.EOS}
    return ended | going


def generated_samples(policy, prompt, samples, rng):
    """Counts of completions that transformers' own generate draws."""
    torch.manual_seed(int(rng.integers(2**31)))
    start = torch.from_numpy(model.encode([(prompt, "")])[0][:, :-1])
    drawn = policy.generate(
        start, attention_mask=torch.ones_like(start), do_sample=True, top_k=0,
        max_new_tokens=LONGEST_ANSWER, num_return_sequences=samples,
    )[:, start.shape[1] :]  # fmt: skip
    texts = [row[: row.index(model.EOS) + 1] if model.EOS in row else row for row in drawn.tolist()]
    return Counter(map(tuple, texts))


@pytest.mark.parametrize(
    ("sampler", "samples", "detects"),
    [(ancestral_samples, 100_000, 0.015), (generated_samples, 1_000, 0.16)],
)
def test_exact_evaluation_equals_sampling(policy, rng, sampler, samples, detects):
    """Twenty prompts; a sample is right if it ends and its text parses to the target."""
    chosen = rng.choice(len(task.problems()), 20, replace=False)
    problems = [task.problems()[i] for i in chosen]
    answers = Answers.of(problems)
    mass = answers.mass(answers.logps(policy))
    assert mass.max() > 0.05
    for problem, mu in zip(problems, mass, strict=True):
        drawn = sampler(policy, problem.prompt, samples, rng)
        assert sum(drawn.values()) == samples
        hits = sum(
            count
            for (*body, last), count in drawn.items()
            if last == model.EOS
            and task.is_correct(problem.prompt, "".join((*model.CHARACTERS, "?")[t] for t in body))
        )
        assert_bernoulli(hits, samples, mu, detects=detects)


@pytest.mark.parametrize("config", [{"group_size": N} for N in (2, 8, 16)])
def test_group_events_agree_with_theory(store, config):
    run = train(TrainConfig(steps=4, **config), store=store, evaluate_at=())
    for event in ("right", "mixed", "tail_miss"):
        seen, expected, variance = (
            run.groups[event + part].sum() for part in ("", "_expected", "_variance")
        )
        assert variance > 0
        assert abs(seen - expected) < stats.norm.isf(5e-10) * variance**0.5


def test_at_two_rollouts_gamma_is_a_constant_factor(store):
    """Every mixed pair has rate 1/2, and Adam does not see a constant: the runs are one run."""
    plain, focal = (
        train(
            TrainConfig(group_size=2, gamma=gamma, steps=20, max_grad_norm=0.0),
            store=store,
            evaluate_at=(10,),
        )
        for gamma in (0.0, 1.0)
    )
    assert abs(plain.curve["pass_1"].iloc[-6] - plain.curve["pass_1"].iloc[0]) > 1e-4
    assert np.abs(plain.curve["pass_1"] - focal.curve["pass_1"]).max() < 1e-5
    assert plain.groups["reward"].equals(focal.groups["reward"])


def test_two_processes_may_keep_the_same_start(tmp_path, monkeypatch):
    def other_is_faster(own, **_):
        own.save_pretrained(tmp_path / "base-84k-3")

    monkeypatch.setattr(model, "supervise", other_is_faster)
    found = model.base_model("84k", 3, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["base-84k-3"]
    kept = model.base_model("84k", 3, tmp_path)
    assert torch.equal(found.lm_head.weight, kept.lm_head.weight)


def test_runs_are_kept_and_collected(store, tmp_path, monkeypatch):
    cells = (study.Cell(1, "a", {"steps": 2}, seeds=1), study.Cell(2, "b", {"steps": 3}, seeds=1))
    monkeypatch.setattr(study, "CELLS", cells)
    study.run_missing(store, stage=1)
    study.collect(store, tmp_path)
    monkeypatch.setattr(study, "train", None)
    study.run_missing(store, stage=1)
    again = tmp_path / "again"
    study.collect(store, again)
    assert (again / "curves.csv").read_bytes() == (tmp_path / "curves.csv").read_bytes()
    assert '"b: 1 seeds"' in (again / "runs.json").read_text()


def test_tables_go_into_the_store_unless_told(tmp_path, monkeypatch):
    """A reader who runs a part of the grid must not replace the kept tables of the whole."""
    wanted = []
    monkeypatch.setattr(study, "run_missing", lambda *args: wanted.append(args))
    monkeypatch.setattr(study, "collect", lambda *args: wanted.append(args))
    monkeypatch.setattr("sys.argv", ["study", "--store", str(tmp_path), "--stage", "1"])
    assert study.main() == 0
    assert wanted == [(tmp_path, 1), (tmp_path, tmp_path)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_size": 1}, "group_size must be whole, >= 2; got 1"),
        ({"gamma": -1.0}, "gamma must be finite and >= 0; got -1.0"),
        ({"gamma": np.inf}, "gamma must be finite and >= 0; got inf"),
        ({"prompts": 464}, "prompts must be whole, >= 1 and <= 463; got 464"),
        ({"size": "7B"}, "size must be one of '84k', '1M'; got '7B'"),
        ({"inner_steps": 3}, "inner_steps must divide"),
        ({"learning_rate": 0.0}, "learning_rate must be in"),
    ],
)
def test_bad_configurations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**changes)


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing`:FutureWarning")  # TRL's own default
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "cispo"])
def test_the_launch_file_for_trl_has_the_printed_values(loss_type):
    settings = published("hyperparameters")
    rows = settings[settings["applies_to"].isin(("all", loss_type.upper(), "Qwen2.5-7B"))]
    printed = rows.set_index("parameter")["value"]
    args = trl_deepscaler.arguments(loss_type, use_cpu=True, bf16=False, use_vllm=False)
    for name, value in {
        "learning_rate": args.learning_rate,
        "warmup_steps": args.warmup_steps,
        "weight_decay": args.weight_decay,
        "adam_beta1": args.adam_beta1,
        "adam_beta2": args.adam_beta2,
        "grad_norm_clip": args.max_grad_norm,
        "training_epochs": args.num_train_epochs,
        "ppo_epochs": args.num_iterations,
        "max_response_length": args.max_completion_length,
        "sampling_temperature": args.temperature,
        "sampling_top_p": args.top_p,
        "clip_eps_low": args.epsilon,
        "clip_eps_high": args.epsilon_high - (loss_type == "cispo"),
    }.items():
        assert value == float(printed[name]), name
    one_update = args.per_device_train_batch_size * args.gradient_accumulation_steps
    of_all = one_update * trl_deepscaler.PROCESSES / args.num_generations
    assert of_all == float(printed["mini_batch_size"])
    updates = args.steps_per_generation / args.gradient_accumulation_steps
    assert of_all * updates == float(printed["global_batch_size"])


def test_the_quick_preset_says_what_contradicts_sharpening(store, capsys, monkeypatch):
    still = pd.DataFrame({"split": "train", "step": [0, 2], "pass_1": 0.2, "pass_256": [0.9, 0.8]})
    still = still.assign(retained=[1.0, 0.5], modes=[6.0, 5.0])
    run = study.TrainRun(TrainConfig(), still, pd.DataFrame())
    monkeypatch.setattr(study, "train", lambda *args, **kwargs: run)
    assert study.quick(store) == ["pass_1 went from 0.2 to 0.2 at gamma 0"]
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_bad_input_on_the_command_line_is_one_line_and_exit_code_2(tmp_path, capsys, monkeypatch):
    for module, options in (
        (train_module, ["--group-size", "1"]),
        (train_module, ["--completions", str(tmp_path / "no" / "log.jsonl")]),
        (study, ["--jobs", "0", "--store", str(tmp_path)]),
        (study, ["--collect", "--store", str(tmp_path), "--out", str(tmp_path)]),
    ):
        monkeypatch.setattr("sys.argv", ["x", *options])
        with pytest.raises(SystemExit) as stop:
            module.main()
        assert stop.value.code == 2
        assert "error: " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.long
def test_the_quick_preset_sharpens(tmp_path):
    assert study.quick(tmp_path) == []
