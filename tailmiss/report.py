"""An audit as one self-contained page, with its tables and figures beside it."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from . import provenance
from ._audit_output import advice, fit_check
from ._audit_rows import CAUTION
from ._audit_text import NAMES, how_measured
from .audit import Audit, Row

BLUE, RED, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"


def write_report(audit: Audit, folder: str | Path) -> list[Path]:
    """Write report.html, audit.json, audit.csv, and the figures as SVG and PNG.

    Parameters
    ----------
    audit : Audit
        From :func:`tailmiss.audit`.
    folder : path
        Made if it is not there; files are written whole or not at all.

    Returns
    -------
    list of Path
        What was written, the page first.

    Raises
    ------
    ValueError
        jinja2 is missing (it comes with ``tailmiss[report]``).
    OSError
        The folder cannot be written.
    """
    page = render(audit)
    folder = Path(folder)
    written = [folder / "report.html", folder / "audit.json", folder / "audit.csv"]
    provenance.write(written[0], page)
    provenance.write_json(written[1], audit.to_dict())
    provenance.write(written[2], audit.to_frame().to_csv(index=False, float_format="%.12g"))
    for name, draw in _figures(audit).items():
        for ending in ("svg", "png"):
            path = folder / f"{name}.{ending}"
            provenance.write(path, _picture(audit, draw, ending))
            written.append(path)
    return written


def render(audit: Audit) -> str:
    """The page as text: summary, figures, tables and what was assumed, without outside links."""
    try:
        import jinja2
    except ImportError:
        raise ValueError("a report needs jinja2: pip install 'tailmiss[report]'") from None
    loader = jinja2.PackageLoader("tailmiss", ".")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"number": _number, "share": _share}
    figures = {name: _svg(_picture(audit, draw, "svg")) for name, draw in _figures(audit).items()}
    template = environment.get_template("report.html.j2")
    summary = [line for line in (*audit.summary(), advice(audit)) if line]
    return template.render(
        audit=audit, summary=summary, figures=figures, measure_names=NAMES,
        how_measured=how_measured, caution=CAUTION, check=fit_check(audit.fit_p_value),
    )  # fmt: skip


def _number(value: float, digits: int = 4) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1%}"


def _svg(picture: bytes) -> Any:
    import markupsafe

    text = picture.decode()
    return markupsafe.Markup(text[text.index("<svg") :])


def _picture(audit: Audit, draw: Any, kind: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: Any = {
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#e4e4e4", "axes.axisbelow": True, "legend.frameon": False,
        "svg.hashsalt": "tailmiss", "svg.fonttype": "path", "savefig.dpi": 200,
    }  # fmt: skip
    with mpl.rc_context(style):
        fig = Figure(figsize=(5.2, 3.3), layout="constrained")
        draw(audit, fig.subplots())
        data = io.BytesIO()
        fig.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else {})
    return data.getvalue()


def _series(rows: Iterable[tuple[int, Row]], name: str) -> tuple[list[int], list[float]]:
    pairs = [(at, getattr(row, name)) for at, row in rows if not math.isnan(getattr(row, name))]
    return [at for at, _ in pairs], [value for _, value in pairs]


def _band(
    axes: Any, rows: dict[int, Row], low: str, high: str, colour: str, alpha: float = 0.18
) -> None:
    held = {x: r for x, r in rows.items() if not math.isnan(getattr(r, low))}
    if len(held) > 1:
        lows, highs = (_series(held.items(), name)[1] for name in (low, high))
        axes.fill_between(list(held), lows, highs, color=colour, alpha=alpha, linewidth=0)


def _values_and_fit(axes: Any, rows: dict[int, Row], label: str) -> None:
    """What the rollouts say and what the fitted population does, with their ranges."""
    _band(axes, rows, "low", "high", BLUE)
    _band(axes, rows, "least", "most", GREY, 0.1)
    _band(axes, rows, "fitted_low", "fitted_high", RED)
    axes.plot(*_series(rows.items(), "fitted"), "--", color=RED, label="fitted population")
    axes.plot(*_series(rows.items(), "value"), "o-", color=BLUE, ms=4, label=label)
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.02)


def _mixed(audit: Audit, axes: Any) -> None:
    rows = audit.mixed_share
    axes.plot(*_series(rows.items(), "naive"), ":", color=GREY, label="from the mean success rate")
    _values_and_fit(axes, rows, "from the rollouts")
    axes.axvline(audit.group_size, color="black", linewidth=0.8)
    if audit.regime:
        axes.axvspan(
            audit.regime.first, min(audit.regime.last, max(rows)), color="#f3efe2", zorder=0
        )
    axes.set_xlabel("group size N")
    axes.set_ylabel("share of mixed groups")
    axes.legend(loc="best", fontsize=8)


def _passes(audit: Audit, axes: Any) -> None:
    _values_and_fit(axes, audit.pass_at_k, "pass@k")
    axes.plot(
        *_series(audit.pass_hat_k.items(), "value"), "s-", color=GREEN, ms=3.5, label="pass^k"
    )
    axes.set_xlabel("k")
    axes.set_ylabel("mean over prompts")
    axes.legend(loc="best", fontsize=8)


def _rates(audit: Audit, axes: Any) -> None:
    """Success rates of prompts, beside what the fitted population would show."""
    n, c = audit.counts[:, audit.counts[0] > 0]
    edges = np.linspace(0, 1, min(20, max(int(np.median(n)), 4)) + 1)
    width = edges[1] / 2
    edges = np.append(edges - width, 1 + width)
    seen, _ = np.histogram(c / n, edges)
    middle = (edges[:-1] + edges[1:]) / 2
    axes.bar(middle, seen / n.size, 1.7 * width, color="#9ecae9", label="prompts seen")
    if audit.population:
        expected = np.zeros(middle.size)
        for size, share in zip(*np.unique(n, return_counts=True), strict=True):
            rates = np.arange(size + 1) / size
            law = audit.population.expected_counts(int(size))
            expected += np.histogram(rates, edges, weights=law)[0] * share / n.size
        axes.plot(middle, expected, "D", color=RED, ms=4, label="fitted population would show")
        grid = np.linspace(0.004, 0.996, 249)
        density = audit.population.density(grid) * 2 * width
        inside = density < 1.3 * max(seen.max() / n.size, expected.max())
        axes.plot(grid[inside], density[inside], "-", color=RED, lw=1, label="fitted density")
    axes.set_xlabel("success rate of a prompt")
    axes.set_ylabel("share of prompts")
    axes.legend(loc="best", fontsize=8)


def _texts(audit: Audit, axes: Any) -> None:
    """Distinct-2 and Self-BLEU of groups: over the steps, or how they spread without steps."""
    shown = {"distinct_2": (BLUE, "o-"), "self_bleu": (RED, "s--")}
    parts = {s: p.text for s, p in audit.by_step.items() if p.text and p.text.groups}
    for name, (colour, style) in shown.items():
        if len(parts) > 1:
            rows = [part.measures[name] for part in parts.values()]
            low, value, high = (np.array([getattr(r, x) for r in rows]) for x in _ENDS)
            at = np.arange(len(rows))
            axes.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(at, value, style, color=colour, ms=4, label=NAMES[name])
        elif audit.text:
            values = np.array([own[name] for own in audit.text.values.values()])
            values = values[~np.isnan(values)]
            edges = np.linspace(0, 1, 21)
            counts = np.histogram(values.clip(0, 1), edges)[0] / max(values.size, 1)
            axes.stairs(counts, edges, color=colour, ls="-" if style[1:] == "-" else "--", lw=1.6,
                        label=NAMES[name])  # fmt: skip
    axes.legend(loc="best", fontsize=8)
    if len(parts) < 2:
        axes.set_xlabel("value of a group")
        axes.set_ylabel("share of groups")
        return
    few = np.unique(np.linspace(0, len(parts) - 1, min(len(parts), 10)).astype(int))
    axes.set_xticks(few, [list(parts)[i] for i in few])
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("step")
    axes.set_ylabel("mean over groups")


_ENDS = ("low", "value", "high")
FIGURES = {"mixed_share": _mixed, "pass_at_k": _passes, "success_rates": _rates}


def _figures(audit: Audit) -> dict[str, Any]:
    """The figures of this audit: one more where texts were measured."""
    measured = audit.text and audit.text.measures["self_bleu"].used
    return FIGURES | ({"text_diversity": _texts} if measured else {})
