"""A GPU for machines without one: kernels run in the model of tests/gpu, on tensors of the CPU.

All that differs from CUDA tensors is the device's name and the driver's library. While a test runs, torch's tensors on
the CPU come from an allocator that tells the model their bounds.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from engine import compiled
from tilefuse.backend import compile_graph
from tilefuse.errors import TileFuseWarning
from tilefuse.options import Options, nvrtc_folders

ROOT = pathlib.Path(__file__).parents[2]


def _built(library: str) -> str | None:
    found = sorted(glob.glob(str(ROOT / "build" / "*" / "tests" / "gpu" / library)))
    return found[-1] if found else None


@functools.cache
def _memory_library() -> ctypes.CDLL:
    driver_library()
    return ctypes.CDLL(str(_built("libhost_memory.so")))


@functools.cache
def driver_library() -> str:
    """The path of what stands in for the driver, loaded. Skips where it was not built or there is no NVRTC."""
    driver, memory = _built("libfake_cuda.so"), _built("libhost_memory.so")
    if driver is None or memory is None:
        pytest.skip("SKIPPED, no graph on a GPU is tested: the C++ tests were not built")
    if not nvrtc_folders():
        pytest.skip("SKIPPED, no graph on a GPU is tested: torch brings no NVRTC")
    ctypes.CDLL(driver, mode=ctypes.RTLD_GLOBAL)
    return driver


class Driver:
    """What the driver was called for, and what it is told to refuse."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(driver_library())
        self._library.fake_cuda_calls.restype = ctypes.c_char_p
        self.calls()

    @classmethod
    def of_an_a100(cls) -> Driver:
        driver = cls()
        driver.capability(8, 0)
        driver.shared_bytes(163 << 10, 163 << 10)
        return driver

    @contextlib.contextmanager
    def memory(self) -> Iterator[Driver]:
        """Tensors of the CPU are device memory inside."""
        _memory_library().host_memory_use(1)
        try:
            yield self
        finally:
            _memory_library().host_memory_use(0)

    def calls(self) -> list[str]:
        """Since it was last asked, a line each."""
        return self._library.fake_cuda_calls().decode().splitlines()

    def faults(self) -> list[str]:
        """Why launches since ``calls`` was last asked ended, a line each: results are ATen's then, and nobody would know."""
        calls = self.calls()
        return [
            f"{call}:{why}"
            for call, why in zip(calls, calls[1:])
            if call.startswith("cuLaunchKernel") and why.startswith("  ")
        ]

    def launches(self) -> int:
        return sum(line.startswith("cuLaunchKernel") for line in self.calls())

    def fail(self, call: str, status: int) -> None:
        self._library.fake_cuda_fail(call.encode(), status)

    def capability(self, major: int, minor: int) -> None:
        self._library.fake_cuda_capability(major, minor)

    def shared_bytes(self, most: int, said: int) -> None:
        """Of a block: what it may have, and what the driver says of that (0: nothing)."""
        self._library.fake_cuda_shared_bytes(most, said)


@contextlib.contextmanager
def an_a100(*, refuses_warnings: bool = False) -> Iterator[Driver]:
    """A driver whose launches all have to end well; a warning of ours is an error if asked for."""
    with Driver.of_an_a100().memory() as driver, contextlib.ExitStack() as filters:
        if refuses_warnings:
            filters.enter_context(warnings.catch_warnings())
            warnings.simplefilter("error", TileFuseWarning)
        yield driver
        assert not driver.faults()


def options(**more: Any) -> dict[str, Any]:
    return {"gpu_on_host": driver_library(), **more}


def on_gpu(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """The function in graphs of AOTAutograd, each on the model of a GPU."""
    settings = Options.parse(options=options(**more))
    return compiled(function, lambda role: lambda module, inputs: compile_graph(module, role, settings))
