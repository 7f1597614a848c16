"""How many operations a case's products have: a multiplication and an addition are two, as ``2 * m * n * k``.

PyTorch's counter counts what eager runs, a convolution's padding included. What a mask leaves out of attention is taken off
for the cases below; in whole models it is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

Tensors = Sequence[torch.Tensor]


def _causal(inputs: Tensors) -> float:
    length = inputs[0].shape[-2]
    return (length + 1) / (2 * length)


def _window(inputs: Tensors) -> float:  # of 128 keys, the query's own the last
    length = inputs[0].shape[-2]
    return sum(min(query + 1, 128) for query in range(length)) / length**2


def _documents(inputs: Tensors) -> float:
    return (inputs[3].bincount().double() ** 2).sum().item() / len(inputs[3]) ** 2


# The share of all pairs of a query and a key that is looked at, by a part of the case's name.
SHARES: Mapping[str, Callable[[Tensors], float]] = {
    "causal": _causal,
    "attention_window": _window,
    "attention_documents": _documents,
}
# Bounded by memory, or, chunked attention, with products of which half is thrown away.
UNCOUNTED = ("depthwise_", "chunked_linear_attention_")


def _int_mm(a: Sequence[int], b: Sequence[int], *_args: Any, **_more: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


def counted(name: str, function: Callable[..., object], inputs: Tensors) -> dict[str, int]:
    """Operations by the kind of their factors, "bytes" or "other"; empty for a case without products.

    Gradients are recorded for it: the counter follows a call's modules by them, and PyTorch 2.15 has it fail at a view of a parameter
    that is made without.
    """
    if name.startswith(UNCOUNTED):
        return {}
    with torch.enable_grad(), FlopCounterMode(display=False, custom_mapping={torch.ops.aten._int_mm: _int_mm}) as counter:
        function(*inputs)
    share = next((share(inputs) for part, share in SHARES.items() if part in name), 1.0)
    kinds = {"bytes": 0, "other": 0}
    for operator, count in counter.get_flop_counts().get("Global", {}).items():
        kinds["bytes" if operator == torch.ops.aten._int_mm else "other"] += count
    return {kind: round(share * count) for kind, count in kinds.items() if count}
