"""Graphs of CUDA tensors without a GPU: fake ones are captured, planned and explained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from engine import captured_on_gpu
from tilefuse.library import operators
from tilefuse.options import Options

TARGET = {"target": "cuda-sm90a"}


@pytest.fixture(autouse=True)
def built_for_cuda():
    if torch.version.cuda is None:
        pytest.skip("SKIPPED, no CUDA graph is planned: this torch was not built for CUDA")


def _captured(function: Callable[..., Any], *shapes: Any, dtype: torch.dtype = torch.float32) -> str:
    """The graph of a function of CUDA tensors, as it is captured. A shape of () is a number on the CPU."""
    def inputs() -> list[torch.Tensor]:
        return [torch.empty(shape, dtype=dtype, device="cuda" if shape else "cpu") for shape in shapes]

    return captured_on_gpu(function, inputs)


def _planned(graph: str, **options: Any) -> dict[str, Any]:
    return json.loads(operators().explain_only(graph, json.dumps({**TARGET, **options})))


def test_a_graph_is_planned_for_its_gpu():
    report = _planned(_captured(lambda x: torch.softmax(F.gelu(x), -1), (512, 1024)))
    assert report["target"] == "cuda-sm90a"
    assert [region["name"] for region in report["regions"]] == ["gelu_softmax"]
    region = report["regions"][0]
    assert "__global__" in region["source"] and "schedule gelu_softmax for cuda-sm90a" in region["schedule"]
    assert "executable inference on cuda:0 for sm_90a" in report["executable"]


def _numbers(report: dict[str, Any]) -> str | None:
    """What the first region multiplies, where that is not in 16 bits."""
    found = re.search(r"^  numbers  (\w+)$", report["regions"][0]["schedule"], re.MULTILINE)
    return found and found[1]


def test_floats_are_rounded_to_tf32_only_in_products_of_torch_and_where_that_is_allowed():
    shapes = ((1024, 1024), (1024, 1024))
    product = _captured(lambda x, w: torch.relu(x @ w), *shapes)
    assert _numbers(_planned(product, products="own", target="cuda-sm80")) == "tf32x3"
    assert _numbers(_planned(product, products="own", tf32=True, target="cuda-sm80")) == "tf32"
    # There, lanes make as much of products of f32 as tensor cores make of three: the library keeps them.
    assert "call aten::mm" in _planned(product, products="own")["executable"]
    assert _numbers(_planned(product, products="own", tf32=True)) == "tf32"
    by_hand = _captured(lambda x, w: (x[:, :, None] * w).sum(1), *shapes)
    assert _numbers(_planned(by_hand, tf32=True, target="cuda-sm80")) == "tf32x3"


def test_products_of_bytes_are_made_of_bytes():
    graph = _captured(lambda x, w: torch._int_mm(x, w) * 0.5, (1024, 1024), (1024, 1024), dtype=torch.int8)
    report = _planned(graph, products="own")
    assert _numbers(report) == "int8"
    assert "multiply_tiles<signed char" in report["regions"][0]["source"]
    assert not _planned(graph)["regions"] or "_int_mm" in _planned(graph)["executable"]


def _rounds() -> bool:
    options = Options.parse()
    says = json.loads(options.to_json(1)).get("tf32", False)
    assert ("tf32" in options.cache_tag()) is says
    return says


def test_every_setting_of_torch_says_whether_floats_are_rounded_to_tf32():
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        assert not _rounds()
        matmul.allow_tf32 = True
        assert _rounds()
        torch.set_float32_matmul_precision("highest")
        assert not _rounds()
        torch.set_float32_matmul_precision("high")
        assert _rounds()
        matmul.fp32_precision = "ieee"
        assert not _rounds()
        matmul.fp32_precision = "tf32"
        assert _rounds()
    finally:
        torch.set_float32_matmul_precision("highest")
        matmul.fp32_precision = before


def test_products_stay_with_the_library():
    report = _planned(_captured(lambda x, w, b: F.gelu(F.linear(x, w, b)), (64, 128), (256, 128), (256,)))
    assert "call aten::addmm" in report["executable"]
    assert {edge["reason"] for edge in report["unfused_edges"]} == {"OpaqueProducer"}


def test_products_are_taken_in_where_that_is_chosen():
    shapes = ((512, 128), (256, 128), (256,))
    graph = _captured(lambda x, w, b: F.gelu(F.linear(x, w, b)), *shapes, dtype=torch.bfloat16)
    report = _planned(graph, products="own")
    assert len(report["regions"]) == 1 and "call" not in report["executable"]
    assert "  product  %" in report["regions"][0]["schedule"]
    assert "multiply_tiles<bf16" in report["regions"][0]["source"]


def _weighed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def test_two_products_and_what_lies_between_are_one_kernel():
    shape = (2, 8, 1024, 64)
    report = _planned(_captured(_weighed, shape, shape, shape, dtype=torch.bfloat16), products="own")
    assert len(report["regions"]) == 1 and "call" not in report["executable"]
    assert "  chain    %" in report["regions"][0]["schedule"]
    assert "  multiply wgmma" in report["regions"][0]["schedule"]
    assert "add_product_in_groups<bf16" in report["regions"][0]["source"]


# What torch makes of scaled_dot_product_attention on a GPU. For gradients, it `keeps` logarithms of sums.
ATTENTION: dict[str, Callable[..., Any]] = {
    "flash": lambda q, k, v, keeps, p=0.0: torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, p, True),
    "efficient": lambda q, k, v, keeps, p=0.0: torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, keeps, p),
    "cudnn": lambda q, k, v, keeps, p=0.0: torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, keeps, p),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_of_gpus_is_a_chain(name):
    shape = (2, 8, 1024, 64)
    graph = _captured(lambda *given: ATTENTION[name](*given, False)[0], shape, shape, shape, dtype=torch.bfloat16)
    report = _planned(graph, products="own")
    assert len(report["regions"]) == 1 and "call" not in report["executable"]
    assert "  chain    %" in report["regions"][0]["schedule"]
    assert "call aten::_scaled_dot_product" in _planned(graph)["executable"]


def _keeping(name: str, shape: tuple[int, ...], dropout: float = 0.0, dtype: torch.dtype = torch.bfloat16) -> str:
    """A forward pass: twice the result, the logarithms, and what draws dropout's numbers again."""
    def forward(q, k, v):
        result, *kept = (value for value in ATTENTION[name](q, k, v, True, dropout) if isinstance(value, torch.Tensor))
        return result * 2, *kept[:3]

    return _captured(forward, shape, shape, shape, dtype=dtype)


