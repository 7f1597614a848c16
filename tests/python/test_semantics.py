"""torch's rules at their edges, beyond PyTorch's own samples: special values, integers that wrap, promotion, odd
layouts, empty tensors, negative dims. Many operators share a graph, so that a rule costs few kernels.
"""

from __future__ import annotations

import itertools
import math

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from engine import engine
from numeric import assert_close, exact_or_eager

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
ANY = (torch.bool, *INTEGERS, *FLOATS)
short = lambda value: str(value).removeprefix("torch.")


def check(functions, *inputs):
    """Each of the named functions on the inputs, all in one graph, against eager: values, dtypes, shapes, strides."""

    def together(*arguments):
        return [function(*arguments) for function in functions.values()]

    with torch.no_grad():
        all_got = engine(together)(*inputs)
        for (name, function), got in zip(functions.items(), all_got, strict=True):
            expected = function(*inputs)
            assert_close(got, expected, exact_or_eager(function, inputs), name)
            for ours, eagers in zip(leaves(got), leaves(expected), strict=True):
                assert strides(ours) == strides(eagers), f"{name}: strides {ours.stride()}, not {eagers.stride()}"


def leaves(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def strides(tensor):
    """Those that can be told: none along dims of one element, none at all of an empty tensor."""
    return [] if tensor.numel() == 0 else [s for s, n in zip(tensor.stride(), tensor.shape) if n > 1]


# ---------------------------------------------------------------- special values of floats
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 1e-8, -1e-8, 1e-41, -1e-41, 89.0, -89.0, 104.5, -104.5,
    3e4, -3e4, 1e30, -1e30, 3.3e38, -3.3e38, math.inf, -math.inf, math.nan,
)  # fmt: skip
UNARY = {
    name: getattr(torch, name)
    for name in (
        "abs", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "frac", "isfinite", "isinf",
        "isnan", "isneginf", "isposinf", "log", "log10", "log1p", "log2", "logical_not", "nan_to_num", "neg",
        "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan",
        "tanh", "trunc", "acos", "acosh", "asin", "asinh", "atan", "atanh", "logit",
    )
} | {
    name: getattr(F, name)
    for name in (
        "elu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish",
        "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "celu",
    )
} | {
    "bool": lambda x: x.bool(), "double": lambda x: x.double(), "half": lambda x: x.half(), "bf16": lambda x: x.bfloat16(),
    "clamp": lambda x: x.clamp(-2, 3), "clamp_nan": lambda x: x.clamp(math.nan), "clamp_crossed": lambda x: x.clamp(3, -2),
    "pow": lambda x: [x**p for p in (0, 0.5, -0.5, 1, 2, 3, -1, -2, 1.7, 4)], "base": lambda x: 2**x,
    "gelu": lambda x: F.gelu(x.clamp(-1e4, 1e4)), "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "threshold": lambda x: F.threshold(x, 0.5, 7),
    "nan_to_num": lambda x: torch.nan_to_num(x, 1, 2, 3), "logit_eps": lambda x: torch.logit(x, 0.1),
    "remainder": lambda x: [x % 3, x % -2.5, torch.fmod(x, 3), torch.fmod(x, -2.5), x // 3, x // -2.5],
}  # fmt: skip
BINARY = {
    name: getattr(torch, name)
    for name in (
        "add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "floor_divide", "atan2",
        "copysign", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logaddexp", "pow",
        "xlogy",
    )
} | {
    "fmod": lambda a, b: torch.fmod(a, normal(b)), "remainder": lambda a, b: torch.remainder(a, normal(b)),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "where": lambda a, b: torch.where(a > b, a, b), "alpha": lambda a, b: torch.add(a, b, alpha=2),
    "rsub": lambda a, b: torch.rsub(a, b, alpha=3), "heaviside": lambda a, b: torch.where(a == 0, b, (a > 0).to(b.dtype)),
}  # fmt: skip


def normal(b):
    """By a denormal number, eager's vectors answer NaN and its scalars the rest."""
    return torch.where(b.abs() < 1e-30, torch.copysign(torch.full_like(b, 2), b), b)


def in_groups(functions, size=12):
    names = list(functions)
    return [pytest.param(names[i : i + size], id=names[i]) for i in range(0, len(names), size)]


@pytest.mark.parametrize("dtype", FLOATS, ids=short)
@pytest.mark.parametrize("names", in_groups(UNARY))
def test_special_values_of_one_operand(names, dtype):
    check({name: UNARY[name] for name in names}, torch.tensor(SPECIAL, dtype=torch.float64).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=short)
@pytest.mark.parametrize("names", in_groups(BINARY))
def test_special_values_of_two_operands(names, dtype):
    away_from_overflow = [v for v in SPECIAL if abs(v) not in (3e4, 3.3e38)]  # of 2 b in a + 2 b, which eager may round
    x = torch.tensor(away_from_overflow, dtype=torch.float64).to(dtype)
    check({name: BINARY[name] for name in names}, x[:, None], x)


REDUCTIONS = {
    "sum": lambda x: x.sum(-1), "prod": lambda x: x.prod(-1), "mean": lambda x: x.mean(-1), "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1, keepdim=True), "amax": lambda x: x.amax(-1), "amin": lambda x: x.amin(-1),
    "max": lambda x: list(x.max(-1)), "min": lambda x: list(x.min(-1)), "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1), "any": lambda x: x.any(-1), "all": lambda x: x.all(-1),
    "logsumexp": lambda x: x.logsumexp(-1), "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "nansum": lambda x: x.nansum(-1), "count_nonzero": lambda x: x.count_nonzero(-1), "cumsum": lambda x: x.cumsum(-1),
    "norms": lambda x: [torch.linalg.vector_norm(x, p, -1) for p in (0, 1, 2, 3, math.inf, -math.inf)],
}  # fmt: skip
ROWS = [
    [1.0, 2.0, 3.0, -4.0], [math.nan, 1.0, 2.0, 3.0], [3.0, 1.0, math.nan, 2.0], [math.inf, 1.0, -2.0, 0.0],
    [-math.inf, 1.0, -2.0, 0.0], [math.inf, -math.inf, 1.0, 2.0], [-math.inf] * 4, [math.inf] * 4, [math.nan] * 4,
    [0.0, -0.0, 0.0, -0.0], [2.0] * 4, [1.0, 2.0, 2.0, math.inf], [100.0, 100.0, -100.0, 3e4],
]  # fmt: skip


@pytest.mark.parametrize("count", [4, 36])
@pytest.mark.parametrize("dtype", FLOATS, ids=short)
def test_special_values_in_reductions(dtype, count):
    x = torch.tensor(ROWS).to(dtype)
    check(REDUCTIONS, x.repeat_interleave(count // 4, 1).contiguous())


# ---------------------------------------------------------------- integers
ON_INTEGERS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "abs": lambda a, b: [a.abs(), -b],
    "square": lambda a, b: [a**2, a**3, a**4, a.square(), a**0, a**1], "sign": lambda a, b: a.sign(),
    "quotients": lambda a, b: [q(a, d) for q in (torch.floor_divide, torch.remainder, torch.fmod) for d in (3, -3, -1, 1)],
    "divide": lambda a, b: [a / 3, torch.div(a, 7, rounding_mode="trunc"), torch.div(a, -2, rounding_mode="floor")],
    "bits": lambda a, b: [a & b, a | b, a ^ b, ~a], "shifts": lambda a, b: [a << 1, a >> 2, a << 0, a >> 7],
    "extremes": lambda a, b: [torch.maximum(a, b), torch.minimum(a, b), a.clamp(3, 100), a.clamp(max=5)],
    "compare": lambda a, b: [a < b, a == b, a >= 2.5, a != True], "logic": lambda a, b: torch.logical_xor(a, b),
    "to_float": lambda a, b: [a.float(), a.double(), a.half(), a.bfloat16(), a * 0.5, a + 1.5],
    "to_integer": lambda a, b: [a.long(), a.int(), a.short(), a.to(torch.int8), a.byte(), a.bool()],
    "reduce": lambda a, b: [a.sum(0), a.prod(0), a.amax(0), a.amin(0), a.argmax(0), a.argmin(0), a.any(0), a.all(0)],
    "sum_in": lambda a, b: [a.sum(0, dtype=torch.int32), a.sum(0, dtype=torch.float64), a.clamp(1, 3).prod(0, dtype=torch.float32)],
    "cumsum": lambda a, b: [a.cumsum(0), a.cumprod(0)], "where": lambda a, b: torch.where(a > 3, a, b),
    "transcendental": lambda a, b: [a.exp(), a.sigmoid(), a.sin(), a.abs().sqrt(), a.erf(), a.tanh(), a.atan()],
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=short)
def test_integers_wrap_and_divide_as_in_eager(dtype):
    limits = torch.iinfo(dtype)
    values = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 5, 7, 100, limits.max // 2 + 1]
    values += [v for v in (-1, -2, -3, -5, -7, -100) if limits.min < 0]
    x = torch.tensor(values * 3, dtype=dtype)
    check(ON_INTEGERS, x, x.roll(5))


# ---------------------------------------------------------------- promotion
PROMOTING = {
    "add": torch.add, "mul": torch.mul, "div": torch.div, "lt": torch.lt, "eq": torch.eq,
    "where": lambda a, b: torch.where(a.bool(), a, b),
    "scaled": lambda a, b: torch.add(a, b, alpha=2) if not a.dtype == b.dtype == torch.bool else a,
    "atan2": torch.atan2, "maximum": torch.maximum, "cat": lambda a, b: torch.cat([a, b.expand_as(a)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROMOTING)
def test_tensors_promote_as_in_eager(name):
    data = torch.tensor([3.0, 0.0, 1.0, 7.0, 2.5])
    inputs = [data.to(dtype) for dtype in ANY] + [torch.tensor(2.5).to(dtype) for dtype in ANY]
    function = PROMOTING[name]
    pairs = itertools.product(range(len(ANY)), range(2 * len(ANY)))
    together = {
        f"{name} of {inputs[i].dtype} and {inputs[j].dim()}-d {inputs[j].dtype}": lambda *x, i=i, j=j: function(x[i], x[j])
        for i, j in pairs
    }
    check(together, *inputs)


SCALARS = (True, 2, -3, 2.5, 1e-5, math.inf)
WITH_SCALAR = {
    "add": torch.add, "mul": torch.mul, "div": torch.div, "rsub": lambda x, s: torch.rsub(x.byte() if x.dtype == torch.bool else x, s + 0),
    "lt": torch.lt, "eq": torch.eq, "where": lambda x, s: torch.where(x.bool(), x, s),
    "where_other": lambda x, s: torch.where(x.bool(), s, x), "power": lambda x, s: x ** abs(s),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_SCALAR)
def test_numbers_promote_as_in_eager(name):
    inputs = [torch.tensor([3.0, 0.0, 1.0, 7.0, 2.5]).to(dtype) for dtype in ANY]
    function = WITH_SCALAR[name]
    together = {
        f"{name} of {x.dtype} and {scalar}": lambda *xs, i=i, scalar=scalar: function(xs[i], scalar)
        for i, x in enumerate(inputs)
        for scalar in SCALARS
    }
    check(together, *inputs)


CASTS = {f"to {short(dtype)}": lambda x, dtype=dtype: x.to(dtype) for dtype in ANY}


@pytest.mark.parametrize("dtype", ANY, ids=short)
def test_casts_as_in_eager(dtype):
    values = [0.0, 1.0, 2.0, 3.5, 100.25, 0.1] + ([-1.0, -2.75, -100.0] if dtype.is_signed else [])
    unsigned = {name: f for name, f in CASTS.items() if dtype.is_signed or name != "to uint8"}
    signed_float = dtype.is_floating_point and dtype.is_signed
    table = {name: f for name, f in CASTS.items() if not (signed_float and name == "to uint8")}  # undefined below 0
    check(table if signed_float else unsigned | CASTS, torch.tensor(values * 5).to(dtype))


# ---------------------------------------------------------------- shapes and layouts
LAYOUTS = {
    "transposed": lambda: torch.randn(9, 6).t(), "strided": lambda: torch.randn(6, 18)[:, ::2],
    "offset": lambda: torch.randn(55)[1:].view(6, 9), "broadcast_rows": lambda: torch.randn(9).expand(6, 9),
    "broadcast_columns": lambda: torch.randn(6, 1).expand(6, 9), "broadcast_all": lambda: torch.randn(()).expand(6, 9),
    "overlapping": lambda: torch.randn(80).as_strided((6, 9), (5, 1)), "padded": lambda: torch.randn(6, 16)[:, 3:12],
    "one_row": lambda: torch.randn(1, 9), "one_column": lambda: torch.randn(6, 1), "one": lambda: torch.randn(1, 1),
    "no_rows": lambda: torch.randn(0, 9), "nothing": lambda: torch.randn(0, 0),
    "channels_last": lambda: torch.randn(2, 6, 3, 9).to(memory_format=torch.channels_last)[0, :, 0],
}  # fmt: skip


def uneven(x):
    """Of equal numbers the spread is 0 or a rounding error's."""
    return x + torch.arange(x.numel(), dtype=x.dtype).view(x.shape)


ON_MATRICES = {
    "map": lambda x: x * 2 + 1, "softmax": lambda x: x.softmax(-1), "softmax_first": lambda x: x.softmax(-2),
    "sums": lambda x: [x.sum(), x.sum(-1), x.sum(-2), x.sum(-1, keepdim=True), x.sum((-2, -1))],
    "means": lambda x: [x.mean(), x.mean(-1), x.mean(0)], "spread": lambda x: [uneven(x).var(0), uneven(x).std(-1, correction=0)],
    "products": lambda x: [x.prod(), x.prod(-1), x.prod(-2, keepdim=True)], "logic": lambda x: [(x > 0).any(), (x > 0).all(-1)],
    "cumsum": lambda x: [x.cumsum(-1), x.cumsum(-2)], "norm": lambda x: [x.norm(), torch.linalg.vector_norm(x, 1, -1)],
    "layer_norm": lambda x: F.layer_norm(uneven(x), x.shape[-1:]), "logsumexp": lambda x: x.logsumexp(-1),
    "transpose": lambda x: [x.t().contiguous(), x.transpose(-1, -2) + 1, x.t().clone(memory_format=torch.preserve_format)],
    "reshape": lambda x: [x.reshape(-1) + 1, x.flatten(), x.unsqueeze(-1) * 2, x[None, :, None].expand(2, -1, 3, -1) * 2],
    "pieces": lambda x: [torch.cat([x, x], -1), torch.cat([x, x + 1], -2), torch.stack([x, x], -1), torch.stack([x, -x])],
    "slices": lambda x: [x[-1:] * 2, x[:, -2:] + 1, x[::2].clone(), x.flip(-1), x.roll(1, -1), x.roll((1, 2), (0, 1))],
    "chunks": lambda x: [part + 1 for part in x.chunk(2, -1)], "pad": lambda x: [F.pad(x, (1, 2)), F.pad(x, (0, 0, 2, 1), value=3)],
    "triangles": lambda x: [x.tril(), x.triu(1), x.tril(-2)], "unfold": lambda x: x.unfold(-1, 1, 1) * 2,
    "same": lambda x: [x.clone(), x.contiguous() + 0, torch.zeros_like(x), x.new_ones(x.shape), torch.full_like(x, 2)],
    "masked": lambda x: x.masked_fill(x > 0, -math.inf), "repeat": lambda x: [x.repeat(2, 1), x.repeat(2, 1, 1)],
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_as_in_eager(layout):
    x = LAYOUTS[layout]()
    skipped = {"unfold"} if 0 in x.shape else set()  # eager refuses
    check({name: function for name, function in ON_MATRICES.items() if name not in skipped}, x)


ON_SCALARS = {
    name: function
    for name, function in {
        "sum": lambda x: [x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.mean(), x.prod(), x.prod(-1)],
        "extremes": lambda x: [x.amax(), x.amin(0), *x.max(0), *x.min(-1), x.argmax(), x.argmin(0), x.max(), x.min()],
        "logic": lambda x: [x.any(), x.all(0), x.bool().all()], "cumsum": lambda x: [x.cumsum(0), x.cumprod(-1)],
        "softmax": lambda x: [x.softmax(0), x.log_softmax(-1), x.logsumexp(0)], "norm": lambda x: x.norm(),
        "shape": lambda x: [x.reshape(1) * 2, x.unsqueeze(0) + 1, x.expand(3) + 1, x.flip(()), x.squeeze() + 1, x.view(1, 1) - 1],
        "variance": lambda x: [x.var(correction=0), x.std(correction=0)], "map": lambda x: [x + 1, x.exp(), torch.where(x > 0, x, 2.0)],
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=short)
def test_tensors_of_no_dims_as_in_eager(dtype):
    check(ON_SCALARS, torch.tensor(2.7).to(dtype))


def test_reductions_of_nothing_as_in_eager():
    functions = {
        "sum": lambda x: [x.sum(1), x.prod(1), x.mean(1), x.any(1), x.all(1), x.count_nonzero(1)],
        "spread": lambda x: [x.var(1), x.std(1), x.var(1, correction=0)], "norm": lambda x: [x.norm(dim=1), x.nansum(1)],
        "whole": lambda x: [x.sum(), x.prod(), x.mean(), x.any(), x.all()], "scan": lambda x: [x.cumsum(1), x.cumprod(0)],
        "logsumexp": lambda x: x.logsumexp(1), "softmax": lambda x: x.softmax(1), "kept": lambda x: x.sum(1, keepdim=True),
        "other": lambda x: [x.sum(0), x.amax(0), x.argmax(0), x.softmax(0)],
    }  # fmt: skip
    check(functions, torch.randn(3, 0))


def test_gradients_of_nothing_as_in_eager():
    """They are expanded from one number, in memory that has no place even for that."""

    def gradients(function, x):
        x = x.detach().requires_grad_()
        y = function(x)
        return torch.autograd.grad(y, x, torch.ones_like(y))[0]

    for shape in ((0,), (3, 0), (0, 3)):
        for function in (lambda x: x.prod(0, keepdim=True), lambda x: x.sum(0), lambda x: x.mean(-1), lambda x: x.logsumexp(0)):
            x = torch.randn(shape)
            got, expected = gradients(engine(function), x), gradients(function, x)
            assert got.shape == expected.shape and got.dtype == expected.dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool], ids=short)
def test_dtype_arguments_as_in_eager(dtype):
    wanted = (torch.float64, torch.float32, torch.bfloat16) + ((torch.int64,) if not dtype.is_floating_point else ())
    functions = {}
    for to in wanted:
        functions[f"sum in {to}"] = lambda x, to=to: [x.sum(dtype=to), x.sum(0, dtype=to), x.prod(1, dtype=to)]
        functions[f"cumsum in {to}"] = lambda x, to=to: [x.cumsum(1, dtype=to), x.cumprod(0, dtype=to)]
        functions[f"like in {to}"] = lambda x, to=to: [torch.zeros_like(x, dtype=to), torch.full_like(x, 2, dtype=to), x.to(to)]
        if to.is_floating_point:
            functions[f"mean in {to}"] = lambda x, to=to: [x.mean(dtype=to), x.mean(-1, dtype=to)]
            functions[f"softmax in {to}"] = lambda x, to=to: [x.softmax(-1, dtype=to), x.log_softmax(0, dtype=to)]
    check(functions, (torch.randn(7, 19) * 2).to(dtype))


# ---------------------------------------------------------------- places that are data
def test_negative_and_repeated_places_as_in_eager():
    places = torch.tensor([[0, -1, 2], [-3, 2, 2]])
    functions = {
        "index": lambda x, i: [x[i], x[:, i % 3], x[i, i % 2], x[i[0], :, i[1]], x[i.int()]],
        "select": lambda x, i: [x.index_select(-1, i[0] % 3), x.take_along_dim(i[:, :1, None] % 3, 0)],
        "gather": lambda x, i: x.gather(1, (i % 3)[:, :, None].expand(2, 3, 2)),
        "one_hot": lambda x, i: F.one_hot(i % 3, 4),
    }
    check(functions, torch.randn(3, 4, 5), places)


@pytest.mark.parametrize("dtype", FLOATS, ids=short)
def test_gradients_at_special_values_as_in_eager(dtype):
    """Kinks, ties and saturated ends, where a formula for the gradient may divide nothing by nothing."""
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 20.5, -20.5, 40.0, -40.0, 2.0, 2.0], dtype=dtype)
    names = (
        "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu",
        "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "celu", "tanhshrink",
    )  # fmt: skip
    functions = {name: getattr(F, name) for name in names} | {
        "abs": torch.abs, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "amax": lambda v: v.amax(0), "max": lambda v: v.max(),
        "norm": lambda v: (v * 0).norm(), "clamp": lambda v: v.clamp(-1, 3), "square": lambda v: v**2, "power": lambda v: v**3,
        "maximum": lambda v: torch.maximum(v, v.roll(1)), "softmax": lambda v: v.softmax(0), "sign": torch.sign,
        "prod": lambda v: v[2:6].prod(), "logsumexp": lambda v: v.logsumexp(0), "exp": lambda v: (v * 0.1).exp(),
    }  # fmt: skip

    if dtype == torch.float64:
        del functions["softmax"]  # saturated, its gradient is a difference of ones: rounding is all that is left

    def gradients(make, of):
        v = of.detach().clone().requires_grad_()
        weight = torch.linspace(0.5, 2, v.numel(), dtype=torch.float64)
        results = leaves(make(v))
        return [torch.autograd.grad((r * weight[: r.numel()].to(r.dtype).view(r.shape)).sum(), v, retain_graph=True)[0] for r in results]

    together = lambda v: [function(v) for function in functions.values()]
    got = gradients(engine(together), x)
    for name, ours in zip(functions, got, strict=True):
        [expected], [exact] = gradients(functions[name], x), gradients(functions[name], x.double())
        assert_close(ours, expected, exact, name)


# ---------------------------------------------------------------- losses
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_as_in_eager(reduction):
    """Those that stay with torch, too: some of them reduce in the memory that is given for the result."""
    losses = {
        "binary_cross_entropy": lambda p, t: F.binary_cross_entropy(p, t, reduction=reduction),
        "weighted": lambda p, t: F.binary_cross_entropy(p, t, t * 2, reduction=reduction),
        "mse_loss": lambda p, t: F.mse_loss(p, t, reduction=reduction),
        "smooth_l1_loss": lambda p, t: F.smooth_l1_loss(p, t, reduction=reduction),
        "huber_loss": lambda p, t: F.huber_loss(p, t, reduction=reduction),
    }
    p, t = torch.rand(6, 9) * 0.9 + 0.05, torch.rand(6, 9)
    check(losses, p, t)
    check({name: lambda p, t, loss=loss: loss(p * 0.5, t) + 1 for name, loss in losses.items()}, p, t)


def test_operators_that_are_given_places_in_a_storage():
    functions = [
        lambda x: torch.as_strided_scatter(x.new_zeros([256]), x.sin(), [2, 128], [128, 1], 0),
        lambda x: torch.as_strided_scatter(x.cos().view(256), x.sin()[:1], [1, 128], [128, 1], 64) * 2,
        lambda x: torch.as_strided_scatter(x.exp()[1], x.sin()[0, :4], [4], [1], 128) + x.cos()[0],
    ]
    x = torch.randn(2, 128)
    for function in functions:
        with torch.no_grad():
            got = torch.compile(function, backend="tilefuse")(x)
            assert_close(got, function(x), exact_or_eager(function, (x,)), "places")


# ---------------------------------------------------------------- conjugates and negatives that are only marked
MARKED = {
    "conjugate": lambda z: (z.conj() * z).real,
    "imaginary part of a conjugate": lambda z: z.conj().imag * 3,
    "real and imaginary part": lambda z: z.real * 2 + z.imag.sin(),
    "returned conjugate": lambda z: (z * 2).conj(),
    "returned negative": lambda z: (z * 2).conj().imag,
    "summed": lambda z: z.imag.sum(-1) + torch.view_as_real(z.resolve_conj()).sum((-1, -2)),
}


@pytest.mark.parametrize("name", MARKED)
def test_conjugates_and_negatives_that_are_only_marked(name):
    function = MARKED[name]
    z = torch.randn(3, 5, dtype=torch.complex64)
    for given in (z, z.conj(), z[:, ::2].conj(), z.t().conj()):
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(function, backend="tilefuse")(given), function(given))
        ours, eagers = given.clone().requires_grad_(), given.clone().requires_grad_()
        torch.compile(function, backend="tilefuse")(ours).abs().sum().backward()
        function(eagers).abs().sum().backward()
        torch.testing.assert_close(ours.grad, eagers.grad)


# ---------------------------------------------------------------- logarithms of small probabilities
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=short)
def test_logarithms_of_small_probabilities(dtype):
    x = torch.cat([torch.tensor(SPECIAL, dtype=dtype), torch.linspace(-60, 12, 7201, dtype=dtype)])
    check({"log_ndtr": torch.special.log_ndtr}, x)


