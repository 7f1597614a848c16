"""Weights that ``options={"freeze": True}`` keeps in the layout that kernels read."""

from __future__ import annotations

import json

from tilefuse.library import operators

__all__ = ["packed_bytes", "repack"]


def packed_bytes() -> int:
    """Memory that packed weights take in this process."""
    return json.loads(operators().pack_stats())["bytes"]


def repack() -> None:
    """Makes frozen graphs pack their weights again: after writes that PyTorch does not count, as through ``p.data``."""
    operators().forget_packs("")
