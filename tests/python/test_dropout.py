"""Dropout: eager's numbers from eager's generator, drawn faster, and multiplied where the results are stored."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from engine import engine
from torch.utils.checkpoint import checkpoint

from tilefuse.backend import collect_graphs
from tilefuse.library import operators


def mask_of(shape, keep):
    like = torch.empty(shape)
    return operators().dropout_mask(like.shape, like.stride(), keep)


@pytest.mark.parametrize("count", [0, 1, 5, 311, 312, 313, 624, 2048, 100003])
@pytest.mark.parametrize("drawn_before", [0, 1, 2, 623, 624, 625])
def test_the_mask_is_what_torch_draws(count, drawn_before):
    for keep in (0.0, 0.1, 0.5, 0.9, 1.0):
        torch.manual_seed(count)
        torch.randint(2**31, (drawn_before,), dtype=torch.int32)  # one word each
        before = torch.get_rng_state()
        expected = torch.empty(count, dtype=torch.bool).bernoulli_(keep)
        behind = torch.get_rng_state()
        torch.set_rng_state(before)
        assert torch.equal(mask_of(count, keep), expected)
        assert torch.equal(torch.get_rng_state(), behind)


def test_a_normal_number_that_waits_is_not_lost():
    def numbers():
        torch.manual_seed(3)
        first = torch.randn(3)  # draws four
        return first, mask_of(10, 0.5), torch.randn(3)

    torch.manual_seed(3)
    expected = torch.randn(3), torch.empty(10, dtype=torch.bool).bernoulli_(0.5), torch.randn(3)
    assert all(torch.equal(*pair) for pair in zip(numbers(), expected, strict=True))


def test_the_mask_is_an_operator_as_torch_wants_it():
    torch.library.opcheck(
        operators().dropout_mask.default,
        ([3, 4], [1, 3], 1.0),  # it checks results against each other: without chance
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
    )
    with pytest.raises(RuntimeError, match="keep is 1.5"):
        mask_of(3, 1.5)
    with pytest.raises(RuntimeError, match="leave gaps"):
        operators().dropout_mask([3, 4], [8, 1], 0.5)


def train(function, *inputs):
    given = [x.clone().requires_grad_() for x in inputs]
    torch.manual_seed(11)
    result = function(*given)
    result.backward(torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype))
    return [result.detach(), *(x.grad for x in given)], torch.get_rng_state()


def block(x, weight, bias, residual):
    hidden = F.dropout(F.gelu(F.linear(x, weight, bias)), 0.3)
    return F.layer_norm(F.dropout(hidden, 0.1) + residual, (weight.shape[0],))


def inputs_of(dtype):
    return [torch.randn(shape, dtype=dtype) for shape in ((37, 64), (96, 64), (96,), (37, 96))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_training_step_draws_and_computes_what_eager_does(dtype):
    inputs = inputs_of(dtype)
    (eagers, state), (ours, our_state) = train(block, *inputs), train(engine(block), *inputs)
    exact, _ = train(block, *(x.double() for x in inputs))
    assert torch.equal(state, our_state)
    for our, eager, truth in zip(ours, eagers, exact, strict=True):
        error = lambda x: (x.double() - truth).norm() / truth.norm()  # noqa: B023 - called at once
        assert error(our) <= 1.2 * error(eager) + 1e-7


def test_the_product_joins_what_is_around_it():
    with collect_graphs() as graphs:
        train(engine(block), *inputs_of(torch.float32))
    forward = next(graph for graph in graphs if graph.role == "forward")
    regions = json.loads(operators().report(forward.answer["report_id"]))["regions"]
    assert forward.graph_json.count('"torch.ops.tilefuse.dropout_mask.default"') == 2
    assert "native_dropout" not in forward.graph_json
    assert len(regions) <= 2, [region["name"] for region in regions]  # the product with gelu, mask and scale; the sum with its norm


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_nothing_or_all_dropped(p):
    inputs = [torch.randn(5, 7)]
    function = lambda x: F.dropout(x * 2, p)
    (expected, _), (got, _) = train(function, *inputs), train(engine(function), *inputs)
    assert all(torch.equal(*pair) for pair in zip(got, expected, strict=True))


def test_inference_draws_nothing():
    x = torch.randn(8, 8)
    before = torch.get_rng_state()
    assert torch.equal(engine(lambda x: F.dropout(x, 0.5, training=False) + 1)(x), x + 1)
    assert torch.equal(before, torch.get_rng_state())


def test_what_is_computed_again_for_the_backward_draws_the_same():
    function = lambda x, w: checkpoint(lambda a: F.dropout(torch.tanh(a @ w), 0.5), x, use_reentrant=False)
    inputs = [torch.randn(16, 32), torch.randn(32, 8)]
    (expected, state), (got, our_state) = train(function, *inputs), train(engine(function), *inputs)
    assert torch.equal(state, our_state)
    for ours, eagers in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-4)


def test_other_sizes_draw_as_many():
    function = torch.compile(lambda x: F.dropout(x, 0.5) + 1, backend="tilefuse", dynamic=True)
    for rows in (4, 9, 300):
        x = torch.randn(rows, 20)
        (expected, state), (got, our_state) = train(lambda x: F.dropout(x, 0.5) + 1, x), train(function, x)
        assert torch.equal(state, our_state)
        assert all(torch.equal(*pair) for pair in zip(got, expected, strict=True))


@pytest.mark.parametrize(
    "view",
    [lambda x: x.to(memory_format=torch.channels_last), lambda x: x.transpose(1, 3), lambda x: x[:, ::2, :, 1:]],
    ids=["channels_last", "transposed", "with_gaps"],
)
def test_other_layouts_are_drawn_as_they_lie(view):
    function = lambda x: F.dropout(view(x) * 2, 0.5)
    inputs = [torch.randn(2, 8, 5, 7)]
    (expected, state), (got, our_state) = train(function, *inputs), train(engine(function), *inputs)
    assert torch.equal(state, our_state)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])
    assert got[0].stride() == expected[0].stride()
