"""Benchmarks on a GPU of what is bounded by arithmetic: a case, its contestants, a row of the result, the table.

`tilefuse`, `eager` and `inductor` run the case's function as it is written; a case names others that compute the same.
A contestant that cannot be made, or that fails, is left out with the sentence that says why; a case that no time is left
for is listed. Rates are the operations of the products (what a mask leaves out is not counted) over the time, in
TFLOP/s. Ratios are other / TileFuse: above 1, TileFuse is faster.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpu_timing
import torch
from tilefuse import Report
from tilefuse.backend import collect_graphs

Tensors = Sequence[torch.Tensor]
Call = Callable[[], torch.Tensor]
COMPILERS: dict[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    "inductor_autotune": {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"},
    "tilefuse": {"backend": "tilefuse", "options": {"products": "own"}},
}
KINDS = ("chain", "product")  # of kernels on tensor cores, as schedules begin


@dataclasses.dataclass(frozen=True)
class RateCase:
    name: str
    dtype: str
    flops: float
    function: Callable[..., torch.Tensor]
    inputs: Callable[[str], Tensors]  # on that device
    # Those beside, each made when its turn comes; raises Absent where there is none.
    others: Callable[[Tensors], Mapping[str, Callable[[], Call]]] = lambda inputs: {}
    # A part of the inputs, and of the result, on which the function is computed in f32 to compare with.
    part: Callable[[Tensors], Tensors] = lambda inputs: inputs
    part_of_result: Callable[[torch.Tensor], torch.Tensor] = lambda result: result
    eager_bytes: float = 0  # that eager needs beside inputs and result
    compilers: Sequence[str] = tuple(COMPILERS)


class Absent(Exception):
    """Why there is no such contestant."""


def _compiled(case: RateCase, inputs: Tensors, how: Mapping[str, Any]) -> Call:
    compiled = torch.compile(case.function, dynamic=False, **how)
    return lambda: compiled(*inputs)


def _kernels(graphs: Sequence[Any]) -> dict[str, Any]:
    """What TileFuse made of the case: kernels by their kind, and what it left to the library."""
    kernels: list[str] = []
    refusals: list[str] = []
    for region in Report(graphs).regions():
        schedule = region.get("schedule") or ""
        refusals += [region["refusal"]] if region.get("refusal") else []
        for text in schedule.split("schedule ")[1:]:
            kernels.append(next((kind for kind in KINDS if f"\n  {kind} " in text), "rows"))
    return {"kernels": kernels, "refusals": refusals}


def _makers(case: RateCase, inputs: Tensors, options: argparse.Namespace) -> dict[str, Callable[[], Call]]:
    def eager() -> Call:
        if case.eager_bytes > options.eager_gb * 1e9:
            raise Absent(f"it would need {case.eager_bytes / 1e9:.0f} GB")
        return lambda: case.function(*inputs)

    makers: dict[str, Callable[[], Call]] = {"eager": eager}
    for name in case.compilers:
        if name == "tilefuse" or not options.no_inductor:
            makers[name] = functools.partial(_compiled, case, inputs, COMPILERS[name])
    return makers | dict(case.others(inputs))


def measured(case: RateCase, device: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a case."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = case.inputs(device)
    want = case.function(*(value.float() if value.is_floating_point() else value for value in case.part(inputs)))
    row: dict[str, Any] = {"case": case.name, "dtype": case.dtype, "flops": case.flops}
    contestants: dict[str, Call] = {}
    errors, absent, seconds = {}, {}, {}
    with collect_graphs() as graphs:
        for name, make in _makers(case, inputs, options).items():
            begin = time.perf_counter()
            try:
                call = make()
                errors[name] = gpu_timing.error(case.part_of_result(call()), want)
            except Exception as failure:  # a contestant that fails is no reason to measure none
                absent[name] = (str(failure).strip().splitlines() or [type(failure).__name__])[0]
                continue
            contestants[name] = call
            seconds[name] = time.perf_counter() - begin
    us = gpu_timing.interleaved(contestants, options.seconds)
    rates = {name: case.flops / timing["median"] / 1e6 for name, timing in us.items()}
    return row | {
        "us": us, "tflops": rates, "error": errors, "absent": absent, "first_call_s": seconds, "made": _kernels(graphs)
    }  # fmt: skip


def _ratios(row: Mapping[str, Any]) -> dict[str, float]:
    if "tilefuse" not in row["us"]:
        return {}
    ours = row["us"]["tilefuse"]["median"]
    return {name: timing["median"] / ours for name, timing in row["us"].items() if name != "tilefuse"}


def print_row(row: Mapping[str, Any]) -> None:
    rate = f"{row['tflops']['tilefuse']:7.1f} TFLOP/s" if "tilefuse" in row["us"] else "  none"
    ratios = "".join(f"  {name} {ratio:5.2f}x" for name, ratio in _ratios(row).items())
    error = f"   error {row['error']['tilefuse']:.1e}" if "tilefuse" in row["error"] else ""
    print(f"{row['case']:24} {row['dtype']:5} {rate} by {'+'.join(row['made']['kernels']) or 'none'}{ratios}{error}")
    for name, why in row["absent"].items():
        print(f"    no {name}: {why}")
    for why in row["made"]["refusals"]:
        print(f"    not fused: {why}", flush=True)


def print_summary(report: Mapping[str, Any]) -> None:
    ratios: dict[str, list[float]] = {}
    for row in report["rows"]:
        for name, ratio in _ratios(row).items():
            ratios.setdefault(name, []).append(ratio)
    for name, values in ratios.items():
        geomean = statistics.geometric_mean(values)
        print(f"against {name:18} geomean {geomean:.2f}x, worst {min(values):.2f}x, of {len(values)} cases")
    if report["left_out"]:
        print("no time was left for " + ", ".join(report["left_out"]))


def print_table(report: Mapping[str, Any]) -> None:
    print(json.dumps(report["machine"], indent=1))
    for row in report["rows"]:
        print_row(row)
    print_summary(report)


def run(
    cases: Sequence[RateCase], device: str, options: argparse.Namespace, keep: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """The rows of the cases in their order, and those that the minutes did not suffice for. `keep` gets them after each."""
    only = set(options.only.split(",")) if options.only else None
    end = time.perf_counter() + 60 * options.minutes
    report: dict[str, Any] = {"rows": [], "left_out": []}
    for case in cases:
        if only and case.name not in only:
            continue
        if time.perf_counter() > end:
            report["left_out"].append(f"{case.name} {case.dtype}")
            continue
        with torch.no_grad():
            row = measured(case, device, options)
        report["rows"].append(row)
        print_row(row)
        if keep is not None:
            keep(report)
    return report


def main(cases: Sequence[RateCase], program: str, kind: str, description: str | None) -> None:
    parser = gpu_timing.parser(description, seconds=0.5)
    parser.add_argument("--minutes", type=float, default=8.0, help="no case is begun after these")
    parser.add_argument("--eager-gb", type=float, default=16.0, help="that eager may need for scores")
    options = parser.parse_args()
    if options.table:
        return print_table(json.loads(pathlib.Path(options.table).read_text()))
    gpu_timing.demand_gpu(program)
    machine = gpu_timing.machine(gpu_timing.copy_gbs(max(3.0, options.seconds)))  # clocks settle meanwhile
    print(json.dumps(machine, indent=1), flush=True)
    keep = lambda rows: gpu_timing.write_report({"machine": machine} | rows, kind, is_last=False)  # noqa: E731
    report = run(cases, "cuda", options, keep)
    print_summary(report)
    gpu_timing.write_report({"machine": machine} | report, kind)
