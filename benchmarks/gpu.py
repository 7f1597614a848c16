"""Eager, Inductor and TileFuse on the memory-bound cases on a GPU, interleaved; every case printed, losers included.

    python benchmarks/gpu.py                          all cases, in f32 and bf16
    python benchmarks/gpu.py --only layer_norm,rotary --dtype bf16
    python benchmarks/gpu.py --table FILE             the table of an earlier run

Times are CUDA events around several calls, medians over rounds in which the contestants take turns. `of copy` is the
share of a copy's bandwidth, measured in the same run: the bytes that a case has to move (inputs once, results once),
over its time. Ratios are other / TileFuse: above 1, TileFuse is faster. Results go to benchmarks/results/*.json.
"""

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
from memory_cases import DTYPES, FAMILIES, Family

HERE = pathlib.Path(__file__).resolve().parent
ROUND_MS = 2.0  # one contestant's share of a round
COPY_BYTES = 1 << 30
TABLES = {"embedding_sum": 1}  # by case, the input whose rows the numbers of input 0 gather


def _elapsed_ms(call: Callable[[], Any], count: int) -> float:
    """Of one call, on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def _interleaved(contestants: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, dict[str, float]]:
    """Microseconds a call: median, 10th and 90th percentile."""
    counts: dict[str, int] = {}
    for name, call in contestants.items():
        for _ in range(5):
            call()
        counts[name] = max(1, int(ROUND_MS / max(_elapsed_ms(call, 3), 1e-4)))
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(samples.values()))) < 5:
        for name, call in contestants.items():
            samples[name].append(_elapsed_ms(call, counts[name]) * 1e3)
    return {name: _summary(sorted(values)) for name, values in samples.items()}


def _summary(ordered: list[float]) -> dict[str, float]:
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
    return {"median": statistics.median(ordered), "p10": at(0.1), "p90": at(0.9)}


def _copy_gbs(seconds: float) -> float:
    """Bytes read and written by a copy of a large tensor, a second."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    timing = _interleaved({"copy": lambda: target.copy_(source)}, seconds)
    return 2 * COPY_BYTES / timing["copy"]["median"] / 1e3


def _moved_bytes(case: str, inputs: Sequence[torch.Tensor], results: Any) -> int:
    """Every input once, every result once; of a table the rows that are gathered, each as often as it is wanted."""
    outputs = [results] if isinstance(results, torch.Tensor) else list(results)
    bytes_of = [value.numel() * value.element_size() for value in inputs]
    if (table := TABLES.get(case)) is not None:
        bytes_of[table] = inputs[0].numel() * inputs[table].shape[-1] * inputs[table].element_size()
    return sum(bytes_of) + sum(value.numel() * value.element_size() for value in outputs)


def _error(got: Any, want: Any) -> float:
    """The largest difference over the largest reference value."""
    got, want = ([v] if isinstance(v, torch.Tensor) else list(v) for v in (got, want))
    scale = lambda t: max(t.double().abs().max().item(), 1e-30)  # noqa: E731
    return max((g.double() - w.double()).abs().max().item() / scale(w) for g, w in zip(got, want, strict=True))


def _measured(family: Family, dtype: torch.dtype, copy_gbs: float, options: argparse.Namespace) -> dict[str, Any]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = [value.cuda() for value in family.inputs(True, dtype)]
    contestants: dict[str, Callable[[], Any]] = {"eager": lambda: family.function(*inputs)}
    for backend in ["tilefuse"] if options.no_inductor else ["inductor", "tilefuse"]:
        compiled = torch.compile(family.function, backend=backend, dynamic=False)
        contestants[backend] = lambda compiled=compiled: compiled(*inputs)
    want = contestants["eager"]()
    error = _error(contestants["tilefuse"](), want)
    us = _interleaved(contestants, options.seconds)
    moved = _moved_bytes(family.name, inputs, want)
    of_copy = {name: moved / timing["median"] / 1e3 / copy_gbs for name, timing in us.items()}
    return {"case": family.name, "error": error, "bytes": moved, "us": us, "of_copy": of_copy}


def _print_row(row: Mapping[str, Any]) -> None:
    ours = row["us"]["tilefuse"]["median"]
    ratios = "".join(
        f"  {other} {row['us'][other]['median'] / ours:5.2f}x" for other in ("eager", "inductor") if other in row["us"]
    )
    print(
        f"{row['case']:20} {row['dtype']:5} {ours:9.1f} us  {row['of_copy']['tilefuse']:5.2f} of copy{ratios}"
        f"   error {row['error']:.1e}",
        flush=True,
    )


def _print_summary(rows: Sequence[Mapping[str, Any]]) -> None:
    for other in ("eager", "inductor"):
        ratios = [row["us"][other]["median"] / row["us"]["tilefuse"]["median"] for row in rows if other in row["us"]]
        if ratios:
            print(f"against {other:9} geomean {statistics.geometric_mean(ratios):.2f}x, worst {min(ratios):.2f}x")
    shares = [row["of_copy"]["tilefuse"] for row in rows]
    print(f"of a copy's bandwidth: median {statistics.median(shares):.2f}, worst {min(shares):.2f}")


def _machine(copy_gbs: float) -> dict[str, Any]:
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
        "copy_gbs": copy_gbs,
    }


def _print_table(report: Mapping[str, Any]) -> None:
    print(json.dumps(report["machine"], indent=1))
    for row in report["rows"]:
        _print_row(row)
    _print_summary(report["rows"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated names of cases")
    parser.add_argument("--dtype", choices=list(DTYPES))
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time of a case")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--table", help="print the table of this file instead")
    options = parser.parse_args()
    if options.table:
        return _print_table(json.loads(pathlib.Path(options.table).read_text()))
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py: torch finds no NVIDIA GPU")
    only = set(options.only.split(",")) if options.only else None
    with torch.no_grad():
        report: dict[str, Any] = {"machine": _machine(_copy_gbs(options.seconds)), "rows": []}
        print(json.dumps(report["machine"], indent=1), flush=True)
        for family in FAMILIES:
            for name, dtype in DTYPES.items():
                if (only and family.name not in only) or options.dtype not in (None, name):
                    continue
                row = _measured(family, dtype, report["machine"]["copy_gbs"], options) | {"dtype": name}
                report["rows"].append(row)
                _print_row(row)
    _print_summary(report["rows"])
    device = "".join(c if c.isalnum() else "_" for c in report["machine"]["device"].lower())
    file = HERE / "results" / f"memory_bound_{device}.json"
    file.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {file.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
