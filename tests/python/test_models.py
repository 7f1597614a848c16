"""Architectures of transformers and timm with random weights: inference, and a training step of half of them."""

import pathlib
import sys

import pytest
import torch
from model_checks import TRAINED, check_inference, check_training_step
from numeric import graphs_compiled
from slow_cases import slow_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
transformers = pytest.importorskip("transformers")
timm = pytest.importorskip("timm")
from model_cases import MODELS  # noqa: E402

STRICT = {"strict": True}


@pytest.mark.parametrize("name", slow_of({"cait", "convbert", "convnext_atto", "poolformer_s12"}, MODELS))
def test_inference_as_eager(name):
    check_inference(name, *MODELS[name](), options=STRICT)


@pytest.mark.parametrize("name", TRAINED)
def test_training_step_as_eager(name):
    check_training_step(name, *MODELS[name](), options=STRICT)


def test_one_model_over_fifty_sizes_with_dynamic_shapes():
    model, _ = MODELS["bert"]()
    run = torch.compile(model, backend="tilefuse", options={"strict": True}, dynamic=True)
    before = graphs_compiled()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(50):
            batch, length = (int(torch.randint(2, high, (), generator=generator)) for high in (9, 97))
            ids = torch.randint(0, 1000, (batch, length), generator=generator)
            torch.testing.assert_close(run(ids), model(ids), atol=2e-5, rtol=2e-5)
    assert graphs_compiled() - before <= 2
