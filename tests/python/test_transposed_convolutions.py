"""Transposed convolutions as convolutions of each phase: eager's values, where that is quicker and elsewhere."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from engine import compiled
from numeric import assert_close, to_double
from tilefuse import phase_rules

STRICT = {"strict": True}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@pytest.fixture
def always_taken(monkeypatch):
    for limit in ("_LEAST_POSITIONS", "_LEAST_PRODUCTS", "_MANY_TAPS"):
        monkeypatch.setattr(phase_rules, limit, 0)


SIZES = {1: (8,), 2: (5, 7)}
MOVES = list(itertools.product((1, 2, 3, 4, 5), (1, 2, 3), (0, 1, 2), (0, 1), (1, 2), (True, False)))


@pytest.mark.parametrize("dims", SIZES)
def test_every_form_has_the_phases_of_eager(dims, always_taken):
    rule = phase_rules.phase_rules()[torch.ops.aten.convolution.default]
    taken = 0
    for window, stride, padding, behind, groups, has_bias in MOVES:
        if behind >= stride:
            continue
        x, w = torch.randn(2, 4, *SIZES[dims]), torch.randn(4, 6 // groups, *[window] * dims)
        b = torch.randn(6) if has_bias else None
        got = rule(x, w, b, [stride], [padding], [1], True, [behind], groups)
        if got is NotImplemented:
            continue
        taken += 1
        torch.testing.assert_close(got, TRANSPOSED[dims](x, w, b, stride, padding, behind, groups), atol=1e-4, rtol=1e-4)
        assert got.is_contiguous()
    assert taken > len(MOVES) / 3


# sizes of the images, channels in and out, window, how it moves
FORMS = {
    "step_1": ((1, 16, 40, 40), 24, 3, {"padding": 1}),
    "step_2_even": ((1, 16, 40, 33), 24, 4, {"stride": 2, "padding": 1}),
    "step_2_uneven": ((1, 64, 64, 30), 64, 3, {"stride": 2, "padding": 1, "output_padding": 1}),
    "apart": ((2, 32, 24, 24), 16, 2, {"stride": 2}),
    "groups": ((2, 64, 32, 32), 64, 4, {"stride": 2, "padding": 1, "groups": 2}),
    "row": ((2, 16, 1024), 16, 5, {}),
    "volume": ((1, 32, 8, 12, 12), 16, 2, {"stride": 2}),
}


def form(name):
    torch.manual_seed(0)
    shape, members, window, moves = FORMS[name]
    dims = len(shape) - 2
    w = torch.randn(shape[1], members // moves.get("groups", 1), *[window] * dims) / 8
    return (lambda x, w, b: F.gelu(TRANSPOSED[dims](x, w, b, **moves))), torch.randn(shape), w, torch.randn(members)


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_taken_and_computed_as_by_eager(name):
    function, *inputs = form(name)
    assert not has_transposed(function, inputs)
    with torch.no_grad():
        fused = torch.compile(function, backend="tilefuse", options=STRICT)
        assert_close([fused(*inputs)], [function(*inputs)], [function(*to_double(inputs))], name)


def has_transposed(function, inputs):
    """Whether the graph that reaches the engine has a transposed convolution."""
    found = []

    def keep(role):
        def compile(module, inputs):
            calls = [node for node in module.graph.nodes if node.target is torch.ops.aten.convolution.default]
            found.append(any(node.args[6] for node in calls))
            return module.forward

        return compile

    with torch.no_grad():
        compiled(function, keep)(*inputs)
    return found == [True]


@pytest.mark.parametrize("name", ["step_1", "step_2_even", "step_2_uneven"])
def test_gradients_are_those_of_eager(name):
    function, *inputs = form(name)

    def gradients(function, tensors):
        leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
        function(*leaves).square().mean().backward()
        return [leaf.grad for leaf in leaves]

    fused = torch.compile(function, backend="tilefuse", options=STRICT)
    assert_close(gradients(fused, inputs), gradients(function, inputs), gradients(function, to_double(inputs)), name)


def test_batches_of_any_size():
    function, x, w, b = form("step_2_even")
    fused = torch.compile(function, backend="tilefuse", options=STRICT, dynamic=True)
    with torch.no_grad():
        for batch in (1, 2, 5):
            images = torch.randn(batch, *x.shape[1:])
            assert_close([fused(images, w, b)], [function(images, w, b)], [function(*to_double((images, w, b)))], f"batch {batch}")


@pytest.mark.parametrize("change", ["channels_last", "bf16", "dilated", "few_positions"])
def test_others_stay_as_they_are(change):
    function, x, w, b = form("step_1")
    if change == "channels_last":
        x = x.to(memory_format=torch.channels_last)
    if change == "bf16":
        x, w, b = x.bfloat16(), w.bfloat16(), b.bfloat16()
    if change == "dilated":
        function = lambda x, w, b: F.conv_transpose2d(x, w, b, dilation=2)  # noqa: E731
    if change == "few_positions":
        x = x[:, :, :8, :8].contiguous()
    assert has_transposed(function, (x, w, b))
    with torch.no_grad():
        want = function(x, w, b)
        got = torch.compile(function, backend="tilefuse", options=STRICT)(x, w, b)
        assert got.stride() == want.stride()
        assert_close([got], [want], [function(*to_double((x, w, b)))], change)

