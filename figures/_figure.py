"""Build, save and check a figure. A figure is a module with

``data(params, rng) -> DataFrame``   everything the picture shows, tidy
``draw(frame, fig) -> None``         the picture, from that table alone
``PARAMS = {"quick": {...}, "full": {...}}``, ``CAPTION``, ``SIZE`` in inches
``TOLERANCE`` (optional)             column -> absolute difference that `check` allows

A module whose PARAMS name a "store" gets a folder there, in which finished runs are kept.
"""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from tailmiss import provenance

HERE = Path(__file__).parent
PUBLISHED = HERE / "published"
REFERENCE = HERE / "reference"
STYLE = HERE / "tailmiss.mplstyle"
COLUMN, PAGE = 3.4, 7.0
RELATIVE = 1e-6


def figure_id(module: ModuleType) -> str:
    """The name of a figure is the name of its module."""
    return module.__name__.rsplit(".", 1)[-1]


def title(module: ModuleType) -> str:
    """The first line of the module's docstring."""
    return (module.__doc__ or "").strip().splitlines()[0].rstrip(".")


def compute(module: ModuleType, *, full: bool, seed: int, store: Path | None) -> pd.DataFrame:
    """The figure's table, as it reads back from its CSV."""
    params: dict[str, Any] = dict(module.PARAMS["full" if full else "quick"])
    if "store" in params:
        params["store"] = store
    rng = np.random.default_rng([seed, zlib.crc32(figure_id(module).encode())])
    return read_csv(io.StringIO(to_csv(module.data(params, rng))))


def build(module: ModuleType, *, full: bool, seed: int, out: Path) -> list[Path]:
    """Compute, draw and save one figure as CSV, JSON, PDF and PNG."""
    provenance.discard_abandoned(out)
    frame = compute(module, full=full, seed=seed, store=out / "runs")
    name = figure_id(module)
    made = [out / f"{name}.{ending}" for ending in ("csv", "json", "pdf", "png")]
    provenance.write(made[0], to_csv(frame))
    scale = "full" if full else "quick"
    params = {k: v for k, v in module.PARAMS[scale].items() if k != "store"}
    caption = " ".join(module.CAPTION.split())
    if not full and module.PARAMS["full"] != module.PARAMS["quick"]:
        caption += " This is the quick version, smaller than described: see its parameters."
    details = provenance.record(figure=name, scale=scale, seed=seed, caption=caption, **params)
    provenance.write_json(made[1], details)
    with mpl.rc_context(fname=STYLE):
        layout = ConstrainedLayoutEngine()
        fig = Figure(figsize=module.SIZE, layout=layout)
        module.draw(frame, fig)
        layout.execute(fig)
        fig.set_layout_engine("none")
        # savefig would draw everything once more before each format, for the layout that is found
        png, pdf = io.BytesIO(), io.BytesIO()
        FigureCanvasAgg(fig).print_png(png)
        FigureCanvasPdf(fig).print_pdf(pdf, metadata={"CreationDate": None})  # sets 72 dpi: last
    provenance.write(made[2], pdf.getvalue())
    provenance.write(made[3], png.getvalue())
    return made


def check(module: ModuleType, *, full: bool, seed: int, store: Path | None) -> list[str]:
    """Recompute a figure's table; the differences from its committed reference, in words."""
    path = reference(module, full=full)
    if not path.exists():
        return [f"no reference {path.name}"]
    old, new = read_csv(path), compute(module, full=full, seed=seed, store=store)
    return differences(old, new, getattr(module, "TOLERANCE", {}))


def reference(module: ModuleType, *, full: bool) -> Path:
    """Where the committed table of a figure lies: one table where both scales are the same."""
    scale = "full" if full and module.PARAMS["full"] != module.PARAMS["quick"] else "quick"
    return REFERENCE / scale / f"{figure_id(module)}.csv"


def differences(old: pd.DataFrame, new: pd.DataFrame, tolerance: dict[str, float]) -> list[str]:
    """What differs between two tables beyond the tolerance, one line a column."""
    if list(old.columns) != list(new.columns) or len(old) != len(new):
        shape = f"{len(old)} rows of {list(old.columns)}"
        return [f"reference has {shape}; got {len(new)} rows of {list(new.columns)}"]
    found = []
    for column in old.columns:
        a, b = old[column], new[column]
        if pd.api.types.is_numeric_dtype(a) and pd.api.types.is_numeric_dtype(b):
            x, y = a.to_numpy(float), b.to_numpy(float)
            allowed = tolerance.get(column, 1e-12) + RELATIVE * np.abs(x)
            with np.errstate(invalid="ignore"):
                off = np.abs(x - y)
            bad = ~((off <= allowed) | (x == y) | (np.isnan(x) & np.isnan(y)))
        else:
            bad = (a.astype(str) != b.astype(str)).to_numpy()
        if bad.any():
            row = int(np.argmax(bad))
            found.append(
                f"{column}: {int(bad.sum())} of {len(old)} rows differ,"
                f" first in row {row}: {a.iloc[row]!r} became {b.iloc[row]!r}"
            )
    return found


def to_csv(frame: pd.DataFrame) -> str:
    """One spelling of a table, the same on every machine."""
    return str(frame.to_csv(index=False, float_format="%.12g", lineterminator="\n"))


def read_csv(source: Any) -> pd.DataFrame:
    """A table from its CSV; text that looks missing ("None", "NA") stays text."""
    return pd.read_csv(source, keep_default_na=False, na_values=["", "nan"])
