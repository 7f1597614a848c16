"""Architectures of transformers and timm through torch.compile, beside eager and beside f64: inference and a training step."""

from __future__ import annotations

import copy
from typing import Any

import torch
from numeric import assert_close
from torch.utils import _pytree as pytree

TRAINED = ["bert", "gpt2", "llama", "t5_encoder", "resnet18", "vit_tiny"]
DROPOUTS = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "dropout_rate")


def check_inference(name: str, model: torch.nn.Module, inputs: tuple[Any, ...], **settings: Any) -> None:
    """Raises AssertionError where a result is further from f64 than twice eager's error. ``settings`` go to torch.compile."""
    wide, wide_inputs = _double(model, inputs)
    with torch.no_grad():
        got = torch.compile(model, backend="tilefuse", **settings)(*inputs)
        assert_close(got, model(*inputs), wide(*wide_inputs), name)


def check_training_step(name: str, model: torch.nn.Module, inputs: tuple[Any, ...], **settings: Any) -> None:
    """As check_inference, of the gradients of all parameters; nothing is dropped out."""
    _drop_nothing(model)
    wide, wide_inputs = _double(model, inputs)
    expected = _gradients(model, model, inputs)
    exact = _gradients(wide, wide, wide_inputs)
    got = _gradients(torch.compile(model, backend="tilefuse", **settings), model, inputs)
    assert got.keys() == expected.keys()
    for parameter in expected:
        _assert_gradient(got[parameter], expected[parameter], exact[parameter], f"{name}: {parameter}")


def _double(model: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    return copy.deepcopy(model).double(), wide


def _drop_nothing(model: torch.nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
    for config in (getattr(m, "config", None) for m in model.modules()):
        for field in DROPOUTS:
            if hasattr(config, field):
                setattr(config, field, 0.0)


def _gradients(function: Any, module: torch.nn.Module, arguments: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    module.zero_grad()
    outputs = pytree.tree_leaves(function(*arguments))
    sum((o * o).mean() for o in outputs if o.is_floating_point()).backward()
    return {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}


def _assert_gradient(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, what: str) -> None:
    """Gradients pass through the whole depth: twice eager's own error, or a part in ten thousand of the largest."""
    scale = max(exact.abs().max().item(), 1e-12)
    allowed = max(2 * (eager.double() - exact).abs().max().item() / scale, 1e-4)
    error = (got.double() - exact).abs().max().item() / scale
    assert error <= allowed, f"{what}: error {error:.3g}, allowed {allowed:.3g}"
