"""Tests on CUDA tensors, by ``make gpu``. Without a GPU all are skipped, with a sentence."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))  # what both folders of tests share


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    here = pathlib.Path(__file__).parent
    for item in (item for item in items if item.path.is_relative_to(here)):
        item.add_marker(pytest.mark.skip(reason="SKIPPED, nothing runs on CUDA tensors: torch finds no NVIDIA GPU"))


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory):
    os.environ["TILEFUSE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # what went wrong in a kernel belongs to the test that launched it
    torch._dynamo.reset()
