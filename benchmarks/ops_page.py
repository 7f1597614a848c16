"""docs/ops.md: every ready operator with its definition and its speed. Written by ``run.py --ops``, or alone:

    python benchmarks/ops_page.py                   from benchmarks/results/ops.jsonl

A test compares the page with what this program would write.
"""

from __future__ import annotations

import ast
import inspect
import json
import pathlib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from operator_cases import LIBRARY, OPS
from tilefuse import ops

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "ops.md"
RESULTS = HERE / "results" / "ops.jsonl"

INTRODUCTION = """\
# tilefuse.ops

Written by `benchmarks/run.py --ops`; a test keeps the definitions fresh. How to define one's own: [custom_ops.md](custom_ops.md).

```python
import torch
from tilefuse import ops

x, weight = torch.randn(8, 64), torch.ones(64)
y = ops.rms_norm(x, weight)                # also torch.ops.tilefuse.rms_norm
ops.rms_norm.plain(x, weight)              # its definition, in plain PyTorch
```

Each operator is what its definition says and nothing else; gradients, fake kernels and all data types follow from it, and kernels
of CUDA tensors as of those of the CPU. Beside these, `ops.attention_op(name, score=..., mask=...)` defines attention with functions of one's own, and `ops.patch(model)` puts
the operators into a model.

## Speed

One thread of a quiet Zen 4 host; forward, in cache; medians of interleaved runs, ratios of the other's time to ours. Eager and Inductor run the definition: Inductor through `torch.compile`, the operator called as it is. Where PyTorch has a kernel written by
hand for the whole definition, the last column names it; "= eager" says that eager is that kernel.

"""


def table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = ["| operator | arguments | us | over eager | over Inductor | over torch's own |", "|---|---|---|---|---|---|"]
    for row in rows:
        us = {name: timing["median"] for name, timing in row["us"].items()}
        label, call = LIBRARY.get(row["case"], ("", None))
        ratio = lambda other: f"{us[other] / us['tilefuse']:.2f}" if other in us else ""  # noqa: B023, E731
        bold = lambda text: f"**{text}**" if text and float(text) < 0.95 else text  # noqa: E731
        own = f"{label}: {bold(ratio('torch'))}" if call else f"{label} = eager" if label else ""
        case = f"{OPS[row['case']].shape}, {row['dtype']}"
        lines.append(
            f"| `{row['case']}` | {case} | {us['tilefuse']:.1f} | {bold(ratio('eager'))} | {bold(ratio('inductor'))} | {own} |"
        )
    return lines


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    default = lambda p: "" if p.default is p.empty else f" = {p.default!r}"  # noqa: E731
    parameters = (f"{p.name}: {p.annotation}{default(p)}" for p in signature.parameters.values())
    return f"{name}({', '.join(parameters)}) -> {signature.return_annotation}".replace("torch.Tensor", "Tensor")


def definition(name: str) -> list[str]:
    """The signature, the docstring, and the function's body."""
    function = getattr(ops, name).plain
    source = textwrap.dedent(inspect.getsource(function))
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef)
    lines = source.splitlines()[tree.body[1].lineno - 1 : tree.end_lineno]
    return [f"### {name}", "", f"`{_signature(name, function)}`", "", inspect.getdoc(function) or "", "",
            "```python", *textwrap.dedent("\n".join(lines)).splitlines(), "```", ""]  # fmt: skip


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The text of docs/ops.md."""
    order = {name: position for position, name in enumerate(OPS)}
    body = [*table(sorted(rows, key=lambda row: (order[row["case"]], row["dtype"] != "f32"))), "", "## Definitions", ""]
    for name in OPS:
        body += definition(name)
    return INTRODUCTION + "\n".join(body).rstrip() + "\n"


def write() -> None:
    PAGE.write_text(page([json.loads(line) for line in RESULTS.read_text().splitlines()]))


if __name__ == "__main__":
    write()
