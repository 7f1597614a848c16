"""The graph of a custom operator's function for one kind of arguments, and which calls the graph is good for.

Sizes are symbols where they were seen to vary; what the function asks of them while it is traced becomes a guard that
C++ checks (torch_ext/argument_pattern.h).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils import _pytree as pytree

from tilefuse.errors import UserError
from tilefuse.trace_rules import mark_rules

__all__ = [
    "NotSymbolic", "Sizes", "Traced", "is_tensors", "scalars_of", "tensors_of", "trace_backward", "trace_forward", "with_tensors",
]  # fmt: skip

_RELATIONS = {
    sympy.Eq: ("eq", False), sympy.Ne: ("ne", False), sympy.StrictLessThan: ("lt", False), sympy.LessThan: ("le", False),
    sympy.StrictGreaterThan: ("lt", True), sympy.GreaterThan: ("le", True),
}  # fmt: skip


class NotSymbolic(RuntimeError):
    """The function does not trace, or compile, with symbols for its sizes; with numbers it may."""


@dataclasses.dataclass(frozen=True)
class Traced:
    """``module`` takes the symbols' values, then the tensors."""

    module: torch.fx.GraphModule
    symbols: list[tuple[str, int, int]]  # name, tensor, dimension
    guards: list[tuple[str, str, str]]  # relation, left, right


def is_tensors(value: Any) -> bool:
    """Whether it is a list of tensors; an empty list is a list of something else."""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], torch.Tensor)


def tensors_of(arguments: Sequence[Any]) -> list[torch.Tensor]:
    """All tensors, those in lists too, in order."""
    found: list[torch.Tensor] = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif is_tensors(value):
            found.extend(value)
    return found


def scalars_of(arguments: Sequence[Any]) -> str:
    """The other arguments, as text."""
    return ", ".join(repr(v) for v in arguments if not isinstance(v, torch.Tensor) and not is_tensors(v))


