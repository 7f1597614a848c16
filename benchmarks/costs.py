"""What TileFuse costs beside the time of kernels: compiling, calling, memory, planning.

    python benchmarks/costs.py                         all of it
    python benchmarks/costs.py --only call,planning    of: first, own, call, memory, planning

first     the first call of each small architecture in a process of its own with empty caches, Inductor beside TileFuse:
          what loading the backend takes counts, imports of torch and of the model do not
own       TileFuse's own time (capture, planning, compiling; without Dynamo and AOTAutograd) for a transformer of twelve
          layers, with an empty cache and in a second process
call      a compiled function of one kernel over 16 elements, beside Dynamo's guards and AOTAutograd's wrapper around
          nothing, interleaved
memory    the most that a call adds to the memory of the process, once it is warm, eager beside TileFuse
planning  from a captured graph to schedules, for chains, ladders and wide graphs of several sizes
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from model_cases import MODELS, twelve_layers
from tilefuse import measure

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results" / "costs.jsonl"
SMALL = ("bert", "distilbert", "gpt2", "llama", "t5_encoder", "resnet18", "vit_tiny", "convnext_atto", "mobilenetv3_small", "poolformer_s12")
SIZES = (250, 500, 1000, 2000)  # operators


# ---------------------------------------------------------------- in a process of their own
def first_call(name: str, backend: str) -> dict[str, float]:
    model, inputs = MODELS[name]()
    with torch.no_grad():
        model(*inputs)
        started = time.perf_counter()
        torch.compile(model, backend=backend)(*inputs)
        return {"seconds": time.perf_counter() - started}


def own_time() -> dict[str, float]:
    import tilefuse

    model, inputs = twelve_layers()
    with torch.no_grad():
        report = tilefuse.explain(model, *inputs).json()
    return {"milliseconds": sum(graph["milliseconds"] for graph in report["graphs"])}


def _kilobytes(field: str) -> float:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(float(line.split()[1]) for line in status if line.startswith(field + ":"))


def memory_of_a_call(name: str) -> dict[str, float]:
    """Megabytes, of the third call, from memory that no allocator holds back."""
    from tilefuse.library import operators

    model, inputs = MODELS[name]()
    found = {}
    with torch.no_grad():
        for who, call in {"eager": model, "tilefuse": torch.compile(model, backend="tilefuse")}.items():
            for _ in range(2):
                call(*inputs)
            gc.collect()
            operators().pool_trim()
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            before = _kilobytes("VmRSS")
            pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the high-water mark begins anew
            call(*inputs)
            found[who] = (_kilobytes("VmHWM") - before) / 1e3
    return found


ALONE: Mapping[str, Callable[..., dict[str, float]]] = {"first": first_call, "own": own_time, "memory": memory_of_a_call}


def _alone(what: str, *arguments: str, cache: str) -> dict[str, float]:
    """Measures in a fresh process with these caches."""
    environment = os.environ | {"TILEFUSE_CACHE_DIR": f"{cache}/tilefuse", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch"}
    command = [sys.executable, __file__, "--alone", what, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[1:])} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _in_empty_caches(what: str, *arguments: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        return _alone(what, *arguments, cache=cache)


# ---------------------------------------------------------------- the parts
def first(say: Callable[..., None]) -> None:
    ratios, times = [], {"inductor": [], "tilefuse": []}
    for name in SMALL:
        for backend in times:
            times[backend].append(_in_empty_caches("first", name, backend)["seconds"])
        ratios.append(times["inductor"][-1] / times["tilefuse"][-1])
        say("first", name, inductor_s=times["inductor"][-1], tilefuse_s=times["tilefuse"][-1], ratio=ratios[-1])
    medians = {f"{backend}_s": statistics.median(values) for backend, values in times.items()}
    say("first", "median", **medians, ratio=medians["inductor_s"] / medians["tilefuse_s"])


def own(say: Callable[..., None]) -> None:
    with tempfile.TemporaryDirectory() as cache:
        for which in ("empty cache", "second process"):
            say("own", f"twelve layers, {which}", **_alone("own", cache=cache))


def call(say: Callable[..., None]) -> None:
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    result = torch.ones(16)
    empty = aot_autograd(fw_compiler=lambda module, inputs: make_boxed_func(lambda *arguments: (result,)))

    def one_kernel(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 2 + 1

    x = torch.randn(16)
    calls = {"eager": one_kernel}
    for name, backend in {"nothing": empty, "tilefuse": "tilefuse", "inductor": "inductor"}.items():
        torch._dynamo.reset()
        calls[name] = torch.compile(one_kernel, backend=backend)
        calls[name](x)
    with torch.no_grad():
        for compiled in calls.values():
            compiled(x)
        timings = measure.interleave({name: lambda f=f: f(x) for name, f in calls.items()}, 4.0)
    us = {f"{name}_us": timing.median * 1e6 for name, timing in timings.items()}
    say("call", "one kernel, 16 elements", **us, above_us=us["tilefuse_us"] - us["nothing_us"])


def memory(say: Callable[..., None]) -> None:
    for name in MODELS:
        found = _in_empty_caches("memory", name)
        say("memory", name, **{f"{who}_mb": megabytes for who, megabytes in found.items()})


def _chain(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        for i in range(n // 2):
            x = torch.relu(x) + float(i % 7)
        return x

    return function


def _ladder(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        left, right = x, x * 2
        for _ in range(n // 2):
            left, right = left + right, torch.sub(right, left)
        return left * right

    return function


def _wide(n: int) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.softmax(x * float(i), -1) for i in range(n // 2))

    return function


def planning(say: Callable[..., None]) -> None:
    from tilefuse.capture import capture
    from tilefuse.library import operators
    from tilefuse.options import Options
    from torch.fx.experimental.proxy_tensor import make_fx

    options = Options.parse().to_json(torch.get_num_threads())
    for name, make in {"chain": _chain, "ladder": _ladder, "wide": _wide}.items():
        for size in SIZES:
            graph = capture(make_fx(make(size))(torch.randn(64, 256)), name="inference").json
            started = time.perf_counter()
            operators().explain_only(graph, options)
            milliseconds = (time.perf_counter() - started) * 1e3
            say("planning", f"{name} of {size}", milliseconds=milliseconds, a_node_ms=milliseconds / size)


PARTS: Mapping[str, Callable[[Callable[..., None]], None]] = {
    "first": first, "own": own, "call": call, "memory": memory, "planning": planning}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="comma-separated parts")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="where the rows go")
    parser.add_argument("--alone", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.alone:
        what, *rest = options.alone
        print(json.dumps(ALONE[what](*rest)))
        return
    if unknown := [part for part in options.only.split(",") if part not in PARTS]:
        parser.error(f"no part {unknown[0]!r} (known: {', '.join(PARTS)})")
    rows: list[dict[str, Any]] = []

    def say(part: str, case: str, **figures: float) -> None:
        rows.append({"part": part, "case": case, **figures})
        print(f"{part:9s} {case:32s} " + "  ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)

    for part in options.only.split(","):
        PARTS[part](say)
    options.results.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
