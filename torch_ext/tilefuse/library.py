"""Loads the compiled library; its operators are then ``torch.ops.tilefuse``."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence

import torch

from tilefuse.errors import UserError

__all__ = ["load", "operators"]

_FILE = pathlib.Path(__file__).parent / "lib" / "libtilefuse_torch.so"


@functools.cache
def load() -> None:
    """Loads the library once. UserError if it is missing or was built for another torch."""
    if not _FILE.exists():
        raise UserError(f"tilefuse: {_FILE.name} is missing from the package; install it with `pip install .`")
    try:
        torch.ops.load_library(str(_FILE))
    except OSError as error:
        raise UserError(
            f"tilefuse: {_FILE.name} does not load with torch {torch.__version__}; reinstall tilefuse ({error})"
        ) from error
    torch.library.register_fake("tilefuse::dropout_mask", _fake_mask)


def _fake_mask(size: Sequence[int], stride: Sequence[int], _keep: float) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=torch.bool, device="cpu")


def operators():  # noqa: ANN201 - torch's namespace object has no public type
    """``torch.ops.tilefuse``, the library loaded."""
    load()
    return torch.ops.tilefuse