def with_tensors(arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The arguments with other tensors in place of theirs, in the order of ``tensors_of``."""
    rest = iter(tensors)
    return [
        next(rest) if isinstance(v, torch.Tensor) else [next(rest) for _ in v] if is_tensors(v) else v for v in arguments
    ]


# ---------------------------------------------------------------- what may vary
class Sizes:
    """Remembers the sizes that an operator was called with: what was seen to vary becomes symbolic."""

    def __init__(self, dynamic: bool) -> None:
        self._dynamic = dynamic
        self._first: dict[Any, dict[tuple[int, int], int]] = {}  # by kind of call: the first size from 2 on
        self._varying: dict[Any, set[tuple[int, int]]] = {}

    def patterns(self, arguments: Sequence[Any], inputs: int) -> list[dict[str, Any]]:
        """Per tensor the "device", "sizes" and "strides" of an argument pattern. Tensors after the first ``inputs`` are gradients:
        their strides do not count, because they are read once and change from caller to caller."""
        tensors = tensors_of(arguments)
        kind = (tuple((t.device, t.dtype, t.dim()) for t in tensors), scalars_of(arguments))
        first, varying = self._first.setdefault(kind, {}), self._varying.setdefault(kind, set())
        for t, tensor in enumerate(tensors):
            for d, size in enumerate(tensor.shape):
                if size >= 2 and (first.setdefault((t, d), size) != size or self._dynamic):
                    varying.add((t, d))
        return [
            {
                "device": str(tensor.device),
                "sizes": [-1 if size >= 2 and (t, d) in varying else size for d, size in enumerate(tensor.shape)],
                "strides": _strides(tensor) if t < inputs else [None] * tensor.dim(),
            }
            for t, tensor in enumerate(tensors)
        ]


def _strides(tensor: torch.Tensor) -> list[Any]:
    """From the outermost dimension in: dense over the next one, or a number; None where it does not matter."""
    sizes, strides = tensor.shape, tensor.stride()
    pattern: list[Any] = [None] * tensor.dim()
    if tensor.numel() == 0:
        return pattern
    order = sorted((d for d in range(tensor.dim()) if sizes[d] != 1), key=lambda d: -strides[d])
    for dim, inner in zip(order, [*order[1:], None]):
        dense = inner is not None and strides[dim] == strides[inner] * sizes[inner]
        pattern[dim] = {"over": inner} if dense else strides[dim]
    return pattern


# ---------------------------------------------------------------- fake arguments
class _Fakes:
    """Fake tensors of the patterns' sizes and strides, in a mode of their own."""

    def __init__(self, tensors: Sequence[torch.Tensor], patterns: Sequence[dict[str, Any]], wanted: int = 0) -> None:
        self.shape_env = ShapeEnv(duck_shape=False)
        self.mode = FakeTensorMode(shape_env=self.shape_env, allow_non_fake_inputs=True)
        self.symbols: list[tuple[str, int, int]] = []
        self.sizes: list[torch.SymInt] = []
        self.tensors: list[torch.Tensor] = []
        for t, (tensor, pattern) in enumerate(zip(tensors, patterns, strict=True)):
            shape = [self._size(t, d, tensor.shape[d], size) for d, size in enumerate(pattern["sizes"])]
            with self.mode:
                strides = _fake_strides(tensor, shape, pattern["strides"])
                fake = torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device)
            self.tensors.append(fake.requires_grad_() if wanted >> t & 1 else fake)

    def _size(self, tensor: int, dim: int, actual: int, size: int) -> Any:
        if size >= 0:
            return size
        source = ConstantSource(f"tilefuse_{tensor}_{dim}")
        symbol = self.shape_env.create_symbol(actual, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        value = self.shape_env.create_symintnode(symbol, hint=actual, source=source)
        self.symbols.append((str(symbol), tensor, dim))
        self.sizes.append(value)
        return value

    def guards(self) -> list[tuple[str, str, str]]:
        written = (guard for each in self.shape_env.guards for guard in _guards(each.expr))
        return list(dict.fromkeys(written))


def _fake_strides(tensor: torch.Tensor, shape: Sequence[Any], pattern: Sequence[Any]) -> list[Any]:
    strides: list[Any] = [None] * len(shape)
    if tensor.numel() > 0:
        for dim in sorted(range(len(shape)), key=lambda d: tensor.stride(d)):  # inner ones first
            given = pattern[dim]
            if isinstance(given, dict) and strides[given["over"]] is not None:
                strides[dim] = strides[given["over"]] * shape[given["over"]]
            elif given is not None:
                strides[dim] = tensor.stride(dim)
    dense: Any = 1
    for dim in reversed(range(len(shape))):
        strides[dim] = dense if strides[dim] is None else strides[dim]
        dense = strides[dim] * (shape[dim] if tensor.shape[dim] else 1)
    return strides


def _guards(condition: sympy.Basic) -> Iterator[tuple[str, str, str]]:
    if condition in (sympy.true, True):
        return
    if isinstance(condition, sympy.And):
        for part in condition.args:
            yield from _guards(part)
        return
    known = _RELATIONS.get(type(condition))
    if known is None:
        raise NotSymbolic(f"the guard {condition} is no comparison of two sizes")
    left, right = (sympy.srepr(side) for side in condition.args)
    yield (known[0], right, left) if known[1] else (known[0], left, right)


# ---------------------------------------------------------------- tracing
def _exported(name: str, plain: Callable[..., Any], arguments: Sequence[Any], fakes: _Fakes, joint: bool) -> Any:
    count = len(fakes.sizes)

    def flat(*values: Any) -> list[torch.Tensor]:
        result = plain(*with_tensors(arguments, values[count:]))
        results = list(result) if isinstance(result, tuple) else [result]
        # Joint graphs may not return views of what they made, and nobody will read these results.
        return [r.clone() if joint and r._is_view() else r for r in results]

    try:
        with tracing(TracingContext(fakes.mode)), torch.set_grad_enabled(joint):
            module = aot_export_joint_simple(flat, (*fakes.sizes, *fakes.tensors), trace_joint=joint, decompositions=mark_rules())
    except RuntimeError as error:
        if "does not support input mutations" in str(error):
            raise UserError(f"{name}: the function changes an argument in place; an operator must not") from None
        raise
    for node in module.graph.nodes:
        if _is_random(node):
            raise UserError(f"{name}: the function draws random numbers ({node.target}); an operator must not")
    return module


def _is_random(node: torch.fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    parameters = [argument.name for argument in node.target._schema.arguments]
    given = dict(zip(parameters, node.args)) | node.kwargs
    return "dropout_p" not in parameters or given.get("dropout_p", 0.0) != 0.0  # attention without dropout is not


def trace_forward(name: str, plain: Callable[..., Any], args: Sequence[Any], patterns: Sequence[dict[str, Any]]) -> Traced:
    """The function of these arguments. UserError for what no operator may do."""
    fakes = _Fakes(tensors_of(args), patterns)
    module = _exported(name, plain, args, fakes, joint=False)
    return Traced(module, fakes.symbols, fakes.guards())


def trace_backward(name: str, plain: Callable[..., Any], args: Sequence[Any], patterns: Sequence[dict[str, Any]]) -> Traced:
    """AOTAutograd's joint graph without the forward results. ``args`` are those of the backward operator."""
    *arguments, _, wanted = args
    given = tensors_of(arguments)
    fakes = _Fakes(given, patterns[: len(given)], wanted)
    with tracing(TracingContext(fakes.mode)), fakes.mode, torch.enable_grad():
        outputs = plain(*with_tensors(arguments, fakes.tensors))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    module = _exported(name, plain, arguments, fakes, joint=True)
    _complete_inputs(module.graph, len(fakes.sizes) + len(given), [o for o in outputs if o.is_floating_point()])
    _keep_gradients(module, len(outputs), len(fakes.sizes), [bool(wanted >> i & 1) for i in range(len(given))])
    return Traced(module, fakes.symbols, fakes.guards())


def _complete_inputs(graph: torch.fx.Graph, first: int, results: Sequence[torch.Tensor]) -> None:
    """The joint graph takes no gradient of a result without history; the operator is given one."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    last, tangents = placeholders[first - 1], iter(placeholders[first:])
    for position, result in enumerate(results):
        if result.requires_grad:
            last = next(tangents)
            continue
        with graph.inserting_after(last):
            last = graph.placeholder(f"unused_grad_{position}")
        last.meta["val"] = result


def _keep_gradients(module: torch.fx.GraphModule, outputs: int, sizes: int, wanted: Sequence[bool]) -> None:
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"][sizes:]
    (end,) = (node for node in graph.nodes if node.op == "output")
    gradients = pytree.tree_leaves(end.args[0])[outputs + sizes :]
    kept = []
    for placeholder, gradient, is_wanted in zip(placeholders, gradients, wanted, strict=False):
        if is_wanted and gradient is None:
            with graph.inserting_before(end):
                gradient = graph.call_function(torch.ops.aten.zeros_like.default, (placeholder,))
            gradient.meta["val"] = placeholder.meta["val"].new_zeros(placeholder.meta["val"].shape)
        if is_wanted:
            kept.append(gradient)
    end.args = (tuple(kept),)
    graph.eliminate_dead_code()
    module.recompile()
