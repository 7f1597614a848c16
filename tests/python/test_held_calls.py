"""Nodes that hold graphs, have effects, or take what no Call can hold: they run between regions, and the rest fuses."""

import pytest
import torch
import torch.utils._pytree as pytree
from tilefuse.backend import collect_graphs, regions_of
from tilefuse.held_calls import _running
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.compiler import nested_compile_region
from torch.nn.attention.flex_attention import flex_attention

X = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
IMAGE = torch.randn(1, 2, 16, 16, generator=torch.Generator().manual_seed(2))


@torch.library.custom_op("tilefuse_tests::add_one_in_place", mutates_args=("x",))
def add_one_in_place(x: torch.Tensor) -> None:
    x.add_(1)


# A tensor that is not optional and may be None all the same, as operators of attention have it.
LIBRARY = torch.library.Library("tilefuse_tests_none", "DEF")
LIBRARY.define("masked(Tensor x, Tensor mask) -> Tensor")
for key in ("CPU", "Meta"):
    LIBRARY.impl("masked", lambda x, mask: x.clone() if mask is None else x * mask, key)


# Gives less than its shapes promise, as attention of cuDNN leaves out what only a gradient would read.
LIBRARY.define("weighed(Tensor x) -> (Tensor, Tensor, Tensor, Tensor)")
LIBRARY.impl("weighed", lambda x: (x.clone(), None, None, torch.ones((), dtype=torch.int64)), "CPU")
LIBRARY.impl("weighed", lambda x: (x.clone(), x.new_empty(2), None, x.new_empty((), dtype=torch.int64)), "Meta")


def half_weighed(x):
    result, _, _, seed = torch.ops.tilefuse_tests_none.weighed(x.sin() * 2)
    return result.cos() + seed


def unmasked(x):
    return torch.ops.tilefuse_tests_none.masked(x.sin() * 2, None).cos() + 1


def written(x):
    y = x.sin() * 2
    add_one_in_place(y)
    return y.cos() + 1


def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: (x.sin() + x.shape[0]) * 2, lambda x: (x.cos() - 1) * 3, (x * 2,)).exp() + 1


def counted(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x * 2 + 1).sin()), (torch.zeros((), dtype=torch.int64), x + 1))[1].exp() + 1


nested = nested_compile_region(lambda x: (x.sin() + 1) * x)

