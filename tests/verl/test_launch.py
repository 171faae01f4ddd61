"""The launch file for verl: every override is one of verl's, with the values the paper printed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import verl.trainer.config
from hydra import compose, initialize_config_dir
from verl.trainer.ppo import core_algos
from verl.utils.config import omega_conf_to_dataclass

FIGURES = Path(__file__).parents[2] / "figures"


@pytest.fixture(scope="module")
def config():
    text = (FIGURES / "training" / "launch" / "verl_deepscaler.sh").read_text()
    overrides = re.findall(r"^    ([+\w.]+=\S+) \\$", text, re.M)
    assert len(overrides) == len(re.findall(r"^    .*$", text, re.M)) - 1  # and "$@"
    overrides = [o.replace('"', "").replace("$DEEPSCALER", "/data") for o in overrides]
    folder = str(Path(verl.trainer.config.__file__).parent)
    with initialize_config_dir(version_base=None, config_dir=folder):
        return compose("ppo_trainer", overrides)


@pytest.fixture(scope="module")
def printed():
    with open(FIGURES / "published" / "hyperparameters.csv") as file:
        rows = list(csv.DictReader(file))
    return {
        row["parameter"]: row["value"]
        for row in rows
        if row["applies_to"] in ("all", "GRPO", "Qwen2.5-7B", "all except GRPO-KL")
    }


def test_the_sections_become_verls_own_dataclasses(config):
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert actor.ppo_mini_batch_size == 64
    assert omega_conf_to_dataclass(config.actor_rollout_ref.rollout).n == 8
    assert core_algos.get_adv_estimator_fn(config.algorithm.adv_estimator).__name__ == "focal_grpo"
    assert config.algorithm.focal_gamma == 0.5
    assert not config.algorithm.use_kl_in_reward


@pytest.mark.parametrize(
    ("parameter", "place"),
    [
        ("learning_rate", "actor_rollout_ref.actor.optim.lr"),
        ("warmup_steps", "actor_rollout_ref.actor.optim.lr_warmup_steps"),
        ("weight_decay", "actor_rollout_ref.actor.optim.weight_decay"),
        ("grad_norm_clip", "actor_rollout_ref.actor.grad_clip"),
        ("global_batch_size", "data.train_batch_size"),
        ("mini_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"),
        ("ppo_epochs", "actor_rollout_ref.actor.ppo_epochs"),
        ("training_epochs", "trainer.total_epochs"),
        ("max_response_length", "data.max_response_length"),
        ("sampling_temperature", "actor_rollout_ref.rollout.temperature"),
        ("sampling_top_p", "actor_rollout_ref.rollout.top_p"),
        ("sampling_top_k", "actor_rollout_ref.rollout.top_k"),
        ("clip_eps_low", "actor_rollout_ref.actor.clip_ratio_low"),
        ("clip_eps_high", "actor_rollout_ref.actor.clip_ratio_high"),
        ("loss_aggregation", "actor_rollout_ref.actor.loss_agg_mode"),
    ],
)
def test_values_are_the_printed_ones(config, printed, parameter, place):
    value = config
    for name in place.split("."):
        value = value[name]
    wanted = printed[parameter]
    assert value == wanted or float(value) == pytest.approx(float(wanted))


def test_the_optimiser_is_the_printed_one(config, printed):
    optim = config.actor_rollout_ref.actor.optim
    assert optim.optimizer == printed["optimizer"]
    assert list(optim.betas) == [float(printed["adam_beta1"]), float(printed["adam_beta2"])]
    assert config.actor_rollout_ref.actor.use_kl_loss is False
