"""The main path on small functions: values, strides, training, dynamic shapes, mutation."""

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, graphs_compiled, to_double
from processors import FIXED_TARGET

STRICT = {"strict": True}


def compiled(function, **kwargs):
    return torch.compile(function, backend="tilefuse", options=STRICT, **kwargs)


def check(function, *inputs, **kwargs):
    with torch.no_grad():
        got = compiled(function, **kwargs)(*inputs)
        assert_close(got, function(*inputs), function(*to_double(inputs)), getattr(function, "__name__", "function"))
    return got


FUNCTIONS = {
    "pointwise": (lambda x, y: torch.tanh(x) * y + 1, [(33, 65), (33, 65)]),
    "broadcast": (lambda x, y: x * y + y.exp(), [(17, 40), (40,)]),
    "softmax": (lambda x: torch.softmax(x, -1), [(31, 100)]),
    "softmax_outer": (lambda x: torch.softmax(x, 0), [(31, 100)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (96,), w, b), [(7, 5, 96), (96,), (96,)]),
    "norm_of_channels_apart": (lambda x, w: F.layer_norm(x.permute(0, 2, 3, 1), (96,), w), [(2, 96, 9, 7), (96,)]),
    "norm_of_padded_channels": (
        lambda x, w: F.layer_norm(F.pad(x, (1, 2, 3, 1)).permute(0, 2, 3, 1), (96,), w),
        [(2, 96, 14, 14), (96,)],
    ),
    "norm_of_patches_behind_a_token": (
        lambda x, t, w: F.layer_norm(torch.cat((t.expand(2, 1, 96), x.flatten(2).mT), 1), (96,), w),
        [(2, 96, 6, 6), (1, 1, 96), (96,)],
    ),
    "softmax_of_channels_apart": (lambda x: x.permute(0, 2, 3, 1).softmax(-1), [(2, 33, 6, 10)]),
    "residual_norm": (lambda x, r, w: F.rms_norm(x + r, (96,), w), [(7, 96), (7, 96), (96,)]),
    "row_sum": (lambda x: x.sum(-1), [(50, 333)]),
    "column_sum": (lambda x: x.sum(0), [(333, 50)]),
    "full_sum": (lambda x: x.sum(), [(333, 50)]),
    "variance": (lambda x: x.var(-1), [(20, 77)]),
    "transpose": (lambda x, y: x.t() + y, [(70, 90), (90, 70)]),
    "heads": (lambda x: (x.view(2, 16, 4, 8).permute(0, 2, 1, 3) * 2).contiguous(), [(2, 16, 32)]),
    "rotary": (lambda q, c, s: q * c + torch.cat((-q[..., 8:], q[..., :8]), -1) * s, [(2, 3, 5, 16), (5, 16), (5, 16)]),
    "cat": (lambda a, b: torch.cat((a, b * 2), 1) + 1, [(9, 11), (9, 22)]),
    "cat_of_many": (lambda a, *rest: torch.cat((a, *rest), 1) + 1, [(2, 50, 18), *[(2, 3, 18)] * 11]),
    "cumsum": (lambda x: x.cumsum(-1) * 2, [(8, 70)]),
    "cumsum_outer": (lambda x: x.cumsum(0) * 2, [(70, 8)]),
    "flip_roll": (lambda x: x.flip(1) + x.roll(3, 1), [(8, 70)]),
    "pad": (lambda x: F.pad(x, (2, 3)) * 2, [(8, 70)]),
    "group_norm": (lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)), [(2, 8, 6, 6), (8,), (8,)]),
    "scalar": (lambda x: x * 2 + 1, [()]),
    "empty": (lambda x: (x * 2).sum(0), [(0, 5)]),
    "self_transpose": (lambda x: torch.exp(x) + torch.exp(x).t(), [(40, 40)]),
    "diamond": (lambda x: (x.exp() / x.exp().sum(-1, keepdim=True), x.max(-1).values), [(12, 40)]),
    "with_matmul": (lambda x, w: F.gelu(x @ w + 1) @ w, [(16, 16), (16, 16)]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_as_eager(name, dtype):
    function, shapes = FUNCTIONS[name]
    check(function, *(torch.randn(shape).to(dtype) for shape in shapes))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_as_eager(name):
    function, shapes = FUNCTIONS[name]
    inputs = [torch.randn(shape, dtype=torch.float32, requires_grad=True) for shape in shapes]

    def gradients(f, arguments):
        outputs = f(*arguments)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        loss = sum((o * torch.arange(o.numel(), dtype=o.dtype).reshape(o.shape).cos()).sum() for o in outputs)
        return torch.autograd.grad(loss, arguments)

    doubles = [x.detach().double().requires_grad_() for x in inputs]
    got = gradients(compiled(function), inputs)
    assert_close(got, gradients(function, inputs), gradients(function, doubles), name)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "transpose", "column_sum", "cat", "rotary"])
