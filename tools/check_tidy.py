"""Runs clang-tidy over the library sources, in parallel; fails on any finding.

A file whose text, headers and settings were clean before is not looked at again (build/tidy keeps the hashes).
"""
import argparse
import concurrent.futures
import hashlib
import pathlib
import subprocess
import sys

BUILD = pathlib.Path("build/release")
CLEAN = pathlib.Path("build/tidy")
FOLDERS = ("core", "fusion", "codegen", "offline", "page", "tools", "torch_ext")


def tracked(*patterns: str) -> list[str]:
    listing = subprocess.run(["git", "ls-files", "--", *patterns], check=True, capture_output=True, text=True)
    return listing.stdout.split()


def touched(commits: int) -> set[str]:
    log = ["git", "log", f"-{commits}", "--name-only", "--format="]
    names = [subprocess.run(c, check=True, capture_output=True, text=True).stdout for c in (log, ["git", "diff", "--name-only", "HEAD"])]
    return set("\n".join(names).split())


def check(name: str, key: str) -> str:
    """Returns the findings of one file; empty if clean."""
    stamp = CLEAN / hashlib.sha256(name.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == key:
        return ""
    # clang has omp.h only with its own OpenMP; without the option nothing asks for it. Compiler warnings are GCC's
    # to give: the build treats them as errors, and some of its options are unknown here.
    options = ["-fno-openmp", "-Wno-unknown-warning-option", "-w"]
    extra = [f"--extra-arg={option}" for option in options]
    command = ["clang-tidy-19", "-p", str(BUILD), "--quiet", "--warnings-as-errors=*", *extra, name]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        return result.stdout or result.stderr
    stamp.write_text(key)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-j", type=int, default=2, help="files at a time")
    parser.add_argument("--commits", type=int, help="only files that the last so many commits, or no commit yet, touch")
    arguments = parser.parse_args()
    CLEAN.mkdir(parents=True, exist_ok=True)
    headers = hashlib.sha256()
    for header in tracked("*.h", ".clang-tidy"):
        headers.update(pathlib.Path(header).read_bytes())
    sources = [n for n in tracked("*.cpp") if n.split("/")[0] in FOLDERS and not n.startswith("codegen/runtime/")]
    if arguments.commits is not None:
        recent = touched(arguments.commits)
        sources = [n for n in sources if n in recent]
    keys = {n: headers.hexdigest() + hashlib.sha256(pathlib.Path(n).read_bytes()).hexdigest() for n in sources}
    with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
        findings = [text for text in pool.map(lambda n: check(n, keys[n]), sources) if text]
    print("\n".join(findings) or f"tidy: {len(sources)} files")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
