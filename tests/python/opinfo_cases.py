"""Which of PyTorch's own samples (OpInfo) stand for the operators of the import table, and how one is called.

An operator of the table is met under its own name, or inside a function that AOTAutograd takes apart into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from tilefuse.library import operators
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool)

# Of the table, and yet without samples here: what eager returns is not determined.
UNINITIALISED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip
# Functions with another name than the operators of the table that they are made of.
COMPOSITES = {
    "__getitem__", "__radd__", "__rdiv__", "__rmod__", "__rmul__", "__rpow__", "__rsub__", "broadcast_to", "cross",
    "diag", "diagflat", "diff", "double", "dstack", "expand_as", "fliplr", "float", "float_power", "half", "hstack",
    "isclose", "isreal", "kron", "linalg.cross", "logcumsumexp", "meshgrid", "nanmean", "native_dropout_backward",
    "ravel", "special.log_ndtr", "special.ndtr", "take_along_dim", "trapezoid", "unravel_index", "vstack",
    "nn.functional.adaptive_max_pool1d", "nn.functional.batch_norm", "nn.functional.binary_cross_entropy",
    "nn.functional.cosine_embedding_loss", "nn.functional.cosine_similarity", "nn.functional.cross_entropy",
    "nn.functional.embedding", "nn.functional.gaussian_nll_loss", "nn.functional.group_norm",
    "nn.functional.hinge_embedding_loss", "nn.functional.huber_loss", "nn.functional.instance_norm",
    "nn.functional.kl_div", "nn.functional.l1_loss", "nn.functional.local_response_norm", "nn.functional.logsigmoid",
    "nn.functional.margin_ranking_loss", "nn.functional.mse_loss", "nn.functional.nll_loss",
    "nn.functional.normalize", "nn.functional.pairwise_distance", "nn.functional.poisson_nll_loss",
    "nn.functional.prelu", "nn.functional.scaled_dot_product_attention",
    "nn.functional.smooth_l1_loss", "nn.functional.softmin", "nn.functional.softsign", "nn.functional.tanhshrink",
    "nn.functional.triplet_margin_loss", "nn.functional.unfold", "nn.functional.upsample_nearest",
}  # fmt: skip
# Their integer tensors say where to cut. A traced tensor has no values to cut at; a caller's number has.
CUT_BY_TENSORS = {"narrow", "tensor_split"}


def base_name(overload: str) -> str:
    """"aten.add.Tensor" -> "add"."""
    return overload.split(".")[1]


def table() -> set[str]:
    """Base names of the operators in the import table."""
    return {base_name(overload) for overload in operators().imported_operators().split("\n")}


def operators_with_samples(device: str = "cpu") -> Iterator[Any]:
    names = table() - UNINITIALISED
    for op in op_db:
        is_wanted = op.name in COMPOSITES or op.aten_name in names or op.name.split(".")[-1] in names
        if is_wanted and dtypes_of(op, device):
            yield op


def dtypes_of(op: Any, device: str = "cpu") -> list[torch.dtype]:
    return [dtype for dtype in DTYPES if dtype in op.supported_dtypes(device)]


def has_gradient(op: Any, dtype: torch.dtype, device: str = "cpu") -> bool:
    return dtype.is_floating_point and dtype in op.supported_backward_dtypes(device) and op.supports_autograd


def spread(items: Iterable[Any], count: int) -> list[Any]:
    """`count` of the items, from the first to the last; one: from the middle, first samples being plain."""
    items = list(items)
    if len(items) <= count:
        return items
    if count == 1:
        return [items[len(items) // 2]]
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


def samples_of(op: Any, dtype: torch.dtype, count: int, device: str = "cpu") -> list[Any]:
    """`count` samples of strided tensors; with gradients wanted where the operator has them."""
    samples = op.sample_inputs(device, dtype, requires_grad=has_gradient(op, dtype, device))
    return spread((s for s in samples if _is_strided(s)), count)


def _is_strided(sample: Any) -> bool:
    tensors = [leaf for leaf in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if is_tensor(leaf)]
    return all(t.layout == torch.strided for t in tensors)


def is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """With its strides and all of its storage: some samples look beyond what the tensor shows. In memory of the allocator
    of tensors, which that of a cloned storage is not: host_gpu.py knows no other."""
    storage = tensor.detach().untyped_storage()
    memory = torch.empty(storage.nbytes(), dtype=torch.uint8, device=tensor.device).untyped_storage()
    memory.copy_(storage)
    fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return fresh.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())


def flat_call(op: Any, sample: Any) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """The sample as a function of its tensors alone, and those tensors."""
    arguments = (sample.args, sample.kwargs)
    if op.name in CUT_BY_TENSORS:
        arguments = pytree.tree_map(lambda leaf: leaf.tolist() if is_tensor(leaf) else leaf, arguments)
    leaves, spec = pytree.tree_flatten((sample.input, *arguments))
    where = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
    if not where:  # a graph of tensors needs one
        return lambda beside: (op(sample.input, *sample.args, **sample.kwargs), beside + 1), [torch.zeros(3)]

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for i, tensor in zip(where, tensors, strict=True):
            filled[i] = tensor
        input, args, kwargs = pytree.tree_unflatten(filled, spec)
        return op(input, *args, **kwargs)

    return call, [leaves[i] for i in where]
