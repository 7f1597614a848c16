"""Runs the fuzz targets that are built, and fails when one finds something.

    python tools/fuzz.py --seconds 60 --jobs 2 [--seed 1] [--build build/fuzz] [target ...]
    python tools/fuzz.py --fixed --jobs 2 [target ...]

With --seconds the corpus stays in build/fuzz/corpus/<target> from run to run, and grows. With --fixed nothing stays:
a fixed number of executions from a fixed seed, over seeds that are made anew and the regressions, each mutated once,
so that the same inputs are run each time, on any machine.

What is found is a file below build/fuzz/findings, and is printed at the end, packed as text: made small, it belongs
into tests/fuzz/regressions/<target>.
"""

import argparse
import base64
import concurrent.futures
import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Executions of a fixed run: about 20 s each on a slow core.
RUNS = {"archive": 1500, "executable": 60000, "graph": 8000, "program": 8000, "report": 20000, "size_expression": 25000, "tile_graph": 25000}
LONGEST = {"archive": 1 << 17, "executable": 1 << 16, "program": 1 << 16, "report": 1 << 16, "size_expression": 512}
LIMITS = ("-rss_limit_mb=3000", "-malloc_limit_mb=1500", "-print_final_stats=1", "-close_fd_mask=1")
BEGINS_REPORT = re.compile(r"^(terminate called|.*runtime error: |==\d+==\s*ERROR: )")
MOST_LINES, LONGEST_LINE = 60, 200


@dataclass
class Outcome:
    target: str
    is_fine: bool
    text: str


def fixed(target: str, seeds: pathlib.Path) -> list[str]:
    """Inputs by a sorted list: folders are read in the order of the file system. What is mutated does not depend on
    what the code reaches (--mutate_only_first) or compares (-use_cmp): a change that touches neither seeds nor
    mutations leaves the inputs as they are."""
    inputs = sorted((seeds / target).iterdir()) + sorted(regressions(target))
    listed = seeds / f"{target}.list"
    listed.write_text(",".join(map(str, inputs)))
    only_seeds = [f"--mutate_only_first={1 + len(inputs)}", "-keep_seed=1", "-entropic=0", "-reduce_inputs=0", "-use_cmp=0"]
    only_seeds += ["-len_control=0"]
    return [f"-runs={RUNS[target]}", "-seed=1", f"-seed_inputs=@{listed}", *only_seeds, "-reload=0", "-timeout=300"]


def regressions(target: str) -> list[pathlib.Path]:
    kept = ROOT / "tests" / "fuzz" / "regressions" / target
    return list(kept.iterdir()) if kept.exists() else []


def open_ended(target: str, corpus: pathlib.Path, seconds: int, seed: int) -> list[str]:
    kept = ROOT / "tests" / "fuzz" / "regressions" / target
    folders = [str(corpus / target)] + ([str(kept)] if kept.exists() else [])
    return [f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=60", *folders]  # of wall time: others may run here, too


def run(given: argparse.Namespace, target: str) -> Outcome:
    findings = given.build / "findings" / target
    findings.mkdir(parents=True, exist_ok=True)
    seeds = given.build / ("seeds" if given.fixed else "corpus")
    words = seeds / f"{target}.dict"
    command = [program(given, target), *LIMITS, f"-max_len={LONGEST.get(target, 1 << 13)}", f"-artifact_prefix={findings}/"]
    command += [f"-dict={words}"] if words.exists() else []
    command += fixed(target, seeds) if given.fixed else open_ended(target, seeds, given.seconds, given.seed)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return Outcome(target, done.returncode == 0, done.stdout)


def program(given: argparse.Namespace, target: str) -> pathlib.Path:
    return given.build / "tests" / "fuzz" / f"fuzz_{target}"


def summary(text: str) -> str:
    """Executions, what of the code was reached, and how many inputs the corpus has."""
    units = re.search(r"stat::number_of_executed_units:\s+(\d+)", text)
    reached = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", text)
    if not units or not reached:
        return "did not run"
    edges, features, corpus = reached[-1]
    return f"{units[1]} executions, {edges} edges, {features} features, {corpus} inputs"


def report(text: str) -> str:
    """From the message on, without the progress before it."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if BEGINS_REPORT.match(line)), max(0, len(lines) - MOST_LINES))
    return "\n".join(line[:LONGEST_LINE] for line in lines[first : first + MOST_LINES])


def packed_input(given: argparse.Namespace, outcome: Outcome) -> str:
    """The input as text, with the commands that run it again."""
    written = re.search(r"Test unit written to (.+)", outcome.text)
    if not written:
        return "no input was written"
    text = base64.b64encode(gzip.compress(pathlib.Path(written[1]).read_bytes(), mtime=0)).decode()
    lines = "\n".join(textwrap.wrap(text, 120))
    shown = program(given, outcome.target)
    shown = shown.relative_to(ROOT) if shown.is_relative_to(ROOT) else shown
    return f"base64 -d <<END | gunzip > finding\n{lines}\nEND\n{shown} finding"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=list(RUNS), metavar="target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the random choices; 0: another one each time")
    parser.add_argument("--fixed", action="store_true", help="the same executions each time, instead of --seconds and --seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "fuzz")
    given = parser.parse_args()
    given.build = given.build.resolve()
    seeds = given.build / ("seeds" if given.fixed else "corpus")
    if given.fixed:
        shutil.rmtree(seeds, ignore_errors=True)
    subprocess.run([given.build / "tests" / "fuzz" / "make_seeds", seeds], check=True)
    for target in () if given.fixed else given.targets:
        (seeds / target).mkdir(parents=True, exist_ok=True)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for outcome in pool.map(lambda target: run(given, target), given.targets):
            print(f"{outcome.target:16}{summary(outcome.text)}{'' if outcome.is_fine else ': FOUND SOMETHING'}", flush=True)
            if not outcome.is_fine:
                failed.append(outcome)
    for outcome in failed:
        print(f"\n{outcome.target}: {report(outcome.text)}\n\n{packed_input(given, outcome)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
