"""The rows of benchmarks/run.py as text: a line for each, and means over groups.

Ratios are other / TileFuse. "Of peak" is a case's operations over time and over the peak of as many cores as it has threads,
measured in the same seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
OTHERS = ("eager", "guarded", "inductor", "autotune", "openvino")
GROUPS = ("cache", "memory", "product", "conv", "compute", "model", "demo", "op")
COMPILED = ("inductor", "openvino")  # from nothing: what is tuned may find kernels that Inductor has compiled before


def ratio(row: Row, other: str) -> float | None:
    return row["us"][other]["median"] / row["us"]["tilefuse"]["median"] if other in row["us"] else None


def of_peak(row: Row, who: str = "tilefuse") -> float | None:
    """None where operations are not counted, or the processor has no known peak."""
    if "peak" not in row or who not in row["us"]:
        return None
    return row["operations"] / row["us"][who]["median"] / 1e3 / (row["peak"]["gops"] * row["threads"])


def _named(row: Row) -> str:
    return f"{row['case']} {row['dtype']} {row['threads']}t"


def line(row: Row) -> str:
    spread = row["us"]["tilefuse"]
    ratios = "".join(f"  {other} {ratio(row, other):6.2f}x" for other in OTHERS if other in row["us"])
    share = of_peak(row)
    peak = "" if share is None else f"  {100 * share:3.0f} % of peak"
    first = "  ".join(f"{k} {v:.2f} s" for k, v in row["first_call_s"].items() if k != "guarded")
    absent = "".join(f"\n    no {name}: {why}" for name, why in row.get("absent", {}).items())
    return (
        f"{row['case']:20} {row['group']:7} {row['dtype']:4} {row['threads']}t  {spread['median']:10.1f} us "
        f"({spread['p10']:.1f}..{spread['p90']:.1f}){ratios}{peak}   first: {first}   error {row['error']:.1e}{absent}"
    )


def _ratios(rows: Sequence[Row]) -> Iterator[str]:
    yield "group   against    geomean   worst  (case)                          cases"
    for group in GROUPS:
        for other in OTHERS:
            ratios = {_named(r): ratio(r, other) for r in rows if r["group"] == group and other in r["us"]}
            if ratios:
                worst = min(ratios, key=ratios.__getitem__)
                mean = statistics.geometric_mean(ratios.values())
                yield f"{group:7} {other:9} {mean:7.2f}x {ratios[worst]:7.2f}x  {worst:30} {len(ratios):5}"


def _peaks(rows: Sequence[Row]) -> Iterator[str]:
    by: dict[str, list[Row]] = {}
    for row in rows:
        if "peak" in row:
            by.setdefault(row["peak"]["instruction"], []).append(row)
    for instruction, counted in by.items():
        rates = [row["peak"]["gops"] for row in counted]
        spread = f"median of {len(rates)} cases, {min(rates):.0f}..{max(rates):.0f}"
        yield f"peak of a core by {instruction}: {statistics.median(rates):.0f} GOP/s ({spread})"
        for group in GROUPS:
            some = [row for row in counted if row["group"] == group]
            shares = {who: [share for row in some if (share := of_peak(row, who)) is not None] for who in ("tilefuse", *OTHERS)}
            text = ", ".join(f"{who} {100 * statistics.geometric_mean(s):.0f} %" for who, s in shares.items() if s)
            if text:
                yield f"    {group}, geomean of {len(some)} cases: {text}"


def _first_calls(rows: Sequence[Row]) -> Iterator[str]:
    for other in COMPILED:
        both = [(r["first_call_s"][other], r["first_call_s"]["tilefuse"]) for r in rows if other in r["first_call_s"]]
        if both:
            theirs, ours = (statistics.median(times) for times in zip(*both, strict=True))
            yield f"first call, median: {other} {theirs:.2f} s, tilefuse {ours:.2f} s"


def _absences(rows: Sequence[Row]) -> Iterator[str]:
    for name in OTHERS:
        cases = [_named(row) for row in rows if name in row.get("absent", {})]
        if cases:
            yield f"no {name} in {len(cases)} cases: {', '.join(cases)}"


def summary(rows: Sequence[Row]) -> str:
    return "\n".join((*_ratios(rows), *_peaks(rows), *_first_calls(rows), *_absences(rows)))
