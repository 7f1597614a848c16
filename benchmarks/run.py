"""Eager, Inductor and TileFuse side by side, interleaved; every case printed, losers included.

    python benchmarks/run.py                          all cases, 1 and 2 threads
    python benchmarks/run.py --only layer_norm,rotary --size cache --threads 1
    python benchmarks/run.py --models                 the model architectures
    python benchmarks/run.py --products               matrix products and what stands around them
    python benchmarks/run.py --ops                    the ready operators, and docs/ops.md
    python benchmarks/run.py --convolutions           convolutions and pools and what stands around them
    python benchmarks/run.py --table FILE             the table of an earlier run

Ratios are other / TileFuse: above 1, TileFuse is faster. First calls are timed with empty caches, imports and
Inductor's precompiled headers not counted. Results go to benchmarks/results/*.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ops_page
import torch
from conv_cases import FAMILIES as CONVOLUTION_FAMILIES
from memory_cases import DTYPES, FAMILIES, SIZES, Family
from model_cases import MODELS
from operator_cases import LIBRARY, OPS
from product_cases import FAMILIES as PRODUCT_FAMILIES
from tilefuse import measure, ops

HERE = pathlib.Path(__file__).resolve().parent


def _error(got: Any, want: Any) -> float:
    """The largest difference over the largest reference value."""
    got, want = ([v] if isinstance(v, torch.Tensor) else list(v) for v in (got, want))
    scale = lambda t: max(t.double().abs().max().item(), 1e-30)  # noqa: E731
    return max((g.double() - w.double()).abs().max().item() / scale(w) for g, w in zip(got, want, strict=True))


def _backends(options: argparse.Namespace) -> list[str]:
    return ["tilefuse"] if options.no_inductor else ["inductor", "tilefuse"]


def _contestants(
    function: Callable[..., Any], inputs: Any, options: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, float]]:
    """Eager, eager behind Dynamo's guards ("guarded": what any compiled call pays), and the backends."""
    torch._dynamo.reset()
    guarded = torch.compile(function, backend="eager", dynamic=False)
    contestants: dict[str, Any] = {"eager": lambda: function(*inputs), "guarded": lambda: guarded(*inputs)}
    first: dict[str, float] = {}
    for backend in _backends(options):
        given = None
        if backend == "tilefuse":
            given = {"freeze": options.freeze, "cache_dir": tempfile.mkdtemp(dir=options.caches)}
        compiled = torch.compile(function, backend=backend, dynamic=False, options=given)
        started = time.perf_counter()
        compiled(*inputs)
        first[backend] = time.perf_counter() - started
        contestants[backend] = lambda compiled=compiled: compiled(*inputs)
    return contestants, first


