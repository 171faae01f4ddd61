"""paper_repro.md has a row for every figure and table, and names only figures that exist."""

import re
from pathlib import Path

import pytest

from tailmiss.figures import REGISTRY
from tailmiss.figures._figure import figure_id

PAGE = (Path(__file__).parents[1] / "paper_repro.md").read_text()
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if re.match(r"\|[^-]", line)]
ITEMS = [row[0].strip() for row in ROWS]
IDS = {figure_id(module) for module in REGISTRY}
VERDICTS = (
    "reproduced", "differs", "published numbers only", "needs a GPU", "not visible",
    "our choice",
)  # fmt: skip


@pytest.mark.parametrize(
    "item",
    ["Fig 1a", "Fig 1b", "Fig 1c"]
    + [f"Fig {i}" for i in range(2, 11)]
    + [f"Table {i}" for i in range(1, 16)],
)
def test_every_figure_and_table_has_one_row(item):
    assert ITEMS.count(item) == 1


def test_rows_are_complete_and_verdicts_known():
    for row in ROWS:
        assert len(row) == 7, row
        if row[0].strip() != "item":
            assert row[5].strip() in VERDICTS, row


def test_commands_name_existing_figures():
    for row in ROWS:
        for name in re.findall(r"tailmiss figures (\w+)", row[2]):
            assert name in IDS, row


def test_every_figure_is_on_the_page():
    missing = [name for name in IDS if f"tailmiss figures {name}" not in PAGE]
    assert not missing
