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
        raise KeyError(f"no region {region!r}; there are: {', '.join(candidate['name'] for candidate in self.regions())}")

    def html(self, path: str | os.PathLike[str], title: str = "TileFuse") -> None:
        """Writes the report as one HTML file that needs nothing else: the graph as a picture, and all about what is clicked."""
        try:
            page = operators().report_page(json.dumps(self.json()), title)
        except ValueError as error:
            raise UserError(str(error)) from None
        pathlib.Path(path).write_text(page, encoding="utf-8")

    def __str__(self) -> str:
        return operators().report_text(json.dumps(self.json())).rstrip("\n")

    __repr__ = __str__


def explain(model: Callable[..., Any], *inputs: Any, options: Mapping[str, Any] | None = None, **kwargs: Any) -> Report:
    """Compiles ``model`` for these inputs, runs it once, and reports; backward, too, where results have gradients.

    The model's own compiled code stays as it is, and so does every ``.grad``.
    """
    if not callable(model):
        raise UserError(f"tilefuse.explain wants a model or a function, got {model!r}; a file has `tilefuse explain FILE.pt2`")

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
