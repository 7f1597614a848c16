"""What the benchmarks on a GPU share: times by events, in turns; errors; what the machine is; the file of a run."""

from __future__ import annotations

import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from memory_cases import Family

HERE = pathlib.Path(__file__).resolve().parent
ROUND_MS = 2.0  # one contestant's share of a round
COPY_BYTES = 1 << 30
FLUSH_BYTES = 1 << 29  # more than any cache of a device; long enough to read that a call is enqueued behind it meanwhile
CALLS_OF_ROUND = 8


# By case, inputs that torch's kernels for GPUs want in f32, whatever the others are.
FLOATS = {"layer_norm_gradient": (2, 3)}


def on_gpu(family: Family, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs of a memory-bound case there, as torch's operators take them."""
    floats = FLOATS.get(family.name, ())
    return [value.cuda().float() if i in floats else value.cuda() for i, value in enumerate(inputs)]


def elapsed_ms(call: Callable[[], Any], count: int) -> float:
    """Of one call, on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def interleaved(contestants: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, dict[str, float]]:
    """Microseconds a call: median, 10th and 90th percentile."""
    counts: dict[str, int] = {}
    for name, call in contestants.items():
        for _ in range(5):
            call()
        counts[name] = max(1, int(ROUND_MS / max(elapsed_ms(call, 3), 1e-4)))
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(samples.values()))) < 5:
        for name, call in contestants.items():
            samples[name].append(elapsed_ms(call, counts[name]) * 1e3)
    return {name: _summary(sorted(values)) for name, values in samples.items()}


def interleaved_on_device(contestants: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, dict[str, float]]:
    """Microseconds of a call's kernels, from the first one's begin to the last one's end: median, 10th and 90th percentile.

    The cache is cold, and the host is out of it: memory as large as no cache is read first (written, it would leave a cache full of
    what has to go back to memory while the call runs), and meanwhile the call is enqueued. Of a call that takes the host longer than
    this, what it is late by counts. An empty call, of two events, is subtracted.
    """
    flush = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")

    def milliseconds(call: Callable[[], Any]) -> list[float]:
        events = []
        for _ in range(CALLS_OF_ROUND):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.sum()
            begin.record()
            call()
            end.record()
            events.append((begin, end))
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in events]

    calls = {"nothing": lambda: None, **contestants}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        milliseconds(call)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(samples["nothing"]) < 3 * CALLS_OF_ROUND:
        for name, call in calls.items():
            samples[name] += milliseconds(call)
    nothing = statistics.median(samples.pop("nothing"))
    return {name: _summary(sorted(max(value - nothing, 1e-4) * 1e3 for value in values)) for name, values in samples.items()}


def _summary(ordered: list[float]) -> dict[str, float]:
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
    return {"median": statistics.median(ordered), "p10": at(0.1), "p90": at(0.9)}


def copy_gbs(seconds: float) -> float:
    """Bytes read and written by a copy of a large tensor, a second."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    timing = interleaved({"copy": lambda: target.copy_(source)}, seconds)
    return 2 * COPY_BYTES / timing["copy"]["median"] / 1e3


def error(got: Any, want: Any) -> float:
    """The largest difference over the largest reference value."""
    got, want = ([v] if isinstance(v, torch.Tensor) else list(v) for v in (got, want))
    scale = lambda t: max(t.double().abs().max().item(), 1e-30)  # noqa: E731
    return max((g.double() - w.double()).abs().max().item() / scale(w) for g, w in zip(got, want, strict=True))


def machine(copy_rate: float) -> dict[str, Any]:
    """What the figures hold for."""
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit", "--format=csv,noheader"]
    try:
        clocks = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        clocks = "not known: there is no nvidia-smi"
    return {
        "device": torch.cuda.get_device_name(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "driver, clocks, power": clocks,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "copy_gbs": copy_rate,
    }


def ratio(row: Mapping[str, Any], kind: str, other: str) -> float:
    """Of medians, other / TileFuse, in what a row measured of one kind."""
    timing = row["us"][kind]
    return timing[other]["median"] / timing["tilefuse"]["median"]


def others(row: Mapping[str, Any]) -> list[str]:
    """Who a row has beside TileFuse."""
    first_kind = next(iter(row["us"].values()))
    return [other for other in ("eager", "inductor") if other in first_kind]


def ratios_text(row: Mapping[str, Any], kind: str) -> str:
    return "".join(f"  {other} {ratio(row, kind, other):5.2f}x" for other in others(row))


def print_means(rows: Sequence[Mapping[str, Any]]) -> None:
    """Of every kind of times that rows have, beside each other contestant."""
    for kind in rows[0]["us"]:
        for other in others(rows[0]):
            ratios = [ratio(row, kind, other) for row in rows]
            print(f"{kind} against {other:9} geomean {statistics.geometric_mean(ratios):.2f}x, worst {min(ratios):.2f}x")


def parser(description: str | None, seconds: float) -> argparse.ArgumentParser:
    """The options that every benchmark on a GPU has."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", help="comma-separated names of cases")
    made.add_argument("--seconds", type=float, default=seconds, help="measuring time of a case")
    made.add_argument("--no-inductor", action="store_true")
    made.add_argument("--table", help="print the table of this file instead")
    return made


def demand_gpu(program: str) -> None:
    if not torch.cuda.is_available():
        raise SystemExit(f"benchmarks/{program}: torch finds no NVIDIA GPU")


def write_report(report: Mapping[str, Any], kind: str, is_last: bool = True) -> None:
    device = "".join(c if c.isalnum() else "_" for c in report["machine"]["device"].lower())
    file = HERE / "results" / f"{kind}_{device}.json"
    file.write_text(json.dumps(report, indent=1) + "\n")
    if is_last:
        print(f"written to {file.relative_to(HERE.parent)}")
