"""Long rows, few rows and running sums, for gpu.py: what is reduced or scanned in several kernels where one would leave the
device idle or read memory again and again. 0.2 to 4 GB are moved.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from memory_cases import Family, Tensors


def _of(*shapes: tuple[int, ...]) -> Callable[[bool, torch.dtype], Tensors]:
    """Made on the device: there is too much of it to be copied there."""
    return lambda _, dtype: [torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes]


def _classes(rows: int, columns: int) -> Callable[[bool, torch.dtype], Tensors]:
    def made(_: bool, dtype: torch.dtype) -> Tensors:
        return [torch.randn(rows, columns, device="cuda", dtype=dtype), torch.randint(columns, (rows,), device="cuda")]

    return made


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), target)


IMAGES = (64, 64, 256, 256)
FAMILIES = [
    Family("softmax_16384", _softmax, _of((2048, 16384))),
    Family("softmax_32000", _softmax, _of((2048, 32000))),
    Family("softmax_50257", _softmax, _of((2048, 50257))),
    Family("softmax_128256", _softmax, _of((2048, 128256))),
    Family("cross_entropy_32000", _cross_entropy, _classes(2048, 32000)),
    Family("cross_entropy_50257", _cross_entropy, _classes(2048, 50257)),
    Family("cross_entropy_128256", _cross_entropy, _classes(2048, 128256)),
    Family("layer_norm_of_images", lambda x, w, b: F.layer_norm(x, IMAGES[1:], w, b), _of((16, *IMAGES[1:]), IMAGES[1:], IMAGES[1:])),
    Family("group_norm", lambda x: F.group_norm(x, 8), _of(IMAGES)),
    Family("instance_norm", lambda x: F.instance_norm(x), _of(IMAGES)),
    Family("batch_norm_training", lambda x: F.batch_norm(x, None, None, training=True), _of(IMAGES)),
    Family("frobenius_norm", lambda x: x / torch.linalg.vector_norm(x), _of(IMAGES)),
    Family("cumsum_of_rows", lambda x: x.cumsum(1), _of((8192, 4096))),
    Family("cumsum_of_few_rows", lambda x: x.cumsum(1), _of((8, 1 << 20))),
    Family("cumsum_of_columns", lambda x: x.cumsum(0), _of((8192, 4096))),
    Family("argmax_of_rows", lambda x: x.argmax(1), _of((4096, 32000))),
    Family("argmax_of_few_rows", lambda x: x.argmax(1), _of((8, 128256))),
]  # fmt: skip
