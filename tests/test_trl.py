"""The TRL mixin against TRL itself and against advantages multiplied by hand."""

from __future__ import annotations

import copy
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import trl_runs as runs  # noqa: E402
from trl import GRPOTrainer, RLOOTrainer  # noqa: E402
from trl_runs import (  # noqa: E402
    WeighedGRPO,
    WeighedRLOO,
    WeighedSpied,
    by_hand,
    hand_weights,
    make,
    run,
)

import tailmiss.torch as tt  # noqa: E402
from tailmiss.figures.training.model import new_model  # noqa: E402
from tailmiss.torch.trl import TailMissConfig, TailMissMixin  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The tokenizer has new PAD"),
]
PAIRS = [(GRPOTrainer, WeighedGRPO), (RLOOTrainer, WeighedRLOO)]


def assert_same_run(ours, theirs, *, exactly=False):
    assert any(theirs.losses)
    if exactly:
        assert ours.losses == theirs.losses
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=0, atol=1e-6)
    for a, b in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0 if exactly else 1e-6)


@pytest.mark.parametrize(("plain", "weighed"), PAIRS)
def test_gamma_zero_is_the_plain_trainer_exactly(plain, weighed):
    ours, theirs = run(weighed, tailmiss=TailMissConfig(gamma=0)), run(plain)
    assert_same_run(ours, theirs, exactly=True)


@pytest.mark.parametrize(
    ("plain", "weighed", "steps"),
    [(*PAIRS[0], 20), (*PAIRS[1], 3), pytest.param(*PAIRS[1], 20, marks=pytest.mark.long)],
)
def test_losses_equal_hand_multiplied_advantages(plain, weighed, steps):
    ours = run(weighed, tailmiss=TailMissConfig(gamma=0.5), max_steps=steps)
    theirs = run(by_hand(plain, 0.5), max_steps=steps)
    assert len(ours.losses) == steps
    assert_same_run(ours, theirs)


VARIANTS = [
    {"scale_rewards": "batch"},
    {"scale_rewards": "none"},
    {"multi_objective_aggregation": "normalize_then_sum"},
    {"gradient_accumulation_steps": 2},
    {"gradient_accumulation_steps": 2, "steps_per_generation": 4, "per_device_train_batch_size": 4},
    {"num_iterations": 2},
    {"mask_truncated_completions": True},
    {"importance_sampling_level": "sequence"},
    *(
        {"loss_type": name}
        for name in ("grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo")
    ),
]


@pytest.mark.parametrize(
    "settings", VARIANTS, ids=lambda s: ",".join(f"{k}={v}" for k, v in s.items())
)
def test_every_setting_of_the_trainer_keeps_its_meaning(settings):
    trainer = run(WeighedSpied, tailmiss=TailMissConfig(gamma=1.5), max_steps=1, **settings)
    assert trainer.plain[0].any()
    assert_weighed(trainer, gamma=1.5)


def assert_weighed(trainer, *, gamma, column=0, threshold=1.0, size=runs.G):
    """In every batch the advantages are the plain ones times the weights of its rewards."""
    assert trainer.plain
    for batch, plain, rewards in zip(trainer.batches, trainer.plain, trainer.rewards, strict=True):
        weights = hand_weights(rewards[:, column], gamma, threshold, size)
        torch.testing.assert_close(batch["advantages"], plain * weights, rtol=1e-6, atol=0)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_accumulated_micro_batches_are_the_whole_batch(loss_type):
    """TRL #5619, #6024: weights and their mean belong to the generation batch, not to its parts."""
    config = TailMissConfig(gamma=1.0, renormalize="mean")
    options = {"tailmiss": config, "loss_type": loss_type, "max_steps": 2}
    whole = run(WeighedGRPO, per_device_train_batch_size=16, **options)
    parts = run(
        WeighedGRPO, per_device_train_batch_size=4, gradient_accumulation_steps=4, **options
    )
    summed = np.array(parts.losses).reshape(2, 4).sum(1)
    np.testing.assert_allclose(summed, whole.losses, rtol=0, atol=1e-6)
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


def test_rewards_of_none_count_neither_way():
    config = TailMissConfig(gamma=1.0)
    trainer = run(WeighedSpied, reward_funcs=runs.sometimes, tailmiss=config)
    assert any(rewards.isnan().any() for rewards in trainer.rewards)
    assert_weighed(trainer, gamma=1.0)


def test_success_is_the_named_reward_at_its_threshold():
    config = TailMissConfig(gamma=1.0, success="length", threshold=0.35)
    trainer = run(WeighedSpied, reward_funcs=[runs.starts_even, runs.length], tailmiss=config)
    assert_weighed(trainer, gamma=1.0, column=1, threshold=0.35)
    assert not torch.equal(
        hand_weights(trainer.rewards[0][:, 0], 1.0),
        hand_weights(trainer.rewards[0][:, 1], 1.0, 0.35),
    )


