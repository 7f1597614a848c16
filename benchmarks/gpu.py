"""Eager, Inductor and TileFuse on the memory-bound cases on a GPU, interleaved; every case printed, losers included.

    python benchmarks/gpu.py                          all cases, in f32 and bf16
    python benchmarks/gpu.py --only layer_norm,rotary --dtype bf16
    python benchmarks/gpu.py --rows                   long and few rows, and running sums (gpu_rows.py)
    python benchmarks/gpu.py --table FILE             the table of an earlier run

Times are medians over rounds in which the contestants take turns. `kernels`: what a call takes on the device, its cache cold and the
host out of it. `calls`: one call after the other from Python, by events around several, so that the host is in it where it is slower
than the device. `of copy` is the share of a copy's bandwidth, measured in the same run: the bytes that a case has to move (inputs once,
results once), over the time of its kernels. Ratios are other / TileFuse: above 1, TileFuse is faster. Results go to
benchmarks/results/*.json.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpu_rows
import gpu_timing
import torch
from memory_cases import DTYPES, FAMILIES, Family

TABLES = {"embedding_sum": 1}  # by case, the input whose rows the numbers of input 0 gather


def _moved_bytes(case: str, inputs: Sequence[torch.Tensor], results: Any) -> int:
    """Every input once, every result once; of a table the rows that are gathered, each as often as it is wanted."""
    outputs = [results] if isinstance(results, torch.Tensor) else list(results)
    bytes_of = [value.numel() * value.element_size() for value in inputs]
    if (table := TABLES.get(case)) is not None:
        bytes_of[table] = inputs[0].numel() * inputs[table].shape[-1] * inputs[table].element_size()
    return sum(bytes_of) + sum(value.numel() * value.element_size() for value in outputs)


def _measured(family: Family, dtype: torch.dtype, copy_gbs: float, options: argparse.Namespace) -> dict[str, Any]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = gpu_timing.on_gpu(family, family.inputs(True, dtype))
    contestants: dict[str, Callable[[], Any]] = {"eager": lambda: family.function(*inputs)}
    for backend in ["tilefuse"] if options.no_inductor else ["inductor", "tilefuse"]:
        compiled = torch.compile(family.function, backend=backend, dynamic=False)
        contestants[backend] = lambda compiled=compiled: compiled(*inputs)
    want = contestants["eager"]()
    error = gpu_timing.error(contestants["tilefuse"](), want)
    us = {
        "kernels": gpu_timing.interleaved_on_device(contestants, options.seconds / 2),
        "calls": gpu_timing.interleaved(contestants, options.seconds / 2),
    }
    moved = _moved_bytes(family.name, inputs, want)
    of_copy = {name: moved / timing["median"] / 1e3 / copy_gbs for name, timing in us["kernels"].items()}
    return {"case": family.name, "error": error, "bytes": moved, "us": us, "of_copy": of_copy}


def _print_row(row: Mapping[str, Any]) -> None:
    print(f"{row['case']:20} {row['dtype']:5} {row['of_copy']['tilefuse']:5.2f} of copy", end="")
    for what, timing in row["us"].items():
        print(f"  {what} {timing['tilefuse']['median']:7.1f} us{gpu_timing.ratios_text(row, what)}", end="")
    print(f"  error {row['error']:.1e}", flush=True)


def _print_summary(rows: Sequence[Mapping[str, Any]]) -> None:
    gpu_timing.print_means(rows)
    shares = [row["of_copy"]["tilefuse"] for row in rows]
    print(f"of a copy's bandwidth: median {statistics.median(shares):.2f}, worst {min(shares):.2f}")


def _print_table(report: Mapping[str, Any]) -> None:
    print(json.dumps(report["machine"], indent=1))
    for row in report["rows"]:
        _print_row(row)
    _print_summary(report["rows"])


def main() -> None:
    parser = gpu_timing.parser(__doc__, seconds=1.0)
    parser.add_argument("--dtype", choices=list(DTYPES))
    parser.add_argument("--rows", action="store_true", help="the cases of gpu_rows.py")
    options = parser.parse_args()
    if options.table:
        return _print_table(json.loads(pathlib.Path(options.table).read_text()))
    gpu_timing.demand_gpu("gpu.py")
    only = set(options.only.split(",")) if options.only else None
    kind = "rows" if options.rows else "memory_bound"
    with torch.no_grad():
        report: dict[str, Any] = {"machine": gpu_timing.machine(gpu_timing.copy_gbs(options.seconds)), "rows": []}
        print(json.dumps(report["machine"], indent=1), flush=True)
        for family in gpu_rows.FAMILIES if options.rows else FAMILIES:
            for name, dtype in DTYPES.items():
                if (only and family.name not in only) or options.dtype not in (None, name):
                    continue
                row = _measured(family, dtype, report["machine"]["copy_gbs"], options) | {"dtype": name}
                report["rows"].append(row)
                _print_row(row)
                gpu_timing.write_report(report, kind, is_last=False)
    _print_summary(report["rows"])
    gpu_timing.write_report(report, kind)


if __name__ == "__main__":
    main()
