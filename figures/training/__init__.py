"""A language model trained by an unmodified TRL trainer on a task whose every answer is known.

The paper's LLM questions at a size that a laptop answers: ``task`` (arithmetic with many right
answers), ``model`` (a small Qwen2 and its supervised start), ``evaluate`` (exact, by teacher
forcing), ``train`` (one run) and ``study`` (the grid behind the committed ``results/``).

    python -m tailmiss.figures.training.train --gamma 1         one run, printed as CSV
    python -m tailmiss.figures.training.study --store runs      the grid; finished runs are kept
"""

from importlib.util import find_spec

for _module in ("torch", "transformers", "trl"):
    if find_spec(_module) is None:
        # named after the package: `python -m` then says it in one line, without a traceback
        raise ModuleNotFoundError(
            f"the training study needs {_module}: pip install 'tailmiss[trl]'", name=__name__
        )