def test_eval_uses_its_own_group_size():
    settings = {"num_generations_eval": 2, "max_steps": 1}
    trainer = make(WeighedSpied, tailmiss=TailMissConfig(gamma=1.0), **settings)
    found = trainer.evaluate()
    assert_weighed(trainer, gamma=1.0, size=2)
    rate = found["eval_rewards/starts_even/mean"]
    assert found["eval_tailmiss/success_rate"] == pytest.approx(rate)


def test_logs_hold_the_weighted_advantages_and_the_batch_metrics():
    trainer = run(WeighedGRPO, tailmiss=TailMissConfig(gamma=1.0), max_steps=1)
    assert list(trainer._logs["advantages"]) == trainer.batches[-1]["advantages"].tolist()
    groups = trainer._success.view(-1, runs.G)
    k = groups.sum(1)
    logged = {
        name.removeprefix("tailmiss/"): value
        for name, value in trainer.state.log_history[0].items()
        if name.startswith("tailmiss/")
    }
    weights = (1 - k / runs.G).repeat_interleave(runs.G)
    mixed = (k > 0) & (k < runs.G)
    assert logged == pytest.approx(
        {
            "success_rate": groups.mean().item(),
            "mixed_share": mixed.float().mean().item(),
            "tail_miss": (mixed * 0.95**k).mean().item(),
            "mean_weight": weights.mean().item(),
            "effective_sample_size": (weights.sum() ** 2 / (weights**2).sum()).item(),
        },
        rel=1e-5,
    )


def test_renormalized_weights_keep_the_mean_over_active_rollouts():
    config = TailMissConfig(gamma=1.0, renormalize="mean")
    trainer = run(WeighedSpied, tailmiss=config, max_steps=1, per_device_train_batch_size=32)
    before, after = trainer.plain[0], trainer.batches[0]["advantages"]
    ratio = (after / before)[before != 0]
    assert ratio.mean().item() == pytest.approx(1, abs=1e-6)
    assert ratio.std() > 0.1


# ReCo


def reference_response_weights(batch):
    """exp(-mean log p) under the starting weights, row by row."""
    logps = sampled_logps(new_model(seed=0).state_dict(), batch)[1].detach()
    weights = []
    for row, mask in zip(logps, batch["completion_mask"].bool(), strict=True):
        weights.append(math.exp(-row[mask].mean()) if mask.any() else 1.0)
    return torch.tensor(weights)


@pytest.mark.parametrize("num_iterations", [1, 2])  # without and with TRL's own old logps
def test_response_weights_multiply_the_focal_ones(num_iterations):
    settings = {"num_iterations": num_iterations, "max_steps": 1, "learning_rate": 0.0}
    config = TailMissConfig(gamma=1.0, response_weight=True, response_cap=None)
    trainer = run(WeighedSpied, tailmiss=config, **settings)
    weights = hand_weights(trainer.seen[:, 0], 1.0)
    weights = weights * reference_response_weights(trainer.batches[0])
    expected = trainer.plain[0] * weights
    torch.testing.assert_close(trainer.batches[0]["advantages"], expected, rtol=1e-5, atol=1e-6)


def recording(trainer_class):
    """The trainer with the parameters before every step kept, and the gradients after it."""

    class Recording(trainer_class):
        def training_step(self, model, *args, **kwargs):
            self.__dict__.setdefault("states", []).append(copy.deepcopy(model.state_dict()))
            loss = super().training_step(model, *args, **kwargs)
            grads = [p.grad.flatten() for p in model.parameters()]
            self.__dict__.setdefault("grads", []).append(torch.cat(grads))
            return loss

    return Recording


def sampled_logps(state, batch):
    """Log-probabilities of the sampled tokens under `state`, with gradient, from plain logits."""
    model = new_model(seed=0)
    model.load_state_dict(state)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    logits = model(input_ids=ids, attention_mask=attention).logits[:, :-1]
    chosen = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return model, chosen[:, -batch["completion_ids"].shape[1] :]


