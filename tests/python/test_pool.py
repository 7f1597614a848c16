"""Memory of results: whose comes from the pool."""

import json

import pytest
import torch
from torch import nn

from tilefuse.library import operators

MEGABYTE = 1 << 20


def pool_stats() -> dict[str, int]:
    return json.loads(operators().pool_stats())


def used_bytes() -> int:
    return pool_stats()["used_bytes"]


def convolution() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Conv2d(16, 32, 3, padding=1).eval(), torch.randn(4, 16, 64, 64)  # a result of 2 MB


@pytest.fixture
def compiled_convolution():
    model, image = convolution()
    # With the library's convolution, whatever the processor: nothing of it is a kernel of ours.
    run = torch.compile(model, backend="tilefuse", options={"products": "library"})
    with torch.no_grad():
        run(image)
        yield model, run, image


def test_results_of_calls_come_from_the_pool(compiled_convolution):
    model, run, image = compiled_convolution
    before = used_bytes()
    result = run(image)
    assert used_bytes() - before >= result.nbytes >= 2 * MEGABYTE
    torch.testing.assert_close(result, model(image))
    del result
    assert used_bytes() == before


def test_memory_of_a_result_is_used_again(compiled_convolution):
    _, run, image = compiled_convolution
    run(image)  # freed at once
    held = pool_stats()["held_bytes"]
    assert held >= 2 * MEGABYTE
    run(image)
    assert pool_stats()["held_bytes"] == held


def test_results_that_never_live_together_share_memory():
    """Convolutions of 1, 2, 4 and 8 MB, each added up before the next is made; the library may copy the largest once."""
    x = torch.randn(1, 16, 64, 64)
    weights = [torch.randn(64 << i, 16, 3, 3) for i in range(4)]

    def sums(x, *weights):
        total = x.new_zeros(())
        for w in weights:
            total = total + torch.tanh(nn.functional.conv2d(x, w, padding=1) * (1 + total * 1e-6)).sum()
        return total

    run = torch.compile(sums, backend="tilefuse", options={"products": "library"})
    run(x, *weights)
    operators().pool_trim()
    for _ in range(3):
        run(x, *weights)
    assert 8 * MEGABYTE <= pool_stats()["held_bytes"] <= 26 * MEGABYTE


def test_nothing_else_comes_from_the_pool(compiled_convolution):
    model, run, image = compiled_convolution
    kept = run(image)
    before = used_bytes()
    others = [torch.empty(MEGABYTE), model(image), kept.clone(), torch.empty(8).resize_(MEGABYTE)]
    assert used_bytes() == before
    del others


def test_results_from_the_pool_are_tensors_as_any(compiled_convolution, tmp_path):
    _, run, image = compiled_convolution
    result, same = run(image), run(image)
    result.add_(1).sub_(1).resize_(2, 2, 32, 64, 64)
    result.untyped_storage().resize_(8 * MEGABYTE)
    torch.save(same, tmp_path / "result.pt")
    torch.testing.assert_close(torch.load(tmp_path / "result.pt"), same, rtol=0, atol=0)
    assert same.share_memory_().is_shared()
    torch.testing.assert_close(run(image), same, rtol=0, atol=0)


def test_results_outlive_what_computed_them():
    model, image = convolution()
    with torch.no_grad():
        result = torch.compile(model, backend="tilefuse", options={"products": "library"})(image)
        torch._dynamo.reset()
        operators().pool_trim()
        torch.testing.assert_close(result, model(image))