def test_other_sizes_need_no_recompile(name):
    function, shapes = FUNCTIONS[name]
    run = compiled(function, dynamic=True)
    before = graphs_compiled()
    for count in (5, 6, 17, 64, 100):
        sized = [tuple(count if extent == shapes[0][0] else extent for extent in shape) for shape in shapes]
        inputs = [torch.randn(shape) for shape in sized]
        with torch.no_grad():
            got = run(*inputs)
            assert_close(got, function(*inputs), function(*to_double(inputs)), f"{name} at {count}")
    assert graphs_compiled() - before <= 2


def test_sizes_that_python_has_counted_are_known():
    """A loop over chunks tells the capture that their number is 1, and shapes hold it in both spellings."""

    def function(x):
        length = x.shape[1]
        x = F.pad(x, (0, -length % 8))
        rows = x.reshape(2, -1, 8).cumsum(-1)
        total = torch.zeros(2)
        for chunk in range(x.shape[1] // 8):
            total = total + rows[:, chunk].amax(-1)
        return (rows * total[:, None, None]).reshape(2, -1)[:, :length]

    run = compiled(function, dynamic=True)
    for length in (5, 7, 12, 8):
        x = torch.randn(2, length)
        assert_close(run(x), function(x), function(x.double()), f"length {length}")


def test_input_mutation_is_written_back():
    def function(x, y):
        x.add_(y).mul_(2)
        return x + 1

    x, y = torch.randn(4, 40), torch.randn(4, 40)
    expected_x = x.clone()
    expected = function(expected_x, y)
    got = compiled(function)(x, y)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(x, expected_x)


def test_output_strides_are_eagers():
    def function(x):
        return (x * 2).permute(0, 2, 3, 1), (x + 1).transpose(1, 2).contiguous(), x.to(memory_format=torch.channels_last) * 3

    x = torch.randn(2, 3, 4, 5)
    for got, expected in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()


def test_returned_input_and_views_of_it_alias_it():
    def function(x):
        return x, x.view(-1), x + 1

    x = torch.randn(4, 6)
    same, flat, _ = compiled(function)(x)
    flat[0] = 7
    assert x[0, 0] == 7 and same[0, 0] == 7


def test_views_made_by_pytorchs_operators_alias_what_they_view():
    def function(x, y):
        bits = x.view(torch.int32)
        y.add_(1)
        return bits, bits.view(torch.int16), y.view(torch.int32), x.clone().view(torch.int32)

    x, y = torch.randn(4, 6), torch.randn(4, 6)
    expected = function(x, y.clone())
    got = compiled(function)(x, y)
    for result, wanted in zip(got, expected, strict=True):
        torch.testing.assert_close(result, wanted)
    bits, halves, moved, copied = got
    x.fill_(1)
    y.fill_(1)
    one = torch.ones(()).view(torch.int32)
    assert (bits == one).all() and (halves.view(torch.int32) == one).all() and (moved == one).all() and (copied != one).all()


def test_returned_views_by_operators_of_the_framework_alias_the_input():
    """Rows that overlap and lie beyond the tensor are no view that the engine takes apart. torch objects to operators
    that return what they were given and do not say so."""
    storage = torch.randn(40)

    def function(x):
        window = x.as_strided((4, 6), (3, 1), 10)
        return window, window.reshape(4, 6)[1:] * 2, x + 1

    got = compiled(function)
    with torch.no_grad(), torch._functorch.config.patch(error_on_custom_op_aliasing=True):
        window, twice, _ = got(storage[:12])
    torch.testing.assert_close(window, storage.as_strided((4, 6), (3, 1), 10))
    torch.testing.assert_close(twice, window[1:] * 2)
    window[0, 0] = 7
    assert storage[10] == 7


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(40, 30).t(),
        lambda: torch.randn(30, 80)[:, ::2],
        lambda: torch.randn(30, 1).expand(30, 40),
        lambda: torch.randn(1).expand(30, 40),
        lambda: torch.randn(1300).as_strided((30, 40), (20, 1)),
        lambda: torch.randn(30 * 40 + 1)[1:].view(30, 40),
        lambda: torch.frombuffer(bytearray(range(200)) * 24 + bytearray(1), dtype=torch.float32, offset=1).view(30, 40),
        lambda: torch.randn(0, 40),
        lambda: torch.randn(30, 0),
    ],
    ids=["transposed", "strided", "broadcast", "broadcast_all", "overlapping", "misaligned", "odd_address", "empty", "no_columns"],
)
def test_odd_inputs_give_eagers_result(make):
    x = make()
    check(lambda v: torch.softmax(v * 2, -1), x)
    check(lambda v: (v + 1).sum(0), x)


