"""Attention on a GPU, forward: TileFuse's own kernels beside eager, Inductor, SDPA's kernels and FlexAttention, in turns.

    python benchmarks/gpu_attention.py                          all cases, in under 10 minutes
    python benchmarks/gpu_attention.py --only causal_d128_4096,window_d128_8192
    python benchmarks/gpu_attention.py --table FILE             the table of an earlier run

16384 tokens and 2048 columns of heads, as the published sweeps have them: 32 heads of 64 or 16 of 128, sequences of 2048 to
16384. A variant is written once, as plain torch, for eager, Inductor and TileFuse, and once more for FlexAttention. SDPA's
kernels take part where they have the arguments for it. What the columns mean: gpu_rates.py.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gpu_rates
import torch
import torch.nn.functional as F
from gpu_rates import Absent, Call, RateCase, Tensors
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

TOKENS, COLUMNS = 16384, 2048
CAP = 30.0
SDPA = {
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclasses.dataclass(frozen=True)
class Variant:
    is_causal: bool = False
    window: int = 0  # keys that a row looks at, itself the last one; 0: all
    has_slopes: bool = False  # ALiBi: the distance times a slope of the head
    has_cap: bool = False  # scores within CAP, by tanh
    sharing: int = 1  # heads that have the same keys

    def looks_at(self, rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        keep = rows >= keys
        return keep & (rows - keys < self.window) if self.window else keep

    @property
    def has_mask(self) -> bool:
        return self.is_causal or self.window > 0

    def share(self, length: int) -> float:
        """Of the scores that count."""
        if self.window:
            return (self.window * length - self.window * (self.window - 1) / 2) / length**2
        return (length + 1) / 2 / length if self.is_causal else 1.0


def written(variant: Variant, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *slopes: torch.Tensor) -> torch.Tensor:
    """Attention as it is written down. Slopes: a number for each head, (heads, 1, 1)."""
    if variant.sharing > 1:
        k, v = (value.repeat_interleave(variant.sharing, 1) for value in (k, v))
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    if variant.has_cap:
        scores = torch.tanh(scores / CAP) * CAP
    rows = torch.arange(q.shape[-2], device=q.device)[:, None]
    keys = torch.arange(k.shape[-2], device=q.device)[None, :]
    if variant.has_slopes:
        scores = scores + slopes[0] * (keys - rows)
    if variant.has_mask:
        scores = torch.where(variant.looks_at(rows, keys), scores, float("-inf"))
    return torch.softmax(scores, -1) @ v


def sdpa(variant: Variant, backend: SDPBackend, inputs: Tensors) -> Call:
    q, k, v = inputs[:3]
    if variant.window or variant.has_slopes or variant.has_cap:
        raise Absent("it has no argument for this variant")
    if variant.sharing > 1 and backend == SDPBackend.EFFICIENT_ATTENTION:
        raise Absent("its heads have keys of their own")
    given = {"is_causal": variant.is_causal, "enable_gqa": variant.sharing > 1}

    def call() -> torch.Tensor:
        with sdpa_kernel([backend]):
            return F.scaled_dot_product_attention(q, k, v, **given)

    return call


def flex_arguments(variant: Variant, inputs: Tensors) -> dict[str, Any]:
    """The same for FlexAttention."""
    q, k = inputs[:2]
    slopes = inputs[3].flatten() if variant.has_slopes else None

    def score(value: Any, batch: Any, head: Any, row: Any, key: Any) -> Any:
        if variant.has_cap:
            value = torch.tanh(value / CAP) * CAP
        return value if slopes is None else value + slopes[head] * (key - row)

    def mask(batch: Any, head: Any, row: Any, key: Any) -> Any:
        return variant.looks_at(row, key)

    block_mask = None
    if variant.has_mask:
        block_mask = create_block_mask(mask, None, None, q.shape[-2], k.shape[-2], device=q.device)
    is_changed = variant.has_cap or variant.has_slopes
    return {
        "score_mod": score if is_changed else None, "block_mask": block_mask, "enable_gqa": variant.sharing > 1
    }  # fmt: skip


def _flex(variant: Variant, inputs: Tensors) -> Call:
    given = flex_arguments(variant, inputs)
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(*inputs[:3], **given)


def attention_inputs(variant: Variant, shape: tuple[int, int, int, int], device: str) -> Tensors:
    """Queries, keys, values; slopes where the variant has them. Shape: batch, heads, length, columns of a head."""
    batch, heads, length, columns = shape
    make = functools.partial(torch.randn, device=device, dtype=torch.bfloat16)
    keys = (batch, heads // variant.sharing, length, columns)
    inputs = [make(batch, heads, length, columns), make(keys), make(keys)]
    if variant.has_slopes:
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)
        inputs.append(slopes.to(torch.bfloat16).reshape(heads, 1, 1))
    return inputs


def _part(variant: Variant, inputs: Tensors) -> Tensors:
    """The heads that share the first keys, of the first batch."""
    return [value[: variant.sharing] if i == 3 else value[:1, : 1 if i else variant.sharing] for i, value in enumerate(inputs)]


def attention_case(name: str, variant: Variant, length: int, columns: int) -> RateCase:
    batch, heads = max(1, TOKENS // length), COLUMNS // columns

    def others(inputs: Tensors) -> Mapping[str, Callable[[], Call]]:
        made = {who: functools.partial(sdpa, variant, backend, inputs) for who, backend in SDPA.items()}
        return made | {"flex": functools.partial(_flex, variant, inputs)}

    return RateCase(
        name=f"{name}_d{columns}_{length}",
        dtype="bf16",
        flops=4.0 * batch * heads * length**2 * columns * variant.share(length),
        function=functools.partial(written, variant),
        inputs=lambda device: attention_inputs(variant, (batch, heads, length, columns), device),
        others=others,
        part=functools.partial(_part, variant),
        part_of_result=lambda result: result[:1, : variant.sharing],
        eager_bytes=3 * 2.0 * batch * heads * length**2,
        # Tuning takes half a minute a case, and what it tunes keeps all scores in memory.
        compilers=("inductor", "inductor_autotune", "tilefuse") if length == 4096 else ("inductor", "tilefuse"),
    )


VARIANTS = {
    "full": Variant(),
    "causal": Variant(is_causal=True),
    "window": Variant(window=1024),
    "alibi": Variant(is_causal=True, has_slopes=True),
    "soft_cap": Variant(is_causal=True, has_cap=True),
    "gqa": Variant(is_causal=True, sharing=4),
}


def cases() -> list[RateCase]:
    """The most telling ones first: the last ones are left out where time is short."""
    plain = [
        (name, length, columns)
        for length, columns in [(4096, 128), (4096, 64), (16384, 128), (2048, 128), (8192, 128), (16384, 64), (2048, 64), (8192, 64)]
        for name in ("causal", "full")
    ]
    changed = [(name, 8192, 128) for name in ("window", "alibi", "soft_cap", "gqa")]
    chosen = [*plain[:4], *changed, *plain[4:]]
    return [attention_case(name, VARIANTS[name], length, columns) for name, length, columns in chosen]


if __name__ == "__main__":
    gpu_rates.main(cases(), "gpu_attention.py", "attention", __doc__)
