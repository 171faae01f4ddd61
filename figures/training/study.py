"""The grid of runs behind ``results/``: resumable, one file a run, collected into three tables.

    python -m tailmiss.figures.training.study --store runs              run what is missing, collect
    python -m tailmiss.figures.training.study --store runs --stage 2    the first two stages only
    python -m tailmiss.figures.training.study --quick                   one seed, gamma 0 and 1

The tables go into the store; with ``--out figures/training/results`` they replace the kept ones.
Stages are in order of importance; a later call with the same store runs only what is missing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tailmiss import provenance
from tailmiss.advantages import learning_rate_multiplier

from .._training import FEWEST
from .train import EVALUATE_AT, TrainConfig, TrainRun, train

BLOCK = 10


@dataclass(frozen=True)
class Cell:
    """One configuration of the study, run with several seeds."""

    stage: int
    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    seeds: int = 4

    def config(self, seed: int) -> TrainConfig:
        """The cell's run of one seed."""
        return TrainConfig(seed=seed, **self.changes)


CELLS = (
    Cell(1, "N=8", seeds=8),
    Cell(1, "N=8 gamma=1", {"gamma": 1.0}, seeds=8),
    *(Cell(2, f"N={N}", {"group_size": N}) for N in (2, 4, 16, 32)),
    *(Cell(3, f"N=8 gamma={g}", {"gamma": float(g)}) for g in (".5", "2")),
    Cell(3, "other rollouts", {"again": 1}),
    Cell(4, "low learning rate", {"learning_rate": 1e-4 * float(learning_rate_multiplier(1.0))}),
    Cell(4, "constant weight", {"constant_weight": float(learning_rate_multiplier(1.0))}),
    Cell(4, "no clipping", {"max_grad_norm": 0.0}),
    Cell(4, "entropy bonus", {"entropy_coef": 0.01}),
    Cell(4, "KL to the base", {"beta": 0.01}),
    Cell(4, "differential smoothing", {"smoothing": 0.05}),
    Cell(5, "4 inner steps", {"inner_steps": 4}),
    Cell(5, "ReCo response", {"response": True}),
    Cell(5, "ReCo token", {"ratio": True, "inner_steps": 4}),
    Cell(5, "ReCo", {"response": True, "ratio": True, "inner_steps": 4}),
    Cell(5, "ReCo gamma=1", {"response": True, "ratio": True, "inner_steps": 4, "gamma": 1.0}),
    *(
        Cell(6, f"{loss} gamma={gamma:g}", {"loss_type": loss, "gamma": gamma})
        for gamma in (0.0, 1.0)
        for loss in ("dapo", "cispo")
    ),
    # on policy cispo has dapo's gradient, so its other exponents would repeat these
    *(
        Cell(8, f"dapo gamma={gamma:g}", {"loss_type": "dapo", "gamma": gamma})
        for gamma in (0.5, 2.0)
    ),
    Cell(8, "4 inner steps gamma=1", {"inner_steps": 4, "gamma": 1.0}),
    *(
        Cell(
            8,
            f"cispo, 4 inner steps gamma={g}",
            {"loss_type": "cispo", "inner_steps": 4, "gamma": float(g)},
        )
        for g in ("0", "1")
    ),
    *(Cell(7, f"N=32 gamma={g}", {"group_size": 32, "gamma": float(g)}) for g in ("1", ".5")),
    *(
        Cell(9, f"1M gamma={g}", {"size": "1M", "steps": 100, "gamma": float(g)})
        for g in ("0", "1")
    ),
)


def run(cell: Cell, seed: int, store: Path) -> None:
    """Do one run and keep it; the two tables of a run are written together, or neither is."""
    import torch

    torch.set_num_threads(1)
    result = train(cell.config(seed), store=store)
    tables = {"curve": result.curve, "groups": _by_block(result.groups)}
    frame = pd.concat(tables, names=["table"]).reset_index(level=0)
    frame.insert(1, "cell", cell.name)
    frame.insert(2, "seed", seed)
    provenance.write(_path(cell, seed, store), frame.to_csv(index=False, float_format="%.8g"))


