"""One run of reinforcement learning: a configuration in, exact measures of the policy out.

    python -m tailmiss.figures.training.train --seed 0 --group-size 8 --gamma 1

trains the supervised start of the seed with TRL's own trainer and prints the curve as CSV.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
import torch

from tailmiss import _validate as check

from . import task
from .model import SIZES, base_model, tokenizer
from .record import Measure, Watch

LONGEST_ANSWER = 5
EVALUATE_AT = (0, 19, 25, 38, 50, 75, 100, 150, 200, 300)


@dataclass(frozen=True)
class TrainConfig:
    """What determines a run. The seed sets the base model, the prompt split and the rollouts;
    `again` draws other rollouts from the same start, which shows how far chance alone carries.

    `inner_steps` updates are made on every batch of rollouts, each on its own share of them, and
    `steps` counts batches of rollouts. `constant_weight` multiplies every advantage; `smoothing`
    is the coefficient of differential smoothing; `response` and `ratio` are ReCo's two levels.
    """

    seed: int = 0
    again: int = 0
    size: str = "84k"
    group_size: int = 8
    gamma: float = 0.0
    steps: int = 300
    prompts: int = 32
    learning_rate: float = 1e-4
    max_grad_norm: float = 1.0
    loss_type: str = "grpo"
    inner_steps: int = 1
    entropy_coef: float = 0.0
    beta: float = 0.0
    constant_weight: float = 1.0
    smoothing: float = 0.0
    response: bool = False
    ratio: bool = False

    def __post_init__(self) -> None:
        check.one_of("size", self.size, tuple(SIZES))
        check.one_of("loss_type", self.loss_type, ("grpo", "dapo", "cispo"))
        for name, low in (("group_size", 2), ("steps", 1), ("inner_steps", 1)):
            check.whole_number(name, getattr(self, name), low)
        for name in ("seed", "again"):
            check.whole_number(name, getattr(self, name), 0)
        # a step takes no problem twice: of more than there are TRL makes no step, and says nothing
        kept = len(task.split(np.random.default_rng(self.seed))[0])
        check.whole_number("prompts", self.prompts, 1, high=kept)
        for name in ("gamma", "max_grad_norm", "entropy_coef", "beta", "smoothing"):
            check.number(name, getattr(self, name), 0.0)
        for name in ("learning_rate", "constant_weight"):
            check.within(name, getattr(self, name), 0.0, np.inf, inclusive=False)
        if self.prompts * self.group_size % self.inner_steps:
            raise ValueError(
                f"inner_steps must divide prompts * group_size ({self.prompts * self.group_size});"
                f" got {self.inner_steps}"
            )


@dataclass(frozen=True)
class TrainRun:
    """`curve`: exact measures by step and split; `groups`: events of the sampled groups by step,
    each count beside its expectation and variance under the policy that sampled them."""

    config: TrainConfig
    curve: pd.DataFrame
    groups: pd.DataFrame


def train(
    config: TrainConfig,
    *,
    store: Path | None = None,
    evaluate_at: Sequence[int] = EVALUATE_AT,
    completions: TextIO | None = None,
) -> TrainRun:
    """Train the base model of the seed and measure it exactly on the way.

    Parameters
    ----------
    config : TrainConfig
    store : Path, optional
        Where supervised starts are kept; without it the start is trained anew.
    evaluate_at : sequence of int
        Steps at which the policy is measured; step 0 and the last one always are.
    completions : text file, optional
        Gets one JSON line a rollout: step, prompt, completion, reward.

    Returns
    -------
    TrainRun

    Notes
    -----
    Same config, same machine and thread count: same run. Rewards come from the parser in ``task``
    applied to the sampled tokens, an answer without end of sequence being wrong; the expectations
    come from teacher forcing of the same policy just before its update
    (tests/test_training.py compares the two).
    """
    from datasets import Dataset
    from transformers import PrinterCallback
    from transformers.utils import logging

    logging.disable_progress_bar()
    base = base_model(config.size, config.seed, store)
    kept, held = task.split(np.random.default_rng([config.seed, 2]))
    watch = Watch(kept, base, config.group_size, completions)
    measure = Measure(kept, held, base)
    steps = {s for s in evaluate_at if s < config.steps} | {0, config.steps}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = _trainer(
            config,
            model=base,
            args=_arguments(config, folder),
            reward_funcs=watch.correct,
            train_dataset=Dataset.from_dict(
                {"prompt": [p.prompt for p in kept], "problem": list(range(len(kept)))}
            ),
            processing_class=tokenizer(),
            callbacks=[_evaluation(measure, steps, config)],
        )
        trainer.remove_callback(PrinterCallback)
        watch.model = trainer.model
        entropies = trainer._metrics["train"]["entropy"]  # emptied by no log but the last
        trainer.train()
    groups = pd.DataFrame(watch.rows)
    groups["entropy"] = np.reshape(entropies, (config.steps, -1)).mean(axis=1)
    return TrainRun(config, pd.DataFrame(measure.rows), groups)


def _evaluation(measure: Measure, steps: set[int], config: TrainConfig) -> Any:
    from transformers import TrainerCallback

    class Evaluation(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            measure(kwargs["model"], 0, everywhere=True)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            step, inner = divmod(state.global_step, config.inner_steps)
            if inner == 0 and step in steps:
                measure(kwargs["model"], step, everywhere=step == config.steps)

    return Evaluation()


def _arguments(config: TrainConfig, folder: str) -> Any:
    from trl import GRPOConfig

    rollouts = config.prompts * config.group_size
    clip = {"grpo": (0.2, 0.2), "dapo": (0.2, 0.28), "cispo": (0.2, 6.0)}[config.loss_type]
    return GRPOConfig(
        output_dir=folder,
        seed=config.seed + 1000 * config.again,
        max_steps=config.steps * config.inner_steps,
        per_device_train_batch_size=rollouts // config.inner_steps,
        steps_per_generation=config.inner_steps,
        num_generations=config.group_size,
        max_completion_length=LONGEST_ANSWER,
        temperature=1.0,
        loss_type=config.loss_type,
        epsilon=clip[0],
        epsilon_high=clip[1],
        beta=config.beta,
        entropy_coef=config.entropy_coef,
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=0.01,
        max_grad_norm=config.max_grad_norm,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        optim="adamw_torch",
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def _trainer(config: TrainConfig, **options: Any) -> Any:
    """TRL's trainer as it comes; with the adapter or a control in front where the run asks."""
    from trl import GRPOTrainer

    from tailmiss.torch.trl import TailMissConfig, TailMissMixin

    bases: tuple[type, ...] = (GRPOTrainer,)
    if config.gamma or config.response or config.ratio:
        bases = (TailMissMixin, *bases)
        options["tailmiss"] = TailMissConfig(
            gamma=config.gamma,
            response_weight=config.response,
            token_ratio="ppo" if config.ratio else "off",
        )
    if config.smoothing or config.constant_weight != 1:
        bases = (_control(config), *bases)
    return type("Trainer", bases, {})(**options)


