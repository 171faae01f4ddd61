from __future__ import annotations

import os
import zlib
from collections.abc import Callable

import matplotlib
import numpy as np
import pytest
from hypothesis import settings

from tailmiss import provenance

matplotlib.use("agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers share two cores


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vary-seed", type=int, default=0, help="shift every test's seed, to measure flakiness"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Property tests try the same examples in every run unless --vary-seed is given."""
    fixed = not config.getoption("--vary-seed")
    settings.register_profile("tailmiss", deadline=None, derandomize=fixed)
    settings.load_profile("tailmiss")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A Generator of the test's own, the same in every run unless --vary-seed is given."""
    name = zlib.crc32(request.node.nodeid.encode())
    return np.random.default_rng([name, request.config.getoption("--vary-seed")])


_MEASURED = pytest.StashKey[list[dict[str, object]]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Record one line of the performance table: what, against what, the ratio and its bar."""

    def add(what: str, against: str, value: float, bar: str, unit: str = "times faster") -> None:
        rows = request.config.stash.setdefault(_MEASURED, [])
        rows.append(
            {"what": what, "against": against, "value": f"{value:.3g}", "unit": unit, "bar": bar}
        )

    return add


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the performance table and write it to out/bench.md, with the machine it was made on."""
    rows = config.stash.get(_MEASURED, [])
    if not rows:
        return
    lines = ["| what | against | measured | bar |", "|---|---|---|---|"]
    lines += ["| {what} | {against} | {value} {unit} | {bar} |".format(**row) for row in rows]
    made = provenance.record()
    machine, software = made["machine"], made["software"]
    versions = ", ".join(f"{name} {version}" for name, version in software.items())
    lines += ["", f"{machine['processor']}, {machine['cores']} cores; {versions}."]
    terminalreporter.section("performance")
    terminalreporter.write_line("\n".join(lines))
    provenance.write(config.rootpath / "out" / "bench.md", "\n".join(lines) + "\n")
