"""``tilefuse.op`` on CUDA tensors: values, gradients, autocast, streams, captured graphs, bad input."""

from __future__ import annotations

import threading
import warnings

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from on_device import assert_same
from tilefuse.errors import TileFuseWarning
from tilefuse.library import operators

# No operator may fall back to its plain function.
pytestmark = pytest.mark.filterwarnings("error::tilefuse.errors.TileFuseWarning")


@tilefuse.op("tilefuse_device::norm", options={"strict": True})
def norm(x: torch.Tensor, weight: torch.Tensor, by: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    y = F.rms_norm(x, x.shape[-1:], weight)
    return y if by is None else y * by, x.sum(0)


@tilefuse.op("tilefuse_device::projected", autocast="lower")
def projected(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.gelu(x @ w)


def _kernels(name: str) -> int:
    return operators().op_specialisations(f"tilefuse_device::{name}")


def _made(*shape: int, device: str = "cuda", history: bool = False) -> torch.Tensor:
    return torch.randn(shape, device=device, requires_grad=history)


def test_one_kernel_takes_every_size():
    operators().forget_op("tilefuse_device::norm")
    for kernels, rows in ((1, 5), (2, 7), (2, 4000), (3, 1), (3, 64)):
        x, weight = _made(rows, 37), _made(37)
        assert_same(norm(x, weight), norm.plain(x, weight))
        assert _kernels("norm") == kernels
    assert_same(norm(x.cpu(), weight.cpu()), norm.plain(x.cpu(), weight.cpu()))
    assert _kernels("norm") == 4
    assert_same(norm(x.half().t().contiguous().t(), weight.half()), norm.plain(x.half().t().contiguous().t(), weight.half()))


def test_gradients():
    for rows in (5, 9, 300):
        given = [_made(rows, 37, history=True), _made(37, history=True)]
        made, wanted = (torch.autograd.grad(sum(y.cos().sum() for y in f(*given)), given) for f in (norm, norm.plain))
        assert_same(made, wanted)
    (first,) = torch.autograd.grad(norm(*given)[0].sin().sum(), given[0], create_graph=True)
    (wanted,) = torch.autograd.grad(norm.plain(*given)[0].sin().sum(), given[0], create_graph=True)
    assert_same(*(torch.autograd.grad(each.square().sum(), given[1])[0] for each in (first, wanted)))


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_autocast(way):
    function = projected if way == "eager" else torch.compile(projected, backend="tilefuse")
    x, w = _made(16, 64, history=True), _made(64, 32, history=True)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cuda", dtype=dtype):
            made = function(x, w)
            wanted = projected.plain(x.to(dtype), w.to(dtype))
        assert_same(made, wanted)
        assert all(grad.dtype == torch.float32 for grad in torch.autograd.grad(made.sum(), (x, w)))
    assert function(x, w).dtype == torch.float32


def test_a_number_on_the_cpu():
    x, weight, by = _made(20, 37), _made(37), torch.tensor(0.5)
    assert_same(norm(x, weight, by), norm.plain(x, weight, by))


def test_kernels_go_to_the_current_stream():
    x, weight = _made(64, 37), _made(37)
    norm(x, weight)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # who runs elsewhere reads before this ends
        x.fill_(2.0)
        got = norm(x, weight)
    torch.cuda.current_stream().wait_stream(stream)
    assert_same(got, norm.plain(x, weight))


def test_a_call_waits_for_nothing():
    x, weight = _made(64, 37), _made(37)
    norm(x, weight)
    torch.cuda.set_sync_debug_mode("error")
    try:
        norm(x, weight)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_cuda_graph_captures_a_call():
    x, weight = _made(64, 37), _made(37)
    norm(x, weight)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = norm(x, weight)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert_same(captured, norm.plain(x, weight))


def test_a_captured_call_without_a_kernel_says_so():
    @tilefuse.op("tilefuse_device::captured")
    def captured(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 3

    x, graph = _made(64, 37), torch.cuda.CUDAGraph()
    torch.tanh(x) * 3
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", TileFuseWarning)
        with torch.cuda.graph(graph):
            made = captured(x)
    assert any("call it once with such arguments before" in str(each.message) for each in said)
    assert _kernels("captured") == 0
    graph.replay()
    assert_same(made, captured.plain(x))
    captured(x)
    assert _kernels("captured") == 1


def test_kernels_are_saved_and_loaded(tmp_path):
    operators().forget_op("tilefuse_device::norm")
    weight = _made(37)
    for rows in (5, 7):
        norm(_made(rows, 37), weight)
    assert tilefuse.save_ops(tmp_path / "ops.json", norm) >= 2
    operators().forget_op("tilefuse_device::norm")
    assert operators().load_ops(str(tmp_path / "ops.json")) >= 2
    loaded, x = _kernels("norm"), _made(90, 37)
    assert_same(norm(x, weight), norm.plain(x, weight))
    assert _kernels("norm") == loaded >= 2


def test_calls_from_many_threads():
    operators().forget_op("tilefuse_device::norm")
    failures = []

    def work(seed):
        for n in range(2, 12):
            x, weight = torch.full((n, 37), float(seed), device="cuda"), torch.ones(37, device="cuda")
            if not torch.allclose(norm(x, weight)[0], norm.plain(x, weight)[0], atol=1e-5):
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed + 1,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="SKIPPED, devices are not told apart: there is one GPU")
def test_each_device_has_its_own_kernels():
    operators().forget_op("tilefuse_device::norm")
    for count, device in ((1, "cuda:1"), (2, "cuda:0"), (2, "cuda:1")):
        x, weight = _made(20, 37, device=device), _made(37, device=device)
        assert_same(norm(x, weight), norm.plain(x, weight))
        assert _kernels("norm") == count


def test_tensors_of_two_devices_are_torchs_own_error():
    with pytest.raises(RuntimeError, match="same device"):
        norm(_made(8, 37), torch.randn(37))
