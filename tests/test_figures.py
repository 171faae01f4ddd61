"""Every figure builds, repeats byte for byte, and check sees what changed."""

import json

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tailmiss.figures import REGISTRY, _figure
from tailmiss.figures._seeds import bars

FAST = [m for m in REGISTRY if "store" not in m.PARAMS["quick"]]
NAMES = [_figure.figure_id(m) for m in FAST]


@pytest.mark.parametrize("module", REGISTRY, ids=_figure.figure_id)
def test_a_figure_module_is_complete(module):
    assert len(_figure.title(module)) > 10
    assert len(module.CAPTION) > 40
    assert set(module.PARAMS) == {"quick", "full"}
    width, height = module.SIZE
    assert width in (_figure.COLUMN, _figure.PAGE)
    assert height < 9


@pytest.mark.parametrize("module", FAST, ids=NAMES)
def test_quick_table_equals_its_reference(module, tmp_path):
    assert _figure.check(module, full=False, seed=0, store=tmp_path) == []


def test_bars_are_cut_at_the_largest_value():
    frame = pd.DataFrame({"x": [0.5, 0.75], "x_low": [0.25, 0.5], "x_high": [0.75, 1.25]})
    assert bars(frame, "x").tolist() == [[0.25, 0.25], [0.25, 0.5]]
    assert bars(frame, "x", top=1).tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_build_repeats_byte_for_byte(tmp_path):
    module = FAST[0]
    first = _figure.build(module, full=False, seed=0, out=tmp_path / "a")
    second = _figure.build(module, full=False, seed=0, out=tmp_path / "b")
    assert [p.suffix for p in first] == [".csv", ".json", ".pdf", ".png"]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    details = json.loads(first[1].read_text())
    assert details["parameters"]["figure"] == _figure.figure_id(module)
    assert details["software"]["numpy"] == np.__version__
    assert not list((tmp_path / "a").glob(".*"))


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("module", REGISTRY, ids=_figure.figure_id)
def test_nothing_is_clipped(module, full):
    """Everything drawn from the committed table lies inside the picture."""
    frame = _figure.read_csv(_figure.reference(module, full=full))
    with mpl.rc_context(fname=_figure.STYLE):
        fig = mpl.figure.Figure(figsize=module.SIZE, layout="constrained")
        module.draw(frame, fig)
        canvas = FigureCanvasAgg(fig)
        canvas.draw()
        box = fig.get_tightbbox(canvas.get_renderer())
        width, height = module.SIZE
        assert box.x0 > -0.02
        assert box.y0 > -0.02
        assert box.x1 < width + 0.02
        assert box.y1 < height + 0.02


def test_differences_are_found_and_named():
    old = pd.DataFrame({"N": [1, 2], "p": [0.5, np.nan], "rule": ["a", "b"]})
    assert _figure.differences(old, old.copy(), {}) == []
    assert _figure.differences(old, old.assign(p=[0.5, np.nan]), {}) == []
    changed = _figure.differences(old, old.assign(p=[0.6, np.nan]), {})
    assert "p: 1 of 2 rows differ, first in row 0" in changed[0]
    assert _figure.differences(old, old.assign(p=[0.6, np.nan]), {"p": 0.2}) == []
    assert "rule: 1 of 2" in _figure.differences(old, old.assign(rule=["a", "c"]), {})[0]
    assert "N: 1 of 2" in _figure.differences(old, old.assign(N=[1, 3]), {})[0]
    assert "p: 1 of 2" in _figure.differences(old, old.assign(p=[0.5, 0.1]), {})[0]
    assert "rows of" in _figure.differences(old, old.head(1), {})[0]


def test_a_missing_reference_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(_figure, "REFERENCE", tmp_path)
    assert _figure.check(FAST[0], full=False, seed=0, store=None) == ["no reference fig1a.csv"]
