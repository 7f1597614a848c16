"""Inference graphs called as they are, without what AOTAutograd puts around a call.

Its wrapper takes care of inputs that change, results that are views, gradients and autocast. Most inference graphs have none of
these; around them it costs 2 us of a call, and several times that where the call before has swept its code out of the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["DirectCall"]


class DirectCall:
    """Finds out, for one graph of Dynamo's, whether AOTAutograd's inference graph takes the same inputs in the same order and
    gives the same results. To be made when Dynamo calls the backend: its guards keep the grad mode and the autocast of then."""

    def __init__(self, graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.function: Callable[..., Any] | None = None  # what to call instead of AOTAutograd's wrapper
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        self._count = len(inputs)
        self._is_plain = (
            isinstance(graph_module, torch.fx.GraphModule)
            and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
            and not torch._C._is_any_autocast_enabled()
            and not any(map(is_traceable_wrapper_subclass, tensors))
        )

    def offer(self, module: torch.fx.GraphModule, compiled: Any) -> Any:
        """``compiled``, made from AOTAutograd's ``module`` while AOTAutograd waits for it; remembers how to call it directly."""
        context = torch._guards.TracingContext.try_get()
        metadata = context.fw_metadata if context is not None else None
        count = sum(node.op == "placeholder" for node in module.graph.nodes)  # parameters that are no inputs make it more
        if self._is_plain and count == self._count and metadata is not None and not _needs_care(metadata):
            self.function = getattr(compiled, "unboxed", None)
        return compiled


def _needs_care(metadata: Any) -> bool:
    return bool(
        any(info.mutates_data or info.mutates_metadata for info in metadata.input_info)
        or metadata.num_outputs_aliased
        or metadata.num_intermediate_bases
        or metadata.dynamic_outputs  # it marks them, so that a graph behind this one is made for any size
        or metadata.tokens
        or metadata.is_rng_op_functionalized
    )
