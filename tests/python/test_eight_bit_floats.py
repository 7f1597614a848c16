"""Floats of eight bits: stored as such, computed with as f32, rounded as torch rounds them."""

import pytest
import tilefuse
import torch
from engine import engine
from torch.nn import functional as F

KINDS = [torch.float8_e4m3fn, torch.float8_e5m2]


def bits_of(tensor):
    return tensor.view(torch.uint8) if tensor.dtype in KINDS else tensor


def check(function, *inputs, regions=1, **options):
    """Equal to eager to the bit, in so many regions and with no operator of the framework beside them."""
    expected = function(*inputs)
    torch._dynamo.reset()
    got = torch.compile(function, backend="tilefuse", options={"strict": True, **options})(*inputs)
    torch.testing.assert_close(bits_of(got), bits_of(expected), rtol=0, atol=0, equal_nan=True)
    (graph,) = tilefuse.explain(function, *inputs, options=options).json()["graphs"]
    assert len(graph["regions"]) == regions
    assert all(node["kind"] != "call" for node in graph["graph"]["nodes"])


def numbers():
    """Every value of either kind, the floats beside it and beside its middle to the next, and what is out of range."""
    floats = [torch.tensor([0.0, -0.0, 1e30, -1e30, float("inf"), float("-inf"), float("nan"), 464, 464.1, 61440, 65536])]
    for kind in KINDS:
        values = torch.arange(256, dtype=torch.uint8).view(kind).float()
        values = values[values.isfinite()].sort().values
        for at in (values, (values[1:] + values[:-1]) / 2):
            floats += [at, torch.nextafter(at, torch.tensor(1e9)), torch.nextafter(at, torch.tensor(-1e9))]
    return torch.cat(floats)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_rounds_as_eager_and_widens_to_the_same(kind, dtype):
    x = numbers().to(dtype)
    check(lambda x: x.to(kind), x)
    check(lambda x: x.to(kind).to(dtype) * 2, x)
    check(lambda x: (x + 1).to(kind), x, numerics="eager")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_integers_and_bools_become_eight_bits_and_back(kind):
    x = torch.arange(-300, 300)
    check(lambda x: x.to(kind), x)
    check(lambda x: (x > 5).to(kind), x)
    check(lambda x: x.to(kind).to(torch.int32), x)
    check(lambda x: x.to(kind).to(torch.bool), x)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_they_move_gather_and_join_as_they_are(kind):
    x, at = torch.randn(24, 40).to(kind), torch.tensor([3, 0, 23, 3])
    check(lambda x: x.t().float() + 1, x)
    check(lambda x, at: x.float()[at] * 2, x, at)
    check(lambda x: torch.cat([x.float(), x.float().flip(0)], 1), x)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("sizes", [(5, 130), (1, 7), (33, 1024)])
def test_rows_are_scaled_and_rounded_in_one_region(kind, sizes):
    largest = torch.finfo(kind).max

    def quantise(x):
        scale = x.abs().amax(-1, keepdim=True) / largest
        return (x / scale).to(kind)

    check(quantise, torch.randn(sizes))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_dequantised_weights_never_lie_in_memory(kind):
    x, scale = torch.randn(3, 256), torch.rand(128, 1) + 0.5
    weight = torch.randn(128, 256).to(kind)

    def linear(x, weight, scale):
        return F.linear(x, weight.float() * scale)

    expected = linear(x, weight, scale)
    got = engine(linear, products="own")(x, weight, scale)
    torch.testing.assert_close(got, expected)
    (graph,) = tilefuse.explain(linear, x, weight, scale, options={"products": "own"}).json()["graphs"]
    assert len(graph["regions"]) == 1 and not graph["unfused_edges"]


def test_sizes_may_vary():
    run = torch.compile(lambda x: x.to(torch.float8_e4m3fn).float() - x, backend="tilefuse", dynamic=True, options={"strict": True})
    for rows in (3, 17, 40):
        x = torch.randn(rows, 30)
        torch.testing.assert_close(run(x), x.to(torch.float8_e4m3fn).float() - x, rtol=0, atol=0)


def test_gradients_pass_through_rounding():
    def loss(x, w):
        return (x.to(torch.float8_e5m2).float() * w).square().sum()

    inputs = [torch.randn(6, 50, requires_grad=True), torch.randn(50, requires_grad=True)]
    expected = torch.autograd.grad(loss(*inputs), inputs)
    got = torch.autograd.grad(torch.compile(loss, backend="tilefuse", options={"strict": True})(*inputs), inputs)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
