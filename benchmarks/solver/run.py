"""Regret of the solver's choices: the chosen schedule against the fastest of a measured sweep.

Two sets of regions: `tuned.txt` was looked at while the cost model was made, `held_out.txt` was drawn at random from
the regions of whole models and was not; `draw.py` draws another. Prints a line per region and the means per family, and
writes the rows to benchmarks/results/. Timings want a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess

from rich.console import Console
from rich.table import Table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(folder: pathlib.Path) -> pathlib.Path:
    subprocess.run(["cmake", "--build", str(folder), "--target", "solver_regret"], check=True, capture_output=True)
    return folder / "benchmarks" / "solver" / "solver_regret"


def measure(program: pathlib.Path, regions: pathlib.Path, threads: int, sweep: int) -> list[dict]:
    command = [str(program), str(regions), f"--threads={threads}", f"--sweep={sweep}"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def mean(rows: list[dict], key: str) -> str:
    return f"{100 * statistics.mean(row[key] for row in rows):.1f} %"


def table(rows: list[dict], regions: str) -> Table:
    result = Table(title=f"regret on {regions} regions")
    for column in ("region", "family", "first us", "best us", "predicted us", "regret", "best of 3", "best of 8", "solve ms"):
        result.add_column(column, justify="left" if column in ("region", "family") else "right")
    for row in sorted(rows, key=lambda row: -row["regret_first"]):
        result.add_row(
            row["region"], row["family"], f"{row['first_us']:.1f}", f"{row['best_us']:.1f}", f"{row['predicted_us']:.1f}",
            f"{100 * row['regret_first']:.1f} %", f"{100 * row['regret_best_of_3']:.1f} %",
            f"{100 * row['regret_best_of_8']:.1f} %", f"{row['solve_ms']:.2f}",
        )  # fmt: skip
    return result


def report(rows: list[dict], regions: str, console: Console) -> None:
    timed = [row for row in rows if "first_us" in row]
    console.print(table(timed, regions))
    for row in rows:
        if "refused" in row:
            console.print(f"refused: {row['region']}: {row['refused']}")
    apart = [row for row in timed if row["family"] != "transpose"]
    groups = {family: [row for row in timed if row["family"] == family] for family in sorted({r["family"] for r in timed})}
    for name, group in {**groups, "all but transposes": apart}.items():
        best = f"best of 3 {mean(group, 'regret_best_of_3')}, best of 8 {mean(group, 'regret_best_of_8')}"
        console.print(f"{name}: {len(group)} regions, first choice {mean(group, 'regret_first')}, {best}")
    console.print(f"solve time: median {statistics.median(row['solve_ms'] for row in timed):.2f} ms a region")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="a configured build folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sweep", type=int, default=24, help="schedules that the solver did not rank, per region")
    parser.add_argument("--regions", type=pathlib.Path, nargs="*", default=(HERE / "held_out.txt", HERE / "tuned.txt"), help="files")
    arguments = parser.parse_args()
    console = Console(width=160)
    program = build(arguments.build)
    for regions in arguments.regions:
        rows = measure(program, regions, arguments.threads, arguments.sweep)
        report(rows, regions.stem, console)
        name = f"solver_regret_{regions.stem}_{arguments.threads}thread.jsonl"
        (ROOT / "benchmarks" / "results" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
