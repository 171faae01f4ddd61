"""Writes inspect_mock_n4.json with inspect-ai 0.3.285: python make_inspect_log.py"""

import json
import random
import tempfile
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import match
from inspect_ai.solver import solver

LEFT_OUT = {"events", "attachments", "events_data", "store", "started_at", "completed_at"}
KEPT = ("eval_id", "run_id", "created", "task", "model", "config", "packages", "scorers")


@solver
def guess():
    source = random.Random(1)

    async def solve(state, generate):
        text = f"I think that the answer is {source.choice('456')}"
        state.output = ModelOutput.from_content("mockllm/model", text)
        state.messages.append(state.output.message)
        return state

    return solve


def main():
    data = [Sample(input=f"what is {i}+{4 - i}?", target="4", id=i + 1) for i in range(3)]
    task = Task(dataset=data, solver=guess(), scorer=match(), epochs=4, name="sums")
    with tempfile.TemporaryDirectory() as folder:
        eval(task, model="mockllm/model", log_dir=folder, log_format="json", display="none")
        log = json.loads(next(Path(folder).iterdir()).read_text())
    log["eval"] = {k: log["eval"][k] for k in KEPT}
    log["samples"] = [
        {k: v for k, v in sample.items() if k not in LEFT_OUT} for sample in log["samples"]
    ]
    short = {k: log[k] for k in ("version", "status", "eval", "results", "samples")}
    path = Path(__file__).parent / "inspect_mock_n4.json"
    path.write_text(json.dumps(short, indent=1) + "\n")


if __name__ == "__main__":
    main()
