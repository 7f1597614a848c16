"""The peak of one core, as a contestant: a loop over the best multiply-add that it has for a data type, in registers.

Measured in turn with the others, so that a change of the clock hits all alike. ``of("bf16")`` is None where there is no
such loop (another kind of processor) or no C compiler.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence

SOURCE = pathlib.Path(__file__).resolve().with_name("peak.c")
IN_A_TURN = 12  # instructions


@dataclasses.dataclass(frozen=True)
class _Loop:
    flag: str  # of /proc/cpuinfo
    function: str
    instruction: str
    operations: int  # of one instruction: a product and a sum are two
    turns: int  # about half a millisecond


# The best first. Where a processor has nothing for bf16, products widen and run in f32.
_F32 = (
    _Loop("avx512f", "fma_64", "vfmadd231ps of 64 bytes", 32, 250_000),
    _Loop("fma", "fma_32", "vfmadd231ps of 32 bytes", 16, 250_000),
)
LOOPS: Mapping[str, Sequence[_Loop]] = {
    "f32": _F32,
    "bf16": (
        _Loop("amx_bf16", "tile_bf16", "tdpbf16ps", 2 * 16 * 16 * 32, 8_000),
        _Loop("avx512_bf16", "dot_64", "vdpbf16ps of 64 bytes", 64, 250_000),
        *_F32,
    ),
    "i8": (
        _Loop("amx_int8", "tile_i8", "tdpbusd", 2 * 16 * 16 * 64, 8_000),
        _Loop("avx512_vnni", "bytes_64", "vpdpbusd of 64 bytes", 128, 250_000),
    ),
}


@dataclasses.dataclass(frozen=True)
class Peak:
    instruction: str
    operations: int  # of one call
    call: Callable[[], object]


@functools.cache
def _flags() -> frozenset[str]:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    return frozenset(next((value.split() for name, _, value in lines if name.strip() == "flags"), ()))


@functools.cache
def _library() -> ctypes.CDLL | None:
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "peak.so")
        try:
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", str(SOURCE), "-o", library], check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return ctypes.CDLL(library)


@functools.cache
def of(kind: str) -> Peak | None:
    """The peak in ``kind``: "f32", "bf16" or "i8"."""
    for loop in LOOPS[kind]:
        library = _library() if loop.flag in _flags() else None
        if library is None or (loop.flag.startswith("amx") and not library.ask_for_tiles()):
            continue
        function = getattr(library, loop.function)
        function.argtypes, function.restype = [ctypes.c_long], None
        return Peak(loop.instruction, loop.operations * IN_A_TURN * loop.turns, functools.partial(function, loop.turns))
    return None