# What runs -> the regions of its graph in inference, with those of graphs inside of it before.
CASES = {
    "solve": (lambda x: torch.linalg.solve(x.tanh() + torch.eye(4), x * 2).sin() + 1, X, ["tanh_eye_add_mul", "sin_add"]),
    "cholesky": (lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(4)).sin() + 1, X, ["mm_eye_add", "sin_add"]),
    "inv": (lambda x: torch.linalg.inv(x @ x.T + torch.eye(4)).sin() + 1, X, ["mm_eye_add", "sin_add"]),
    "lu": (lambda x: torch.linalg.lu_factor(x.sin() * 2)[0].abs() + 1, X, ["sin_mul", "abs_add"]),
    "qr": (lambda x: torch.linalg.qr(x.sin() * 2)[1].abs() + 1, X, ["sin_mul", "abs_add"]),
    "cond": (chosen, X, ["sin_add_mul", "cos_sub_mul", "sum_gt_mul", "exp_add"]),
    "while_loop": (counted, X, ["lt", "add", "mul_add_sin", "zeros", "add", "exp_add"]),
    "map": (lambda x: map_rows(lambda row, s: (row * 2 + s).sin(), x + 1, x[0]).exp() + 1, X, ["add", "exp_add"]),
    "scan": (lambda x: scan(lambda c, r: (c + r, c * r), x[0] * 2, x + 1)[1].exp() + 1, X, ["mul", "add", "exp_add"]),
    "invoke_subgraph": (lambda x: nested(nested(x) * 2).exp() + 1, X, ["sin_add_mul", "sin_add_mul", "mul", "exp_add"]),
    "tensor that is None": (unmasked, X, ["sin_mul", "cos_add"]),
    "result that is missing": (half_weighed, X, ["sin_mul", "cos_add"]),
    "auto_functionalized": (written, X, ["sin_mul", "cos_add"]),
    "complex number": (lambda x: torch.fft.fft(x * 2 + 1).add(2 + 1j, alpha=2).abs().exp() + 1, X, ["mul_add", "exp_add"]),
}  # fmt: skip
WITH_GRADIENTS = ["solve", "cholesky", "inv", "cond", "invoke_subgraph", "complex number"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def run(function, *inputs, **options):
    with collect_graphs() as graphs:
        got = torch.compile(function, backend="tilefuse", fullgraph=True, options={"strict": True}, **options)(*inputs)
    return got, [name for graph in graphs for name in regions_of(graph.answer)]


@pytest.mark.parametrize("name", CASES)
def test_neighbours_fuse(name):
    function, x, regions = CASES[name]
    got, names = run(function, x)
    torch.testing.assert_close(got, function(x))
    assert names == regions


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients(name):
    function, x, _ = CASES[name]
    with torch.no_grad():
        x = x.clone()
    (got,) = torch.autograd.grad(run(function, x.requires_grad_())[0].sum(), x)
    (expected,) = torch.autograd.grad(function(x.double()).sum(), x)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_products_with_complex_numbers_have_gradients():
    function = lambda x: (torch.fft.fft(x * 2 + 1) * (2 + 1j)).abs() + 1  # noqa: E731
    x = X.clone().requires_grad_()
    (got,) = torch.autograd.grad(run(function, x)[0].sum(), x)
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    torch.testing.assert_close(got, expected)


def test_associative_scan():
    function = lambda x: associative_scan(lambda a, b: a * b, x + 1, 0, combine_mode="generic").exp() + 1  # noqa: E731
    torch.testing.assert_close(run(function, X)[0], function(X))


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention():
    function = lambda q: flex_attention(q * 2, q + 1, q, score_mod=lambda s, b, h, i, j: s + (i - j)).exp() + 1  # noqa: E731
    got, names = run(function, IMAGE)
    torch.testing.assert_close(got, function(IMAGE))
    assert {"mul_add", "exp_add"} <= set(names)


def test_sizes_are_given_to_what_is_held():
    compiled = torch.compile(chosen, backend="tilefuse", dynamic=True, options={"strict": True})
    for size in (3, 5, 7):
        x = torch.randn(size, size)
        for given in (x.abs(), -x.abs()):
            torch.testing.assert_close(compiled(given), chosen(given))


def test_checks_raise_as_in_eager():
    function = lambda x: torch.linalg.inv(x * 0).sin()  # noqa: E731
    with pytest.raises(torch.linalg.LinAlgError) as eager:
        function(X)
    with pytest.raises(torch.linalg.LinAlgError, match=str(eager.value).replace("(", r"\(")):
        run(function, X)


def test_effects_keep_their_order(capsys):
    show = torch.ops.higher_order.print

    def function(x):
        for number in range(4):
            show("number {}", number)
            x = torch.linalg.inv(x) + 1
        return x

    got, _ = run(function, X)
    shown = capsys.readouterr().out.splitlines()
    assert shown == [f"number {number}" for number in range(4)]
    torch.testing.assert_close(got, function(X), rtol=1e-3, atol=1e-3)


def test_nothing_happens_behind_a_check_that_fails(capsys):
    show = torch.ops.higher_order.print

    def function(x):
        show("before")
        y = torch.linalg.inv(x * 0)
        show("behind")
        return y

    with pytest.raises(torch.linalg.LinAlgError):
        run(function, X)
    assert capsys.readouterr().out.splitlines() == ["before"]


def test_what_is_held_is_another_for_each_graph():
    for factor in (2, 3):
        function = lambda x: torch.cond(x.sum() > 0, lambda x: x * factor, lambda x: x - factor, (x + 1,)) * 2  # noqa: B023, E731
        torch.testing.assert_close(run(function, X)[0], function(X))


def test_what_is_held_goes_with_the_graph():
    import gc

    before = len(_running)
    compiled = torch.compile(chosen, backend="tilefuse")
    compiled(X)
    assert len(_running) > before
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert len(_running) <= before


def test_results_share_no_memory_with_operands():
    same = lambda x: torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: x + 1, (x,)) + 0  # noqa: E731
    x = X.abs()
    got, _ = run(lambda x: (same(x), x * 2), x)
    pytree.tree_map(lambda tensor: tensor.add_(1), got)
    torch.testing.assert_close(x, X.abs())
