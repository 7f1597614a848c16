"""Matrix products inside fused kernels: the option ``products`` puts them there, whoever would be faster."""

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, to_double

OWN = {"products": "own", "strict": True}


def check(function, *inputs, **options):
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options={**OWN, **options})(*inputs)
        assert_close(got, function(*inputs), function(*to_double(inputs)), "product")
    return got


def reasons_and_ops(function, *inputs, **options):
    report = tilefuse.explain(function, *inputs, options=options).json()
    graph = report["graphs"][0]
    return [edge["reason"] for edge in graph["unfused_edges"]], [op for region in graph["regions"] for op in region["ops"]]


def tensor(*shape):
    return torch.randn(*shape)


FORMS = {
    "mm": (lambda a, b: a @ b, (33, 70), (70, 45)),
    "mm_transposed_right": (lambda a, b: a @ b.t(), (33, 70), (45, 70)),
    "mm_transposed_left": (lambda a, b: a.t() @ b, (70, 33), (70, 45)),
    "mm_both_transposed": (lambda a, b: a.t() @ b.t(), (70, 33), (45, 70)),
    "many_steps": (lambda a, b: a @ b, (33, 9000), (9000, 45)),
    "many_steps_turned": (lambda a, b: a @ b.t(), (33, 9001), (45, 9001)),
    "gradient_of_weight": (lambda dy, x: dy.t() @ x, (512, 256), (512, 128)),
    "gradient_through_activation": (lambda dy, y, x: (dy * (y > 0)).t() @ x, (512, 256), (512, 256), (512, 128)),
    "turned_result": (lambda a, b: (a @ b).t(), (256, 512), (512, 128)),
    "linear": (lambda x, w, b: F.linear(x, w, b), (2, 9, 70), (45, 70), (45,)),
    "linear_one_row": (lambda x, w, b: F.relu(F.linear(x, w, b)), (1, 300), (130, 300), (130,)),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (33, 45), (33, 70), (70, 45)),
    "bmm": (lambda a, b: torch.bmm(a, b), (5, 17, 23), (5, 23, 19)),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), (5, 17, 19), (5, 17, 23), (5, 23, 19)),
    "mv": (lambda a, v: torch.mv(a, v), (33, 70), (70,)),
    "addmv": (lambda c, a, v: torch.addmv(c, a, v, beta=3), (33,), (33, 70), (70,)),
    "matmul_broadcast": (lambda a, b: torch.matmul(a, b), (3, 1, 8, 12), (4, 12, 9)),
    "einsum": (lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), (2, 3, 10, 16), (2, 3, 12, 16)),
    "outer": (lambda a, b: torch.outer(a, b) + 1, (40,), (50,)),
    "one_step": (lambda a, b: a @ b, (7, 1), (1, 9)),
    "one_result": (lambda a, b: a @ b, (1, 300), (300, 1)),
    "epilogue": (lambda x, w, b, r: F.gelu(x @ w + b) * 0.5 + r, (33, 70), (70, 45), (45,), (33, 45)),
    "row_statistics": (lambda x, w: F.layer_norm(x @ w, (45,)), (33, 70), (70, 45)),
    "prologue": (lambda x, w: (x * 2 + 1) @ w.exp(), (33, 70), (70, 45)),
    "norm_in_front": (lambda x, w: F.rms_norm(x, (70,)) @ w, (33, 70), (70, 45)),
    "gated": (lambda x, a, b: F.silu(x @ a) * (x @ b), (33, 70), (70, 45), (70, 45)),
    "chain": (lambda x, a, b: (x @ a) @ b, (33, 70), (70, 8), (8, 45)),
    "attention": (lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v, (2, 20, 16), (2, 24, 16), (2, 24, 16)),
    "shared_input": (lambda x, a, b: torch.cat((x @ a, x @ b), -1), (33, 70), (70, 20), (70, 30)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("form", FORMS)
def test_products_as_eager_computes_them(form, dtype):
    function, *shapes = FORMS[form]
    check(function, *(tensor(*shape).to(dtype) / 2 for shape in shapes))


@pytest.mark.parametrize("inner", [30, 66, 67, 500])
@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_of_narrow_factors(rows, inner):
    x, w, b = (tensor(*shape).bfloat16() for shape in ((rows, inner), (130, inner), (130,)))
    check(lambda x, w, b: F.relu(F.linear(x, w, b)), x, w, b)


@pytest.mark.parametrize("inner", [1024, 1028, 1027])
def test_few_rows_of_bytes(inner):
    x, w = torch.randint(0, 256, (3, inner), dtype=torch.uint8), torch.randint(-128, 128, (130, inner), dtype=torch.int8)
    got = torch.compile(lambda x, w: x.int() @ w.int().t(), backend="tilefuse", options=OWN)(x, w)
    assert torch.equal(got, x.int() @ w.int().t())


@pytest.mark.parametrize("sizes", [(0, 5, 7), (5, 0, 7), (5, 7, 0)])
def test_nothing_to_add_up_or_to_make(sizes):
    m, k, n = sizes
    check(lambda a, b: a @ b + 1, tensor(m, k), tensor(k, n))


@pytest.mark.parametrize("rows", [3, 64])
def test_odd_sums_of_narrow_factors_read_no_other_row(rows):
    x, w = tensor(rows, 197).bfloat16(), tensor(197, 130).bfloat16()
    x[1:, 0] = float("inf")  # behind the last element of the row before
    for weight in (w, w.t().contiguous().t()):
        check(lambda x, w: x @ w, x, weight)


def test_what_is_added_is_not_read_where_beta_is_zero():
    nothing = torch.full((33, 45), float("nan"))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), nothing, tensor(33, 70), tensor(70, 45))


