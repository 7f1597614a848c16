"""Convolutions inside fused kernels (the option ``products`` puts them there, whoever would be faster), and pools."""

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, to_double
from tilefuse.backend import collect_graphs
from tilefuse.explain import Report

OWN = {"products": "own", "strict": True}


def check(function, *inputs, **options):
    with torch.no_grad():
        eager = function(*inputs)
        got = torch.compile(function, backend="tilefuse", options={**OWN, **options})(*inputs)
        assert_close(got, eager, function(*to_double(inputs)), "windows")
        assert got.stride() == eager.stride()
    return got


def ops_of(function, *inputs, **options):
    report = tilefuse.explain(function, *inputs, options={**OWN, **options}).json()
    return [op for region in report["graphs"][0]["regions"] for op in region["ops"]]


def tensor(*shape):
    return torch.randn(*shape)


# input, weight, arguments of the convolution
FORMS = {
    "1d": ((2, 3, 20), (5, 3, 3), {"padding": 1}),
    "1d_depthwise_long": ((2, 6, 50), (6, 1, 9), {"padding": 4, "groups": 6}),
    "1d_dilated": ((2, 4, 40), (4, 1, 3), {"padding": 3, "dilation": 3, "groups": 4}),
    "3x3": ((2, 5, 9, 11), (7, 5, 3, 3), {"padding": 1}),
    "3x3_stride": ((1, 5, 19, 23), (7, 5, 3, 3), {"padding": 1, "stride": 2}),
    "rectangle": ((1, 3, 12, 17), (4, 3, 1, 5), {"padding": (0, 2), "stride": (1, 2)}),
    "one_by_one": ((2, 17, 6, 7), (9, 17, 1, 1), {}),
    "one_by_one_stride": ((2, 17, 6, 7), (9, 17, 1, 1), {"stride": 2}),
    "one_pixel": ((3, 33, 1, 1), (20, 33, 1, 1), {}),
    "grouped": ((2, 8, 9, 10), (12, 4, 3, 3), {"padding": 1, "groups": 2}),
    "depthwise_3x3": ((2, 6, 20, 56), (6, 1, 3, 3), {"padding": 1, "groups": 6}),
    "depthwise_5x5_small": ((1, 20, 7, 7), (20, 1, 5, 5), {"padding": 2, "groups": 20}),
    "depthwise_7x7": ((1, 4, 19, 33), (4, 1, 7, 7), {"padding": 3, "groups": 4}),
    "depthwise_stride": ((2, 6, 21, 40), (6, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 6}),
    "depthwise_multiplier": ((2, 4, 9, 18), (12, 1, 3, 3), {"padding": 1, "groups": 4}),
    "depthwise_dilated": ((1, 4, 18, 40), (4, 1, 3, 3), {"padding": 2, "dilation": 2, "groups": 4}),
    "wider_than_the_image": ((1, 3, 3, 3), (3, 1, 5, 5), {"padding": 3, "groups": 3}),
    "one_channel": ((2, 1, 12, 20), (4, 1, 3, 3), {"padding": 1}),
    "same": ((1, 3, 11, 12), (5, 3, 4, 4), {"padding": "same"}),
    "3d": ((1, 3, 5, 6, 20), (4, 3, 3, 3, 3), {"padding": 1}),
    "3d_depthwise": ((1, 3, 5, 6, 20), (3, 1, 3, 3, 3), {"padding": 1, "groups": 3}),
}
CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}


def operands(form, dtype=torch.float32):
    image, kernel, arguments = FORMS[form]
    run = CONVOLUTIONS[len(image)]
    weight = tensor(*kernel) / (kernel[1] * 9) ** 0.5
    return run, arguments, [t.to(dtype) for t in (tensor(*image), weight, tensor(kernel[0]))]


@pytest.mark.parametrize("form", FORMS)
def test_convolutions_as_eager_computes_them(form):
    run, arguments, tensors = operands(form)

    def function(x, w, b):
        return run(x, w, b, **arguments)

    check(function, *tensors)
    assert "aten.convolution.default" in ops_of(function, *tensors)


@pytest.mark.parametrize("form", ["3x3", "one_by_one", "depthwise_3x3", "depthwise_stride", "grouped"])
def test_without_a_bias(form):
    run, arguments, (x, w, _) = operands(form)
    check(lambda x, w: run(x, w, **arguments), x, w)


