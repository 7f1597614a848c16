"""Ready operators, each a few lines of plain PyTorch under ``tilefuse.op``; ``torch.ops.tilefuse`` has them too.

``patch(model)`` puts them in the place of a model's own norms, gated activations and rotary embeddings.
"""

from tilefuse.ops.activations import geglu, rotary_embedding, softmax, swiglu
from tilefuse.ops.attention import attention, attention_op
from tilefuse.ops.losses import cross_entropy, linear_cross_entropy
from tilefuse.ops.normalisations import add_rms_norm, group_norm_silu, layer_norm, rms_norm
from tilefuse.ops.patching import Patch, patch
from tilefuse.ops.quantisation import (
    dequantise_per_group,
    dequantise_per_token,
    quantise_per_group,
    quantise_per_token,
)
from tilefuse.ops.reductions import amax, amin, logsumexp, mean, norm, sum, var  # noqa: A004 - as in torch

__all__ = [
    "Patch", "add_rms_norm", "amax", "amin", "attention", "attention_op", "cross_entropy", "dequantise_per_group",
    "dequantise_per_token", "geglu", "group_norm_silu", "layer_norm", "linear_cross_entropy", "logsumexp", "mean", "norm",
    "patch", "quantise_per_group", "quantise_per_token", "rms_norm", "rotary_embedding", "softmax", "sum", "swiglu", "var",
]  # fmt: skip