@pytest.mark.parametrize("k", [0, 40])
def test_a_region_is_weighed_against_calls_that_are_given_more_than_it_reads(k):
    nothing, a, b = torch.full((8, 64, 64), float("nan")), tensor(8, 64, k), tensor(8, k, 64)
    check(lambda c, a, b: torch.softmax(torch.baddbmm(c, a, b, beta=0, alpha=0.2), -1), nothing, a, b, products="auto")


def test_not_a_number_and_infinity_pass_through():
    a, b = tensor(9, 20), tensor(20, 17)
    a[2, 3], a[4, 5], b[7, 8] = float("nan"), float("inf"), float("-inf")
    got = torch.compile(lambda a, b: a @ b, backend="tilefuse", options=OWN)(a, b)
    torch.testing.assert_close(got, a @ b, equal_nan=True)


def test_dequantised_weights_never_lie_in_memory():
    x, scale = tensor(3, 256), torch.rand(128) + 0.5
    weight = torch.randint(-127, 127, (256, 128), dtype=torch.int8)

    def function(x, weight, scale):
        return x @ (weight.float() * scale)

    check(function, x, weight, scale)
    reasons, ops = reasons_and_ops(function, x, weight, scale, products="own")
    assert not reasons and "aten.mm.default" in ops


def test_other_sizes_run_without_a_new_graph():
    run = torch.compile(lambda x, w: F.relu(x @ w), backend="tilefuse", dynamic=True, options=OWN)
    for rows, columns in ((33, 45), (7, 100), (64, 16), (2, 3)):
        x, w = tensor(rows, 70), tensor(70, columns)
        torch.testing.assert_close(run(x, w), F.relu(x @ w))


def test_gradients_go_through_products():
    def loss(x, w, b):
        return F.gelu(F.linear(x, w, b)).square().mean()

    inputs = [tensor(9, 24).requires_grad_(), tensor(16, 24).requires_grad_(), tensor(16).requires_grad_()]
    expected = torch.autograd.grad(loss(*inputs), inputs)
    got = torch.autograd.grad(torch.compile(loss, backend="tilefuse", options=OWN)(*inputs), inputs)
    torch.testing.assert_close(got, expected)


def test_weights_may_change_between_calls_in_any_way():
    layer = torch.nn.Linear(24, 16)
    run = torch.compile(layer, backend="tilefuse", options=OWN)
    x = tensor(9, 24)
    with torch.no_grad():
        run(x)
        for change in (lambda w: w.mul_(2), lambda w: w.data.copy_(torch.ones_like(w)), lambda w: w.numpy().fill(3)):
            change(layer.weight)
            torch.testing.assert_close(run(x), layer(x))


def test_the_library_keeps_what_it_is_asked_to_keep():
    function, a, b = (lambda a, b: F.relu(a @ b)), tensor(8, 8), tensor(8, 8)
    reasons, ops = reasons_and_ops(function, a, b, products="library")
    assert reasons == ["OpaqueProducer"] and "aten.mm.default" not in ops


