"""Attention, and attention with score and mask functions of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tilefuse.custom_op import op

__all__ = ["attention", "attention_op"]

# Of a score and the numbers of batch, head, query and key, all broadcast: a new score, or whether the key takes part.
ScoreFunction = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
MaskFunction = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@op("tilefuse::attention", autocast="lower")
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """``softmax(query @ key.T * scale + mask) @ value``, [batch, heads, length, size]; a bool mask says what takes part."""
    return F.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale)


def attention_op(name: str, *, score: ScoreFunction | None = None, mask: MaskFunction | None = None, **kwargs: Any):  # noqa: ANN201
    """Defines attention with ``score(score, batch, head, query, key)`` and ``mask(batch, head, query, key)``.

        alibi = attention_op("mylib::alibi", score=lambda s, b, h, q, k: s - (q - k).abs() * 2.0 ** -(h + 1))
        causal = attention_op("mylib::causal", mask=lambda b, h, q, k: q >= k)

    Both are plain PyTorch on broadcast tensors. The operator takes (query, key, value, scale=None); further keywords
    are those of ``tilefuse.op``.
    """

    def attend(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None = None
    ) -> torch.Tensor:  # fmt: skip
        """``softmax(score(query @ key.T * scale)) @ value`` over the keys that the mask lets take part."""
        scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
        ranges = [torch.arange(n, device=query.device) for n in scores.shape]
        numbers = [r.view([-1 if d == at else 1 for d in range(scores.dim())]) for at, r in enumerate(ranges)]
        if score is not None:
            scores = score(scores, *numbers).to(query.dtype)
        if mask is not None:
            scores = torch.where(mask(*numbers), scores, float("-inf"))
        return torch.softmax(scores, -1) @ value

    return op(name, **{"autocast": "lower", **kwargs})(attend)
