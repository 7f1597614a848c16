"""Every session compiles afresh, into a cache directory of its own; TILEFUSE_TEST_CACHE_DIR names one to keep.

What becomes one region is a matter of prices, and prices are the profile's: where the processor can run code for it, tests
plan for x86-zen4, wherever they run, unless TILEFUSE_TARGET says otherwise.
"""

from __future__ import annotations

import json
import os
import pathlib

import pytest
import torch
import torch._functorch.config


PLANNED_FOR = "x86-zen4"


def _runs_here(target: str) -> bool:
    profile = pathlib.Path(__file__).resolve().parents[2] / "configs" / "targets" / f"{target}.json"
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().replace("_", "").split() if cpuinfo.exists() else []
    return set(json.loads(profile.read_text())["instructions"]) <= set(flags)


if _runs_here(PLANNED_FOR):
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
