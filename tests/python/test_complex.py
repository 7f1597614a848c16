"""Arithmetic of complex numbers: values and gradients as eager's, in the kernels of real ones."""

import pytest
import tilefuse
import torch
from numeric import assert_close

STRICT = {"strict": True}
BATCH, TOKENS, HEADS, CHANNELS = 2, 12, 3, 8


def turned(x, turns):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None]).flatten(3).type_as(x)


def turned_by_angles(x, angles):
    turns = torch.polar(torch.ones_like(angles), angles) * 0.9
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)


def heads(dtype=torch.float32):
    return torch.randn(BATCH, TOKENS, HEADS, CHANNELS, dtype=dtype)


def angles():
    return torch.rand(TOKENS, CHANNELS // 2) * 10


def turns():
    return torch.polar(torch.ones(TOKENS, CHANNELS // 2), angles())


def calls_of(function, *inputs):
    """By graph, what is left to PyTorch."""
    graphs = tilefuse.explain(function, *inputs, options=STRICT).json()["graphs"]
    return [[node["op"] for node in graph["graph"]["nodes"] if node["kind"] == "call"] for graph in graphs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize(("function", "second"), [(turned, turns), (turned_by_angles, angles)], ids=["turns", "angles"])
def test_rotary_embeddings(function, second, dtype):
    inputs = heads(dtype), second()
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options=STRICT)(*inputs)
        exact = function(inputs[0].double(), inputs[1].to(torch.complex128) if inputs[1].is_complex() else inputs[1].double())
    assert_close(got, function(*inputs), exact.to(torch.float64), "rotary")
    x = inputs[0].requires_grad_()
    gradients = []
    for candidate in (function, torch.compile(function, backend="tilefuse", options=STRICT)):
        candidate(x, inputs[1]).square().sum().backward()
        gradients.append(x.grad)
        x.grad = None
    torch.testing.assert_close(gradients[1], gradients[0])


def test_rotary_embeddings_are_kernels():
    with torch.no_grad():
        assert calls_of(turned_by_angles, heads(), angles()) == [[]]
        (calls,) = calls_of(turned, heads(), turns())
        assert len(calls) == 1  # pairs of the argument
    forward, backward = calls_of(turned_by_angles, heads().requires_grad_(), angles())
    assert not forward
    assert not backward


def c(*shape, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype)


FORMS = {
    "product": (lambda a, b: a * b, lambda: (c(5, 7), c(5, 7))),
    "product_spread": (lambda a, b: a * b + b, lambda: (c(5, 7), c(7))),
    "by_itself": (lambda a: a * a - a, lambda: (c(5, 7),)),
    "conjugate": (lambda a, b: (a * b.conj()).real, lambda: (c(5, 7), c(5, 7))),
    "length": (lambda a: torch.view_as_real(a * a.conj())[..., 0], lambda: (c(5, 7),)),
    "by_real": (lambda a, b: a * b, lambda: (c(5, 7), torch.randn(5, 1))),
    "real_by": (lambda a, b: b * a * 3, lambda: (c(5, 7), torch.randn(7))),
    "by_complex_number": (lambda a: a * 2j + (1 - 1j), lambda: (c(5, 7),)),
    "real_by_complex_number": (lambda a: (a * 1j).exp().real + (1j * a).imag, lambda: (torch.randn(5, 7),)),
    "by_real_double": (lambda a, b: a * b, lambda: (c(5, 7), torch.randn(5, 7, dtype=torch.float64))),
    "mixed": (lambda a, b: a * b, lambda: (c(5, 7), c(5, 7, dtype=torch.complex128))),
    "double": (lambda a, b: a * b - b, lambda: (c(5, 7, dtype=torch.complex128), c(5, 7, dtype=torch.complex128))),
    "alpha": (lambda a, b: torch.sub(a, b, alpha=2), lambda: (c(5, 7), c(5, 7))),
    "views": (
        lambda a, b: torch.view_as_real((a * b)[1:4].transpose(0, 1).unsqueeze(1)[..., 1]).permute(2, 0, 1),
        lambda: (c(5, 7), c(5, 7)),
    ),
    "views_of_an_argument": (
        lambda a, b: torch.view_as_real(a.t()[1:].unsqueeze(-1) * b) + torch.view_as_real(a.t()[:1].unsqueeze(0)),
        lambda: (c(5, 7), c(5, 5)),
    ),
    "both_results": (lambda a, b: (a * b, torch.view_as_real(a * b).sum(-1)), lambda: (c(5, 7), c(5, 7))),
    "sums": (lambda a, b: (a * b).sum(0), lambda: (c(5, 7), c(5, 7))),
    "conjugated_argument": (lambda a, b: torch.view_as_real(a * b), lambda: (c(5, 7).conj(), c(5, 7))),
    "none": (lambda a, b: a * b, lambda: (c(0, 7), c(0, 7))),
    "one": (lambda a, b: a * b, lambda: (c(1)[0], c(1)[0])),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize(("function", "inputs"), FORMS.values(), ids=FORMS)
def test_results_are_those_of_eager(function, inputs, dynamic):
    given = inputs()
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options=STRICT, dynamic=dynamic)(*given)
        torch.testing.assert_close(got, function(*given))


@pytest.mark.parametrize("name", ["product_spread", "conjugate", "by_real", "views", "double"])
def test_gradients_are_those_of_eager(name):
    function, inputs = FORMS[name]
    given = [x.requires_grad_() for x in inputs()]
    results = []
    for candidate in (function, torch.compile(function, backend="tilefuse", options=STRICT)):
        result = candidate(*given)
        loss = (torch.view_as_real(result) if result.is_complex() else result).square().sum()
        results.append(torch.autograd.grad(loss, given))
    torch.testing.assert_close(results[1], results[0])
