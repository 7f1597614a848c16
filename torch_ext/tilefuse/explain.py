"""``tilefuse.explain``: what was fused, with which schedule, at which predicted cost, and why the rest was not."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tilefuse.backend import CompiledGraph, backend, collect_graphs, regions_of
from tilefuse.errors import UserError
from tilefuse.library import operators
from tilefuse.options import Options
from tilefuse.pins import require_pins

__all__ = ["Report", "explain"]

_NO_GRAPH: dict[str, list[Any]] = {"launches": [], "nodes": [], "edges": []}


class Report:
    """The answer of ``explain``. ``print`` it, take ``json()`` (schema: configs/explain.schema.json), or look at ``html``."""

    def __init__(self, graphs: Sequence[CompiledGraph]) -> None:
        self._graphs = [_graph_report(graph) for graph in graphs]

    def json(self) -> dict[str, Any]:
        return {"version": 1, "graphs": self._graphs}

    def regions(self) -> Iterator[Mapping[str, Any]]:
        """Every fused region of every graph."""
        for graph in self._graphs:
            yield from graph.get("regions", [])

    def source(self, region: str) -> str:
        """The generated source of a region, by name. KeyError if there is none of that name."""
        for candidate in self.regions():
            if candidate["name"] == region:
                return candidate["source"]
        raise KeyError(region)

    def html(self, path: str | os.PathLike[str], title: str = "TileFuse") -> None:
        """Writes the report as one HTML file that needs nothing else: the graph as a picture, and all about what is clicked."""
        try:
            page = operators().report_page(json.dumps(self.json()), title)
        except ValueError as error:
            raise UserError(str(error)) from None
        pathlib.Path(path).write_text(page, encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join(line for graph in self._graphs for line in _lines(graph))

    __repr__ = __str__


def explain(model: Callable[..., Any], *inputs: Any, options: Mapping[str, Any] | None = None, **kwargs: Any) -> Report:
    """Compiles ``model`` for these inputs, runs it once, and reports; backward, too, where results have gradients.

    The model's own compiled code stays as it is, and so does every ``.grad``.
    """

    def explained(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return backend(graph_module, example_inputs, options=options)

    with collect_graphs() as graphs:
        result = torch.compile(model, backend=explained)(*inputs, **kwargs)
        _run_backward(model, (inputs, kwargs), result)
    require_pins(Options.parse(options=options).pins, {name for graph in graphs for name in regions_of(graph.answer)})
    return Report(graphs)


def _run_backward(model: Callable[..., Any], arguments: Any, result: Any) -> None:
    """Backward graphs are compiled when they are first run."""

    def with_gradient(values: Any) -> list[torch.Tensor]:
        return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor) and value.requires_grad]

    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    results, sources = with_gradient(result), with_gradient([parameters, arguments])
    if not results or not sources:
        return
    try:
        torch.autograd.grad(results, sources, [torch.ones_like(value) for value in results], allow_unused=True)
    except RuntimeError as error:
        warnings.warn(f"tilefuse: explain leaves the backward graphs out, which do not run: {error}", stacklevel=3)


def _graph_report(graph: CompiledGraph) -> dict[str, Any]:
    base: dict[str, Any] = {"role": graph.role, "milliseconds": graph.milliseconds}
    if graph.answer["op"] is None:
        return base | {"fallback_reason": graph.answer["fallback_reason"], "regions": [], "graph": _NO_GRAPH, "unfused_edges": []}
    return base | json.loads(operators().report(graph.answer["report_id"]))


def _lines(graph: Mapping[str, Any]) -> Iterator[str]:
    yield f"{graph['role']} graph"
    if reason := graph.get("fallback_reason"):
        yield f"  runs with plain PyTorch: {reason}"
        return
    for fault in graph.get("faults", []):
        yield f"  {fault}"
    for region in graph["regions"]:
        yield from _region_lines(region)
    edges = graph["unfused_edges"]
    yield f"  {len(edges)} edges not fused"
    grouped: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        name = f"%{edge['value']} -> %{edge['consumer']}"
        grouped.setdefault((edge["reason"], edge["text"]), []).append(name)
    for (kind, text), names in sorted(grouped.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(names[:4]) + (f", and {len(names) - 4} more" if len(names) > 4 else "")
        yield f"    {kind}: {text}"
        yield f"      {shown}"


def _region_lines(region: Mapping[str, Any]) -> Iterator[str]:
    yield f"  region {region['name']}"
    yield f"    ops        {', '.join(region['ops'])}"
    yield f"    predicted  {region['predicted_us']:.1f} us, {region['bytes'] / 1e6:.3f} MB moved"
    if tuned := region.get("tuned"):
        times = ", ".join("does not build" if time is None else f"{time:.1f}" for time in tuned["measured_us"])
        yield f"    measured   {times} us; schedule {tuned['chosen'] + 1} taken"
    if region.get("refusal"):
        yield f"    runs with plain PyTorch: {region['refusal']}"
    for line in region.get("user_source", [])[:3]:
        yield f"    from       {line}"
    for line in region["schedule"].splitlines():
        yield f"    {line}"
