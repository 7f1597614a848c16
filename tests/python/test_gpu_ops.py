"""Operators of ``tilefuse.op`` on a GPU: kernels by the model of one (host_gpu.py), devices and autocast by fake CUDA tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import host_gpu
import pytest
import tilefuse
import torch
import torch.nn.functional as F
from tilefuse import custom_op
from tilefuse.capture import capture
from tilefuse.custom_op import _defined
from tilefuse.errors import TileFuseWarning, UserError
from tilefuse.library import operators
from tilefuse.options import Options
from torch._subclasses.fake_tensor import FakeTensorMode

STRICT = {"strict": True}


@pytest.fixture
def driver() -> Iterator[host_gpu.Driver]:
    with host_gpu.an_a100(refuses_warnings=True) as found:
        yield found


def _defined_on_gpu(name: str, function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """The function as an operator whose kernels run in the model of a GPU."""
    return tilefuse.op(f"tilefuse_gpu::{name}", options=host_gpu.options(**{**STRICT, **more}))(function)


def _kernels(name: str) -> int:
    return operators().op_specialisations(f"tilefuse_gpu::{name}")


def norm(x: torch.Tensor, weight: torch.Tensor, by: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    return F.rms_norm(x, x.shape[-1:], weight) * by, x.sum(0)


# ---------------------------------------------------------------- kernels
def test_values_of_every_size_by_one_kernel(driver):
    op = _defined_on_gpu("norm", norm, strict=False)  # without elements there is no kernel
    weight = torch.randn(37)
    for kernels, rows in ((1, 5), (2, 7), (2, 130), (3, 1), (4, 0), (4, 64)):
        x = torch.randn(rows, 37)
        torch.testing.assert_close(op(x, weight, 0.5), norm(x, weight, 0.5))
        assert _kernels("norm") == kernels
        assert (driver.launches() > 0) or rows == 0
    transposed = torch.randn(37, 12).t()
    torch.testing.assert_close(op(transposed, weight, 0.5), norm(transposed, weight, 0.5))


def test_gradients_are_kernels_too(driver):
    op = _defined_on_gpu("norm_with_history", norm)
    for rows in (6, 9, 33):
        given = [torch.randn(rows, 37, requires_grad=True), torch.randn(37, requires_grad=True)]
        wanted = torch.autograd.grad(sum(y.cos().sum() for y in norm(*given)), given)
        outputs = op(*given)
        driver.calls()
        made = torch.autograd.grad(sum(y.cos().sum() for y in outputs), given)
        assert driver.launches() > 0
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)


def _added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def test_gradients_share_no_memory_and_lie_as_their_tensors(driver):
    op = _defined_on_gpu("added", _added)
    x, y = torch.randn(3, 4), torch.randn(4, 3).t()
    given = torch.randn(3, 4)
    op(x, y)
    first, second = torch.ops.tilefuse_gpu.added_backward(x, y, [given], 0b11)
    assert len({tensor.data_ptr() for tensor in (first, second, given)}) == 3
    assert first.stride() == x.stride() and second.stride() == y.stride()
    torch.testing.assert_close((first, second), (given, given))


def test_a_setting_that_rounds_products_has_kernels_of_its_own(driver):
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    op = _defined_on_gpu("product", product, products="own", pins={"mm": {"kernel": "product"}})
    x, w = torch.randn(48, 64), torch.randn(64, 32)
    exact, matmul = x.double() @ w.double(), torch.backends.cuda.matmul
    before, errors = matmul.fp32_precision, []
    try:
        for precision in ("ieee", "tf32", "ieee"):
            matmul.fp32_precision = precision
            errors.append((op(x, w).double() - exact).abs().max().item())
    finally:
        matmul.fp32_precision = before
    assert _kernels("product") == 2
    assert errors[0] == errors[2] < 1e-4 < 1e-3 < errors[1] < 1e-1


def test_a_launch_that_fails_is_the_frameworks(driver):
    op = _defined_on_gpu("norm_that_fails", norm)
    x, weight = torch.randn(5, 37), torch.randn(37)
    op(x, weight)
    driver.fail("cuLaunchKernel", 2)
    with pytest.warns(UserWarning, match="a region runs with PyTorch's operators: cannot launch a kernel"):
        torch.testing.assert_close(op(x, weight), norm(x, weight))
    driver.calls()


# ---------------------------------------------------------------- saved
def test_kernels_are_saved_and_loaded(driver, tmp_path):
    op = _defined_on_gpu("saved", norm)
    weight = torch.randn(37)
    for rows in (5, 7):
        op(torch.randn(rows, 37), weight)
    path = tmp_path / "ops.json"
    assert tilefuse.save_ops(path, op) == 2
    operators().forget_op("tilefuse_gpu::saved")
    assert operators().load_ops(str(path)) == 2
    driver.calls()
    x = torch.randn(90, 37)
    torch.testing.assert_close(op(x, weight), norm(x, weight))
    assert driver.launches() > 0 and _kernels("saved") == 2


def test_kernels_do_not_load_without_a_gpu(driver, tmp_path):
    op = _defined_on_gpu("saved_for_a_gpu", norm, strict=False)
    op(torch.randn(5, 37), torch.randn(37))
    path = tmp_path / "ops.json"
    tilefuse.save_ops(path, op)
    path.write_text(path.read_text().replace(host_gpu.driver_library(), "libno_such_driver.so"))
    with pytest.raises(ValueError, match="ops.json: .*saved_for_a_gpu cannot be compiled here: .*no NVIDIA driver"):
        operators().load_ops(str(path))


def test_kernels_of_another_device_take_no_call(driver, tmp_path):
    op = _defined_on_gpu("saved_elsewhere", norm)
    x, weight = torch.randn(5, 37), torch.randn(37)
    op(x, weight)
    path = tmp_path / "ops.json"
    tilefuse.save_ops(path, op)
    file = json.loads(path.read_text())
    for tensor in file["ops"][0]["specialisations"][0]["tensors"]:
        assert tensor["device"] == "cpu"
        tensor["device"] = "cuda:1"
    path.write_text(json.dumps(file))
    operators().forget_op("tilefuse_gpu::saved_elsewhere")
    operators().load_ops(str(path))
    torch.testing.assert_close(op(x, weight), norm(x, weight))
    assert _kernels("saved_elsewhere") == 2


# ---------------------------------------------------------------- capture
@pytest.fixture
def capturing(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    return lambda now: monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: now)


def test_nothing_is_compiled_while_a_graph_is_captured(driver, capturing):
    loose, strict = (_defined_on_gpu(f"captured_{each}", norm, strict=each) for each in (False, True))
    x, weight = torch.randn(5, 37), torch.randn(37)
    capturing(True)
    with pytest.warns(TileFuseWarning, match="captured_False has no kernel for a call of this kind yet.*call it once"):
        torch.testing.assert_close(loose(x, weight), norm(x, weight))
    with pytest.raises(ValueError, match="none can be made while a CUDA graph is captured"):
        strict(x, weight)
    assert driver.launches() == 0
    capturing(False)
    strict(x, weight)
    capturing(True)
    driver.calls()
    torch.testing.assert_close(strict(x, weight), norm(x, weight))
    assert driver.launches() > 0


# ---------------------------------------------------------------- fake CUDA tensors
@pytest.fixture
def planned(monkeypatch) -> list[dict[str, Any]]:
    """What would be compiled is planned, into this list; the function runs."""
    if torch.version.cuda is None:
        pytest.skip("SKIPPED, no CUDA tensor is traced: this torch was not built for CUDA")
    reports: list[dict[str, Any]] = []

    def explain(module: torch.fx.GraphModule, role: str, settings: Options) -> Any:
        captured = capture(module, name=role)
        options = json.loads(settings.to_json(1)) | {"target": "cuda-sm90a"}
        reports.append(json.loads(operators().explain_only(captured.json, json.dumps(options))))
        return {"op": f"graph_{len(reports)}"}, captured

    monkeypatch.setattr(custom_op, "compile_captured", explain)
    return reports


@tilefuse.op("tilefuse_gpu::scaled_norm", autocast="lower")
def scaled_norm(x: torch.Tensor, weight: torch.Tensor, by: torch.Tensor | None = None) -> torch.Tensor:
    y = F.rms_norm(x, x.shape[-1:], weight)
    return y if by is None else y * by


def _specialised(op: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    return json.loads(_defined[op.op._name.partition(".")[0]].specialise("", arguments)[0])


def test_cuda_tensors_have_kernels_of_their_device(planned):
    with FakeTensorMode():
        x, weight = torch.empty(64, 256, device="cuda:1"), torch.empty(256, device="cuda:1")
    answer = _specialised(scaled_norm, x, weight, None)
    assert [tensor["device"] for tensor in answer["tensors"]] == ["cuda:1", "cuda:1"]
    assert "on cuda:1 for sm_90a" in planned[0]["executable"]
    assert len(planned[0]["regions"]) == 1 and "call" not in planned[0]["executable"]


def test_sizes_that_vary_are_symbols(planned):
    @tilefuse.op("tilefuse_gpu::varying", dynamic=True)
    def varying(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)

    with FakeTensorMode():
        answer = _specialised(varying, torch.empty(64, 256, device="cuda:0"))
    assert answer["tensors"] == [{"device": "cuda:0", "sizes": [-1, -1], "strides": [{"over": 1}, 1]}]
    assert len(answer["symbols"]) == 2


def test_a_number_on_the_cpu_may_stand_beside_cuda_tensors(planned):
    with FakeTensorMode():
        x, weight = torch.empty(64, 256, device="cuda:0"), torch.empty(256, device="cuda:0")
        answer = _specialised(scaled_norm, x, weight, torch.empty(()))
    assert [tensor["device"] for tensor in answer["tensors"]] == ["cuda:0", "cuda:0", "cpu"]
    assert "on cuda:0 for sm_90a" in planned[0]["executable"]


def test_tensors_of_two_devices_are_torchs_own_error(planned):
    with FakeTensorMode(), pytest.raises(Exception, match="same device"):
        _specialised(scaled_norm, torch.empty(64, 256, device="cuda:0"), torch.empty(256))
    assert not planned


def test_results_are_on_the_device_of_the_arguments(planned):
    with FakeTensorMode():
        x, weight = torch.empty(4, 16, device="cuda:0", requires_grad=True), torch.empty(16, device="cuda:0")
        y = scaled_norm(x, weight)
        assert y.device == x.device and y.requires_grad
        (grad,) = torch.ops.tilefuse_gpu.scaled_norm_backward(x.detach(), weight, None, [y.detach()], 0b01)
        assert grad.device == x.device and grad.shape == x.shape


@pytest.fixture
def autocast() -> Iterator[Callable[[str, torch.dtype], None]]:
    """As torch.autocast, which disables itself where there is no device."""
    kinds = ("cuda", "cpu")
    before = [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]

    def enable(kind: str, dtype: torch.dtype) -> None:
        torch.set_autocast_enabled(kind, True)
        torch.set_autocast_dtype(kind, dtype)

    yield enable
    for kind, (enabled, dtype) in zip(kinds, before):
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)
    torch.clear_autocast_cache()


@pytest.mark.parametrize("way", ["operator", "dissolved"])
def test_autocast_of_cuda_is_for_cuda_tensors(planned, autocast, way):
    definition = _defined["tilefuse_gpu::scaled_norm"]
    function = scaled_norm if way == "operator" else definition.inlined
    with FakeTensorMode():
        on_gpu = torch.empty(4, 16, device="cuda:0"), torch.empty(16, device="cuda:0")
        on_cpu = torch.empty(4, 16), torch.empty(16)
        autocast("cuda", torch.bfloat16)
        assert function(*on_gpu).dtype == torch.bfloat16
        assert function(*on_cpu).dtype == torch.float32
        autocast("cpu", torch.float16)
        assert function(*on_gpu).dtype == torch.bfloat16
        assert function(*on_gpu, torch.empty(())).dtype == torch.bfloat16  # a number on the CPU stays as it is
        assert function(*on_cpu).dtype == torch.float16
        assert torch.is_autocast_enabled("cuda") and torch.is_autocast_enabled("cpu")


def test_strict_operators_say_that_there_is_no_gpu():
    @tilefuse.op("tilefuse_gpu::strict", options=STRICT)
    def strict(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    if torch.cuda.is_available() or torch.version.cuda is None:
        pytest.skip("SKIPPED, no missing GPU is missed: there is one")
    with FakeTensorMode(), pytest.raises(UserError, match="cannot be compiled: cannot use a GPU: there is no NVIDIA driver"):
        _specialised(strict, torch.empty(8, device="cuda:0"))
