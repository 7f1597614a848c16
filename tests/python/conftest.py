"""Every session compiles afresh, into a cache directory of its own; TILEFUSE_TEST_CACHE_DIR names one to keep."""

from __future__ import annotations

import os
import pathlib

import pytest
import torch
import torch._functorch.config


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
