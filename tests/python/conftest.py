"""Every session compiles afresh, into a cache directory of its own; TILEFUSE_TEST_CACHE_DIR names one to keep.

What becomes one region is a matter of prices, and prices are the profile's: where the processor can run code for it, tests
plan for x86-zen4, wherever they run, unless TILEFUSE_TARGET says otherwise.

TILEFUSE_TESTS=quick (`make test-quick`) runs one test in twelve, always the same ones.
"""

from __future__ import annotations

import os
import pathlib

import pytest
import torch
import torch._functorch.config
from processors import FIXED_TARGET, runs_here

if runs_here(FIXED_TARGET):
    os.environ.setdefault("TILEFUSE_TARGET", FIXED_TARGET)


QUICK_STEP = 12


@pytest.hookimpl(trylast=True)  # behind what `-m` leaves out
def pytest_collection_modifyitems(config, items):
    if os.environ.get("TILEFUSE_TESTS") != "quick":
        return
    config.hook.pytest_deselected(items=[item for number, item in enumerate(items) if number % QUICK_STEP])
    items[:] = items[::QUICK_STEP]


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory):
    kept = os.environ.get("TILEFUSE_TEST_CACHE_DIR")
    directory = pathlib.Path(kept) if kept else tmp_path_factory.mktemp("cache")
    os.environ["TILEFUSE_CACHE_DIR"] = str(directory)
    yield directory
    del os.environ["TILEFUSE_CACHE_DIR"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._functorch.config.patch(error_on_custom_op_aliasing=True):
        yield
    torch._dynamo.reset()


@pytest.fixture
def two_threads():
    """What pays on two threads need not on one, nor on sixty."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)
