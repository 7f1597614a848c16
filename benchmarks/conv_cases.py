"""Convolutions, pools, resized and padded images with what stands around them in models.

Plain PyTorch functions and the inputs to run them on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from memory_cases import Family


def _convolved(x, w, stride=1):
    return F.conv2d(x, w, None, stride, w.shape[-1] // 2, 1, x.shape[1] // w.shape[1])


def norm_hardswish(x, w, *norm):  # of mobilenetv3
    return F.hardswish(F.batch_norm(_convolved(x, w), *norm))


def norm_hardswish_stride(x, w, *norm):
    return F.hardswish(F.batch_norm(_convolved(x, w, 2), *norm))


def norm_relu(x, w, *norm):
    return F.relu(F.batch_norm(_convolved(x, w), *norm))


def norm_residual(x, w, residual, *norm):
    return F.batch_norm(_convolved(x, w), *norm) + residual


def norm_relu_residual(x, w, residual, *norm):  # of resnet
    return F.relu(F.batch_norm(_convolved(x, w), *norm) + residual)


def norm_relu_pool(x, w, *norm):  # of vgg
    return F.max_pool2d(F.relu(F.batch_norm(_convolved(x, w), *norm)), 2)


def norm_relu_mean(x, w, *norm):  # in front of a classifier
    return F.relu(F.batch_norm(_convolved(x, w), *norm)).mean((2, 3))


def depthwise_layer_norm(x, w, b, scale, shift):  # of convnext
    y = F.conv2d(x, w, b, 1, w.shape[-1] // 2, 1, x.shape[1])
    return F.layer_norm(y.permute(0, 2, 3, 1), (x.shape[1],), scale, shift, 1e-6)


def squeeze_excite(x, reduce, reduce_bias, expand, expand_bias):
    gate = F.relu(F.conv2d(x.mean((2, 3), keepdim=True), reduce, reduce_bias))
    return x * F.hardsigmoid(F.conv2d(gate, expand, expand_bias))


def pool_mixer(x, scale):  # of poolformer
    return x + (F.avg_pool2d(x, 3, 1, 1, count_include_pad=False) - x) * scale


def upsample_bilinear(x):  # of heads that segment
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def upsample_nearest_add(x, y):  # of feature pyramids
    return F.interpolate(x, scale_factor=2, mode="nearest") + y


def pad_reflect(x):  # of image transformers
    return F.pad(x, (2, 2, 2, 2), mode="reflect")


def _image(batch: int, channels: int, size: int) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def _weight(outputs: int, inputs: int, taps: int) -> torch.Tensor:
    return torch.randn(outputs, inputs, taps, taps) * (inputs * taps * taps) ** -0.5


def _norm(channels: int) -> list[torch.Tensor]:
    return [torch.randn(channels), torch.rand(channels) + 0.5, torch.rand(channels) + 0.5, torch.randn(channels)]


def _inputs(make: Callable[[], list[torch.Tensor]]):
    return lambda _big, dtype: [tensor.to(dtype) for tensor in make()]


def _depthwise(batch: int, channels: int, size: int, taps: int):
    return _inputs(lambda: [_image(batch, channels, size), _weight(channels, 1, taps), *_norm(channels)])


def _dense(batch: int, channels: int, size: int, outputs: int, taps: int):
    return _inputs(lambda: [_image(batch, channels, size), _weight(outputs, channels, taps), *_norm(outputs)])


def _residual(batch: int, channels: int, size: int, outputs: int, taps: int = 1):
    return _inputs(lambda: [_image(batch, channels, size), _weight(outputs, channels, taps), _image(batch, outputs, size), *_norm(outputs)])


def _layer_norm(channels: int, size: int):
    return _inputs(lambda: [_image(1, channels, size), _weight(channels, 1, 7), *(torch.randn(channels) for _ in "bsh")])


def _squeeze(channels: int, size: int, inner: int):
    weights = [(inner, channels), (channels, inner)]
    return _inputs(lambda: [_image(1, channels, size), *(t for o, i in weights for t in (_weight(o, i, 1), torch.randn(o)))])


FAMILIES = (
    Family("depthwise_3x3_28", norm_hardswish, _depthwise(1, 88, 28, 3)),
    Family("depthwise_3x3_stride_56", norm_hardswish_stride, _depthwise(1, 72, 56, 3)),
    Family("depthwise_5x5_14", norm_hardswish, _depthwise(1, 240, 14, 5)),
    Family("depthwise_5x5_7", norm_hardswish, _depthwise(1, 576, 7, 5)),
    Family("depthwise_3x3_112", norm_relu, _depthwise(1, 32, 112, 3)),
    Family("depthwise_3x3_56_batch_8", norm_relu, _depthwise(8, 64, 57, 3)),
    Family("depthwise_7x7_layer_norm", depthwise_layer_norm, _layer_norm(40, 56)),
    Family("pointwise_28", norm_hardswish, _dense(1, 24, 28, 88, 1)),
    Family("pointwise_7", norm_hardswish, _dense(1, 96, 7, 576, 1)),
    Family("pointwise_residual_28", norm_residual, _residual(1, 88, 28, 24)),
    Family("pointwise_residual_14", norm_residual, _residual(1, 240, 14, 40)),
    Family("dense_3x3_28", norm_relu, _dense(1, 128, 28, 128, 3)),
    Family("dense_3x3_7", norm_relu, _dense(1, 512, 7, 512, 3)),
    Family("dense_3x3_residual_28", norm_relu_residual, _residual(1, 128, 28, 128, 3)),
    Family("dense_3x3_pool_56", norm_relu_pool, _dense(1, 64, 56, 64, 3)),
    Family("pointwise_mean_7", norm_relu_mean, _dense(1, 320, 7, 1280, 1)),
    Family("squeeze_excite_14", squeeze_excite, _squeeze(240, 14, 64)),
    Family("pool_mixer_28", pool_mixer, _inputs(lambda: [_image(1, 128, 28), torch.randn(128, 1, 1)])),
    Family("upsample_bilinear_28", upsample_bilinear, _inputs(lambda: [_image(2, 64, 28)])),
    Family("upsample_nearest_add_28", upsample_nearest_add, _inputs(lambda: [_image(2, 64, 28), _image(2, 64, 56)])),
    Family("pad_reflect_56", pad_reflect, _inputs(lambda: [_image(2, 64, 56)])),
)
