"""The benchmarks beside their kernels: who takes part, how operations are counted, tables and pictures of stored rows.
Times are never looked at."""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from rich.console import Console

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "solver")]
import contestants  # noqa: E402
import openvino_peer  # noqa: E402
import operations  # noqa: E402
import peak  # noqa: E402
import plot  # noqa: E402
import result_table  # noqa: E402
from compute_cases import CASES as COMPUTE_CASES  # noqa: E402
from product_cases import FAMILIES  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


def _solver_run():
    spec = importlib.util.spec_from_file_location("solver_run", ROOT / "benchmarks" / "solver" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _stored(name):
    return [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]


def _row(**more):
    us = {name: {"median": time, "p10": time, "p90": time} for name, time in (("eager", 40.0), ("tilefuse", 20.0))}
    row = {"case": "small", "group": "product", "dtype": "f32", "threads": 2, "error": 0.0, "first_call_s": {"tilefuse": 0.1}}
    return row | {"us": us} | more


def test_rows_of_earlier_runs_are_still_a_table():
    rows = _stored("products_zen5_1thread.jsonl")
    assert all("of peak" not in result_table.line(row) for row in rows)
    assert f"product inductor     2.26x    0.99x  weight_gradient_1024 bf16 1t   {len(rows):5}" in result_table.summary(rows)


def test_no_option_without_its_value_is_asked_of_the_tool():
    asked = argparse.Namespace(threads=1, sweep=24, listed=96, filter="")
    assert _solver_run().command("tool", "set.txt", asked) == ["tool", "set.txt", "--threads=1", "--sweep=24", "--listed=96"]
    asked.filter = "softmax"
    assert _solver_run().command("tool", "set.txt", asked)[-1] == "--filter=softmax"


def test_the_share_of_the_peak_is_that_of_all_threads():
    row = _row(operations=2_000_000, peak={"instruction": "fma", "gops": 100.0})
    assert result_table.of_peak(row) == pytest.approx(0.5)  # 2 MFLOP in 20 us are 100 GFLOP/s, of two cores' 200
    assert result_table.of_peak(row, "eager") == pytest.approx(0.25)
    assert result_table.of_peak(row, "openvino") is None and result_table.of_peak(_row()) is None
    assert " 50 % of peak" in result_table.line(row)
    text = result_table.summary([row])
    assert "peak of a core by fma: 100 GOP/s" in text and "tilefuse 50 %, eager 25 %" in text


def test_a_contestant_that_is_absent_is_named_with_its_reason():
    row = _row(absent={"openvino": "no rule for aten::diff"})
    assert "no openvino: no rule for aten::diff" in result_table.line(row)
    assert "no openvino in 1 cases: small f32 2t" in result_table.summary([row])


def _options(**given):
    return argparse.Namespace(**({"peers": None, "autotune": False, "no_inductor": False} | given))


def test_a_package_that_is_missing_is_said_once_and_is_no_error(monkeypatch, capsys):
    monkeypatch.setattr(openvino_peer, "is_here", lambda: False)
    assert contestants.peers_for("models", _options()) == ["guarded", "inductor"]
    assert capsys.readouterr().out.count("no openvino: it is not installed") == 1
    assert contestants.peers_for("products", _options()) == ["guarded", "inductor"]
    assert capsys.readouterr().out == ""


def test_compute_bound_cases_are_beside_eager_alone_unless_asked():
    assert contestants.peers_for("compute", _options()) == ["guarded"]
    assert contestants.peers_for("compute", _options(peers=contestants.peer_list("inductor"))) == ["inductor"]


def test_weights_of_compute_bound_cases_are_parameters_so_that_they_can_be_frozen():
    case = next(case for case in COMPUTE_CASES if case.name == "rows_2" and case.dtype == torch.float32)
    module, inputs = case.make(case.dtype)
    weight, bias = module.weights
    assert torch.equal(module(*inputs), torch.nn.functional.gelu(torch.nn.functional.linear(*inputs, weight, bias)))
    assert len({(case.name, case.dtype) for case in COMPUTE_CASES}) == len(COMPUTE_CASES)


def test_operations_that_a_triangle_leaves_out_are_not_counted():
    case = next(case for case in COMPUTE_CASES if case.name == "attention_causal_12x1000x64")
    module, inputs = case.make(case.dtype)
    assert operations.counted(case.name, module, inputs) == {"other": 2 * 12 * 1000 * 1001 * 64}


def test_contestants_can_be_chosen(monkeypatch):
    monkeypatch.setattr(openvino_peer, "is_here", lambda: True)
    assert contestants.peers_for("models", _options()) == ["guarded", "inductor", "openvino"]
    assert contestants.peers_for("products", _options(autotune=True)) == ["guarded", "inductor", "autotune"]
    assert contestants.peers_for("models", _options(no_inductor=True)) == ["guarded", "openvino"]
    assert contestants.peers_for("models", _options(peers=contestants.peer_list("openvino"))) == ["openvino"]
    assert contestants.peers_for("models", _options(peers=contestants.peer_list(""))) == []
    with pytest.raises(argparse.ArgumentTypeError, match="no contestant 'onnx'"):
        contestants.peer_list("onnx")


def test_a_peer_that_fails_or_computes_something_else_is_left_out():
    case = contestants.Case(torch.sin, (torch.ones(4),), "f32", 1)

    def fails():
        raise RuntimeError("no such operator\nsomewhere")

    case.add_peer("inductor", fails)
    case.add_peer("autotune", lambda: lambda: torch.zeros(4))
    case.add_peer("openvino", lambda: lambda: torch.ones(4).sin())
    assert case.absent == {"inductor": "no such operator", "autotune": "its result is 1 of the largest value from eager's"}
    assert set(case.calls) == {"eager", "openvino"} and set(case.first) == {"openvino"}


def test_not_a_number_is_no_result():
    case = contestants.Case(torch.sin, (torch.ones(4),), "f32", 1)
    case.add_peer("openvino", lambda: lambda: torch.full((4,), float("nan")))
    assert "openvino" in case.absent


def _counted(name):
    family = next(family for family in FAMILIES if family.name == name)
    inputs = family.inputs(False, torch.float32)
    return operations.counted(name, family.function, inputs), inputs


def test_operations_are_those_of_the_products():
    assert _counted("linear_gelu_8")[0] == {"other": 2 * 8 * 512 * 1024}
    assert _counted("int8_linear_8")[0] == {"bytes": 2 * 8 * 1024 * 1024}
    assert _counted("attention_512")[0] == {"other": 4 * 12 * 512 * 512 * 64}
    assert _counted("chunked_linear_attention_512")[0] == {}


class _WithToken(torch.nn.Module):
    """Passes a view of a parameter, its class token, to another module, as image models do."""

    def __init__(self):
        super().__init__()
        self.token = torch.nn.Parameter(torch.zeros(1, 8))
        self.head = torch.nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.head(self.token.expand(len(x), -1))


def test_views_of_parameters_are_counted_without_gradients():
    with torch.no_grad():
        assert operations.counted("with_token", _WithToken(), (torch.zeros(3, 8),)) == {"other": 2 * 3 * 8 * 4}


def test_what_a_mask_leaves_out_is_not_counted():
    count, inputs = _counted("attention_documents_512")
    document = inputs[3]
    assert count == {"other": 4 * 12 * 64 * (document[:, None] == document).sum().item()}
    far = torch.arange(512) - torch.arange(512)[:, None]
    assert _counted("attention_window_512")[0] == {"other": 4 * 12 * 64 * ((far <= 0) & (far > -128)).sum().item()}
    assert _counted("causal_attention_512")[0] == {"other": 4 * 12 * 64 * (far <= 0).sum().item()}


@pytest.mark.parametrize("kind", peak.LOOPS)
def test_the_peak_is_of_the_best_instruction_that_the_processor_has(kind):
    best = peak.of(kind)
    if best is None:
        pytest.skip("not measured on this processor, or there is no C compiler")
    best.call()
    instructions = [loop.instruction for loop in peak.LOOPS[kind]]
    assert best.instruction in instructions and best.operations > 1e6


class _Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, x):
        return torch.relu(self.linear(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_openvino_computes_what_eager_computes(dtype):
    if not openvino_peer.is_here():
        pytest.skip("SKIPPED, openvino is not installed: only benchmarks want it")
    model, inputs = _Small().eval().to(dtype), (torch.randn(4, 16).to(dtype),)
    with torch.no_grad():
        call = openvino_peer.compiled(model, inputs, dtype, threads=1)
        assert contestants.error(call(), model(*inputs)) < (1e-5 if dtype == torch.float32 else 0.03)


def _regret_rows():
    """Stored rows, some with what newer ones have."""
    rows = _stored("solver_regret_held_out_zen5_1thread.jsonl")
    for place, row in enumerate(row for row in rows if "first_us" in row):
        row |= {"rank_correlation": 0.5 + place / 1000, "priced": [[10.0, 12.0], [20.0, 19.0], [200.0, 210.0]]}
    return rows


def test_regret_is_a_table_by_family():
    run = _solver_run()
    rows = _regret_rows()
    text = io.StringIO()
    run.report(rows, "held_out", Console(file=text, width=180), None)
    timed = [row for row in rows if "first_us" in row]
    for family in {row["family"] for row in timed}:
        assert f"│ {family} " in text.getvalue()
    for column in ("90th perc.", "rank corr.", "worst"):
        assert column in text.getvalue()
    run.report(_stored("solver_regret_held_out_zen4_1thread.jsonl"), "held_out", Console(file=text, width=180), None)


def test_a_percentile_is_a_value_that_so_many_do_not_exceed():
    run = _solver_run()
    assert run.percentile(range(1, 11), 0.9) == 9
    assert run.percentile([3.0], 0.9) == 3.0


def test_pictures_are_xml_with_a_point_for_each_schedule():
    timed = [row for row in _regret_rows() if "first_us" in row]
    root = ElementTree.fromstring(plot.picture(timed))
    points = [element for element in root if element.tag.endswith("circle") and element.get("fill-opacity")]
    assert len(points) == 3 * len(timed)
    assert sum(element.tag.endswith("polyline") for element in root) == 3
    assert all(64 <= float(point.get("cx")) <= 420 for point in points)


def test_a_picture_needs_no_prices():
    timed = [row for row in _stored("solver_regret_held_out_zen5_1thread.jsonl") if "first_us" in row]
    ElementTree.fromstring(plot.picture(timed))