@pytest.mark.parametrize("form", ["3x3", "3x3_stride", "one_by_one", "depthwise_3x3", "depthwise_stride", "grouped"])
def test_channels_last(form):
    run, arguments, (x, w, b) = operands(form)
    x, w = x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last)
    check(lambda x, w, b: run(x, w, b, **arguments), x, w, b)


def inference_norm(y, mean, variance, scale, shift):
    return F.batch_norm(y, mean, variance, scale, shift)


@pytest.mark.parametrize("form", ["3x3", "one_by_one", "depthwise_3x3", "depthwise_5x5_small"])
def test_norm_activation_and_residual_follow_in_the_same_kernel(form):
    run, arguments, (x, w, _) = operands(form)
    channels = w.shape[0]
    norm = [tensor(channels), torch.rand(channels) + 0.5, tensor(channels), tensor(channels)]
    with torch.no_grad():
        residual = torch.randn_like(run(x, w, **arguments))

    def function(x, w, r, *norm):
        return F.hardswish(F.batch_norm(run(x, w, **arguments), *norm)) + r

    check(function, x, w, residual, *norm)
    report = tilefuse.explain(function, x, w, residual, *norm, options=OWN).json()
    assert len(report["graphs"][0]["regions"]) == 1


def test_maps_in_front():
    x, w, gate = tensor(2, 24, 7, 9), tensor(16, 24, 1, 1) / 5, tensor(2, 24, 1, 1)
    check(lambda x, w, gate: F.conv2d(x * torch.sigmoid(gate), w), x, w, gate)
    x, w = tensor(2, 6, 9, 20), tensor(6, 1, 3, 3) / 3
    check(lambda x, w: F.conv2d(F.relu(x), w, padding=1, groups=6), x, w)


def test_other_sizes_run_without_a_new_graph():
    w = tensor(6, 1, 3, 3) / 3
    run = torch.compile(lambda x: F.relu(F.conv2d(x, w, padding=1, groups=6)), backend="tilefuse", dynamic=True, options=OWN)
    with torch.no_grad():
        for height, width in ((20, 33), (7, 7), (9, 64), (3, 2)):
            x = tensor(2, 6, height, width)
            torch.testing.assert_close(run(x), F.relu(F.conv2d(x, w, padding=1, groups=6)))


def test_gradients_go_through_convolutions():
    x, w, b = tensor(2, 6, 9, 12).requires_grad_(), tensor(6, 1, 3, 3).requires_grad_(), tensor(6).requires_grad_()

    def loss(x, w, b):
        return F.gelu(F.conv2d(x, w, b, padding=1, groups=6)).square().mean()

    expected = torch.autograd.grad(loss(x, w, b), [x, w, b])
    got = torch.autograd.grad(torch.compile(loss, backend="tilefuse", options=OWN)(x, w, b), [x, w, b])
    torch.testing.assert_close(got, expected)


