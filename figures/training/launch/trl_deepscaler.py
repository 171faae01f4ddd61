"""F-GRPO in the paper's setting with TRL.

    accelerate launch --num_processes 16 -m tailmiss.figures.training.launch.trl_deepscaler

Needs vllm, math-verify and the data set from the Hugging Face hub. ``--gamma 0`` is plain GRPO;
``--loss-type cispo`` and ``--loss-type dapo`` take the paper's clip values for these.
"""

from __future__ import annotations

import argparse
from typing import Any

MODEL = "Qwen/Qwen2.5-7B"
DATA = "agentica-org/DeepScaleR-Preview-Dataset"
SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
LONGEST_PROMPT = 1024
PROCESSES, PROMPTS, MINI_BATCH, ROLLOUTS, PER_DEVICE = 16, 256, 64, 8, 4
# TRL's cispo clamps the ratio at epsilon_high itself: 1 + 5
CLIP = {"grpo": (0.2, 0.2), "dapo": (0.2, 0.28), "cispo": (1.0, 6.0)}
GAMMA = {"grpo": 0.5, "dapo": 0.5, "cispo": 1.0}


def arguments(loss_type: str = "grpo", **changes: Any) -> Any:
    """The trainer's settings: token mean for every loss, four updates a batch of rollouts."""
    from trl import GRPOConfig

    accumulation = MINI_BATCH * ROLLOUTS // (PROCESSES * PER_DEVICE)
    settings: dict[str, Any] = {
        "output_dir": f"f-{loss_type}-qwen2.5-7b",
        "loss_type": "cispo" if loss_type == "cispo" else "dapo",
        "epsilon": CLIP[loss_type][0],
        "epsilon_high": CLIP[loss_type][1],
        "beta": 0.0,
        "num_generations": ROLLOUTS,
        "per_device_train_batch_size": PER_DEVICE,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": accumulation * PROMPTS // MINI_BATCH,
        "num_iterations": 1,
        "num_train_epochs": 10,
        "max_completion_length": 8192,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 15,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "bf16": True,
        "use_vllm": True,
        "vllm_mode": "colocate",
    }
    return GRPOConfig(**{**settings, **changes})


def problems(tokenizer: Any) -> Any:
    """DeepScaleR without long prompts and without problems given with different answers."""
    from datasets import load_dataset

    rows = load_dataset(DATA, split="train")
    answers: dict[str, set[str]] = {}
    for row in rows:
        answers.setdefault(row["problem"], set()).add(row["answer"])

    def conversation(row: dict[str, str]) -> dict[str, Any]:
        turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["problem"]}]
        return {"prompt": turns, "solution": f"\\boxed{{{row['answer']}}}"}

    rows = rows.filter(lambda row: len(answers[row["problem"]]) == 1)
    rows = rows.map(conversation, remove_columns=rows.column_names)
    return rows.filter(
        lambda row: (
            len(tokenizer.apply_chat_template(row["prompt"], return_dict=False)) <= LONGEST_PROMPT
        )
    )


def main() -> None:
    """Train."""
    from transformers import AutoTokenizer
    from trl import GRPOTrainer
    from trl.rewards import accuracy_reward

    from tailmiss.torch.trl import TailMissConfig, TailMissMixin

    class Trainer(TailMissMixin, GRPOTrainer):
        pass

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loss-type", choices=sorted(CLIP), default="grpo")
    parser.add_argument("--gamma", type=float, help="default: the paper's choice for the loss")
    options = parser.parse_args()
    gamma = GAMMA[options.loss_type] if options.gamma is None else options.gamma
    trainer = Trainer(
        model=MODEL,
        args=arguments(options.loss_type),
        reward_funcs=accuracy_reward,
        train_dataset=problems(AutoTokenizer.from_pretrained(MODEL)),
        tailmiss=TailMissConfig(gamma=gamma),
    )
    trainer.train()


if __name__ == "__main__":
    main()
