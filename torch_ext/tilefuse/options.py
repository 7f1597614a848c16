"""The options of ``torch.compile(model, backend="tilefuse", options={...})``, as one table.

Everything that a ``mode`` can say can also be said as an option, because torch takes only one of the two.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from tilefuse.errors import UserError

__all__ = ["OPTIONS", "Options"]


@dataclasses.dataclass(frozen=True)
class _Option:
    kind: type
    default: Any
    help: str
    accepts: Callable[[Any], bool] = lambda value: True
    wants: str = ""


OPTIONS: Mapping[str, _Option] = {
    "numerics": _Option(
        str,
        "fast",
        "'fast' keeps f32 inside a region; 'eager' rounds bf16 and f16 where eager rounds",
        lambda v: v in ("fast", "eager"),
        "'fast' or 'eager'",
    ),
    "strict": _Option(bool, False, "raise where a region or a graph would fall back to plain PyTorch"),
    "target": _Option(str, "", "hardware profile: a name, or the path of a JSON file; default: this machine's"),
    "threads": _Option(int, 0, "threads to plan for; 0: torch.get_num_threads()", lambda v: v >= 0, "a whole number, 0 or more"),
    "products": _Option(
        str,
        "auto",
        "who makes matrix products: 'auto' whoever is faster by the profile, 'library' PyTorch, 'own' a fused kernel",
        lambda v: v in ("auto", "library", "own"),
        "'auto', 'library' or 'own'",
    ),
    "freeze": _Option(bool, False, "parameters and buffers do not change: pack weights once, not in each call"),
    "tune": _Option(int, 0, "compile and time the best n schedules of each region", lambda v: 0 <= v <= 64, "a whole number from 0 to 64"),
    "cudagraph": _Option(bool, False, "record a graph on a GPU once and replay it: one launch instead of one for each kernel"),
    "fuse_limit": _Option(int, -1, "stop after n merges; -1: no limit (to find the merge that broke a result)"),
    "cache_dir": _Option(str, "", "kernel and plan cache; default: TILEFUSE_CACHE_DIR or below ~/.cache/tilefuse"),
    "cxx": _Option(str, "", "the C++ compiler; default: TILEFUSE_CXX, c++, g++, clang++, the ziglang wheel"),
    "gpu_on_host": _Option(str, "", "for tests: a driver library whose device memory is the host's; it runs graphs of CPU tensors"),
    "dump": _Option(str, "", "stages to write out, as TILEFUSE_DUMP: 'schedule,source' or 'all'"),
    "dump_dir": _Option(str, "", "where to; default: TILEFUSE_DUMP_DIR or ./tilefuse_dump"),
    "pins": _Option(dict, {}, "decisions by region: {'layer_norm': {'lanes': '8', 'walk': 'resident'}}"),
}

@functools.cache
def nvrtc_folders() -> list[str]:
    """Where torch's wheels put NVIDIA's compiler, for a torch that was built for CUDA."""
    if torch.version.cuda is None:
        return []
    wheels = pathlib.Path(torch.__file__).parent.parent / "nvidia"
    return sorted({str(library.parent) for library in wheels.glob("*/lib/libnvrtc.so.*")})


def rounds_to_tf32() -> bool:
    """Whether the user lets products of f32 on GPUs be rounded; by any of the names that torch has for that."""
    return torch.backends.cuda.matmul.fp32_precision == "tf32"


_NOT_OF_THE_LIBRARY = ("cudagraph",)  # what is done with a compiled graph
_KINDS = {bool: "True or False", int: "a whole number", str: "a text", dict: "a dict"}
_MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {"cudagraph": True},
    "max-autotune": {"tune": 8},
}


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> UserError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UserError(f"tilefuse: unknown {what} {name!r}{hint} (known: {', '.join(known)})")


def _checked(name: str, value: Any) -> Any:
    option = OPTIONS[name]
    right_type = isinstance(value, option.kind) and not (option.kind is int and isinstance(value, bool))
    if not right_type or not option.accepts(value):
        wants = option.wants or _KINDS[option.kind]
        raise UserError(f"tilefuse: option {name!r} wants {wants}, got {value!r}")
    return value


@dataclasses.dataclass(frozen=True)
class Options:
    """Checked options. ``values`` holds only what the caller gave."""

    values: Mapping[str, Any]

    @staticmethod
    def parse(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
        """Raises UserError naming the option and the nearest valid one."""
        values: dict[str, Any] = {}
        if mode is not None:
            if mode not in _MODES:
                raise _unknown("mode", mode, _MODES)
            values.update(_MODES[mode])
        for name, value in (options or {}).items():
            if name not in OPTIONS:
                raise _unknown("option", name, OPTIONS)
            values[name] = _checked(name, value)
        return Options(values)

    @property
    def strict(self) -> bool:
        return bool(self.values.get("strict", False))

    @property
    def cudagraph(self) -> bool:
        return bool(self.values.get("cudagraph", False))

    @property
    def pins(self) -> Mapping[str, Any]:
        return self.values.get("pins", {})

    def of_gpu_products(self, devices: Collection[str]) -> dict[str, bool]:
        """What products of regions depend on beside these options: a setting of torch's, on a GPU."""
        is_on_gpu = "cuda" in devices or bool(self.values.get("gpu_on_host"))
        return {"tf32": rounds_to_tf32()} if is_on_gpu and self.values.get("products") == "own" else {}

    def for_training(self) -> Options:
        """Parameters that are trained are no constants."""
        return Options({name: value for name, value in self.values.items() if name != "freeze"})

    def to_json(self, threads: int) -> str:
        """The text for the library. ``threads``: what 0 stands for."""
        values = {k: v for k, v in self.values.items() if v != OPTIONS[k].default and k not in _NOT_OF_THE_LIBRARY}
        values["threads"] = self.values.get("threads") or threads
        values["python"] = sys.executable or ""  # its ziglang wheel may have to be the compiler
        values["nvrtc"] = nvrtc_folders()
        if rounds_to_tf32():
            values["tf32"] = True
        return json.dumps(values, sort_keys=True)

    def cache_tag(self) -> str:
        """Goes into torch's own cache keys, which know nothing of backends and their options."""
        relevant = {k: v for k, v in self.values.items() if k != "cache_dir"}
        numbers = "tf32 " if rounds_to_tf32() else ""
        return "tilefuse " + numbers + json.dumps(relevant, sort_keys=True) + os.environ.get("TILEFUSE_TARGET", "")
