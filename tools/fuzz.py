"""Runs the fuzz targets that `make fuzz` has built, each for a number of seconds, and fails with the first finding.

    python tools/fuzz.py --seconds 60 --jobs 2 [--seed 1] [--build build/fuzz] [target ...]

The corpus stays in build/fuzz/corpus/<target> from run to run. What is found is a file below build/fuzz/findings,
with the command that shows it again: made small, it belongs into tests/fuzz/regressions/<target>.
"""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGETS = ("archive", "executable", "graph", "program", "size_expression", "tile_graph")
LONGEST = {"archive": 1 << 17, "executable": 1 << 16, "program": 1 << 16, "size_expression": 512}
LIMITS = ("-timeout=20", "-rss_limit_mb=3000", "-malloc_limit_mb=1500", "-print_final_stats=1", "-close_fd_mask=1")


def run(build: pathlib.Path, target: str, seconds: int, seed: int) -> tuple[str, bool, str]:
    """The target's name, whether it ended well, and what it says."""
    corpus, findings = build / "corpus" / target, build / "findings" / target
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    program = build / "tests" / "fuzz" / f"fuzz_{target}"
    words = build / "corpus" / f"{target}.dict"
    command = [program, *LIMITS, f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST.get(target, 1 << 13)}"]
    command += [f"-artifact_prefix={findings}/"] + ([f"-dict={words}"] if words.exists() else [])
    kept = ROOT / "tests" / "fuzz" / "regressions" / target
    command += [corpus] + ([kept] if kept.exists() else [])
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return target, done.returncode == 0, done.stdout


def summary(text: str) -> str:
    """Executions, what of the code was reached, and how many inputs the corpus has."""
    units = re.search(r"stat::number_of_executed_units:\s+(\d+)", text)
    reached = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", text)
    if not units or not reached:
        return "did not run"
    edges, features, corpus = reached[-1]
    return f"{units[1]} executions, {edges} edges, {features} features, {corpus} inputs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the random choices; 0: another one each time")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "fuzz")
    given = parser.parse_args()
    build = given.build.resolve()
    subprocess.run([build / "tests" / "fuzz" / "make_seeds", build / "corpus"], check=True)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for target, is_fine, text in pool.map(lambda name: run(build, name, given.seconds, given.seed), given.targets):
            print(f"{target:16}{summary(text)}{'' if is_fine else ': FOUND SOMETHING'}", flush=True)
            if not is_fine:
                failed = True
                print(text[-6000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
