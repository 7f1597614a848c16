"""The benchmarks of products and attention on a GPU, without one: contestants compute the same, cases become kernels on
tensor cores, and rows, refusals and tables come out as they should. Times here are those of the CPU, and mean nothing."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from engine import captured_on_gpu
from tilefuse.library import operators
from torch.nn.attention import SDPBackend
from torch.nn.attention.flex_attention import flex_attention

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import gpu_attention  # noqa: E402
import gpu_contract  # noqa: E402
import gpu_rates  # noqa: E402
import gpu_timing  # noqa: E402

SHAPE = (2, 4, 150, 16)


@pytest.mark.parametrize("name", gpu_attention.VARIANTS)
def test_contestants_compute_the_same(name):
    variant = gpu_attention.VARIANTS[name]
    torch.manual_seed(0)
    inputs = [value.float() for value in gpu_attention.attention_inputs(variant, SHAPE, "cpu")]
    want = gpu_attention.written(variant, *inputs)
    given = gpu_attention.flex_arguments(variant, inputs)
    torch.testing.assert_close(flex_attention(*inputs[:3], **given), want, rtol=1e-4, atol=1e-4)
    try:
        call = gpu_attention.sdpa(variant, SDPBackend.MATH, inputs)
    except gpu_rates.Absent as absent:
        assert name in ("window", "alibi", "soft_cap") and str(absent) == "it has no argument for this variant"
    else:
        torch.testing.assert_close(call(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", [gpu_attention.Variant(), gpu_attention.Variant(is_causal=True), gpu_attention.Variant(window=7)])
def test_what_a_mask_leaves_out_is_not_counted(variant):
    places = torch.arange(50)
    kept = variant.looks_at(places[:, None], places[None]) if variant.has_mask else torch.ones(50, 50)
    assert variant.share(50) == pytest.approx(kept.float().mean().item())


def _planned(case: gpu_rates.RateCase) -> dict[str, Any]:
    graph = captured_on_gpu(case.function, lambda: case.inputs("cuda"))
    return json.loads(operators().explain_only(graph, json.dumps({"target": "cuda-sm90a", "products": "own"})))


CASES = {case.name + "_" + case.dtype: case for case in gpu_contract.cases() + gpu_attention.cases()}


@pytest.mark.skipif(torch.version.cuda is None, reason="SKIPPED, no CUDA graph is planned: this torch was not built for CUDA")
@pytest.mark.parametrize("name", CASES)
def test_every_case_is_computed_on_tensor_cores(name):
    report = _planned(CASES[name])
    assert "call" not in report["executable"]
    assert len(report["regions"]) == 1
    schedules = "".join(region["schedule"] for region in report["regions"])
    kind = "product" if name in {f"{case.name}_{case.dtype}" for case in gpu_contract.cases()} else "chain"
    assert schedules.count(f"\n  {kind} ") == 1


@pytest.fixture
def timed_here(monkeypatch):
    def elapsed_ms(call: Callable[[], Any], count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - begin) * 1e3 / count

    monkeypatch.setattr(gpu_timing, "elapsed_ms", elapsed_ms)


def _fails() -> torch.Tensor:
    raise RuntimeError("CUDA out of memory.\nOf 8 GiB")


def _small_cases() -> list[gpu_rates.RateCase]:
    product = gpu_contract.product_case("small", "bf16", gpu_contract.linear_gate, 300, 40, 64, "matrix")
    attention = gpu_attention.attention_case("gqa", gpu_attention.VARIANTS["gqa"], 32, 512)
    variant = gpu_attention.VARIANTS["gqa"]
    others = lambda inputs: {  # noqa: E731
        "math": lambda: gpu_attention.sdpa(variant, SDPBackend.MATH, inputs),
        "absent": lambda: gpu_attention.sdpa(variant, SDPBackend.EFFICIENT_ATTENTION, inputs),
        "failing": lambda: _fails,
    }
    return [product, dataclasses.replace(attention, others=others, eager_bytes=3e9)]


def _options(minutes: float) -> argparse.Namespace:
    return argparse.Namespace(only=None, seconds=0.01, no_inductor=True, minutes=minutes, eager_gb=2.0)


def test_rows_say_who_was_measured_and_who_was_not(timed_here, capsys):
    report = {"machine": {"device": "none"}} | gpu_rates.run(_small_cases(), "cpu", _options(9))
    product, attention = report["rows"]
    assert set(product["us"]) == {"eager", "tilefuse"} and not product["absent"]
    assert product["flops"] == 2 * 300 * 40 * 64
    assert set(attention["us"]) == {"tilefuse", "math"}
    assert attention["absent"] == {
        "eager": "it would need 3 GB",
        "absent": "its heads have keys of their own",
        "failing": "CUDA out of memory.",
    }
    for row in report["rows"]:
        assert all(value < 0.03 for value in row["error"].values())
        assert row["tflops"]["tilefuse"] == pytest.approx(row["flops"] / row["us"]["tilefuse"]["median"] / 1e6)
        assert set(row["first_call_s"]) == set(row["us"])
    capsys.readouterr()
    gpu_rates.print_table(json.loads(json.dumps(report)))
    table = capsys.readouterr().out
    assert "small" in table and "no eager: it would need 3 GB" in table
    assert "against math" in table and "of 1 cases" in table


def test_cases_without_time_are_listed(timed_here, capsys):
    report = gpu_rates.run(_small_cases(), "cpu", _options(0))
    assert report == {"rows": [], "left_out": ["small bf16", "gqa_d512_32 bf16"]}
    gpu_rates.print_summary(report)
    assert "no time was left for small bf16, gqa_d512_32 bf16" in capsys.readouterr().out


@pytest.mark.parametrize("program", [gpu_contract, gpu_attention])
def test_without_a_gpu_a_sentence_says_so(program, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    monkeypatch.setattr(sys, "argv", ["benchmark"])
    with pytest.raises(SystemExit, match="torch finds no NVIDIA GPU"):
        gpu_rates.main(program.cases(), "gpu_x.py", "x", program.__doc__)


def test_make_gpu_has_a_part_for_each():
    spec = importlib.util.spec_from_file_location("make_gpu", ROOT / "tools" / "gpu.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    benchmarks = ["bench-memory", "bench-rows", "bench-contract", "bench-attention", "bench-models"]
    assert list(tool.PARTS) == ["tests", "conformance", "sanitize", *benchmarks]
    for program in ("gpu_contract.py", "gpu_attention.py", "gpu_models.py", "gpu.py"):
        assert f"benchmarks/{program}" in (ROOT / "tools" / "gpu.py").read_text()
