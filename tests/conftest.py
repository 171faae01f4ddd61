from __future__ import annotations

import zlib

import matplotlib
import numpy as np
import pytest
from hypothesis import settings

matplotlib.use("agg")


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
