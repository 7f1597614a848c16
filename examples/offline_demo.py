"""make demo-offline: the demo's sentence encoder, exported, fused, and run from C++ with neither Python nor a compiler.

Prints what each step made and took. Exit status 1 where the embeddings are not eager's.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import time

import tilefuse
import torch
from tilefuse.demo import model_and_inputs

PACKAGE = pathlib.Path(tilefuse.__file__).parent
ROOT = pathlib.Path(__file__).resolve().parent
CLOSE = 1e-4  # embeddings have unit length


def timed(text: str, *command: object, **settings: object) -> str:
    started = time.perf_counter()
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE, check=True, **settings)
    print(f"{text}: {time.perf_counter() - started:.2f} s")
    return done.stdout


def main() -> int:
    model, inputs = model_and_inputs()
    with torch.no_grad():
        expected = model(*inputs)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        started = time.perf_counter()
        torch.export.save(torch.export.export(model, inputs), folder / "model.pt2")
        print(f"export: {time.perf_counter() - started:.2f} s")
        torch.save(list(inputs), folder / "inputs.pt")
        said = timed("fuse", PACKAGE / "bin" / "tilefuse", "fuse", folder / "model.pt2", "-o", folder / "fused.pt2")
        print(" ", said.strip().rsplit("/", 1)[-1])
        places = f"-DCMAKE_PREFIX_PATH={PACKAGE};{pathlib.Path(torch.__file__).parent}"
        timed("configure examples/cpp", "cmake", "-B", folder / "build", places, ROOT / "cpp")
        timed("build examples/cpp", "cmake", "--build", folder / "build")
        files = [folder / "fused.pt2", folder / "inputs.pt", folder / "outputs.pt"]
        said = timed(
            "run from C++, PATH empty", folder / "build" / "run_model", *files, "--trust", "--repeat", "5",
            env={"PATH": "", "TILEFUSE_CACHE_DIR": str(folder / "cache")},
        )  # fmt: skip
        lines = said.splitlines()
        embedded = sum(line.startswith("region ") and ": embedded for " in line for line in lines)
        print(f"  {embedded} regions from the file's own machine code")
        print("  " + "\n  ".join(line for line in lines if line.startswith(("loaded", "call"))))
        got = torch.load(folder / "outputs.pt")[0]
        kept = list((folder / "cache").glob("**/*")) if (folder / "cache").exists() else []
    worst = (got - expected).abs().max().item()
    print(f"largest difference from eager: {worst:.2g}; kernels compiled while running: {len(kept)}")
    return 0 if worst < CLOSE and embedded > 0 and not kept else 1


if __name__ == "__main__":
    sys.exit(main())
