"""Architectures of transformers and timm with random weights: inference, and a training step of half of them."""

import copy
import pathlib
import sys

import pytest
import torch
from numeric import assert_close, graphs_compiled
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
transformers = pytest.importorskip("transformers")
timm = pytest.importorskip("timm")
from model_cases import MODELS  # noqa: E402

TRAINED = ["bert", "gpt2", "llama", "t5_encoder", "resnet18", "vit_tiny"]


def double(model, inputs):
    wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    return copy.deepcopy(model).double(), wide


@pytest.mark.parametrize("name", MODELS)
def test_inference_as_eager(name):
    model, inputs = MODELS[name]()
    wide, wide_inputs = double(model, inputs)
    with torch.no_grad():
        got = torch.compile(model, backend="tilefuse", options={"strict": True})(*inputs)
        assert_close(got, model(*inputs), wide(*wide_inputs), name)


@pytest.mark.parametrize("name", TRAINED)
def test_training_step_as_eager(name):
    model, inputs = MODELS[name]()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
    for config in (getattr(m, "config", None) for m in model.modules()):
        for field in ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "dropout_rate"):
            if hasattr(config, field):
                setattr(config, field, 0.0)
    wide, wide_inputs = double(model, inputs)

    def gradients(function, module, arguments):
        module.zero_grad()
        outputs = pytree.tree_leaves(function(*arguments))
        sum((o * o).mean() for o in outputs if o.is_floating_point()).backward()
        return {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}

    expected = gradients(model, model, inputs)
    exact = gradients(wide, wide, wide_inputs)
    got = gradients(torch.compile(model, backend="tilefuse", options={"strict": True}), model, inputs)
    assert got.keys() == expected.keys()
    for parameter in expected:
        _assert_gradient(got[parameter], expected[parameter], exact[parameter], f"{name}: {parameter}")


def _assert_gradient(got, eager, exact, what):
    """Gradients pass through the whole depth: twice eager's own error, or a part in ten thousand of the largest."""
    scale = max(exact.abs().max().item(), 1e-12)
    allowed = max(2 * (eager.double() - exact).abs().max().item() / scale, 1e-4)
    error = (got.double() - exact).abs().max().item() / scale
    assert error <= allowed, f"{what}: error {error:.3g}, allowed {allowed:.3g}"


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