def _control(config: TrainConfig) -> type:
    """Advantages times a constant, or moved by differential smoothing: with l the mean
    log-probability per token of an answer, a right one gets -c l more and a wrong one +c l."""

    class Control:
        model: Any
        _get_per_token_logps_and_entropies: Any

        def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
            rewards = super()._calculate_rewards(*args, **kwargs)  # type: ignore[misc]
            self.side = 2 * rewards[:, 0] - 1
            return rewards

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            batch = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
            batch["advantages"] = config.constant_weight * batch["advantages"]
            if config.smoothing:
                mask = batch["completion_mask"]
                tokens = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
                attention = torch.cat([batch["prompt_mask"], mask], 1)
                forward = self._get_per_token_logps_and_entropies
                with torch.no_grad():
                    logps = forward(self.model, tokens, attention, mask.size(1))[0]
                mean = (logps * mask).sum(1) / mask.sum(1)
                batch["advantages"] -= config.smoothing * self.side * mean
            return batch

    return Control


def main() -> None:
    """Run one configuration from the command line."""
    parser = argparse.ArgumentParser(
        prog="tailmiss.figures.training.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for field in fields(TrainConfig):
        flag = "--" + field.name.replace("_", "-")
        if field.type == "bool":
            parser.add_argument(flag, action="store_true")
        else:
            kind = {"int": int, "float": float, "str": str}[str(field.type)]
            parser.add_argument(flag, type=kind, default=field.default)
    parser.add_argument("--store", type=Path, help="where supervised starts are kept")
    parser.add_argument("--completions", type=Path, help="write every rollout here, as JSON lines")
    options = vars(parser.parse_args())
    store, log = options.pop("store"), options.pop("completions")
    try:
        config = TrainConfig(**options)
        if store:
            store.mkdir(parents=True, exist_ok=True)
        opened = open(log, "w") if log else nullcontext()  # noqa: SIM115
    except (ValueError, OSError) as error:
        parser.error(str(error))
    torch.set_num_threads(1)
    with opened as file:
        run = train(config, store=store, completions=file)
    print(run.curve.to_csv(index=False, float_format="%.6g"), end="")


if __name__ == "__main__":
    main()
