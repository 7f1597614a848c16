"""docs/coverage.md says what the import table does today."""

import json
import sys

import torch
from test_repository import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import coverage_table  # noqa: E402


def test_the_page_is_fresh():
    wanted = coverage_table.page(json.loads(coverage_table.EXPORTED.read_text()))
    assert coverage_table.PAGE.read_text() == wanted, "run tools/coverage_table.py"


def test_what_is_listed_as_a_call_is_one():
    """Seen from outside: operators of each kind through the backend."""
    from tilefuse.backend import collect_graphs

    def regions_and_calls(function, *inputs):
        torch._dynamo.reset()
        with torch.no_grad(), collect_graphs() as graphs, torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            torch.compile(function, backend="tilefuse", fullgraph=True)(*inputs)
        (graph,) = graphs
        return len(graph.answer["regions"]), graph.answer["op"]

    imported = frozenset(coverage_table.operators().imported_operators().split("\n"))
    kind = lambda overload: coverage_table.kind_of(overload, imported)  # noqa: E731
    aten, x = torch.ops.aten, torch.randn(4, 8)
    assert kind(aten.tanh.default) == "fuses"
    assert regions_and_calls(lambda x: torch.tanh(x), x)[0] == 1
    assert kind(aten.mm.default) == "where it pays"
    assert kind(aten.topk.default) == "Call"
    regions, op = regions_and_calls(lambda x: torch.topk(x, 2).values, x)
    assert regions == 0
    assert op is not None
    assert kind(aten.nonzero.default) == "refused"
    assert regions_and_calls(lambda x: torch.nonzero(x), x)[1] is None


def test_the_operators_page_is_fresh():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import ops_page

    rows = [json.loads(line) for line in ops_page.RESULTS.read_text().splitlines()]
    assert {row["case"] for row in rows} == set(ops_page.OPS)
    assert ops_page.PAGE.read_text() == ops_page.page(rows), "run benchmarks/ops_page.py"
