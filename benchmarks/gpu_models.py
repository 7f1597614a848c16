"""Whole models on a GPU: eager, Inductor and TileFuse, kernel by kernel and replayed as CUDA graphs; every one printed.

    python benchmarks/gpu_models.py                       all models of model_cases.py, in f32 and bf16
    python benchmarks/gpu_models.py --only bert,swin --dtype bf16
    python benchmarks/gpu_models.py --table FILE          the table of an earlier run

Times are of calls from Python, one after the other, by events around several: medians over rounds in which the contestants take turns.
The models are small, so that the host decides, but for `replayed` (`mode="reduce-overhead"` of either). `first` are the seconds of the
first call, with what either compiler has cached. Ratios are other / TileFuse of the same kind: above 1, TileFuse is faster. Results
go to benchmarks/results/models_*.json.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpu_timing
import torch
from model_cases import MODELS

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LIMIT_S = 540.0  # of a run; models that would begin later are listed as not run
RECORDED = 3  # calls until a graph is replayed
MODES: Mapping[str, Mapping[str, str]] = {"calls": {}, "replayed": {"mode": "reduce-overhead"}}


def _on_gpu(name: str, dtype: torch.dtype) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    model, inputs = MODELS[name]()
    inputs = [value.to(dtype) if value.is_floating_point() else value for value in inputs]
    return model.to("cuda", dtype), [value.cuda() for value in inputs]


def _compiled(model: torch.nn.Module, inputs: Sequence[torch.Tensor], **settings: Any) -> tuple[Callable[[], Any], float]:
    """A call of the compiled model, and the seconds of the first one."""
    torch._dynamo.reset()
    compiled = torch.compile(model, dynamic=False, **settings)
    begin = time.perf_counter()
    compiled(*inputs)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    for _ in range(RECORDED):
        compiled(*inputs)
    return lambda: compiled(*inputs), seconds


def measured(name: str, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    model, inputs = _on_gpu(name, DTYPES[dtype])
    want = model(*inputs)
    row: dict[str, Any] = {"model": name, "dtype": dtype, "us": {}, "first_s": {}}
    for kind, mode in MODES.items():
        contestants: dict[str, Callable[[], Any]] = {"eager": lambda: model(*inputs)}
        for backend in ["tilefuse"] if options.no_inductor else ["inductor", "tilefuse"]:
            contestants[backend], seconds = _compiled(model, inputs, backend=backend, **mode)
            row["first_s"].setdefault(backend, seconds)
        row.setdefault("error", gpu_timing.error(contestants["tilefuse"](), want))
        row["us"][kind] = gpu_timing.interleaved(contestants, options.seconds)
    return row


def _print_row(row: Mapping[str, Any]) -> None:
    first = " / ".join(f"{name} {seconds:.1f}" for name, seconds in row["first_s"].items())
    print(f"{row['model']:18} {row['dtype']:5}", end="")
    for kind, timing in row["us"].items():
        print(f"  {kind} {timing['tilefuse']['median']:7.0f} us{gpu_timing.ratios_text(row, kind)}", end="")
    print(f"  first s {first}  error {row['error']:.1e}", flush=True)


def _print_summary(report: Mapping[str, Any]) -> None:
    gpu_timing.print_means(report["rows"])
    for missing in report["missing"]:
        print("not measured:", missing)


def _rows(options: argparse.Namespace, report: dict[str, Any]) -> None:
    only, begin = set(options.only.split(",")) if options.only else None, time.perf_counter()
    for name in (name for name in MODELS if only is None or name in only):
        for dtype in (dtype for dtype in DTYPES if options.dtype in (None, dtype)):
            if time.perf_counter() - begin > LIMIT_S:
                report["missing"].append(f"{name} {dtype}: no time was left")
                continue
            try:
                row = measured(name, dtype, options)
            except Exception as failure:  # of any contestant
                report["missing"].append(f"{name} {dtype}: {type(failure).__name__}: {str(failure).splitlines()[0]}")
                continue
            report["rows"].append(row)
            _print_row(row)
            gpu_timing.write_report(report, "models", is_last=False)


def main() -> None:
    parser = gpu_timing.parser(__doc__, seconds=1.0)
    parser.add_argument("--dtype", choices=list(DTYPES))
    options = parser.parse_args()
    if options.table:
        report = json.loads(pathlib.Path(options.table).read_text())
        for row in report["rows"]:
            _print_row(row)
        return _print_summary(report)
    gpu_timing.demand_gpu("gpu_models.py")
    with torch.no_grad():
        report = {"machine": gpu_timing.machine(gpu_timing.copy_gbs(1.0)), "rows": [], "missing": []}
        print(json.dumps(report["machine"], indent=1), flush=True)
        _rows(options, report)
    if report["rows"]:
        _print_summary(report)
        gpu_timing.write_report(report, "models")


if __name__ == "__main__":
    main()