ADDENDS = {
    "addmm": (lambda b, x, w: F.gelu(torch.addmm(b, x, w)), (45,), (33, 70), (70, 45)),
    "addmm_matrix": (lambda c, x, w: F.relu(torch.addmm(c, x, w)), (33, 45), (33, 70), (70, 45)),
    "addmv": (lambda c, a, v: F.relu(torch.addmv(c, a, v)), (33,), (33, 70), (70,)),
    "baddbmm": (lambda c, a, b: torch.softmax(torch.baddbmm(c, a, b), -1), (5, 1, 19), (5, 17, 23), (5, 23, 19)),
    "linear": (lambda b, x, w, r: F.layer_norm(F.linear(x, w, b) + r, (45,)), (45,), (2, 9, 70), (45, 70), (2, 9, 45)),
    "scaled": (lambda b, x, w: F.relu(torch.addmm(b, x, w, beta=0.5)), (45,), (33, 70), (70, 45)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("form", ADDENDS)
def test_regions_add_what_the_library_would_copy_first(form, dtype):
    function, *shapes = ADDENDS[form]
    inputs = [tensor(*shape).to(dtype) for shape in shapes]
    check(function, *inputs, products="library")
    report = str(tilefuse.explain(function, *inputs, options={"products": "library"}))
    stays_whole = dtype == torch.bfloat16 or form == "scaled"
    assert ("aten::add" in report or "aten::baddbmm" in report) == stays_whole, report


def test_an_addend_stays_in_the_call_where_its_sum_is_needed():
    def function(b, x, w):
        y = torch.addmm(b, x, w)
        return F.relu(y), y

    report = tilefuse.explain(function, tensor(45), tensor(33, 70), tensor(70, 45), options={"products": "library"})
    assert "aten::addmm runs with the framework" in str(report)


def test_a_kernel_that_does_not_compile_leaves_products_to_the_library(tmp_path):
    compiler = tmp_path / "cxx"
    compiler.write_text('#!/bin/sh\ncase "$*" in *--version*|*-dumpversion*) exec c++ "$@";; esac\nexit 1\n')
    compiler.chmod(0o700)
    a, b = tensor(8, 300), tensor(300, 8)
    run = torch.compile(lambda a, b: F.relu(a @ b), backend="tilefuse", options={"products": "own", "cxx": str(compiler)})
    torch.testing.assert_close(run(a, b), F.relu(a @ b))


def masks(queries, keys):
    lower = torch.ones(queries, keys, dtype=torch.bool).tril()
    lower[2] = False  # a query without keys
    return {"none": {}, "causal": {"is_causal": True}, "scale": {"scale": 0.3}, "boolean": {"attn_mask": lower},
            "additive": {"attn_mask": torch.randn(2, 1, queries, keys)}}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mask", ["none", "causal", "scale", "boolean", "additive"])
@pytest.mark.parametrize("sizes", [(20, 24), (24, 20), (1, 33)])
def test_attention_with_every_argument(sizes, mask, dtype):
    queries, keys = sizes
    arguments = masks(max(queries, 3), keys)[mask]
    if "attn_mask" in arguments:
        arguments["attn_mask"] = arguments["attn_mask"][..., :queries, :]
    q, k, v = tensor(2, 4, queries, 16), tensor(2, 4, keys, 16), tensor(2, 4, keys, 16)

    def function(q, k, v):
        given = {n: a.to(q.dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for n, a in arguments.items()}
        return F.scaled_dot_product_attention(q, k, v, **given)

    check(function, *(t.to(dtype) for t in (q, k, v)))


def test_attention_with_fewer_heads_of_keys():
    q, k, v = tensor(2, 8, 20, 16), tensor(2, 2, 24, 16), tensor(2, 2, 24, 16)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), q, k, v)


def test_gradients_go_through_attention():
    inputs = [tensor(2, 4, 20, 16).requires_grad_() for _ in "qkv"]

    def loss(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).square().sum()

    expected = torch.autograd.grad(loss(*inputs), inputs)
    torch.testing.assert_close(torch.autograd.grad(torch.compile(loss, backend="tilefuse", options=OWN)(*inputs), inputs), expected)