# input, weight, arguments of the transposed convolution
TRANSPOSED = {
    "1d": ((2, 5, 20), (5, 3, 4), {"stride": 2, "padding": 1}),
    "1d_stride_three": ((2, 4, 17), (4, 6, 5), {"stride": 3, "padding": 2, "output_padding": 2}),
    "1d_dilated": ((2, 4, 17), (4, 6, 3), {"padding": 2, "dilation": 2}),
    "2d": ((2, 5, 9, 16), (5, 7, 4, 4), {"stride": 2, "padding": 1}),
    "2d_no_overlap": ((1, 6, 7, 9), (6, 4, 2, 2), {"stride": 2}),
    "2d_gaps": ((1, 3, 5, 7), (3, 4, 1, 1), {"stride": 2, "output_padding": 1}),
    "2d_output_padding": ((2, 4, 8, 9), (4, 6, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "2d_stride_one": ((2, 4, 8, 18), (4, 6, 3, 3), {"padding": 1}),
    "2d_grouped": ((2, 6, 8, 9), (6, 4, 4, 4), {"stride": 2, "padding": 1, "groups": 3}),
    "2d_depthwise": ((2, 6, 8, 17), (6, 1, 4, 4), {"stride": 2, "padding": 1, "groups": 6}),
    "2d_rectangle": ((1, 3, 6, 8), (3, 5, 2, 3), {"stride": (2, 1), "padding": (0, 1)}),
    "2d_one_output": ((1, 3, 6, 8), (3, 1, 4, 4), {"stride": 2, "padding": 1}),
    "3d": ((1, 3, 4, 5, 9), (3, 4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "3d_no_overlap": ((1, 3, 4, 5, 9), (3, 4, 2, 2, 2), {"stride": 2}),
}
TRANSPOSED_CONVOLUTIONS = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}


@pytest.mark.parametrize("form", TRANSPOSED)
def test_transposed_convolutions_as_eager_computes_them(form):
    image, kernel, arguments = TRANSPOSED[form]
    run, groups = TRANSPOSED_CONVOLUTIONS[len(image)], arguments.get("groups", 1)
    tensors = [tensor(*image), tensor(*kernel) / 4, tensor(kernel[1] * groups)]

    def function(x, w, b):
        return F.gelu(run(x, w, b, **arguments))

    check(function, *tensors)
    assert "aten.convolution.default" in ops_of(function, *tensors)


def test_transposed_ones_whose_size_no_stride_divides_stay_with_the_library():
    x, w = tensor(1, 4, 9, 9), tensor(4, 3, 3, 3)
    check(lambda x, w: F.relu(F.conv_transpose2d(x, w, stride=2)), x, w)
    assert "aten.convolution.default" not in ops_of(lambda x, w: F.relu(F.conv_transpose2d(x, w, stride=2)), x, w)


POOLS = {
    "average_3x3": (lambda x: F.avg_pool2d(x, 3, 1, 1), (2, 3, 9, 20)),
    "average_without_padding": (lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (2, 3, 14, 14)),
    "average_stride": (lambda x: F.avg_pool2d(x, 2), (2, 3, 9, 20)),
    "average_overlapping": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 9, 20)),
    "average_divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=4), (2, 3, 9, 20)),
    "average_without_a_batch": (lambda x: F.avg_pool2d(x, (3, 1), 1, (1, 0), count_include_pad=False), (3, 9, 20)),
    "average_1d": (lambda x: F.avg_pool1d(x, 3, 1, 1), (2, 3, 40)),
    "average_3d": (lambda x: F.avg_pool3d(x, 2, 1), (2, 3, 4, 5, 20)),
    "average_ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 10, 20)),
    "average_ceil_without_padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), (2, 3, 10, 20)),
    "average_ceil_unpadded": (lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), (2, 3, 9, 11)),
    "average_ceil_divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, True, 4), (2, 3, 10, 21)),
    "average_ceil_begins_in_the_padding": (lambda x: F.avg_pool1d(x, 2, 3, 1, ceil_mode=True), (2, 3, 40)),
    "average_ceil_3d": (lambda x: F.avg_pool3d(x, 2, 3, 1, ceil_mode=True), (2, 3, 4, 5, 20)),
    "maximum_3x3": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 17, 23)),
    "maximum_dilated": (lambda x: F.max_pool2d(x, (3, 2), 1, 1, dilation=2), (2, 3, 17, 23)),
    "maximum_behind_a_map": (lambda x: F.max_pool2d(F.relu(x), 2), (2, 3, 16, 20)),
    "maximum_channels_last": (lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 3, 2, 1), (2, 16, 9, 20)),
    "maximum_1d": (lambda x: F.max_pool1d(x, 4, 1, 2, 3), (2, 5, 40)),
    "maximum_3d": (lambda x: F.max_pool3d(x, 2, 2), (2, 3, 6, 8, 10)),
    "maximum_ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 10, 20)),
    "maximum_ceil_unpadded": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (2, 3, 14, 20)),
    "maximum_ceil_dilated": (lambda x: F.max_pool2d(x, 2, 3, 1, 2, ceil_mode=True), (2, 3, 14, 21)),
    "maximum_and_position": (lambda x: sum(F.max_pool2d(x, 2, return_indices=True)), (2, 3, 8, 20)),
}


@pytest.mark.parametrize("form", POOLS)
def test_pools_as_eager_computes_them(form):
    function, shape = POOLS[form]
    check(lambda x: function(x) - x.mean(), tensor(*shape))


@pytest.mark.parametrize("form", [form for form in POOLS if "ceil" in form])
def test_windows_that_stick_out_are_part_of_regions(form):
    function, shape = POOLS[form]
    report = tilefuse.explain(lambda x: function(x), tensor(*shape)).json()
    (graph,) = report["graphs"]
    assert len(graph["regions"]) == 1 and graph["unfused_edges"] == []


