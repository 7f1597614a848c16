"""Inference graphs that are called without AOTAutograd's wrapper, and those that need it: results as eager has them either way."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import tilefuse  # noqa: F401

MODULE = sys.modules["tilefuse.backend"]


@pytest.fixture
def calls(monkeypatch):
    """The DirectCall of each graph that is compiled."""
    made = []

    class Recorded(MODULE.DirectCall):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(MODULE, "DirectCall", Recorded)
    return made


def scale(x):
    return torch.relu(x * 2 + 1)


def several(x, y):
    return x + y, (x * y).sum(-1), None


class Doubled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("offset", torch.randn(8))

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.offset


@pytest.mark.parametrize(
    "function, inputs",
    [(scale, (4, 8)), (several, (4, 8)), (Doubled().eval(), (4, 8))],
    ids=["one", "several", "module"],
)
def test_plain_graphs_are_called_directly(calls, function, inputs):
    compiled = torch.compile(function, backend="tilefuse")
    arguments = [torch.randn(*inputs) for _ in range(2 if function is several else 1)]
    with torch.no_grad():
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
        arguments = [torch.randn(*inputs) for _ in arguments]
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
    assert [call.function is not None for call in calls] == [True]


def changes_its_input(x):
    x.mul_(2)
    return x + 1


def returns_a_view(x):
    return (x * 3).relu(), x.transpose(0, 1)


def returns_its_input(x):
    return torch.sigmoid(x), x


def returns_views_of_one(x):
    y = torch.sigmoid(x)
    return y[0], y[1]


@pytest.mark.parametrize(
    "function, is_direct",  # Dynamo itself gives an input back; without gradients, views of one result are results
    [(changes_its_input, False), (returns_a_view, False), (returns_its_input, True), (returns_views_of_one, True)],
)
def test_memory_is_shared_as_in_eager(calls, function, is_direct):
    x = torch.randn(4, 8)
    ours, theirs = x.clone(), x.clone()
    with torch.no_grad():
        got, expected = torch.compile(function, backend="tilefuse")(ours), function(theirs)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(ours, theirs)
    if isinstance(expected, tuple):
        same = lambda outs, x: [o.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for o in outs]  # noqa: E731
        assert same(got, ours) == same(expected, theirs)
        assert same(got, got[0]) == same(expected, expected[0])
    assert [call.function is not None for call in calls] == [is_direct]


def test_autocast_keeps_the_wrapper(calls):
    model, x = Doubled().eval(), torch.randn(4, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        got, expected = torch.compile(model, backend="tilefuse")(x), model(x)
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
    assert [call.function for call in calls] == [None]


def test_inputs_with_gradient_keep_the_wrapper(calls):
    """Nothing here has a gradient, so AOTAutograd makes an inference graph although gradients are on."""
    x = torch.randn(4, 8, requires_grad=True)
    function = lambda x: (x * 2).argmax(-1)  # noqa: E731
    assert torch.equal(torch.compile(function, backend="tilefuse")(x), function(x))
    assert [call.function for call in calls] == [None]


def test_training_keeps_the_wrapper(calls):
    model, x = Doubled(), torch.randn(4, 8)
    torch.compile(model, backend="tilefuse")(x).sum().backward()
    assert model.linear.weight.grad is not None
    assert [call.function for call in calls] == [None]


def test_subclasses_of_tensors_keep_the_wrapper(calls):
    x = TwoTensor(torch.randn(4, 8), torch.randn(4, 8))
    with torch.no_grad():
        got, expected = torch.compile(scale, backend="tilefuse")(x), scale(x)
    assert type(got) is TwoTensor
    torch.testing.assert_close(got.a, expected.a)
    torch.testing.assert_close(got.b, expected.b)
    assert [call.function for call in calls] == [None]


def test_sizes_stay_dynamic_behind_a_graph_break(calls):
    """AOTAutograd marks results of varying size, so that the next graph is made for any size."""

    def broken(x):
        y = torch.relu(x + 1)
        torch._dynamo.graph_break()
        return y * 2

    compiled = torch.compile(broken, backend="tilefuse", dynamic=True)
    with torch.no_grad():
        for rows in (4, 5, 6):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), broken(x))
    assert [call.function for call in calls] == [None, None]
