"""Every session compiles afresh, into a cache directory of its own; TILEFUSE_TEST_CACHE_DIR names one to keep.

What becomes one region is a matter of prices, and prices are the profile's: where the processor can run code for it, tests
plan for x86-zen4, wherever they run, unless TILEFUSE_TARGET says otherwise.
"""

from __future__ import annotations

import os
import pathlib

import pytest
import torch
import torch._functorch.config
from processors import runs_here

PLANNED_FOR = "x86-zen4"

if runs_here(PLANNED_FOR):
    os.environ.setdefault("TILEFUSE_TARGET", PLANNED_FOR)


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