def test_maxima_of_nan_infinity_and_padding():
    x = tensor(2, 3, 9, 20)
    x[0, 0, 3, 3], x[0, 1], x[1, 2] = float("nan"), float("-inf"), -1.0
    with torch.no_grad():
        got = torch.compile(lambda x: F.max_pool2d(x, 3, 2, 1), backend="tilefuse", options={"strict": True})(x)
    torch.testing.assert_close(got, F.max_pool2d(x, 3, 2, 1), rtol=0, atol=0, equal_nan=True)


def test_a_gradient_takes_the_frameworks_positions():
    x = tensor(2, 3, 9, 20).requires_grad_()
    torch.compile(lambda x: F.max_pool2d(x * 2, 3, 2, 1).square().sum(), backend="tilefuse")(x).backward()
    got, x.grad = x.grad, None
    F.max_pool2d(x * 2, 3, 2, 1).square().sum().backward()
    torch.testing.assert_close(got, x.grad)


def gradient_of(function, x):
    x.grad = None
    function(x).square().sum().backward()
    return x.grad


@pytest.mark.parametrize("form", [form for form in POOLS if form.startswith("average")])
def test_gradients_of_averages(form):
    function, shape = POOLS[form]
    x = tensor(*shape).requires_grad_()
    got = gradient_of(torch.compile(lambda x: function(x * 2), backend="tilefuse"), x)
    torch.testing.assert_close(got, gradient_of(lambda x: function(x * 2), x))


@pytest.mark.parametrize("form", ["average_3x3", "average_without_padding", "average_stride", "average_ceil_unpadded"])
def test_gradients_of_averages_with_one_window_or_step_one_are_part_of_regions(form):
    function, shape = POOLS[form]
    x = tensor(*shape).requires_grad_()
    with collect_graphs() as graphs:
        gradient_of(torch.compile(lambda x: function(x * 2), backend="tilefuse"), x)
    nodes = [node for graph in Report(graphs).json()["graphs"] for node in graph["graph"]["nodes"]]
    assert [node["op"] for node in nodes if node["kind"] == "call"] == []


@pytest.mark.parametrize("size", [(2, 3), (1, 1), (4, 1)])
def test_gradients_of_averages_of_given_sizes(size):
    x = tensor(2, 3, 8, 6).requires_grad_()
    got = gradient_of(torch.compile(lambda x: F.adaptive_avg_pool2d(x * 2, size), backend="tilefuse"), x)
    torch.testing.assert_close(got, gradient_of(lambda x: F.adaptive_avg_pool2d(x * 2, size), x))


PADS = {
    "reflect_1d": ((5, 20), (3, 4), "reflect"),
    "reflect_2d": ((2, 3, 9, 20), (1, 1, 2, 2), "reflect"),
    "reflect_3d": ((2, 3, 4, 5, 20), (0, 2, 1, 1, 3, 0), "reflect"),
    "replicate_1d": ((2, 5, 20), (25, 4), "replicate"),
    "replicate_2d": ((2, 3, 9, 20), (1, 1, 2, 30), "replicate"),
    "replicate_3d": ((2, 3, 4, 5, 20), (0, 2, 1, 1, 3, 0), "replicate"),
    "replicate_that_takes_away": ((2, 3, 9, 20), (1, -2, 2, 2), "replicate"),
}


@pytest.mark.parametrize("form", PADS)
def test_pads_with_what_is_at_the_edge(form):
    shape, pads, mode = PADS[form]
    check(lambda x: F.pad(torch.sin(x), pads, mode) * 2, tensor(*shape))


@pytest.mark.parametrize("form", ["reflect_2d", "replicate_2d"])
def test_pads_with_what_is_at_the_edge_are_one_region(form):
    shape, pads, mode = PADS[form]
    report = tilefuse.explain(lambda x: F.pad(x + 1, pads, mode) * 2, tensor(*shape)).json()
    (graph,) = report["graphs"]
    assert [node["op"] for node in graph["graph"]["nodes"] if node["kind"] == "call"] == []
    assert len(graph["regions"]) == 1


def test_a_convolution_behind_a_mirroring_pad():
    x, w = tensor(2, 8, 12, 20), tensor(16, 8, 3, 3)
    check(lambda x, w: F.relu(F.conv2d(F.pad(x, (1, 1, 1, 1), "reflect"), w)), x, w)