def run_missing(store: Path, stage: int) -> None:
    """Run what the store lacks, the most important first; workers are joblib's.

    Three seeds of every cell, which an interval needs, come before the other seeds of any.
    """
    import joblib

    missing = [
        (cell, seed)
        for seeds in (range(FEWEST), range(FEWEST, max(cell.seeds for cell in CELLS)))
        for now in range(1, stage + 1)
        for seed in seeds
        for cell in CELLS
        if cell.stage == now and seed < cell.seeds and not _path(cell, seed, store).exists()
    ]
    joblib.Parallel()(joblib.delayed(run)(cell, seed, store) for cell, seed in missing)


def collect(store: Path, out: Path) -> None:
    """Put the finished runs of the store together as curves.csv, groups.csv and runs.json."""
    done = [
        (cell, seed)
        for cell in CELLS
        for seed in range(cell.seeds)
        if _path(cell, seed, store).exists()
    ]
    if not done:
        raise ValueError(f"store {store} holds no finished run of the study")
    frame = pd.concat([pd.read_csv(_path(cell, seed, store)) for cell, seed in done])
    for table, name in (("curve", "curves"), ("groups", "groups")):
        part = frame[frame["table"] == table].drop(columns="table").dropna(axis=1, how="all")
        text = part.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        provenance.write(out / f"{name}.csv", text)
    finished = {
        cell.name: {"changes": cell.changes, "seeds": [s for c, s in done if c is cell]}
        for cell in CELLS
        if any(c is cell for c, _ in done)
    }
    details = provenance.record(
        command="python -m tailmiss.figures.training.study --store runs",
        default=vars(TrainConfig()),
        evaluated_at=EVALUATE_AT,
        finished=finished,
        missing=[f"{c.name}: {c.seeds - len(finished.get(c.name, {}).get('seeds', []))} seeds"
                 for c in CELLS if len(finished.get(c.name, {}).get("seeds", [])) < c.seeds],
    )  # fmt: skip
    provenance.write_json(out / "runs.json", details)


def quick(store: Path) -> list[str]:
    """One seed, N = 8, gamma 0 and 1: what it found, and in words what contradicts sharpening."""
    import torch

    torch.set_num_threads(1)
    rows = []
    for gamma in (0.0, 1.0):
        result = train(TrainConfig(gamma=gamma), store=store, evaluate_at=())
        rows.append(_ends(result).assign(gamma=gamma))
    frame = pd.concat(rows)
    print(frame.to_string(index=False, float_format="%.4g"))
    start, end = frame[frame["gamma"] == 0].to_dict("records")
    wanted = {"pass_1": 1, "pass_256": -1, "retained": -1, "modes": -1}
    return [
        f"{name} went from {start[name]:.4g} to {end[name]:.4g} at gamma 0"
        for name, sign in wanted.items()
        if sign * (end[name] - start[name]) <= 0
    ]


def _ends(result: TrainRun) -> pd.DataFrame:
    trained = result.curve[result.curve["split"] == "train"]
    return trained.iloc[[0, -1]].drop(columns="split")


def _path(cell: Cell, seed: int, store: Path) -> Path:
    return store / f"{provenance.key(vars(cell.config(seed)))}.csv"


def _by_block(groups: pd.DataFrame) -> pd.DataFrame:
    """Blocks of ten steps, named by their last: sums of the watched events, means of the rest."""
    last = ((groups["step"] - 1) // BLOCK + 1) * BLOCK
    means = {"reward": "mean", "tokens": "mean", "entropy": "mean"}
    how = {name: means.get(name, "sum") for name in groups.columns if name != "step"}
    return groups.groupby(last).agg(how).reset_index()


def main() -> int:
    """Run the study, or the quick check."""
    import joblib

    parser = argparse.ArgumentParser(
        prog="tailmiss.figures.training.study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="one seed, gamma 0 and 1; no store")
    parser.add_argument("--store", type=Path, default=Path("runs"), help="where runs are kept")
    parser.add_argument(
        "--stage", type=int, default=max(cell.stage for cell in CELLS), help="the last stage to run"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--collect", action="store_true", help="only collect what is finished")
    parser.add_argument("--out", type=Path, help="where the tables go; default: into the store")
    options = parser.parse_args()
    if options.quick:
        with tempfile.TemporaryDirectory() as store:
            surprises = quick(Path(store))
        print("\n".join(surprises) or "sharpening at gamma 0, as expected")
        return int(bool(surprises))
    if options.jobs == 0:
        parser.error("--jobs must not be 0")
    if not options.collect:
        with joblib.parallel_config(n_jobs=options.jobs):
            run_missing(options.store, options.stage)
    try:
        collect(options.store, options.out or options.store)
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
