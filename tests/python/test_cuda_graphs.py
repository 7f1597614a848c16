"""Which graphs are handed to torch's trees of CUDA graphs, and how; ``tests/gpu_device/test_cuda_graphs.py`` replays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.cudagraph_trees as trees
from tilefuse.cuda_graphs import CudaGraphs
from tilefuse.errors import TileFuseWarning
from tilefuse.options import Options
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.fixture(autouse=True)
def built_for_cuda():
    if torch.version.cuda is None:
        pytest.skip("SKIPPED, no CUDA graph is recorded: this torch was not built for CUDA")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What torch was asked to record."""
    asked: list[dict[str, Any]] = []

    def record(model: Callable[..., Any], inputs: list[Any], static: Any, **more: Any) -> Callable[..., Any]:
        asked.append({"static": list(static), "inputs": inputs, **more})
        return lambda inputs: model(inputs)

    monkeypatch.setattr(trees, "cudagraphify_impl", record)
    return asked


def _graph(*devices: str, names: tuple[str, ...] = ("a", "b")) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """The product of two fake tensors on these devices, as AOTAutograd would hand it over, and the tensors."""
    with FakeTensorMode():
        tensors = [torch.empty(() if device == "cpu" else (4, 8), device=device) for device in devices]
        graph = torch.fx.Graph()
        placeholders = [graph.placeholder(name) for name in names]
        result = graph.call_function(torch.ops.aten.mul.Tensor, tuple(placeholders))
        for node, value in zip([*placeholders, result], [*tensors, tensors[0] * tensors[1]], strict=True):
            node.meta["val"] = value
    graph.output((result,))
    return torch.fx.GraphModule(torch.nn.Module(), graph), tensors


def _replayed(graphs: CudaGraphs, role: str, *devices: str, **more: Any) -> bool:
    """Whether a graph is replayed when it is called, and not as it was compiled."""
    boxed = lambda inputs: [inputs[0]]  # noqa: E731
    module, inputs = _graph(*devices, **more)
    run = graphs.replayed(module, inputs, role, boxed)
    return run is not boxed and run(inputs)[0] is inputs[0]


def test_the_option_and_the_mode_are_one():
    assert Options.parse(options={"cudagraph": True}).cudagraph and Options.parse(mode="reduce-overhead").cudagraph
    assert not Options.parse().cudagraph
    assert Options.parse(mode="reduce-overhead").cache_tag() != Options.parse().cache_tag()
    assert "cudagraph" not in Options.parse(mode="reduce-overhead").to_json(1)


def test_an_inference_graph_is_recorded(recorded):
    assert _replayed(CudaGraphs(2, True), "inference", "cuda", "cuda")
    (graph,) = recorded
    assert graph["is_inference"] and not graph["is_backward"] and graph["device_index"] == 0
    assert graph["static"] == []


def test_forward_and_backward_are_recorded(recorded):
    graphs = CudaGraphs(2, True)
    assert _replayed(graphs, "forward", "cuda", "cuda")
    assert _replayed(graphs, "backward", "cuda", "cuda", names=("saved", "tangents_1"))
    assert [graph["is_backward"] for graph in recorded] == [False, True]
    assert [graph["static"] for graph in recorded] == [[], [0]]  # what forward saved stays where it is


def test_nothing_is_recorded_where_nobody_asks_or_on_the_cpu(recorded):
    assert not _replayed(CudaGraphs(2, False), "inference", "cuda", "cuda")
    assert not _replayed(CudaGraphs(2, True), "inference", "cpu", "cpu")
    assert not recorded


def test_a_graph_of_two_devices_runs_kernel_by_kernel_and_says_so(recorded):
    graphs = CudaGraphs(2, True)
    with pytest.warns(TileFuseWarning, match="not replayed as a CUDA graph.*cpu"):
        assert not _replayed(graphs, "forward", "cuda", "cpu")
    assert not _replayed(graphs, "backward", "cuda", "cuda", names=("saved", "tangents_1"))
    assert not recorded


def test_sizes_are_known_when_a_graph_is_recorded(recorded):
    module, (x, y) = _graph("cuda", "cuda")
    run = CudaGraphs(2, True).replayed(module, [object(), y], "inference", lambda inputs: inputs)
    assert not recorded  # a size was a symbol
    assert run([3, y]) == [3, y] and recorded[0]["inputs"] == [3, y]


def test_a_changed_input_is_not_recorded(recorded):
    module, tensors = _graph("cuda", "cuda")
    (result,) = module.graph.find_nodes(op="output")
    with module.graph.inserting_before(result):
        placeholder = next(iter(module.graph.nodes))
        written = module.graph.call_function(torch.ops.aten.copy_.default, (placeholder, result.args[0][0]))
    written.meta["val"] = tensors[0]
    boxed = lambda inputs: inputs  # noqa: E731
    with pytest.warns(TileFuseWarning, match="changes an input"):
        assert CudaGraphs(2, True).replayed(module, tensors, "inference", boxed) is boxed


def test_a_backward_graph_behind_a_replay_says_that_it_runs(recorded, monkeypatch):
    graphs, said = CudaGraphs(2, True), []
    assert _replayed(graphs, "forward", "cuda", "cuda")
    manager = type("Manager", (), {"set_to_running_backward": lambda self: said.append("backward")})()
    monkeypatch.setattr(trees, "get_manager", lambda device, create_if_none_exists: manager)
    module, tensors = _graph("cuda", "cpu", names=("saved", "tangents_1"))
    with pytest.warns(TileFuseWarning, match="not replayed as a CUDA graph"):
        run = graphs.replayed(module, tensors, "backward", lambda inputs: [inputs[0]])
    assert run([1]) == [1] and said == ["backward"]
