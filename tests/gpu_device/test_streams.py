"""Memory, streams and graphs of CUDA: what eager code may expect of an operator holds for compiled graphs."""

from __future__ import annotations

import pytest
import torch
from on_device import assert_same


def _norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w) * 2


def _inputs() -> list[torch.Tensor]:
    return [torch.randn(64, 256, device="cuda"), torch.randn(256, device="cuda")]


def test_kernels_go_to_the_current_stream():
    compiled, inputs = torch.compile(_norm, backend="tilefuse"), _inputs()
    with torch.no_grad():
        compiled(*inputs)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)  # who runs elsewhere reads before this ends
            inputs[0].fill_(1.0)
            got = compiled(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        assert_same(got, _norm(*inputs))


def test_a_cuda_graph_captures_a_call():
    compiled, inputs = torch.compile(_norm, backend="tilefuse"), _inputs()
    with torch.no_grad():
        compiled(*inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = compiled(*inputs)
        inputs[0].copy_(torch.randn_like(inputs[0]))
        graph.replay()
        assert_same(captured, _norm(*inputs))


def test_a_call_waits_for_nothing():
    compiled, inputs = torch.compile(_norm, backend="tilefuse"), _inputs()
    with torch.no_grad():
        compiled(*inputs)
        torch.cuda.set_sync_debug_mode("error")
        try:
            compiled(*inputs)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_memory_comes_from_torchs_allocator_and_goes_back():
    compiled, inputs = torch.compile(_norm, backend="tilefuse"), _inputs()
    with torch.no_grad():
        compiled(*inputs)
        before = torch.cuda.memory_allocated()
        result = compiled(*inputs)
        assert torch.cuda.memory_allocated() - before == result.untyped_storage().nbytes()
        del result
        assert torch.cuda.memory_allocated() == before


def test_inputs_are_written_in_place():
    def step(x, y):
        x.add_(y).mul_(2)
        return x.sum(1)

    x, y = torch.randn(40, 100, device="cuda"), torch.randn(40, 100, device="cuda")
    other = x.clone()
    with torch.no_grad():
        assert_same(torch.compile(step, backend="tilefuse")(x, y), step(other, y))
    assert_same(x, other)


def test_views_that_are_not_aligned():
    function = lambda x: torch.relu(x) + 1  # noqa: E731
    base = torch.randn(1000, device="cuda")
    with torch.no_grad():
        compiled = torch.compile(function, backend="tilefuse")
        for first in range(1, 6):
            x = base[first : first + 512].view(16, 32)
            assert_same(compiled(x), function(x))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="SKIPPED, devices are not told apart: there is one GPU")
def test_each_device_has_its_own_kernels():
    with torch.no_grad():
        for device in ("cuda:1", "cuda:0"):
            inputs = [value.to(device) for value in _inputs()]
            assert_same(torch.compile(_norm, backend="tilefuse")(*inputs), _norm(*inputs))


# ---------------------------------------------------------------- bad input
def test_a_cpu_and_a_cuda_tensor_are_torchs_own_error():
    with pytest.raises(Exception, match="device"), torch.no_grad():
        torch.compile(lambda x, y: x + y, backend="tilefuse")(torch.randn(8, device="cuda"), torch.randn(8))


def test_out_of_memory_is_torchs_own_error():
    compiled = torch.compile(lambda x: x.expand(1 << 20, 1 << 20) * 2.0, backend="tilefuse")  # 4 TiB
    with torch.no_grad(), pytest.raises(torch.OutOfMemoryError):
        compiled(torch.randn(1 << 20, device="cuda"))
    x = torch.randn(8, device="cuda")
    with torch.no_grad():
        assert_same(torch.compile(_norm, backend="tilefuse")(x, x), _norm(x, x))
