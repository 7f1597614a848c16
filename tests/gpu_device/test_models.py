"""Architectures of transformers and timm with random weights on CUDA tensors: inference, and training steps."""

from __future__ import annotations

import pathlib
import sys
import warnings
from typing import Any

import pytest
import torch
from model_checks import TRAINED, check_inference, check_training_step
from tilefuse.errors import TileFuseWarning

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
transformers = pytest.importorskip("transformers")
timm = pytest.importorskip("timm")
from model_cases import MODELS  # noqa: E402


@pytest.fixture(autouse=True)
def nobody_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        yield


def _on_gpu(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    model, inputs = MODELS[name]()
    return model.cuda(), tuple(value.cuda() for value in inputs)


@pytest.mark.parametrize("name", MODELS)
def test_inference_as_eager(name):
    check_inference(name, *_on_gpu(name))


@pytest.mark.parametrize("name", TRAINED)
def test_training_step_as_eager(name):
    check_training_step(name, *_on_gpu(name))


@pytest.mark.parametrize("name", ["bert", "llama", "resnet18"])
def test_inference_replayed_as_a_cuda_graph(name):
    check_inference(name, *_on_gpu(name), mode="reduce-overhead")


@pytest.mark.parametrize("name", ["bert", "llama", "vit_tiny"])
def test_inference_in_bf16_with_products_of_our_own(name):
    model, inputs = _on_gpu(name)
    inputs = tuple(value.bfloat16() if value.is_floating_point() else value for value in inputs)
    check_inference(name, model.bfloat16(), inputs, options={"products": "own"})
