"""``patch(model)``: a model's own modules, computed by the operators of this package.

Nothing is decided by a name. A module is a candidate by what it holds (a vector of weights and an epsilon; a gate, an up
and a down projection), and it is swapped only if it gives what the operator gives for random input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tilefuse.errors import UserError
from tilefuse.ops.activations import geglu, rotary_embedding, swiglu
from tilefuse.ops.normalisations import layer_norm, rms_norm

__all__ = ["Patch", "patch"]

Forward = Callable[..., Any]
_ROWS = 3  # of the random input that a candidate is tried with
_ROTARY = "apply_rotary_pos_emb"  # the function that the models' files share


@dataclasses.dataclass(frozen=True)
class Swap:
    """One module, or one function of a model's file, and the operator that took its place."""

    where: str
    kind: str
    operator: str


class Patch:
    """What ``patch`` swapped; ``unpatch()`` or leaving a ``with`` block puts everything back."""

    def __init__(self) -> None:
        self.swapped: list[Swap] = []
        self._undo: list[Callable[[], None]] = []

    def unpatch(self) -> None:
        """Restores what was there. A second call does nothing."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *_: object) -> None:
        self.unpatch()

    def __str__(self) -> str:
        if not self.swapped:
            return "nothing to swap"
        return "\n".join(f"{swap.where}: {swap.kind} -> {swap.operator}" for swap in self.swapped)

    __repr__ = __str__

    def swap_forward(self, name: str, module: nn.Module, forward: Forward, operator: str) -> None:
        module.forward = types.MethodType(forward, module)  # type: ignore[method-assign]
        self._undo.append(lambda: module.__dict__.pop("forward", None))
        self.swapped.append(Swap(name, type(module).__name__, operator))

    def swap_function(self, module: types.ModuleType, name: str, function: Forward, operator: str) -> None:
        original = getattr(module, name)
        setattr(module, name, function)
        self._undo.append(lambda: setattr(module, name, original))
        self.swapped.append(Swap(f"{module.__name__}.{name}", "function", operator))


def patch(model: nn.Module) -> Patch:
    """Swaps RMS norms, layer norms, gated MLPs and rotary embeddings of ``model``, in place.

    Rotary embeddings are functions of the model's file: they change for every model of that file until ``unpatch``.
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"tilefuse.ops.patch wants a torch.nn.Module, got {type(model).__name__}")
    patched = Patch()
    for name, module in model.named_modules():
        if "forward" in module.__dict__ or module._forward_hooks_with_kwargs:
            continue  # somebody else's already
        for candidate in (_rms_norm, _layer_norm, _gated_mlp):
            found = candidate(module)
            if found is not None:
                patched.swap_forward(name, module, *found)
                break
    for file in {type(module).__module__: None for module in model.modules()}:
        _rotary(patched, sys.modules[file])
    return patched


# ---------------------------------------------------------------- candidates
def _agrees(module: nn.Module, forward: Forward, width: int, like: torch.Tensor) -> bool:
    """Whether both give the same for a few random rows, in eval mode and without a gradient."""
    with _undisturbed(module), torch.no_grad():
        generator = torch.Generator(device="cpu").manual_seed(0)
        x = torch.randn(1, _ROWS, width, generator=generator).to(like.device, like.dtype)
        try:
            wanted = module(x)
            got = forward(module, x)
        except (RuntimeError, TypeError, ValueError, AttributeError):
            return False
    if not isinstance(wanted, torch.Tensor) or wanted.dtype != got.dtype or wanted.shape != got.shape:
        return False
    scale = wanted.abs().max().clamp(min=1e-6)
    return bool(((got - wanted).abs().max() / scale) <= 8 * torch.finfo(like.dtype).eps)


@contextlib.contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    training = {child: child.training for child in module.modules()}
    state = torch.random.get_rng_state()
    module.eval()
    try:
        yield
    finally:
        for child, was in training.items():
            child.training = was
        torch.random.set_rng_state(state)


def _epsilon(module: nn.Module) -> float | None:
    found = [getattr(module, name) for name in ("variance_epsilon", "eps", "epsilon") if hasattr(module, name)]
    return float(found[0]) if len(found) == 1 and isinstance(found[0], float) else None


def _parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in module._parameters.items() if p is not None}


def _rms_norm(module: nn.Module) -> tuple[Forward, str] | None:
    parameters, eps = _parameters(module), _epsilon(module)
    if list(parameters) != ["weight"] or parameters["weight"].dim() != 1 or eps is None or module._modules:
        return None
    weight = parameters["weight"]

    def scaled(self: nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
        if hidden_states.dtype != self.weight.dtype:  # each model promotes in its own way
            return type(self).forward(self, hidden_states)
        return rms_norm(hidden_states, self.weight, eps)

    def scaled_from_one(self: nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
        if hidden_states.dtype != self.weight.dtype:
            return type(self).forward(self, hidden_states)
        return rms_norm(hidden_states, 1.0 + self.weight, eps)

    for forward in (scaled, scaled_from_one):
        if weight.is_floating_point() and _agrees(module, forward, weight.numel(), weight):
            return forward, "tilefuse::rms_norm"
    return None


def _layer_norm(module: nn.Module) -> tuple[Forward, str] | None:
    parameters, eps = _parameters(module), _epsilon(module)
    if not set(parameters) <= {"weight", "bias"} or "weight" not in parameters or eps is None or module._modules:
        return None
    weight = parameters["weight"]

    def forward(self: nn.Module, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - as in nn.LayerNorm
        if input.dtype != self.weight.dtype:
            return type(self).forward(self, input)
        return layer_norm(input, self.weight, self.bias, eps)

    if weight.dim() != 1 or not _agrees(module, forward, weight.numel(), weight):
        return None
    return forward, "tilefuse::layer_norm"


def _gated_mlp(module: nn.Module) -> tuple[Forward, str] | None:
    if not all(isinstance(getattr(module, name, None), nn.Linear) for name in ("gate_proj", "up_proj", "down_proj")):
        return None

    def with_silu(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))

    def with_gelu(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(geglu(self.gate_proj(x), self.up_proj(x)))

    def with_tanh(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(geglu(self.gate_proj(x), self.up_proj(x), "tanh"))

    weight = module.gate_proj.weight
    forms = ((with_silu, "tilefuse::swiglu"), (with_gelu, "tilefuse::geglu"), (with_tanh, "tilefuse::geglu"))
    for forward, operator in forms:
        if _agrees(module, forward, weight.shape[1], weight):
            return forward, operator
    return None


def _rotary(patched: Patch, file: types.ModuleType) -> None:
    original = getattr(file, _ROTARY, None)
    if original is None or list(inspect.signature(original).parameters) != ["q", "k", "cos", "sin", "unsqueeze_dim"]:
        return

    def rotate(query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1) -> Any:
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return rotary_embedding(query, cos, sin), rotary_embedding(key, cos, sin)

    generator = torch.Generator().manual_seed(0)
    q, k, cos, sin = (torch.randn(shape, generator=generator) for shape in [(1, 2, 3, 8), (1, 1, 3, 8), (1, 3, 8), (1, 3, 8)])
    try:
        wanted = original(q, k, cos, sin)
    except (RuntimeError, TypeError, ValueError):
        return
    if all(torch.allclose(got, want, atol=1e-6) for got, want in zip(rotate(q, k, cos, sin), wanted, strict=True)):
        patched.swap_function(file, _ROTARY, rotate, "tilefuse::rotary_embedding")
