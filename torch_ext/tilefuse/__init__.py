"""TileFuse: fuses PyTorch graphs into generated kernels.

``torch.compile(model, backend="tilefuse")`` is the way in and needs no import of this package. ``explain`` says what
was fused, what was not, and why. ``op`` makes an operator of a plain function; ``tilefuse.ops`` are ready ones.
"""

import importlib

from tilefuse.backend import backend
from tilefuse.custom_op import op, save_ops
from tilefuse.errors import TileFuseWarning, UserError
from tilefuse.explain import Report, explain
from tilefuse.offline import fuse, fuse_file, know_fused_files, load, save, trusted_files
from tilefuse.packs import packed_bytes, repack

know_fused_files()

__all__ = [
    "Report", "TileFuseWarning", "UserError", "backend", "explain", "fuse", "fuse_file", "load", "op", "ops", "packed_bytes",
    "repack", "save", "save_ops", "trusted_files",
]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str):  # noqa: ANN202 - the module, loaded when it is first asked for
    if name == "ops":
        return importlib.import_module("tilefuse.ops")
    raise AttributeError(f"module 'tilefuse' has no attribute {name!r}")
