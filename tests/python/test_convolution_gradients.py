"""Gradients of convolutions with one filter a channel: eager's values, in kernels of the engine."""

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, to_double

STRICT = {"strict": True}
CHANNELS = 6


def gradients(function, x, *rest):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (x, *rest)]
    if not x.is_contiguous():
        leaves[0] = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    result = function(*leaves)
    spread = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).to(result.dtype).view(result.shape)
    (result * spread).sum().backward()
    return [result.detach(), *(leaf.grad for leaf in leaves)]


def check(function, *inputs, dynamic=False):
    fused = torch.compile(function, backend="tilefuse", options=STRICT, dynamic=dynamic)
    assert_close(gradients(fused, *inputs), gradients(function, *inputs), gradients(function, *to_double(inputs)), "gradients")


# sizes of the image, of the window, and how it moves
FORMS = {
    "3x3": ((14, 9), (3, 3), {"padding": 1}),
    "7x7": ((14, 14), (7, 7), {"padding": 3}),
    "5x5_step_2": ((13, 10), (5, 5), {"padding": 2, "stride": 2}),
    "step_3": ((14, 14), (3, 3), {"stride": 3}),
    "uneven": ((9, 12), (1, 4), {"padding": (0, 2), "stride": (2, 1)}),
    "more_padding_than_window": ((6, 6), (2, 2), {"padding": 3}),
    "dilated": ((12, 12), (3, 3), {"padding": 2, "dilation": 2}),
    "row": ((20,), (4,), {"padding": 3}),
    "volume": ((5, 6, 7), (3, 3, 3), {"padding": 1}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize(("image", "window", "moves"), FORMS.values(), ids=FORMS)
def test_gradients_are_those_of_eager(image, window, moves, dtype):
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(image)]
    x, w, b = torch.randn(2, CHANNELS, *image), torch.randn(CHANNELS, 1, *window), torch.randn(CHANNELS)
    check(lambda x, w, b: convolve(x, w, b, groups=CHANNELS, **moves), *(t.to(dtype) for t in (x, w, b)))


def convolved(x, w):
    return F.conv2d(x, w, padding=w.shape[-1] // 2, groups=x.shape[1])


def test_images_with_channels_last():
    x = torch.randn(2, CHANNELS, 11, 11).to(memory_format=torch.channels_last)
    check(convolved, x, torch.randn(CHANNELS, 1, 3, 3))


def test_other_convolutions_stay_as_they_are():
    check(lambda x, w: F.conv2d(x, w, groups=2), torch.randn(2, CHANNELS, 9, 9), torch.randn(4, CHANNELS // 2, 3, 3))
    check(lambda x, w: F.conv2d(x, w, groups=CHANNELS), torch.randn(2, CHANNELS, 9, 9), torch.randn(2 * CHANNELS, 1, 3, 3))
    check(lambda x, w: F.conv2d(x, w), torch.randn(2, 1, 9, 9), torch.randn(1, 1, 3, 3))
    check(lambda x, w: F.conv_transpose2d(x, w, groups=CHANNELS), torch.randn(2, CHANNELS, 9, 9), torch.randn(CHANNELS, 1, 3, 3))


def test_images_of_any_size():
    for size in (9, 12, 20):
        check(convolved, torch.randn(2, CHANNELS, size, size), torch.randn(CHANNELS, 1, 3, 3), dynamic=True)


def test_only_what_is_asked_for():
    x, w = torch.randn(2, CHANNELS, 9, 9), torch.randn(CHANNELS, 1, 3, 3)
    for needs_image in (False, True):
        grads = []
        for function in (convolved, torch.compile(convolved, backend="tilefuse", options=STRICT)):
            leaves = x.clone().requires_grad_(needs_image), w.clone().requires_grad_(not needs_image)
            function(*leaves).square().sum().backward()
            grads.append([leaf.grad for leaf in leaves if leaf.requires_grad])
        torch.testing.assert_close(grads[1], grads[0])


def test_gradients_of_filters_are_kernels():
    x = torch.randn(2, CHANNELS, 14, 14, requires_grad=True)
    w = torch.randn(CHANNELS, 1, 5, 5, requires_grad=True)
    options = STRICT | {"products": "own"}
    graphs = tilefuse.explain(lambda x, w: convolved(x.tanh(), w), x, w, options=options).json()["graphs"]
    (backward,) = [graph for graph in graphs if graph["role"] == "backward"]
    assert all(node["kind"] != "call" for node in backward["graph"]["nodes"])
