"""Products of integers: `torch._int_mm` of bytes exactly as eager has it, and quantised layers around it as one region."""

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from processors import FIXED_TARGET

OWN = {"products": "own", "strict": True}
FROZEN = {**OWN, "freeze": True}


def compiled(function, **options):
    return torch.compile(function, backend="tilefuse", options={**OWN, **options})


def bytes_of(*shape, dtype=torch.int8):
    """Any bytes, the ends of their range among them."""
    ends = torch.iinfo(dtype)
    values = torch.randint(ends.min, ends.max + 1, shape, dtype=dtype)
    values[0], values[-1] = ends.min, ends.max
    return values


@pytest.mark.parametrize("lies", ["turned", "plain", "every_other"])
@pytest.mark.parametrize(("k", "n"), [(64, 48), (100, 33), (34, 20), (7, 5), (1, 16)])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 17, 33, 64])
def test_products_of_bytes_are_exact(rows, k, n, lies):
    x, w = bytes_of(rows, k), bytes_of(n, k)
    right = {"turned": w.t(), "plain": w.t().contiguous(), "every_other": bytes_of(k, 2 * n)[:, ::2]}[lies]
    got = compiled(torch._int_mm)(x, right)
    assert got.dtype == torch.int32
    assert torch.equal(got, torch._int_mm(x, right))


@pytest.mark.parametrize("rows", [2, 33])
def test_factors_without_signs(rows):
    x, w = bytes_of(rows, 96, dtype=torch.uint8), bytes_of(40, 96).t()
    assert torch.equal(compiled(torch._int_mm)(x, w), torch._int_mm(x, w))
    signed, unsigned = bytes_of(rows, 96), bytes_of(96, 40, dtype=torch.uint8)
    for left, right in ((x, unsigned), (signed, unsigned), (signed, w), (x, w)):
        got = compiled(lambda a, b: a.int() @ b.int())(left, right)
        assert torch.equal(got, left.int() @ right.int())


def test_sums_wrap():
    x, w = torch.full((3, 140000), -128, dtype=torch.int8), torch.full((140000, 20), -128, dtype=torch.int8)
    got = compiled(torch._int_mm)(x, w)
    assert torch.equal(got, torch._int_mm(x, w))
    assert (got < 0).all()


def test_products_of_32_bits_wrap():
    x, w = torch.randint(-(2**31), 2**31, (9, 70)).int(), torch.randint(-(2**31), 2**31, (70, 45)).int()
    assert torch.equal(compiled(torch.mm)(x, w), x @ w)
    a, b = torch.randint(-(2**31), 2**31, (4, 9, 70)).int(), torch.randint(-(2**31), 2**31, (4, 70, 5)).int()
    assert torch.equal(compiled(torch.bmm)(a, b), torch.bmm(a, b))


def test_other_sizes_run_without_a_new_graph():
    run = compiled(torch._int_mm)
    dynamic = torch.compile(torch._int_mm, backend="tilefuse", dynamic=True, options=OWN)
    for rows in (1, 4, 33, 7):
        x, w = bytes_of(rows, 64), bytes_of(48, 64).t()
        assert torch.equal(run(x, w), torch._int_mm(x, w))
        assert torch.equal(dynamic(x, w), torch._int_mm(x, w))


def quantised_rows(x):
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
    return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale


class QuantisedLinear(torch.nn.Module):
    """Weights of bytes; rows are quantised as they come."""

    def __init__(self, inner, outer):
        super().__init__()
        weight, scale = quantised_rows(torch.randn(outer, inner))
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale[:, 0])
        self.register_buffer("bias", torch.randn(outer))

    def forward(self, x):
        rows, scale = quantised_rows(x)
        return F.gelu(torch._int_mm(rows, self.weight.t()) * scale * self.scale + self.bias)


@pytest.mark.parametrize("options", [OWN, FROZEN], ids=["packed_in_calls", "packed_once"])
@pytest.mark.parametrize("rows", [1, 2, 7, 16, 33, 128])
def test_dynamically_quantised_linear_layers(rows, options):
    layer, x = QuantisedLinear(96, 160), torch.randn(rows, 96)
    run = torch.compile(layer, backend="tilefuse", options=options)
    with torch.no_grad():
        torch.testing.assert_close(run(x), layer(x), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(run(2 * x), layer(2 * x), rtol=1e-5, atol=1e-5)


def test_what_follows_a_product_of_bytes_is_one_region_with_it():
    layer = QuantisedLinear(256, 160)

    def function(rows, scale):
        return F.gelu(torch._int_mm(rows, layer.weight.t()) * scale * layer.scale + layer.bias).to(torch.bfloat16)

    report = tilefuse.explain(function, *quantised_rows(torch.randn(128, 256)), options={"target": FIXED_TARGET, **OWN}).json()
    regions = report["graphs"][0]["regions"]
    assert len(regions) == 1
    assert "aten._int_mm.default" in regions[0]["ops"]


def test_frozen_weights_of_bytes_take_as_much_memory_again():
    layer, x = QuantisedLinear(256, 512), torch.randn(64, 256)
    run = torch.compile(layer, backend="tilefuse", options=FROZEN)
    with torch.no_grad():
        run(x)
        before = tilefuse.packed_bytes()
        assert 256 * 512 <= before <= 1.1 * 256 * 512
        layer.weight.neg_()  # seen by the next call
        torch.testing.assert_close(run(x), layer(x), rtol=1e-5, atol=1e-5)
