import json
import pathlib

import jsonschema
import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import graphs_compiled

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "configs" / "explain.schema.json").read_text())


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


@pytest.fixture(scope="module")
def report():
    with torch.no_grad():
        return tilefuse.explain(Block().eval(), torch.randn(4, 32))


def test_json_validates_against_its_schema(report):
    jsonschema.validate(report.json(), SCHEMA)


def test_every_unfused_edge_has_a_typed_reason():
    (graph,) = tilefuse.explain(lambda x: torch.sort(x * 2).values.exp(), torch.randn(4, 32)).json()["graphs"]
    assert {edge["reason"] for edge in graph["unfused_edges"]} == {"OpaqueConsumer", "OpaqueProducer"}
    for edge in graph["unfused_edges"]:
        assert edge["text"] and edge["value"] and edge["consumer"]


def test_edges_are_counted_in_words():
    one = tilefuse.explain(lambda x: torch.sort(x * 2).values, torch.randn(4, 32))
    assert "  1 edge not fused" in str(one).splitlines()
    none = tilefuse.explain(lambda x: x * 2, torch.randn(4, 32))
    assert "  0 edges not fused" in str(none).splitlines()


def test_regions_show_operators_source_schedule_and_cost(report):
    regions = list(report.regions())
    assert regions
    for region in regions:
        assert region["ops"] and region["predicted_us"] > 0 and "lanes" in region["schedule"]
        assert 'extern "C" void' in report.source(region["name"])
    assert any("test_explain.py" in line for region in regions for line in region["user_source"])


def test_the_graph_of_the_report_holds_every_region_and_every_edge(report):
    for graph in report.json()["graphs"]:
        nodes, edges, launches = (graph["graph"][key] for key in ("nodes", "edges", "launches"))
        uses = [launches.count(region) for region in range(len(graph["regions"]))]
        assert uses == [region["uses"] for region in graph["regions"]]
        assert {node["launch"] for node in nodes} == {None, *range(len(launches))}
        for node in nodes:
            assert (node["launch"] is None) == (node["kind"] != "operator")
            if node["launch"] is not None:
                assert node["origin"] in graph["regions"][launches[node["launch"]]]["ops"]
        assert all(edge["from"] < edge["to"] and edge["bytes"] > 0 for edge in edges)
        # An edge between two computing nodes or calls is inside of one launch, or has a reason.
        reasons = {(edge["value"], edge["consumer"]) for edge in graph["unfused_edges"]}
        computing = [edge for edge in edges if nodes[edge["from"]]["kind"] in ("operator", "call")]
        assert computing
        for edge in computing:
            first, second = nodes[edge["from"]], nodes[edge["to"]]
            inside = first["launch"] is not None and first["launch"] == second["launch"]
            assert inside != ((edge["value"], second["name"]) in reasons)
        assert len(reasons) == len(graph["unfused_edges"])


def test_savings_are_counted_by_operators_of_the_framework():
    """A norm that is alone saves nothing, however many nodes it has here; beside another operator, what passes between them."""
    x = torch.randn(64, 256)
    with torch.no_grad():
        (alone,) = tilefuse.explain(lambda x: F.layer_norm(x, (256,)), x).regions()
        (joined,) = tilefuse.explain(lambda x: F.gelu(F.layer_norm(x, (256,))), x).regions()
    assert alone["bytes_saved"] == 0 and alone["apart_us"] == alone["predicted_us"]
    assert joined["bytes_saved"] == 2 * 64 * 256 * 4 and joined["apart_us"] > joined["predicted_us"]


def test_text_names_regions_and_reasons(report):
    text = str(report)
    reasons = {edge["reason"] for graph in report.json()["graphs"] for edge in graph["unfused_edges"]}
    assert "region" in text and all(reason in text for reason in reasons)


def test_explain_leaves_compiled_code_alone():
    model = torch.compile(Block().eval(), backend="tilefuse")
    x = torch.randn(4, 32)
    with torch.no_grad():
        model(x)
        before = graphs_compiled()
        tilefuse.explain(Block().eval(), x)
        model(x)
    assert graphs_compiled() <= before + 1


def test_training_shows_its_backward_graph_and_leaves_gradients_alone():
    layer = torch.nn.LayerNorm(64)
    x = torch.randn(8, 64, requires_grad=True)
    graphs = tilefuse.explain(layer, x).json()["graphs"]
    assert [graph["role"] for graph in graphs] == ["forward", "backward"]
    assert all(graph["regions"] for graph in graphs)
    assert x.grad is None and all(parameter.grad is None for parameter in layer.parameters())
    with torch.no_grad():
        assert [graph["role"] for graph in tilefuse.explain(layer, x).json()["graphs"]] == ["inference"]


def test_a_backward_that_does_not_run_is_said():
    def refuse(gradient):
        raise RuntimeError("no way back")

    x = torch.randn(8, requires_grad=True) * 1
    x.register_hook(refuse)
    with pytest.warns(UserWarning, match="leaves the backward graphs out, which do not run: no way back"):
        report = tilefuse.explain(torch.exp, x)
    assert "forward" in [graph["role"] for graph in report.json()["graphs"]]