def test_tails_of_gelu_in_its_tanh_form_keep_their_bits():
    """A half of 1 + tanh is a sigmoid: where the tanh is near -1, eager's sum has lost all but a few bits."""
    x = torch.linspace(-5, -2, 3001, requires_grad=True)
    exact_x = x.detach().double().requires_grad_()
    function = lambda v: F.gelu(v, approximate="tanh")  # noqa: E731
    got, exact = engine(function)(x), function(exact_x)
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=0)
    (slope,), (exact_slope,) = torch.autograd.grad(got.sum(), x), torch.autograd.grad(exact.sum(), exact_x)
    torch.testing.assert_close(slope.double(), exact_slope, rtol=1e-5, atol=1e-7)


def test_mish_takes_one_exponential():
    x = torch.linspace(-30, 30, 6001, requires_grad=True)
    report = tilefuse.explain(F.mish, x)
    for region in report.regions():
        assert "log1p(" not in region["source"] and "tanh(" not in region["source"], region["source"]
    with torch.no_grad():
        check({"mish": F.mish}, torch.cat([x, torch.tensor(SPECIAL)]))


@pytest.mark.parametrize("eps", [None, 0.1, 0.6])
def test_gradients_of_logit_at_its_limits(eps):
    x = torch.tensor([-0.1, 0, 0.05, 0.1, 0.3, 0.5, 0.9, 1, 1.2, math.nan], requires_grad=True)
    function = lambda v: torch.logit(v, eps)  # noqa: E731
    (got,), (expected,) = (torch.autograd.grad(f(x).sum(), x) for f in (engine(function), function))
    torch.testing.assert_close(got, expected, equal_nan=True)


# ---------------------------------------------------------------- results that nobody reads
@pytest.mark.parametrize(("mode", "ends"), [("sum", False), ("mean", False), ("mean", True), ("max", False)])
def test_an_operator_may_give_other_sizes_than_captured_where_nobody_reads_them(mode, ends):
    """Without gradients a bag of embeddings gives shorter tensors beside its result than with them."""
    weight, places = torch.randn(10, 4), torch.tensor([1, 2, 4, 5, 4, 3])
    offsets = torch.tensor([0, 3, 6] if ends else [0, 3])
    function = lambda w, p, o: F.embedding_bag(p, w, o, mode=mode, include_last_offset=ends) + 1  # noqa: E731
    check({"embedding_bag": function}, weight, places, offsets)
