from __future__ import annotations

import zlib

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vary-seed", type=int, default=0, help="shift every test's seed, to measure flakiness"
    )


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A Generator of the test's own, the same in every run unless --vary-seed is given."""
    name = zlib.crc32(request.node.nodeid.encode())
    return np.random.default_rng([name, request.config.getoption("--vary-seed")])