def _measure(name: str, function: Any, inputs: Any, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(threads)
    contestants, first = _contestants(function, inputs, options)
    error = _error(contestants["tilefuse"](), function(*inputs))
    timings = measure.interleave(contestants, options.seconds)
    return {
        "case": name,
        "threads": threads,
        "error": error,
        "first_call_s": first,
        "us": {k: {"median": t.median * 1e6, "p10": t.low * 1e6, "p90": t.high * 1e6} for k, t in timings.items()},
    }


def _family_rows(families: Sequence[Family], sizes: Sequence[str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    only = set(options.only.split(",")) if options.only else None
    for family in families:
        if only and family.name not in only:
            continue
        for size in sizes:
            for dtype_name, dtype in DTYPES.items():
                if options.size not in (None, size) or options.dtype not in (None, dtype_name):
                    continue
                torch.manual_seed(0)
                inputs = family.inputs(size == "memory", dtype)
                for threads in options.threads:
                    row = _measure(family.name, family.function, inputs, threads, options)
                    yield row | {"group": size, "dtype": dtype_name}


def _model_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    only = set(options.only.split(",")) if options.only else None
    for name, make in MODELS.items():
        if only and name not in only:
            continue
        model, inputs = make()
        for threads in options.threads:
            yield _measure(name, model, inputs, threads, options) | {"group": "model", "dtype": "f32"}


@contextlib.contextmanager
def _alone(core: int | None) -> Iterator[None]:
    """Measures on one core, ahead of all other processes."""
    if core is None:
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, cores)


def _op_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The operator called as it is, beside its definition."""
    only = set(options.only.split(",")) if options.only else None
    torch.set_num_threads(1)
    for name, case in OPS.items():
        if only and name not in only:
            continue
        operator = getattr(ops, name)
        for dtype_name, dtype in DTYPES.items():
            torch.manual_seed(0)
            arguments = case.make(dtype)
            call = functools.partial(operator, *arguments, **case.keywords)
            plain = functools.partial(operator.plain, *arguments, **case.keywords)
            started = time.perf_counter()
            error = _error(call(), plain())
            first = {"tilefuse": time.perf_counter() - started}
            contestants = {"eager": plain, "tilefuse": call}
            if not options.no_inductor:
                torch._dynamo.reset()
                compiled = torch.compile(operator.plain, backend="inductor", dynamic=False)
                contestants["inductor"] = functools.partial(compiled, *arguments, **case.keywords)
                started = time.perf_counter()
                contestants["inductor"]()
                first["inductor"] = time.perf_counter() - started
            library = LIBRARY.get(name, ("", None))[1]
            if library is not None:
                contestants["torch"] = library(*arguments)
            with _alone(options.core):
                timings = measure.interleave(contestants, options.seconds)
            us = {k: {"median": t.median * 1e6, "p10": t.low * 1e6, "p90": t.high * 1e6} for k, t in timings.items()}
            yield {"case": name, "group": "op", "dtype": dtype_name, "threads": 1, "error": error,
                   "first_call_s": first, "us": us}  # fmt: skip


def _rows(kind: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if kind == "models":
        return _model_rows(options)
    if kind == "ops":
        return _op_rows(options)
    if kind == "products":
        return _family_rows(PRODUCT_FAMILIES, ["product"], options)
    if kind == "convolutions":
        return _family_rows(CONVOLUTION_FAMILIES, ["conv"], options)
    return _family_rows(FAMILIES, SIZES, options)


def _print_row(row: Mapping[str, Any]) -> None:
    ours = row["us"]["tilefuse"]["median"]
    ratios = "".join(
        f"  {other} {row['us'][other]['median'] / ours:6.2f}x"
        for other in ("eager", "guarded", "inductor")
        if other in row["us"]
    )
    spread = row["us"]["tilefuse"]
    first = "  ".join(f"{k} {v:.2f} s" for k, v in row["first_call_s"].items())
    print(
        f"{row['case']:20} {row['group']:7} {row['dtype']:4} {row['threads']}t  {ours:10.1f} us "
        f"({spread['p10']:.1f}..{spread['p90']:.1f}){ratios}   first: {first}   error {row['error']:.1e}",
        flush=True,
    )


def _print_summary(rows: list[Mapping[str, Any]]) -> None:
    print("\ngroup   against    geomean   worst  (case)                          cases")
    for group in ("cache", "memory", "product", "conv", "model", "op"):
        for other in ("eager", "guarded", "inductor"):
            ratios = {
                f"{r['case']} {r['dtype']} {r['threads']}t": r["us"][other]["median"] / r["us"]["tilefuse"]["median"]
                for r in rows
                if r["group"] == group and other in r["us"]
            }
            if ratios:
                worst = min(ratios, key=ratios.__getitem__)
                mean = statistics.geometric_mean(ratios.values())
                print(f"{group:7} {other:9} {mean:7.2f}x {ratios[worst]:7.2f}x  {worst:30} {len(ratios):5}")
    firsts = [(r["first_call_s"]["inductor"], r["first_call_s"]["tilefuse"]) for r in rows if "inductor" in r["first_call_s"]]
    if firsts:
        print(f"first call, median: inductor {statistics.median(a for a, _ in firsts):.2f} s, "
              f"tilefuse {statistics.median(b for _, b in firsts):.2f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated names of families or models")
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--dtype", choices=list(DTYPES))
    parser.add_argument("--threads", type=lambda text: [int(t) for t in text.split(",")], default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time of a case")
    parser.add_argument("--models", action="store_true", help="the architectures instead of the memory-bound cases")
    parser.add_argument("--products", action="store_true", help="matrix products instead of the memory-bound cases")
    parser.add_argument("--ops", action="store_true", help="the ready operators instead of the memory-bound cases")
    parser.add_argument("--core", type=int, help="with --ops: measure on this core in real time (wants the right to)")
    parser.add_argument("--convolutions", action="store_true", help="convolutions instead of the memory-bound cases")
    parser.add_argument("--freeze", action="store_true", help="with --models: TileFuse packs weights once")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--table", help="print the table of a result file and stop")
    parser.add_argument("--results", help="where the rows go (default: benchmarks/results/...)")
    options = parser.parse_args()
    if options.table:
        rows = [json.loads(line) for line in pathlib.Path(options.table).read_text().splitlines()]
        for row in rows:
            _print_row(row)
        return _print_summary(rows)
    print(f"torch {torch.__version__}, {platform.processor() or platform.machine()}, {torch.get_num_threads()} threads at most")
    kinds = ("models", "products", "convolutions", "ops")
    kind = next((kind for kind in kinds if getattr(options, kind)), "memory")
    results = pathlib.Path(options.results or HERE / "results" / f"{kind}.jsonl")
    rows = []
    with torch.no_grad(), results.open("w") as file, measure.empty_caches() as options.caches:
        os.environ["TILEFUSE_CACHE_DIR"] = options.caches
        for backend in _backends(options):  # what a process loads once, and Inductor's headers once a machine
            torch.compile(lambda x: x + 1, backend=backend)(torch.ones(64))
        for row in _rows(kind, options):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            _print_row(row)
    _print_summary(rows)
    if kind == "ops" and not (options.only or options.results):
        ops_page.write()


if __name__ == "__main__":
    main()
