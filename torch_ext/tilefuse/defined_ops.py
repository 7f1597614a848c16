"""The operators that ``tilefuse.op`` has defined, and how they dissolve into a graph."""

from __future__ import annotations

from typing import Any, Protocol

import torch

__all__ = ["Inlined", "by_target", "dissolve"]


class Inlined(Protocol):
    """What a graph needs to know of an operator."""

    def inlined(self, *args: Any, **kwargs: Any) -> Any: ...


by_target: dict[Any, Inlined] = {}  # torch.ops.library.name and its overload


def dissolve(graph_module: torch.fx.GraphModule) -> None:
    """Puts the plain function in the place of every such operator, so that it fuses with its neighbours."""
    for module in graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        found = [node for node in module.graph.nodes if node.op == "call_function" and _is_operator(node.target)]
        found = [node for node in found if node.target in by_target]
        for node in found:
            node.target = by_target[node.target].inlined
        if found:
            module.recompile()


def _is_operator(target: Any) -> bool:
    return isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