@pytest.mark.parametrize("name, length", [("flash", 1024), ("flash", 1000), ("efficient", 1024), ("cudnn", 1000)])
@pytest.mark.parametrize("width", [64, 128])
def test_attention_of_a_forward_pass_stores_its_logarithms_beside_it(name, length, width):
    graph = _keeping(name, (2, 8, length, width))
    report = _planned(graph, products="own")
    (region,) = report["regions"]
    assert "  chain    %" in region["schedule"]
    assert len(region["outputs"]) == 2
    assert "call aten::_scaled_dot_product" not in report["executable"]
    assert report["executable"].count("call aten::empty") == 2  # memory that no kernel writes, and nobody reads
    # By default, as in inference, attention stays with the library.
    assert "call aten::_scaled_dot_product" in _planned(graph)["executable"]


@pytest.mark.parametrize(
    "name, length, dropout, dtype",
    [
        *((name, 1024, 0.1, torch.bfloat16) for name in ATTENTION),
        ("efficient", 1000, 0.0, torch.bfloat16),  # whose logarithms are of 1024 queries
        ("efficient", 1024, 0.0, torch.float32),  # whose weights tensor cores would round
    ],
)
def test_attention_of_a_forward_pass_that_no_chain_computes_stays_a_call(name, length, dropout, dtype):
    report = _planned(_keeping(name, (2, 8, length, 64), dropout, dtype), products="own")
    assert f"call aten::_scaled_dot_product_{name}_attention" in report["executable"]
    assert {edge["reason"] for edge in report["unfused_edges"]} == {"OpaqueProducer"}


def _changed(change: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, result: torch.Tensor) -> Any:
    spread = torch.zeros(q.shape[:3], device="cuda")
    seed = torch.zeros((), dtype=torch.long, device="cuda")
    backward = torch.ops.aten._scaled_dot_product_flash_attention_backward
    return backward(change, q, k, v, result, spread, None, None, q.shape[2], k.shape[2], 0.0, True, seed, seed)


