"""Who is timed on a case, and the row that comes of it.

    eager       always
    guarded     eager behind Dynamo's guards, which any compiled call pays
    inductor    torch.compile as it is; of compute-bound cases, only where it is asked for
    autotune    Inductor in mode max-autotune (no CUDA graphs)
    openvino    whole models only, where it can be imported
    tilefuse    always

All take turns, and with them a loop that reaches the peak of one core (peak.py) where a case's operations are counted. A
peer that fails, or whose result is not eager's, is left out of the case, and the row says why.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import openvino_peer
import operations
import peak
import torch
from tilefuse import measure

PEERS = ("guarded", "inductor", "autotune", "openvino")
# Of the largest value: above, a peer computes something else.
MOST_ERROR = {"f32": 1e-2, "bf16": 0.5}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def error(got: Any, want: Any) -> float:
    """The largest difference over the largest reference value."""
    got, want = ([v] if isinstance(v, torch.Tensor) else list(v) for v in (got, want))
    scale = lambda t: max(t.double().abs().max().item(), 1e-30)  # noqa: E731
    return max((g.double() - w.double()).abs().max().item() / scale(w) for g, w in zip(got, want, strict=True))


def peer_list(text: str) -> list[str]:
    names = text.split(",") if text else []
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no contestant {unknown[0]!r} (known: {', '.join(PEERS)})")
    return names


def peers_for(kind: str, options: argparse.Namespace) -> list[str]:
    """Those asked for, or all but autotune. What this kind of case has none of is left out, what is not installed said.

    Compute-bound cases are timed beside eager alone unless others are asked for: Inductor calls the same library there.
    """
    usual = ["guarded"] if kind == "compute" else [name for name in PEERS if name != "autotune"]
    names = options.peers if options.peers is not None else usual
    names = [name for name in PEERS if name in names or (name == "autotune" and options.autotune)]
    if options.no_inductor and "inductor" in names:
        names.remove("inductor")
    if "autotune" in names:
        from torch._inductor import select_algorithm

        select_algorithm.PRINT_AUTOTUNE = False  # a page a product
    if "openvino" in names and kind != "models":
        names.remove("openvino")
    if "openvino" in names and not openvino_peer.is_here():
        print("no openvino: it is not installed (pip install -r tools/benchmark_packages.txt)")
        names.remove("openvino")
    return names


def compilers(peers: Sequence[str], freeze: bool) -> dict[str, dict[str, Any]]:
    """The arguments of torch.compile for each contestant that it makes; TileFuse's cache is missing."""
    frozen = {"freezing": True} if freeze else {}
    tuned = torch._inductor.list_mode_options("max-autotune-no-cudagraphs")
    table = {
        "guarded": {"backend": "eager"},
        "inductor": {"backend": "inductor", "options": frozen or None},
        "autotune": {"backend": "inductor", "options": tuned | frozen},
    }
    return {name: how for name, how in table.items() if name in peers} | {
        "tilefuse": {"backend": "tilefuse", "options": {"freeze": freeze}}
    }


class Case:
    """Calls, first calls' seconds and errors of one function on its inputs."""

    def __init__(self, function: Callable[..., Any], inputs: Any, dtype: str, threads: int) -> None:
        self.function, self.inputs, self.dtype, self.threads = function, inputs, dtype, threads
        self.calls: dict[str, Callable[[], Any]] = {"eager": lambda: function(*inputs)}
        self.want = function(*inputs)
        self.first: dict[str, float] = {}
        self.errors: dict[str, float] = {}
        self.absent: dict[str, str] = {}

    def add(self, name: str, make: Callable[[], Callable[[], Any]]) -> None:
        started = time.perf_counter()
        call = make()
        result = call()
        self.first[name] = time.perf_counter() - started
        self.errors[name] = error(result, self.want)
        self.calls[name] = call

    def add_peer(self, name: str, make: Callable[[], Callable[[], Any]]) -> None:
        try:
            self.add(name, make)
        except Exception as failure:  # a peer that fails is no reason to measure none
            self.absent[name] = (str(failure).strip().splitlines() or [type(failure).__name__])[0][:200]
            return
        if not self.errors[name] <= MOST_ERROR[self.dtype]:
            self.absent[name] = f"its result is {self.errors[name]:.2g} of the largest value from eager's"
            del self.calls[name], self.first[name]


def _compile(case: Case, how: Mapping[str, Any]) -> Callable[[], Any]:
    compiled = torch.compile(case.function, dynamic=False, **how)
    return lambda: compiled(*case.inputs)


def _made(function: Any, inputs: Any, dtype: str, threads: int, options: argparse.Namespace) -> Case:
    torch._dynamo.reset()
    case = Case(function, inputs, dtype, threads)
    for name, how in compilers(options.present, options.freeze).items():
        if name == "tilefuse":
            folder = tempfile.mkdtemp(dir=options.caches)
            case.add(name, functools.partial(_compile, case, how | {"options": how["options"] | {"cache_dir": folder}}))
        else:
            case.add_peer(name, functools.partial(_compile, case, how))
    if "openvino" in options.present:
        case.add_peer("openvino", lambda: openvino_peer.compiled(function, inputs, DTYPES[dtype], threads))
    return case


def _timed(case: Case, counts: Mapping[str, int], seconds: float) -> dict[str, Any]:
    """Times of all, and where operations are counted the peak of one core in those very seconds."""
    best = peak.of("i8" if "bytes" in counts else case.dtype) if counts else None
    calls = case.calls | ({"peak": best.call} if best else {})
    timings = measure.interleave(calls, seconds)
    us = {k: {"median": t.median * 1e6, "p10": t.low * 1e6, "p90": t.high * 1e6} for k, t in timings.items()}
    if best is None:
        return {"us": us}
    rate = best.operations / us.pop("peak")["median"] / 1e3
    return {"us": us, "operations": sum(counts.values()), "peak": {"instruction": best.instruction, "gops": rate}}


def measured(
    name: str, function: Any, inputs: Any, dtype: str, threads: int, options: argparse.Namespace
) -> dict[str, Any]:
    """The row of a case; ``options``: present (peers), freeze, caches, seconds, counted."""
    torch.set_num_threads(threads)
    case = _made(function, inputs, dtype, threads, options)
    counts = operations.counted(name, function, inputs) if options.counted else {}
    row = {"case": name, "dtype": dtype, "threads": threads, "error": case.errors["tilefuse"], "first_call_s": case.first}
    row |= {"errors": case.errors, "absent": case.absent}
    return row | _timed(case, counts, options.seconds)
