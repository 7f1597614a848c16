"""`make gpu`: tests, conformance of kernels, and benchmarks on a machine with an NVIDIA GPU.

    python tools/gpu.py --check                      is there one? Exits with 3 and says so where there is none
    python tools/gpu.py --part tests                 one of: tests, conformance, sanitize, bench-memory,
                                                     bench-rows, bench-contract, bench-attention,
                                                     bench-models, all

Prints what it runs on first: the device, its clocks, the driver, torch and its compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NO_GPU = 3
MOST_WORKERS = 14  # a process keeps half a gigabyte of the device
FACTS = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,power.limit,temperature.gpu"


def devices() -> tuple[int, str]:
    """How many GPUs the driver has, and why there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0, "there is no NVIDIA driver (libcuda.so.1)"
    if status := driver.cuInit(0):
        return 0, f"the NVIDIA driver does not start (cuInit gives {status})"
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return 0, "the NVIDIA driver finds no device"
    return count.value, ""


def print_machine() -> None:
    """The device, its clocks, and the versions: a figure means nothing without them."""
    import torch

    if shutil.which("nvidia-smi"):
        subprocess.run(["nvidia-smi", f"--query-gpu={FACTS}", "--format=csv"], check=False)
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}", flush=True)


def _run(*command: str) -> int:
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def tests() -> int:
    workers = str(min(os.cpu_count() or 1, MOST_WORKERS))  # each compiles its own kernels
    return _run(sys.executable, "-m", "pytest", "-n", workers, "--dist", "worksteal", "tests/gpu_device")


def conformance() -> int:
    program = ROOT / "build" / "release" / "tests" / "gpu" / "conformance_test"
    return _run(str(program), "--driver=libcuda.so.1")


def sanitize() -> int:
    """Conformance kernels under NVIDIA's checkers of memory and of races in shared memory."""
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        print("not run: there is no compute-sanitizer")
        return 0
    program = ROOT / "build" / "release" / "tests" / "gpu" / "conformance_test"
    checks = ("memcheck", "racecheck")
    return max(
        _run(tool, "--tool", check, "--error-exitcode", "1", str(program), "--driver=libcuda.so.1", "--gtest_brief=1")
        for check in checks
    )


def bench_memory() -> int:
    return _run(sys.executable, "benchmarks/gpu.py")


def bench_rows() -> int:
    return _run(sys.executable, "benchmarks/gpu.py", "--rows")


def bench_contract() -> int:
    return _run(sys.executable, "benchmarks/gpu_contract.py")


def bench_attention() -> int:
    return _run(sys.executable, "benchmarks/gpu_attention.py")


def bench_models() -> int:
    return _run(sys.executable, "benchmarks/gpu_models.py")


PARTS = {
    "tests": tests,
    "conformance": conformance,
    "sanitize": sanitize,
    "bench-memory": bench_memory,
    "bench-rows": bench_rows,
    "bench-contract": bench_contract,
    "bench-attention": bench_attention,
    "bench-models": bench_models,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only whether there is a GPU")
    parser.add_argument("--part", choices=["all", *PARTS], default="all")
    options = parser.parse_args()
    count, why = devices()
    if count == 0:
        print(f"make gpu: nothing to run on: {why}", file=sys.stderr)
        return NO_GPU
    if options.check:
        return 0
    print_machine()
    chosen = PARTS.values() if options.part == "all" else [PARTS[options.part]]
    return max(part() for part in chosen)


if __name__ == "__main__":
    sys.exit(main())
