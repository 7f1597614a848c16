"""Regret of the solver's choices: the chosen schedule against the fastest of a measured sweep.

    python benchmarks/solver/run.py                              all sets
    python benchmarks/solver/run.py --regions benchmarks/solver/contractions.txt --listed 32 --sweep 48 --plots docs/pictures
    python benchmarks/solver/run.py --table FILE                 the table of an earlier run

Sets of regions: `tuned.txt` was looked at while the cost model was made, `held_out.txt` was drawn at random from the
regions of whole models and was not; `contractions.txt` has the cases of the benchmarks of products and convolutions.
`draw.py` draws another. Prints a line per region and the means per family, and writes the rows to benchmarks/results/.
Timings want a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import plot
from rich.console import Console
from rich.table import Table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SETS = ("held_out", "tuned", "contractions")
REGRETS = ("regret_first", "regret_best_of_3", "regret_best_of_8")
Row = Mapping[str, Any]


def build(folder: pathlib.Path) -> pathlib.Path:
    subprocess.run(["cmake", "--build", str(folder), "--target", "solver_regret"], check=True, capture_output=True)
    return folder / "benchmarks" / "solver" / "solver_regret"


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Prices in four digits: there are a hundred of a region."""
    if "priced" in row:
        row["priced"] = [[float(f"{us:.4g}") for us in pair] for pair in row["priced"]]
    return row


def command(program: pathlib.Path, regions: pathlib.Path, arguments: argparse.Namespace) -> list[str]:
    words = [str(program), str(regions), f"--threads={arguments.threads}"]
    words += [f"--sweep={arguments.sweep}", f"--listed={arguments.listed}"]
    if arguments.filter:  # some versions of CLI11 take `--filter=` for an option without its value
        words.append(f"--filter={arguments.filter}")
    return words


def measure(program: pathlib.Path, regions: pathlib.Path, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows as they come: a set takes hours."""
    with subprocess.Popen(command(program, regions, arguments), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield _short(json.loads(line))
    if process.returncode:
        raise SystemExit(f"{program.name} failed on {regions}: {process.returncode}")


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _correlation(rows: Sequence[Row]) -> str:
    values = [row["rank_correlation"] for row in rows if "rank_correlation" in row]
    return f"{statistics.median(values):.2f}" if values else ""


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title)
    for column in (*left, *right):
        table.add_column(column, justify="left" if column in left else "right")
    return table


def region_table(rows: Sequence[Row], regions: str) -> Table:
    columns = ("timed", "first us", "best us", "predicted us", "regret", "best of 3", "best of 8", "rank corr.", "solve ms")
    result = _table(f"regret on {regions} regions", ("region", "family"), columns)
    for row in sorted(rows, key=lambda row: -row["regret_first"]):
        result.add_row(
            row["region"], row["family"], str(row["timed"]), f"{row['first_us']:.1f}", f"{row['best_us']:.1f}",
            f"{row['predicted_us']:.1f}", *(_percent(row[key]) for key in REGRETS), _correlation([row]), f"{row['solve_ms']:.2f}",
        )  # fmt: skip
    return result


def family_table(rows: Sequence[Row]) -> Table:
    columns = ("regions", "first", "median", "90th perc.", "best of 3", "best of 8", "rank corr.", "solve ms", "worst")
    result = _table("means; medians of rank correlations and of times to solve", ("family",), columns)
    families = sorted({row["family"] for row in rows})
    groups = {family: [row for row in rows if row["family"] == family] for family in families}
    for name, group in {**groups, "all but transposes": [row for row in rows if row["family"] != "transpose"]}.items():
        if not group:
            continue
        first = [row["regret_first"] for row in group]
        of_more = (statistics.mean(row[key] for row in group) for key in REGRETS[1:])
        solve = [row["solve_ms"] for row in group]
        result.add_row(
            name, str(len(group)), *map(_percent, (statistics.mean(first), statistics.median(first), percentile(first, 0.9))),
            *map(_percent, of_more), _correlation(group), f"{statistics.median(solve):.2f}", f"{max(solve):.1f}",
        )  # fmt: skip
    return result


def report(rows: Sequence[Row], regions: str, console: Console, plots: pathlib.Path | None) -> None:
    timed = [row for row in rows if "first_us" in row]
    for row in rows:
        if "refused" in row:
            console.print(f"refused: {row['region']}: {row['refused']}", markup=False)
    if not timed:
        return
    console.print(region_table(timed, regions))
    console.print(family_table(timed))
    if plots:
        plots.mkdir(parents=True, exist_ok=True)
        (plots / f"regret_{regions}.svg").write_text(plot.picture(timed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="a configured build folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--listed", type=int, default=96, help="schedules that the solver ranks, per region")
    parser.add_argument("--sweep", type=int, default=24, help="schedules that the solver did not rank, per region")
    parser.add_argument("--filter", default="", help="only regions with this in their names")
    sets = [HERE / f"{name}.txt" for name in SETS]
    parser.add_argument("--regions", type=pathlib.Path, nargs="*", default=sets, help="files")
    parser.add_argument("--plots", type=pathlib.Path, help="a folder for pictures of predicted times and regret")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "benchmarks" / "results", help="a folder for the rows")
    parser.add_argument("--table", type=pathlib.Path, help="print the tables of a result file and stop")
    arguments = parser.parse_args()
    console = Console(width=180)
    if arguments.table:
        rows = [json.loads(line) for line in arguments.table.read_text().splitlines()]
        return report(rows, arguments.table.stem.removeprefix("solver_regret_"), console, arguments.plots)
    program = build(arguments.build)
    for regions in arguments.regions:
        rows = []
        with (arguments.results / f"solver_regret_{regions.stem}_{arguments.threads}thread.jsonl").open("w") as file:
            for row in measure(program, regions, arguments):
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
        report(rows, regions.stem, console, arguments.plots)


if __name__ == "__main__":
    main()