def hand_gradient(trainer, mode, low=0.2, high=0.2):
    """Gradient of the second update, with the coefficients written out in probabilities."""
    batch = trainer.batches[0]
    old = sampled_logps(trainer.states[0], batch)[1].detach().double()
    model, logps = sampled_logps(trainer.states[1], batch)
    p, p_old, A = logps.detach().double().exp(), old.exp(), batch["advantages"].double()[:, None]
    v, r = p * (1 - p) / (p_old * (1 - p_old)), p / p_old
    watched = {"none": torch.ones_like(v), "cispo": torch.ones_like(v), "ppo": v, "ratio_mask": r}
    stopped = ((A > 0) & (watched[mode] > 1 + high)) | ((A < 0) & (watched[mode] < 1 - low))
    c = v.clamp(1 - low, 1 + high) if mode == "cispo" else v.clamp(max=10) * ~stopped
    mask = batch["completion_mask"]
    assert bool(((c != v) & (mask == 1)).any()) == (mode != "none"), "the mode must matter here"
    (-(c * A * logps * mask).sum() / mask.sum()).backward()
    return torch.cat([q.grad.flatten() for q in model.parameters()])


@pytest.mark.parametrize("mode", tt.MODES)
def test_token_ratio_acts_from_the_second_update_on(mode):
    settings = {"num_iterations": 2, "max_steps": 2, "max_grad_norm": 1e9}
    config = TailMissConfig(gamma=0.0, token_ratio=mode)
    ours = run(recording(WeighedGRPO), tailmiss=config, **settings)
    theirs = run(recording(GRPOTrainer), **settings)
    torch.testing.assert_close(ours.grads[0], theirs.grads[0], rtol=0, atol=1e-7)
    expected = hand_gradient(ours, mode)
    torch.testing.assert_close(ours.grads[1], expected, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(theirs.grads[1], expected, rtol=1e-3, atol=1e-4)
    first, second = ours.state.log_history[:2]
    assert first["tailmiss/token_coefficient"] == pytest.approx(1, abs=1e-5)
    assert first["tailmiss/stopped_share"] == 0
    assert (second["tailmiss/stopped_share"] > 0) == (mode in ("ppo", "ratio_mask"))
    assert not any("clip_ratio" in name for name in second), "TRL clips nothing here"


class Spread:
    """Spreads the advantages of the trainer that follows over tokens, as TRL's loss allows."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        mask = output["completion_mask"]
        output["advantages"] = output["advantages"].unsqueeze(-1) * mask
        return output


class PerToken(Spread, WeighedGRPO):
    pass


class SpreadBelow(TailMissMixin, Spread, GRPOTrainer):
    pass


def test_token_ratio_takes_advantages_per_token():
    settings = {"num_iterations": 2, "max_steps": 2}
    config = TailMissConfig(gamma=0.5, token_ratio="ppo")
    ours = run(PerToken, tailmiss=config, **settings)
    theirs = run(WeighedGRPO, tailmiss=config, **settings)
    assert_same_run(ours, theirs)


def test_advantages_spread_below_the_mixin_are_refused():
    with pytest.raises(ValueError, match="advantages must be one per rollout; got shape"):
        run(SpreadBelow, tailmiss=TailMissConfig(), max_steps=1)


def test_cispo_bounds_the_variance_ratio_at_epsilon_high_itself():
    """ScaleRL's eps_max, as TRL reads it: 1.05 is 1 + 0.05, not 1 + 1.05."""
    settings = {"num_iterations": 2, "max_steps": 2, "max_grad_norm": 1e9}
    config = TailMissConfig(gamma=0.0, token_ratio="cispo")
    trainer = run(
        recording(WeighedGRPO), tailmiss=config, loss_type="cispo", epsilon_high=1.05, **settings
    )
    expected = hand_gradient(trainer, "cispo", high=0.05)
    torch.testing.assert_close(trainer.grads[1], expected, rtol=1e-3, atol=1e-5)


def test_a_batch_of_masked_completions_moves_and_logs_nothing():
    config = TailMissConfig(gamma=1.0, response_weight=True, token_ratio="ppo")
    settings = {"mask_truncated_completions": True, "max_completion_length": 1}
    trainer = run(WeighedGRPO, tailmiss=config, num_iterations=2, max_steps=2, **settings)
    assert trainer.losses == [0.0, 0.0]
    assert trainer.batches[0]["advantages"].isfinite().all()
    assert "tailmiss/token_coefficient" not in trainer.state.log_history[1]


def test_everything_at_once_runs_and_stays_finite():
    config = TailMissConfig(
        gamma=0.5,
        renormalize="mean",
        response_weight=True,
        self_normalize=True,
        token_ratio="ratio_mask",
    )
    trainer = run(
        WeighedGRPO,
        tailmiss=config,
        num_iterations=2,
        max_steps=4,
        epsilon_high=0.28,  # DAPO
        top_entropy_quantile=0.2,  # 80/20
    )
    assert np.isfinite(trainer.losses).all()
    assert any(trainer.losses)


# What it refuses

REFUSED = [
    ({"beta": 0.1}, "beta must be 0"),
    ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold must be None"),
    ({"delta": 1.5}, "delta must be None"),
    ({"importance_sampling_level": "sequence"}, "importance_sampling_level must be 'token'"),
    ({"loss_type": "sapo"}, "sapo has a rule of its own"),
]


@pytest.mark.parametrize(("settings", "reason"), REFUSED)
def test_token_ratio_refuses_what_it_would_make_wrong(settings, reason):
    with pytest.raises(ValueError, match=reason):
        make(WeighedGRPO, tailmiss=TailMissConfig(token_ratio="ppo"), num_iterations=2, **settings)
    make(WeighedGRPO, tailmiss=TailMissConfig(token_ratio="ppo"), num_iterations=2)


class Wrapped(GRPOTrainer):
    """As subclasses often are: the settings stand in a tuple."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class WeighedWrapped(TailMissMixin, Wrapped):
    pass


def test_token_ratio_finds_the_settings_wherever_they_are_passed():
    plain = make(GRPOTrainer, num_iterations=2)
    given = (new_model(seed=0), runs.starts_even, plain.args, plain.train_dataset, None)
    config = TailMissConfig(token_ratio="ppo")
    trainer = WeighedWrapped(*given, plain.processing_class, tailmiss=config)
    assert trainer.args is plain.args
    plain.args.beta = 0.1
    with pytest.raises(ValueError, match="beta must be 0"):
        WeighedWrapped(*given, plain.processing_class, tailmiss=config)
    with pytest.raises(TypeError, match=r"tailmiss must be a TailMissConfig; got \{'gamma': 1\}"):
        WeighedWrapped(*given, plain.processing_class, tailmiss={"gamma": 1})


def test_token_ratio_refuses_a_trainer_with_one_ratio_per_sequence():
    with pytest.raises(ValueError, match="needs GRPOTrainer"):
        make(WeighedRLOO, tailmiss=TailMissConfig(token_ratio="ppo"), num_iterations=2)


def test_token_ratio_warns_once_where_it_cannot_act():
    with pytest.warns(UserWarning, match="cannot act") as caught:
        run(WeighedGRPO, tailmiss=TailMissConfig(token_ratio="ppo"))
    assert sum("cannot act" in str(w.message) for w in caught) == 1


def test_a_missing_threshold_stops_at_the_first_partial_reward():
    trainer = make(WeighedGRPO, reward_funcs=runs.length, tailmiss=TailMissConfig())
    with pytest.raises(
        ValueError, match=r"threshold=...\) is missing: rollout \d has reward 0\.\d"
    ):
        trainer.train()


@pytest.mark.parametrize("name", [None, "summed"])
def test_several_rewards_need_the_name_of_one(name):
    both = [runs.starts_even, runs.length]
    with pytest.raises(ValueError, match="success must name the one reward"):
        make(WeighedGRPO, reward_funcs=both, tailmiss=TailMissConfig(success=name, threshold=1.0))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"gamma": -1.0}, "gamma must be in"),
        ({"gamma": math.nan}, "gamma must be in"),
        ({"renormalize": "sum"}, "renormalize must be one of none, mean; got 'sum'"),
        ({"token_ratio": "gspo"}, "token_ratio must be one of off, none"),
        ({"response_cap": 0.5}, "response_cap must be in"),
        ({"ratio_cap": 0.0}, "ratio_cap must be in"),
        ({"rho": 2.0}, "rho must be in"),
        ({"threshold": math.nan}, "threshold must be a number"),
        ({"threshold": "1"}, "threshold must be a number; got '1'"),
        ({"gamma": "1"}, "gamma must be in .* got '1'"),
        ({"gamma": None}, "gamma must be in .* got None"),
        ({"gamma": math.inf}, r"gamma must be in \[0, inf\); got inf"),
        ({"ratio_cap": None}, "ratio_cap must be in .* got None"),
    ],
)
def test_config_names_what_is_wrong(setting, message):
    with pytest.raises(ValueError, match=message):
        TailMissConfig(**setting)


def test_the_mixin_must_come_first_and_before_a_trainer():
    with pytest.raises(TypeError, match="derive from TailMissMixin first"):
        type("Wrong", (GRPOTrainer, TailMissMixin), {})
    with pytest.raises(TypeError, match="derive from TailMissMixin first"):
        type("Alone", (TailMissMixin,), {})


# Two processes


def test_groups_that_straddle_two_processes():
    """Two forked processes, so that nothing is imported again; torchrun proper below."""
    context = torch.multiprocessing.get_context("fork")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [context.Process(target=_rank, args=(rank, port)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 0]


def _rank(rank, port):
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    runs.two_ranks(max_steps=2)
    torch.distributed.destroy_process_group()


@pytest.mark.long
def test_torchrun_with_two_processes():
    program = Path(runs.__file__)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(program)],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(program.parent)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("two ranks agree") == 2
