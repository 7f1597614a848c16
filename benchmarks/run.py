"""Eager, Inductor, OpenVINO and TileFuse side by side, interleaved; every case printed, losers included.

    python benchmarks/run.py                          all cases, 1 and 2 threads
    python benchmarks/run.py --only layer_norm,rotary --size cache --threads 1
    python benchmarks/run.py --models                 whole models, OpenVINO among the contestants
    python benchmarks/run.py --models --dtype bf16    the same in bf16
    python benchmarks/run.py --products               matrix products and what stands around them
    python benchmarks/run.py --compute                what multiplications bound, beside the peak: large products, attention
    python benchmarks/run.py --compute --freeze       the same with weights that are packed once
    python benchmarks/run.py --ops                    the ready operators, and docs/ops.md
    python benchmarks/run.py --convolutions           convolutions and pools and what stands around them
    python benchmarks/run.py --products --autotune    with Inductor in mode max-autotune beside the others
    python benchmarks/run.py --table FILE             the table of an earlier run

contestants.py says who takes part, result_table.py what the columns are. Ratios are other / TileFuse: above 1, TileFuse is
faster. First calls are timed with empty caches, imports and Inductor's precompiled headers not counted. Results go to
benchmarks/results/*.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import platform
import time
from collections.abc import Iterator, Sequence
from typing import Any

import contestants
import ops_page
import result_table
import torch
from compute_cases import CASES as COMPUTE_CASES
from conv_cases import FAMILIES as CONVOLUTION_FAMILIES
from memory_cases import DTYPES, FAMILIES, SIZES, Family
from model_cases import DEMO, MODELS
from operator_cases import LIBRARY, OPS
from product_cases import FAMILIES as PRODUCT_FAMILIES
from tilefuse import measure, ops

HERE = pathlib.Path(__file__).resolve().parent


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
                    row = contestants.measured(family.name, family.function, inputs, dtype_name, threads, options)
                    yield row | {"group": size}


def _model_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    only = set(options.only.split(",")) if options.only else None
    dtype = options.dtype or "f32"
    for name, make in {**MODELS, **DEMO}.items():
        if only and name not in only:
            continue
        model, inputs = make()
        model = model.to(DTYPES[dtype])
        inputs = tuple(x.to(DTYPES[dtype]) if x.is_floating_point() else x for x in inputs)
        for threads in options.threads:
            row = contestants.measured(name, model, inputs, dtype, threads, options)
            yield row | {"group": "demo" if name in DEMO else "model"}


def _compute_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for case in COMPUTE_CASES:
        dtype = next(name for name, dtype in DTYPES.items() if dtype == case.dtype)
        if (options.only and not any(case.name.startswith(only) for only in options.only.split(","))) or options.dtype not in (None, dtype):
            continue
        torch.manual_seed(0)
        module, inputs = case.make(case.dtype)
        for threads in options.threads:
            yield contestants.measured(case.name, module.eval(), inputs, dtype, threads, options) | {"group": "compute"}


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
            error = contestants.error(call(), plain())
            first = {"tilefuse": time.perf_counter() - started}
            calls = {"eager": plain, "tilefuse": call}
            if "inductor" in options.present:
                torch._dynamo.reset()
                compiled = torch.compile(operator.plain, backend="inductor", dynamic=False)
                calls["inductor"] = functools.partial(compiled, *arguments, **case.keywords)
                started = time.perf_counter()
                calls["inductor"]()
                first["inductor"] = time.perf_counter() - started
            library = LIBRARY.get(name, ("", None))[1]
            if library is not None:
                calls["torch"] = library(*arguments)
            with _alone(options.core):
                timings = measure.interleave(calls, options.seconds)
            us = {k: {"median": t.median * 1e6, "p10": t.low * 1e6, "p90": t.high * 1e6} for k, t in timings.items()}
            yield {"case": name, "group": "op", "dtype": dtype_name, "threads": 1, "error": error,
                   "first_call_s": first, "us": us}  # fmt: skip


def _rows(kind: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if kind == "models":
        return _model_rows(options)
    if kind == "compute":
        return _compute_rows(options)
    if kind == "ops":
        return _op_rows(options)
    if kind == "products":
        return _family_rows(PRODUCT_FAMILIES, ["product"], options)
    if kind == "convolutions":
        return _family_rows(CONVOLUTION_FAMILIES, ["conv"], options)
    return _family_rows(FAMILIES, SIZES, options)


def _warm_up(peers: Sequence[str]) -> None:
    """What a process loads once, and Inductor's headers once a machine."""
    for how in contestants.compilers(peers, freeze=False).values():
        torch.compile(lambda x: x + 1, **how)(torch.ones(64))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated names of families or models")
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--dtype", choices=list(DTYPES), help="default: both; with --models f32")
    parser.add_argument("--threads", type=lambda text: [int(t) for t in text.split(",")], default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time of a case")
    parser.add_argument("--models", action="store_true", help="the architectures instead of the memory-bound cases")
    parser.add_argument("--products", action="store_true", help="matrix products instead of the memory-bound cases")
    parser.add_argument("--ops", action="store_true", help="the ready operators instead of the memory-bound cases")
    parser.add_argument("--core", type=int, help="with --ops: measure on this core in real time (wants the right to)")
    parser.add_argument("--convolutions", action="store_true", help="convolutions instead of the memory-bound cases")
    parser.add_argument("--compute", action="store_true", help="compute-bound cases instead of the memory-bound ones")
    parser.add_argument("--freeze", action="store_true", help="with --models, --compute: TileFuse and Inductor pack weights once")
    parser.add_argument("--peers", type=contestants.peer_list, help=f"comma-separated, of {', '.join(contestants.PEERS)}")
    parser.add_argument("--autotune", action="store_true", help="with Inductor in mode max-autotune beside the others")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--table", help="print the table of a result file and stop")
    parser.add_argument("--results", help="where the rows go (default: benchmarks/results/...)")
    return parser


def main() -> None:
    options = _parser().parse_args()
    if options.table:
        rows = [json.loads(line) for line in pathlib.Path(options.table).read_text().splitlines()]
        print("\n".join(map(result_table.line, rows)))
        return print("\n" + result_table.summary(rows))
    print(f"torch {torch.__version__}, {platform.processor() or platform.machine()}, {torch.get_num_threads()} threads at most")
    kinds = ("models", "products", "convolutions", "compute", "ops")
    kind = next((kind for kind in kinds if getattr(options, kind)), "memory")
    options.present = contestants.peers_for(kind, options)
    options.counted = kind in ("models", "products", "convolutions", "compute")
    name = f"{kind}_{options.dtype}" if kind == "models" and options.dtype not in (None, "f32") else kind
    name += "_frozen" if options.freeze else ""
    results = pathlib.Path(options.results or HERE / "results" / f"{name}.jsonl")
    rows = []
    with torch.no_grad(), results.open("w") as file, measure.empty_caches() as options.caches:
        os.environ["TILEFUSE_CACHE_DIR"] = options.caches
        _warm_up(options.present)
        for row in _rows(kind, options):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(result_table.line(row), flush=True)
    print("\n" + result_table.summary(rows))
    if kind == "ops" and not (options.only or options.results):
        ops_page.write()


if __name__ == "__main__":
    main()
