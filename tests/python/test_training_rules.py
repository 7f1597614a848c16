"""What is taken apart where gradients are traced: gradients as eager's, and little kept for them."""

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, to_double

STRICT = {"strict": True}
ROWS, CLASSES = 24, 50


def gradients(function, *inputs):
    """Of the floating-point inputs, behind the result."""
    leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    result = function(*leaves)
    (result if result.dim() == 0 else (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)).sum()).backward()
    return [result.detach(), *(x.grad for x in leaves if x.grad is not None)]


def check(function, *inputs, dynamic=False):
    fused = torch.compile(function, backend="tilefuse", options=STRICT, dynamic=dynamic)
    exact = gradients(function, *to_double(inputs))
    assert_close(gradients(fused, *inputs), gradients(function, *inputs), exact, "gradients")


def classes(*shape):
    return torch.randint(0, CLASSES, shape)


def picked(x, at):
    return x.log_softmax(-1).gather(-1, at.unsqueeze(-1)).squeeze(-1)


LOSSES = {
    "cross_entropy": lambda x, t: F.cross_entropy(x, t),
    "sum": lambda x, t: F.cross_entropy(x, t, reduction="sum"),
    "none": lambda x, t: F.cross_entropy(x, t, reduction="none"),
    "ignored": lambda x, t: F.cross_entropy(x, torch.where(t < 10, -100, t)),
    "smooth": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "weighted": lambda x, t: F.cross_entropy(x, t, x.detach()[0].abs(), ignore_index=3),
    "weighted_sum": lambda x, t: F.nll_loss(x * 2, t, x.detach()[0].abs(), reduction="sum"),
    "picked": lambda x, t: picked(x, t).mean(),
    "entropy": lambda x, t: -(x.log_softmax(-1).exp() * x.log_softmax(-1)).sum(-1).mean(),
    "divergence": lambda x, t: F.kl_div(x.log_softmax(-1), x.detach().flip(0).softmax(-1), reduction="batchmean"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=["f32", "bf16", "f64"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_losses_have_the_gradients_of_eager(loss, dtype):
    check(loss, torch.randn(ROWS, CLASSES, dtype=dtype), classes(ROWS))


@pytest.mark.parametrize("shape", [(CLASSES,), (3, CLASSES, 7), (2, CLASSES, 3, 4), (0, CLASSES)], ids=str)
def test_losses_of_other_shapes(shape):
    target = classes(*shape[:1], *shape[2:]) if len(shape) > 1 else classes()
    check(lambda x, t: F.cross_entropy(x, t, reduction="sum"), torch.randn(shape), target)


def test_losses_of_any_size():
    for count in (5, 9, 24):
        check(lambda x, t: F.cross_entropy(x, t), torch.randn(count, CLASSES), classes(count), dynamic=True)


@pytest.mark.parametrize("loss", [LOSSES["cross_entropy"], LOSSES["picked"]], ids=["cross_entropy", "picked"])
def test_a_loss_keeps_rows_and_no_logits(loss):
    rows, columns = 64, 2000
    x, t = torch.randn(rows, columns, requires_grad=True), torch.randint(0, columns, (rows,))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        torch.compile(loss, backend="tilefuse", options=STRICT)(x, t)
    assert kept
    assert all(tensor.numel() <= rows or tensor.data_ptr() == x.data_ptr() for tensor in kept)


GATHERS = {
    "last": lambda x, i: x.gather(-1, i[:, :1]),
    "first": lambda x, i: x.gather(0, i[:1, :] % ROWS),
    "two_of_each": lambda x, i: x.gather(1, i[:, :2]),
    "the_same_twice": lambda x, i: x.gather(1, i[:, :1].expand(-1, 2)),
    "of_some_rows": lambda x, i: x.gather(1, i[:7, :1]),
    "of_products": lambda x, i: (x * x).gather(1, i[:, :1]) * x[:, :1],
    "of_all": lambda x, i: x.gather(1, i),
}


@pytest.mark.parametrize("function", GATHERS.values(), ids=GATHERS)
def test_gathers_have_the_gradients_of_eager(function):
    check(function, torch.randn(ROWS, CLASSES), classes(ROWS, CLASSES))


def test_the_gradient_of_what_is_read_once_is_one_region():
    def function(x, i):
        return (x * 2).sigmoid().gather(1, i).sum()

    inputs = torch.randn(ROWS, CLASSES, requires_grad=True), classes(ROWS, 1)
    graphs = tilefuse.explain(function, *inputs).json()["graphs"]
    (backward,) = [graph for graph in graphs if graph["role"] == "backward"]
    assert len(backward["regions"]) == 1
    assert all(node["kind"] != "call" for node in backward["graph"]["nodes"])


@pytest.mark.parametrize("place", [CLASSES, -1])
def test_places_outside_are_errors_where_gradients_are_traced(place):
    def read(x, i):
        return x.gather(1, i).sum()

    def written(x, i):
        return torch.zeros(ROWS, CLASSES).scatter_add(1, i, x[:, :1]).square().sum()

    x, at = torch.randn(ROWS, CLASSES, requires_grad=True), torch.zeros(ROWS, 1, dtype=torch.int64)
    at[3] = place
    for function in (read, written):
        with pytest.raises((IndexError, RuntimeError)):
            function(x, at)
        with pytest.raises(IndexError, match="out of range"):
            torch.compile(function, backend="tilefuse", options=STRICT)(x, at).backward()


def test_detached_results_are_returned_beside_what_they_are():
    def function(x):
        y = x.tanh()
        return y, y.detach(), y.detach() * x

    x = torch.randn(ROWS, CLASSES, requires_grad=True)
    y, detached, product = torch.compile(function, backend="tilefuse", options=STRICT)(x)
    assert y.requires_grad
    assert not detached.requires_grad
    assert torch.equal(y, detached)
    (y.sum() + product.sum()).backward()
    got, x.grad = x.grad, None
    y, _, product = function(x)
    (y.sum() + product.sum()).backward()
    torch.testing.assert_close(got, x.grad)


@pytest.mark.parametrize("shape", [(3, 12, 5, 6), (2, 12), (4, 12, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_gradients_of_group_norm(shape, dtype):
    x, weight, bias = (torch.randn(s, dtype=dtype) + 1 for s in (shape, shape[1:2], shape[1:2]))
    check(lambda x, w, b: F.group_norm(x, 3, w, b), x, weight, bias)
    check(lambda x: F.group_norm(x, 3), x)


def test_gradients_of_group_norm_pass_nothing_large_between_kernels():
    x = torch.randn(4, 32, 64, 32, requires_grad=True)
    weight, bias = (torch.ones(32, requires_grad=True) for _ in range(2))
    report = tilefuse.explain(lambda x, w, b: F.group_norm(x, 8, w, b), x, weight, bias)
    (backward,) = (graph for graph in report.json()["graphs"] if graph["role"] == "backward")
    moved = sum(region["bytes"] for region in backward["regions"])
    assert moved < 5.1 * x.numel() * x.element_size(), moved  # both read twice, and the gradient written