def test_gradients_of_attention_are_two_chains():
    graph = _captured(_changed, *[(2, 8, 1024, 64)] * 5, dtype=torch.bfloat16)
    report = _planned(graph, products="own")
    assert len(report["regions"]) == 2 and "call" not in report["executable"]
    chains = [next(line for line in region["schedule"].split("\n") if "  chain " in line) for region in report["regions"]]
    assert [line.count("%") for line in chains] == [3, 4]
    assert "call aten::_scaled_dot_product_flash_attention_backward" in _planned(graph)["executable"]


def test_gradients_that_registers_have_no_place_for_stay_a_call():
    graph = _captured(_changed, *[(2, 8, 1024, 128)] * 5, dtype=torch.bfloat16)
    assert len(_planned(graph, products="own")["regions"]) == 2
    executable = _planned(graph, products="own", target="cuda-sm80")["executable"]
    assert "call aten::_scaled_dot_product_flash_attention_backward" in executable


def test_a_chain_that_is_to_be_rounded_as_in_eager_stays_in_parts():
    shape = (2, 8, 1024, 64)
    graph = _captured(_weighed, shape, shape, shape, dtype=torch.bfloat16)
    report = _planned(graph, products="own", numerics="eager")
    assert len(report["regions"]) == 3
    assert all("  chain    %" not in region["schedule"] for region in report["regions"])


def test_a_conversion_in_front_of_a_product_on_tensor_cores_is_a_kernel_of_its_own():
    shapes = ((1024, 1024), (1024, 1024))
    report = _planned(_captured(lambda x, w: torch.relu(x.half() @ w.half()), *shapes), products="own")
    assert "  copies   bulk" in report["regions"][-1]["schedule"]
    assert re.search("multiply_in_(bulk|turn)<f16", report["regions"][-1]["source"])


def test_factories_are_made_on_their_device():
    report = _planned(_captured(lambda x: x + torch.arange(64, device=x.device), (32, 64)))
    assert len(report["regions"]) == 1 and "call" not in report["executable"]


def test_factories_on_the_cpu_run_with_torch():
    report = _planned(_captured(lambda x: (x * 2, torch.arange(64) + 1), (32, 64)))
    assert "call aten::arange" in report["executable"] and ", on cpu" in report["executable"]
    assert len(report["regions"]) == 1


def test_numbers_from_the_cpu_are_constants_of_kernels():
    report = _planned(_captured(lambda x: x * torch.full((), 0.5), (32, 64)))
    assert len(report["regions"]) == 1 and "call" not in report["executable"]


def test_a_number_that_is_returned_is_on_the_cpu():
    def both(x):
        half = torch.full((), 0.5)
        return x * half, half

    executable = _planned(_captured(both, (32, 64)))["executable"]
    assert "call aten::full() -> %full" in executable and ", on cpu" in executable


def test_numbers_given_on_the_cpu_are_read_by_torch():
    report = _planned(_captured(lambda x, by: (x * by).exp().sum(), (32, 64), ()))
    assert "call aten::mul.Tensor" in report["executable"]
    assert [region["name"] for region in report["regions"]] == ["exp_sum"]


def test_what_a_gpu_does_not_compute_says_so():
    report = _planned(_captured(lambda x: x.double().sin().exp(), (32, 64)))
    refusals = [region["refusal"] for region in report["regions"] if region["refusal"]]
    assert refusals == ["cannot compute %sin in a GPU kernel: there is no sin of f64 for GPUs yet"]
    assert {edge["reason"] for edge in report["unfused_edges"]} == {"NotSchedulable"}


def test_merges_that_cost_time_are_refused():
    """The mean of everything is one block's work where it is fused into what reads it."""
    report = _planned(_captured(lambda x: x - x.mean(), (4096, 4096)))
    assert len(report["regions"]) == 2
    assert [edge["reason"] for edge in report["unfused_edges"]] == ["NoGain"]


def test_a_cpu_and_a_cuda_tensor_are_torchs_own_error():
    with pytest.raises(Exception, match="device"):
        _captured(lambda x: x + torch.ones(64), (32, 64))


def test_no_driver_is_a_reason():
    graph = _captured(lambda x: x * 2 + 1, (32, 64))
    if torch.cuda.is_available():
        pytest.skip("SKIPPED: there is a driver")
    answer = json.loads(operators().compile(graph, "{}"))
    assert answer["op"] is None and "there is no NVIDIA driver" in answer["fallback_reason"]


def test_writes_between_devices_stay_with_torch():
    def write(x, y):
        y.copy_(x.sum())
        return x + y

    graph = _captured(write, (32, 64), ())
    answer = json.loads(operators().compile(graph, "{}"))
    assert answer["op"] is None
