"""Fused files beside AOTInductor packages: seconds to make one, bytes, milliseconds to load and for the first call, and
microseconds of later calls, interleaved in one C++ process.

    python benchmarks/offline/run.py                            MiniLM and the models of model_cases.py
    python benchmarks/offline/run.py --only minilm,resnet18 --threads 1

Both begin from the same exported program and from empty caches. What is made is made in a process of its own; what is
loaded is loaded first in a fresh process, three times, and the median counts. Ratios are other / TileFuse. Results go to
benchmarks/results/offline.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import tilefuse
import torch
from tilefuse.demo import model_and_inputs

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from model_cases import MODELS  # noqa: E402

PACKAGE = pathlib.Path(tilefuse.__file__).parent
LOADS = 3
MAKE_PACKAGE = """
import sys, time, torch
program = torch.export.load(sys.argv[1])
started = time.perf_counter()
torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[2])
print(time.perf_counter() - started)
"""


def build(folder: pathlib.Path) -> pathlib.Path:
    places = f"-DCMAKE_PREFIX_PATH={PACKAGE};{pathlib.Path(torch.__file__).parent}"
    subprocess.run(["cmake", "-B", folder, places, HERE], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder], check=True, stdout=subprocess.DEVNULL)
    return folder / "compare"


def fuse(exported: pathlib.Path, fused: pathlib.Path, threads: int, caches: pathlib.Path) -> float:
    started = time.perf_counter()
    command = [PACKAGE / "bin" / "tilefuse", "fuse", exported, "-o", fused, "--threads", str(threads)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "TILEFUSE_CACHE_DIR": str(caches)})
    return time.perf_counter() - started


def package(exported: pathlib.Path, made: pathlib.Path, threads: int, caches: pathlib.Path) -> float:
    given = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", MAKE_PACKAGE, exported, made]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=given)
    return float(done.stdout.split()[-1])


def called(compare: pathlib.Path, files: list[pathlib.Path], threads: int, seconds: float, *flags: str) -> dict[str, Any]:
    command = [compare, *files, str(threads), str(seconds), *flags]
    done = subprocess.run([str(part) for part in command], check=True, text=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def measure(name: str, make: Callable[[], Any], compare: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    model, inputs = make()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        with torch.no_grad():
            torch.export.save(torch.export.export(model, tuple(inputs)), folder / "model.pt2")
        torch.save(list(inputs), folder / "inputs.pt")
        files = [folder / "fused.pt2", folder / "package.pt2", folder / "inputs.pt"]
        made = {
            "tilefuse": fuse(folder / "model.pt2", files[0], options.threads, folder / "kernels"),
            "aot_inductor": package(folder / "model.pt2", files[1], options.threads, folder / "inductor"),
        }
        first = {"tilefuse": [], "aot_inductor": []}
        for _ in range(LOADS):
            for who, flags in (("tilefuse", ()), ("aot_inductor", ("--swap",))):
                first[who].append(called(compare, files, options.threads, 0, *flags)[who])
        calls = called(compare, files, options.threads, options.seconds)
        row = {"case": name, "threads": options.threads, "difference": calls["difference"]}
        for place, who in enumerate(("tilefuse", "aot_inductor")):
            ordered = sorted(calls[who]["us"])
            row[who] = {
                "make_s": made[who],
                "bytes": files[place].stat().st_size,
                "load_ms": statistics.median(run["load_ms"] for run in first[who]),
                "first_call_ms": statistics.median(run["first_call_ms"] for run in first[who]),
                "us": {"median": statistics.median(ordered), "p10": ordered[len(ordered) // 10],
                       "p90": ordered[len(ordered) * 9 // 10]},
            }  # fmt: skip
    return row


def show(row: dict[str, Any]) -> None:
    ours, other = row["tilefuse"], row["aot_inductor"]
    print(
        f"{row['case']:18} make {ours['make_s']:6.1f} s, {other['make_s'] / ours['make_s']:5.1f}x   "
        f"{ours['bytes'] / 1e6:6.1f} MB, {other['bytes'] / ours['bytes']:4.2f}x   load {ours['load_ms']:6.1f} ms, "
        f"{other['load_ms'] / ours['load_ms']:5.2f}x   first call {ours['first_call_ms']:6.1f} ms, "
        f"{other['first_call_ms'] / ours['first_call_ms']:5.2f}x   call {ours['us']['median']:9.1f} us "
        f"({ours['us']['p10']:.1f}..{ours['us']['p90']:.1f}), {other['us']['median'] / ours['us']['median']:5.2f}x   "
        f"difference {row['difference']:.1e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="of calls, for each model")
    parser.add_argument("--results", type=pathlib.Path, default=HERE.parent / "results" / "offline.jsonl")
    options = parser.parse_args()
    only = set(options.only.split(",")) if options.only else None
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        compare = build(pathlib.Path(temporary))
        for name, make in {"minilm": model_and_inputs, **MODELS}.items():
            if only is None or name in only:
                rows.append(measure(name, make, compare, options))
                show(rows[-1])
    options.results.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
