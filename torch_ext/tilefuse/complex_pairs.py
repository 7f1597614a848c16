"""Complex numbers as pairs of real ones: rotary embeddings that are written as products of complex numbers, and what is like them.

Kernels know real numbers. While AOTAutograd traces, arithmetic of complex tensors becomes arithmetic of their real and imaginary parts,
between ``view_as_real`` of the operands and ``view_as_complex`` of the result. `remove_round_trips` then takes out each pair of the two,
through the views between them, so that of a chain of complex operators nothing complex is left.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

__all__ = ["pair_rules", "remove_round_trips"]

aten = torch.ops.aten
_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def pair_rules() -> dict[Any, Callable[..., Any]]:
    """By operator, for ``aot_autograd``. A function returns NotImplemented where the operator stays."""
    return {
        aten.mul.Tensor: _multiply,
        aten.add.Tensor: lambda a, b, *, alpha=1: _by_parts(operator.add, a, b, alpha),
        aten.sub.Tensor: lambda a, b, *, alpha=1: _by_parts(operator.sub, a, b, alpha),
        aten._conj_physical.default: _conjugate,
        aten.polar.default: _polar,
    }


def _complex(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(torch.stack((real, imaginary), -1))


def _is_complex(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in _PARTS and x.device.type == "cpu" and not x.is_conj() and not x.is_neg()


def _parts(x: Any, result: torch.dtype) -> tuple[Any, Any] | None:
    """The real part, and the imaginary one where there is one. None: parts of `result` take another conversion."""
    if isinstance(x, complex):
        return x.real, x.imag
    if isinstance(x, (int, float)):
        return x, None
    if not isinstance(x, torch.Tensor):
        return None
    if x.dtype == _PARTS[result] and x.device.type == "cpu":
        return x, None
    if not _is_complex(x) or x.dtype != result:
        return None
    pairs = torch.view_as_real(x)
    return pairs.select(-1, 0), pairs.select(-1, 1)


def _multiply(a: Any, b: Any) -> Any:
    if not any(isinstance(x, complex) or _is_complex(x) for x in (a, b)):
        return NotImplemented
    result = torch.result_type(a, b)
    if result not in _PARTS:
        return NotImplemented
    one, other = _parts(a, result), _parts(b, result)
    if one is None or other is None:
        return NotImplemented
    (real, imaginary), (other_real, other_imaginary) = one, other
    if other_imaginary is None:
        return _complex(real * other_real, imaginary * other_real)
    if imaginary is None:
        return _complex(real * other_real, real * other_imaginary)
    return _complex(real * other_real - imaginary * other_imaginary, real * other_imaginary + imaginary * other_real)


def _by_parts(combine: Callable[..., Any], a: torch.Tensor, b: Any, alpha: Any) -> Any:
    if not _is_complex(a) or alpha != 1:
        return NotImplemented
    result = torch.result_type(a, b)
    if a.dtype != result:
        return NotImplemented
    one, other = _parts(a, result), _parts(b, result)
    if one is None or other is None or (isinstance(b, torch.Tensor) and other[1] is None):
        return NotImplemented
    return _complex(combine(one[0], other[0]), one[1] if other[1] is None else combine(one[1], other[1]))


def _conjugate(x: torch.Tensor) -> Any:
    if not _is_complex(x):
        return NotImplemented
    pairs = torch.view_as_real(x)
    return _complex(pairs.select(-1, 0), -pairs.select(-1, 1))


def _polar(length: torch.Tensor, angle: torch.Tensor) -> Any:
    if length.device.type != "cpu" or not length.is_floating_point():
        return NotImplemented
    return _complex(length * angle.cos(), length * angle.sin())


def _before_last(dim: int) -> int:
    return dim if dim >= 0 else dim - 1


# What views of complex tensors are on pairs, whose last dimension is one more.
_VIEWS: dict[Any, Callable[..., tuple[Any, ...]]] = {
    aten.view.default: lambda shape: ([*shape, 2],),
    aten._unsafe_view.default: lambda shape: ([*shape, 2],),
    aten.expand.default: lambda shape: ([*shape, 2],),
    aten.unsqueeze.default: lambda dim: (_before_last(dim),),
    aten.squeeze.dim: lambda dim: (_before_last(dim),),
    aten.select.int: lambda dim, index: (_before_last(dim), index),
    aten.slice.Tensor: lambda dim=0, *rest: (_before_last(dim), *rest),
    aten.transpose.int: lambda a, b: (_before_last(a), _before_last(b)),
    aten.permute.default: lambda dims: ([*(d % len(dims) for d in dims), len(dims)],),
}


def remove_round_trips(graph: Graph) -> None:
    """Takes ``view_as_real(view_as_complex(x))`` for ``x``, and views of pairs for pairs of views."""
    readers = graph.find_nodes(op="call_function", target=aten.view_as_real.default)
    if not readers:
        return
    known: dict[Node, Node] = {}
    for reader in readers:
        reader.replace_all_uses_with(_pairs_of(reader.args[0], known))
        graph.erase_node(reader)
    for node in reversed(graph.nodes):
        is_movement = node.target is aten.view_as_complex.default or node.target in _VIEWS
        if is_movement and not node.users and node.meta["val"].is_complex():
            graph.erase_node(node)


def _pairs_of(value: Node, known: dict[Node, Node]) -> Node:
    """``view_as_real(value)``, one node for each value."""
    if value in known:
        return known[value]
    if value.target is aten.view_as_complex.default:
        return value.args[0]
    if value.target in _VIEWS and not value.kwargs:
        arguments = (_pairs_of(value.args[0], known), *_VIEWS[value.target](*value.args[1:]))
        known[value] = _add_behind(value, value.target, arguments)
    else:
        known[value] = _add_behind(value, aten.view_as_real.default, (value,))
    return known[value]


def _add_behind(value: Node, target: Any, arguments: tuple[Any, ...]) -> Node:
    graph = value.graph
    last_input = next(reversed(graph.find_nodes(op="placeholder")))
    with graph.inserting_after(last_input if value.op == "placeholder" else value):
        node = graph.call_function(target, arguments)
    node.meta = {name: value.meta[name] for name in ("stack_trace", "partitioner_tag") if name in value.meta}
    fakes = torch.fx.node.map_arg(arguments, lambda given: given.meta["val"])
    with value.meta["val"].fake_mode:
        node.meta["val"] = target(*fakes)
    return node
