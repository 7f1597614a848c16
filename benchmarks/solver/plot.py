"""A picture of one set's rows: predicted beside measured time of the schedules, and how regret is distributed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 380, 64, 40, 330  # of a panel, and of the axes in it
SIDE = BOTTOM - TOP
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#666666")
MOST_POINTS = 24  # of a region: the picture stays small
MOST_REGRET = 0.3
Row = Mapping[str, Any]


def _text(x: float, y: float, text: str, how: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{how}"{more}>{text}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, colour: str = "#dddddd", dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"{dashed}/>'


def _axes(left: float, title: str, x_name: str, y_name: str) -> Iterator[str]:
    yield _text(left + SIDE / 2, TOP - 14, title, more=' font-weight="bold"')
    yield _text(left + SIDE / 2, BOTTOM + 38, x_name)
    middle = TOP + SIDE / 2
    yield _text(left - 46, middle, y_name, more=f' transform="rotate(-90 {left - 46:.1f} {middle:.1f})"')
    yield f'<rect x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#888888"/>'


def _legend(left: float, names: Sequence[str], colours: Mapping[str, str], top: float) -> Iterator[str]:
    for i, name in enumerate(names):
        yield f'<circle cx="{left}" cy="{top + 16 * i - 4:.1f}" r="4" fill="{colours[name]}"/>'
        yield _text(left + 9, top + 16 * i, name, "start")


def _thinned(pairs: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    return pairs[:: max(1, -(-len(pairs) // MOST_POINTS))]


def _prices(rows: Sequence[Row], left: float) -> Iterator[str]:
    points = [(row["family"], *pair) for row in rows for pair in _thinned(row.get("priced", ()))]
    families = sorted({row["family"] for row in rows})
    colours = dict(zip(families, COLOURS, strict=False))
    times = [time for _, *pair in points for time in pair] or [1.0, 10.0]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    at: Callable[[float], float] = lambda us: SIDE * (math.log10(us) - low) / max(high - low, 1)  # noqa: E731
    yield from _axes(left, "schedules", "predicted, us", "measured, us")
    for power in range(low, high + 1):
        offset = at(10.0**power)
        yield _line(left + offset, TOP, left + offset, BOTTOM)
        yield _line(left, BOTTOM - offset, left + SIDE, BOTTOM - offset)
        yield _text(left + offset, BOTTOM + 18, f"{10.0**power:g}")
        yield _text(left - 6, BOTTOM - offset + 4, f"{10.0**power:g}", "end")
    yield _line(left, BOTTOM, left + SIDE, TOP, "#888888", "4 3")
    for family, predicted, measured in points:
        place = f'cx="{left + at(predicted):.1f}" cy="{BOTTOM - at(measured):.1f}"'
        yield f'<circle {place} r="1.8" fill="{colours[family]}" fill-opacity="0.5"/>'
    yield from _legend(left + 14, families, colours, TOP + 20)


def _regrets(rows: Sequence[Row], left: float) -> Iterator[str]:
    kinds = {"first choice": "regret_first", "best of 3": "regret_best_of_3", "best of 8": "regret_best_of_8"}
    colours = dict(zip(kinds, COLOURS, strict=False))
    yield from _axes(left, f"{len(rows)} regions", "regret, %", "regions with no more, %")
    for step in range(0, 7):
        share = step / 6
        yield _line(left + SIDE * share, TOP, left + SIDE * share, BOTTOM)
        yield _text(left + SIDE * share, BOTTOM + 18, f"{100 * MOST_REGRET * share:.0f}")
    for step in range(0, 6):
        yield _line(left, BOTTOM - SIDE * step / 5, left + SIDE, BOTTOM - SIDE * step / 5)
        yield _text(left - 6, BOTTOM - SIDE * step / 5 + 4, f"{20 * step}", "end")
    for name, key in kinds.items():
        steps, share = [(left, 0.0)], 0.0
        for place, regret in enumerate(sorted(row[key] for row in rows if row[key] <= MOST_REGRET)):
            x = left + SIDE * regret / MOST_REGRET
            steps += [(x, share), (x, share := (place + 1) / len(rows))]
        steps.append((left + SIDE, share))
        places = " ".join(f"{x:.1f},{BOTTOM - SIDE * share:.1f}" for x, share in steps)
        yield f'<polyline points="{places}" fill="none" stroke="{colours[name]}" stroke-width="2"/>'
    yield from _legend(left + SIDE - 100, list(kinds), colours, BOTTOM - 48)


def picture(rows: Sequence[Row]) -> str:
    """SVG of rows that were timed, of at least one region."""
    size = f'width="{2 * WIDTH}" height="{HEIGHT}" viewBox="0 0 {2 * WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    body = [*_prices(rows, LEFT), *_regrets(rows, WIDTH + LEFT)]
    return "\n".join((head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>", ""))