def test_inputs_without_dimensions_give_eagers_result():
    check(lambda x, y: (x * y + 1, torch.tanh(x).sum(), x.expand(5) + y), torch.tensor(3.5), torch.tensor(-0.5))


def test_other_strides_at_the_next_call_are_served():
    run = compiled(lambda x: torch.tanh(x) + 1)
    for x in (torch.randn(20, 30), torch.randn(30, 20).t(), torch.randn(20, 60)[:, ::2]):
        torch.testing.assert_close(run(x), torch.tanh(x) + 1)


def test_index_out_of_range_raises_as_eager():
    table = torch.randn(10, 16)
    run = compiled(lambda ids: table[ids] * 2)
    torch.testing.assert_close(run(torch.tensor([1, -1, 9])), table[torch.tensor([1, -1, 9])] * 2)
    with pytest.raises((IndexError, RuntimeError)):
        run(torch.tensor([1, 2, 10]))


def test_integer_division_and_remainder_follow_torch():
    a = torch.tensor([7, -7, 7, -7, 0, 5]).repeat(9)
    b = torch.tensor([3, 3, -3, -3, 5, 7]).repeat(9)
    check(lambda a, b: (a // b, a % b, torch.div(a, b, rounding_mode="trunc"), torch.fmod(a, b), a / b), a, b)


def test_special_values_follow_torch():
    x = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-40, 3.4e38, 88.8, -104.0] * 5)
    check(lambda x: (x.exp(), x.abs().log(), x.tanh(), torch.sigmoid(x), x.sqrt(), torch.relu(x), x.clamp(-1, 1)), x)
    check(lambda x: (x.max(), x.min(), x.argmax(), torch.maximum(x, x.flip(0)), x.sign(), x.round()), x)


def test_concurrent_calls_share_nothing():
    import concurrent.futures

    run = compiled(lambda x: torch.softmax(x, -1) @ x.t())
    inputs = [torch.randn(40, 60) for _ in range(16)]
    with torch.no_grad():
        run(inputs[0])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for x, got in zip(inputs * 4, pool.map(lambda x: run(x), inputs * 4), strict=True):
                torch.testing.assert_close(got, torch.softmax(x, -1) @ x.t())


def test_complex_tensors_pass_between_operators_of_the_framework():
    angles = torch.randn(16, 32)

    def rotate(x):
        turns = torch.polar(torch.ones_like(angles), angles)
        turned = torch.view_as_complex(x.float().reshape(4, 16, 32, 2)) * turns
        return torch.view_as_real(turned).flatten(2).relu() * 2 + 1

    check(rotate, torch.randn(4, 16, 64))


def test_eight_bit_floats_pass_between_operators_of_the_framework():
    def round_trip(x):
        return (x * 2).to(torch.float8_e4m3fn).to(torch.float32) + 1

    check(round_trip, torch.randn(40, 30))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("shape", [(3, 70, 256), (1000, 200)], ids=str)
def test_gradients_of_a_norm_are_one_region(shape, dtype):
    def norm(x, w, b):
        return F.layer_norm(x, shape[-1:], w, b)

    tensors = [torch.randn(shape), torch.rand(shape[-1:]) + 0.5, torch.randn(shape[-1:])]
    tensors = [tensor.to(dtype) for tensor in tensors]
    change = torch.randn(shape).to(dtype)
    gradients = {}
    fused = torch.compile(norm, backend="tilefuse", options=STRICT)
    for name, function, kind in [("eager", norm, dtype), ("exact", norm, torch.float64), ("fused", fused, dtype)]:
        leaves = [tensor.to(kind, copy=True).requires_grad_() for tensor in tensors]
        function(*leaves).backward(change.to(kind))
        gradients[name] = [leaf.grad for leaf in leaves]
    assert_close(gradients["fused"], gradients["eager"], gradients["exact"], "gradients")
    leaves = [tensor.requires_grad_() for tensor in tensors]
    graphs = tilefuse.explain(norm, *leaves, options=STRICT | {"target": FIXED_TARGET}).json()["graphs"]
    (tiles,) = [region["tile_graph"] for graph in graphs if graph["role"] == "backward" for region in graph["regions"]]
    assert tiles.count("reduce.sum") == 4
