"""Nodes that the schema has no form for, as operators of their own.

A higher-order operator holds graphs, another takes complex numbers or operators: no Call of the engine's could hold such
arguments. ``hold`` registers an operator for the one node, which keeps them and takes the node's tensors and sizes:

    %y = cond(%p, true_graph, false_graph, [%x, s0])  =>  %y = tilefuse_held::cond_3([%p, %x], [s0])

The engine orders it among operators with effects. Names count up, so that no plan ever meets another node's operator.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

__all__ = ["Held", "attribute_of", "forget", "has_tokens", "hold", "needs_holding"]

NAMESPACE = "tilefuse_held"
# They call the graphs they are given with plain tensors, so that compiled ones do as well.
CALLERS = {"cond", "invoke_subgraph", "while_loop"}
# Arguments that a Call has no place for.
_UNSAID = (complex, torch._ops.OpOverload, torch._ops.HigherOrderOperator, torch.Generator, torch.nn.Module, torch.ScriptObject)

GraphCompiler = Callable[[torch.fx.GraphModule], Callable[..., Any]]


class Held:
    """One node: how to call it with the tensors and sizes among its arguments."""

    def __init__(self, node: torch.fx.Node, compile_graph: GraphCompiler | None) -> None:
        args = (None, *node.args[1:]) if has_tokens(node) else node.args
        leaves, self._spec = pytree.tree_flatten((args, node.kwargs))
        self._target = node.target
        compiles = compile_graph is not None and getattr(node.target, "_name", "") in CALLERS
        self._leaves = [_kept(leaf, compile_graph if compiles else None) for leaf in leaves]
        self.tensors = [leaf for leaf in leaves if isinstance(_value(leaf), torch.Tensor)]
        self.sizes = [leaf for leaf in leaves if isinstance(_value(leaf), torch.SymInt)]
        self._tensor_places = [i for i, leaf in enumerate(leaves) if isinstance(_value(leaf), torch.Tensor)]
        self._size_places = [i for i, leaf in enumerate(leaves) if isinstance(_value(leaf), torch.SymInt)]
        results = pytree.tree_leaves(node.meta.get("val"))
        first = 1 if has_tokens(node) else 0
        self._returned = [i for i, result in enumerate(results) if i >= first and isinstance(result, torch.Tensor)]

    @property
    def schema(self) -> str:
        returns = ["Tensor"] * len(self._returned)
        return f"(Tensor[] tensors, int[] sizes) -> {returns[0] if len(returns) == 1 else '(' + ', '.join(returns) + ')'}"

    def __call__(self, tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> Any:
        leaves = list(self._leaves)
        for place, value in itertools.chain(zip(self._tensor_places, tensors), zip(self._size_places, sizes)):
            leaves[place] = value
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        made = pytree.tree_leaves(self._target(*args, **kwargs))
        storages = {tensor.untyped_storage()._cdata for tensor in tensors}
        results = [_own(made[i], storages) for i in self._returned]
        return tuple(results) if len(results) > 1 else results[0] if results else None


def has_tokens(node: torch.fx.Node) -> bool:
    """with_effects(token, operator, ...): a token and what the operator gives. Tokens are None when such a graph is called."""
    return node.target is torch.ops.higher_order.with_effects


def needs_holding(node: torch.fx.Node) -> bool:
    """Whether the node, a call, gives tensors or has effects and cannot be written as a Call."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    if not is_operator and not any(isinstance(value, torch.Tensor) for value in pytree.tree_leaves(node.meta.get("val"))):
        return False  # arithmetic on sizes
    return not is_operator or any(isinstance(_value(leaf), _UNSAID) for leaf in pytree.tree_leaves((node.args, node.kwargs)))


def hold(node: torch.fx.Node, compile_graph: GraphCompiler | None) -> tuple[str, Held]:
    """Registers the operator; its name, without the namespace."""
    held = Held(node, compile_graph)
    target = node.args[1] if has_tokens(node) else node.target
    spelled = getattr(target, "_name", None) or getattr(target, "__name__", "call")
    name = f"{re.sub('[^A-Za-z0-9]', '_', spelled.rpartition('::')[2])}_{next(_numbers)}"
    library = _library()
    library.define(name + held.schema, tags=(torch.Tag.nondeterministic_seeded,))
    _running[name] = held
    library.impl(name, functools.partial(_run, name), "CompositeExplicitAutograd")
    return name, held


def forget(names: Iterable[str]) -> None:
    """Operators stay; the graphs and objects that these hold go."""
    for name in names:
        _running.pop(name, None)


_numbers = itertools.count()
_running: dict[str, Held] = {}


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library(NAMESPACE, "FRAGMENT")  # noqa: TOR901 (lives as long as the process)


def _run(name: str, tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> Any:
    return _running[name](tensors, sizes)


def _value(leaf: Any) -> Any:
    """What the leaf is in a call: for a node what it gives, itself otherwise."""
    if not isinstance(leaf, torch.fx.Node):
        return leaf
    return attribute_of(leaf) if leaf.op == "get_attr" else leaf.meta.get("val")


def attribute_of(node: torch.fx.Node) -> Any:
    """What a get_attr node gets."""
    value = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def _kept(leaf: Any, compile_graph: GraphCompiler | None) -> Any:
    value = _value(leaf)
    if isinstance(value, (torch.Tensor, torch.SymInt)):
        return None  # given at each call
    if isinstance(value, torch.fx.GraphModule) and compile_graph is not None:
        return compile_graph(value)
    return value


def _own(result: torch.Tensor, storages: set[int]) -> torch.Tensor:
    """The engine may write where its operands lie once nobody reads them."""
    return result.clone() if result.untyped_storage()._cdata in storages else result
