from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import matplotlib
import numpy as np
import pytest
import timings
from hypothesis import settings

from tailmiss import cli, provenance

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


@pytest.fixture
def run_audit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Any, str, str]]:
    """`tailmiss audit` in this process: exit code, standard output and standard error."""

    def run(*arguments: Any) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["tailmiss", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """torch on one thread: workers share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


_MEASURED = pytest.StashKey[list[timings.Measurement]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Put a row into the performance table and hold it to its bar; arguments as of measurement."""

    def add(*args: Any, **options: Any) -> None:
        row = timings.measurement(*args, **options)
        request.config.stash.setdefault(_MEASURED, []).append(row)
        row.check()

    return add


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the performance table and keep it in out/, with the machine it was made on."""
    rows = config.stash.get(_MEASURED, [])
    if not rows:
        return
    frame, made = timings.table(rows), provenance.record()
    machine, software = made["machine"], made["software"]
    versions = ", ".join(f"{name} {version}" for name, version in software.items())
    text = (
        f"{machine['processor']}, one of {machine['cores']} cores; {versions};"
        f" {datetime.now(UTC):%Y-%m-%d}. Medians of repeats taken in turns.\n\n"
        f"{timings.markdown(frame)}\n"
    )
    terminalreporter.section("performance")
    terminalreporter.write_line(text)
    out = config.rootpath / "out"
    provenance.write(out / "bench.md", text)
    provenance.write(out / "bench.csv", frame.to_csv(index=False))
