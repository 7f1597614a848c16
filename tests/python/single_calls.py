"""One call of each overload that AOTAutograd leaves whole in no graph of PyTorch's samples: it takes them apart, gives
them another name, or they come from torch.export and from decompositions only. Overload -> arguments, keywords last.
"""

from __future__ import annotations

import torch


def floats(*shape):
    return torch.randn(shape)


def classes(*shape):
    return torch.randint(0, 5, shape)


def ints(*shape):
    return torch.randint(-9, 9, shape)


def truths(*shape):
    return torch.rand(shape) > 0.5


def vector(size):
    return torch.rand(size) + 0.5


X, I, B = floats(3, 4), ints(3, 4), truths(3, 4)
IMAGE = floats(2, 5, 3, 3)
NORM = (floats(2, 4, 5), vector(4), vector(4), floats(4), vector(4))
SINGLE_CALLS = {
    "as_strided_copy.default": (X, [2, 2], [4, 1], 1), "diagonal_copy.default": (X, 1), "narrow_copy.default": (X, 1, 1, 2),
    "split_with_sizes_copy.default": (X, [1, 3], 1), "unbind_copy.int": (X, 1), "unfold_copy.default": (X, 1, 2, 1),
    "channel_shuffle.default": (floats(2, 6, 3), 3), "native_channel_shuffle.default": (floats(2, 6, 3, 2), 3),
    "pixel_shuffle.default": (floats(2, 8, 3, 2), 2), "pixel_unshuffle.default": (floats(2, 3, 4, 6), 2),
    "rot90.default": (X, 3, [1, 0]), "trace.default": (X,), "take.default": (X, ints(2, 5)), "dot.default": (vector(7), vector(7)),
    "vdot.default": (vector(7), vector(7)), "dist.default": (X, floats(4)), "addr.default": (X, vector(3), vector(4), {"beta": 0.5}),
    "diag_embed.default": (X, 1, 0, 2), "index_fill.int_Scalar": (X, 1, classes(2) % 4, 2.5),
    "index_fill.int_Tensor": (X, 0, classes(2) % 3, torch.tensor(2.5)), "isin.Tensor_Tensor": (I, classes(2, 2)),
    "bucketize.Tensor": (X, torch.linspace(-1, 1, 5)), "searchsorted.Tensor": (torch.linspace(-1, 1, 5), X, {"side": "right"}),
    "fake_quantize_per_tensor_affine_cachemask.default": (X, 0.1, 3, -8, 7),
    "fake_quantize_per_channel_affine_cachemask.default": (X, vector(4), classes(4).int(), 1, -8, 7),
    "fake_quantize_per_tensor_affine_cachemask_backward.default": (X, B), "fake_quantize_per_channel_affine_cachemask_backward.default": (X, B),
    "rrelu_with_noise_functional.default": (X, floats(3, 4)), "soft_margin_loss_backward.default": (floats(), X, X.sign(), 1),
    "special_xlog1py.other_scalar": (X, 2.5), "special_xlog1py.self_scalar": (2.5, X.abs()), "heaviside.default": (X, floats(4)),
    "special_xlog1py.default": (X, X.abs()), "special_entr.default": (X,), "special_log_ndtr.default": (X,),
    "soft_margin_loss.default": (X, X.sign()), "linalg_cross.default": (floats(4, 3), floats(4, 3)),
    "im2col.default": (IMAGE, [2, 2], [1, 1], [1, 0], [2, 1]), "col2im.default": (floats(2, 8, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
    "__and__.Scalar": (I, 6), "__and__.Tensor": (I, I.flip(0)), "__or__.Scalar": (I, 6), "__or__.Tensor": (B, B.flip(0)),
    "__xor__.Scalar": (I, 6), "__xor__.Tensor": (B, B.flip(0)), "__lshift__.Scalar": (I, 2), "__rshift__.Scalar": (I, 1),
    "bitwise_and.Scalar": (I, 6), "bitwise_or.Scalar": (I, 6), "bitwise_xor.Scalar": (I, 6),
    "bitwise_left_shift.Tensor_Scalar": (I, 2), "bitwise_right_shift.Tensor_Scalar": (I, 1),
    "_fused_rms_norm.default": (X, [4], vector(4), 1e-5), "_native_batch_norm_legit_no_training.default": (*NORM, 0.1, 1e-5),
    "native_batch_norm.default": (*NORM, False, 0.1, 1e-5), "batch_norm.default": (*NORM, False, 0.1, 1e-5, False),
    "_native_batch_norm_legit.no_stats": (*NORM[:3], True, 0.1, 1e-5),
    "layer_norm.default": (X, [4], vector(4), vector(4)), "rms_norm.default": (X, [4], vector(4)),
    "group_norm.default": (NORM[0], 2, vector(4), vector(4)),
    "_reshape_copy.default": (X, [2, 6]), "_unsafe_index.Tensor": (X, [None, classes(2) % 4]),
    "_unsafe_index_put.default": (X, [None, classes(2) % 4], floats(3, 2), True),
    "_unsafe_view.default": (X, [12]), "alias.default": (X,), "alias_copy.default": (X,), "detach_copy.default": (X,),
    "detach.default": (X,), "lift_fresh.default": (X,), "lift_fresh_copy.default": (X,), "all.dim": (B, 1),
    "any.dim": (B, 0, True), "arange.start": (2, 9), "atleast_1d.default": (floats(),), "broadcast_to.default": (X, [2, 3, 4]),
    "clamp.default": (X, -0.5, 0.5), "clamp_max.default": (X, 0.5), "concat.default": ([X, X], 1),
    "concatenate.default": ([X, X], 0), "contiguous.default": (X.t(),), "div.Scalar_mode": (X, 0.3, {"rounding_mode": "floor"}),
    "dropout.default": (X, 0.5, False), "feature_dropout.default": (X, 0.5, False), "expand_as.default": (floats(4), X),
    "expand_copy.default": (floats(4), [3, 4]), "floor_divide.Scalar": (I, 4), "fmod.Scalar": (I, 4),
    "hardshrink.default": (X, 0.4), "hardshrink_backward.default": (X, X.flip(0), 0.4), "isfinite.default": (X / 0,),
    "isposinf.default": (X / 0,), "isneginf.default": (X / 0,), "log_sigmoid.default": (X,), "lt.Scalar": (I, 2.5),
    "log_sigmoid_forward.default": (X,), "masked_fill.Tensor": (X, B, torch.tensor(2.5)), "mT.default": (X,),
    "movedim.intlist": (NORM[0], [0, 2], [2, 1]), "movedim.int": (NORM[0], 0, 2), "narrow.default": (X, 1, 1, 2),
    "norm.Scalar": (X, 3), "norm.ScalarOpt_dim": (X, 2, [1]),
    "norm.ScalarOpt_dtype": (X, 1, {"dtype": torch.float64}),
    "norm.ScalarOpt_dim_dtype": (X, 2, [1], True, {"dtype": torch.float64}),
    "one_hot.default": (classes(3), 6), "pad.default": (X, [1, 2], "constant", 0.5), "positive.default": (X,),
    "permute_copy.default": (X, [1, 0]), "pow.Scalar": (2.5, X), "ravel.default": (X,), "relu6.default": (X * 5,),
    "repeat_interleave.self_int": (X, 2, 1), "reshape.default": (X, [6, 2]), "reshape_as.default": (X, X.t()),
    "rsub.Scalar": (X, 2.5, 3), "rsub.Tensor": (X, X.flip(0)), "select_backward.default": (floats(3), [3, 4], 1, -2),
    "slice_backward.default": (floats(3, 2), [3, 5], 1, 1, 5, 2), "select_copy.int": (X, 1, 2), "selu.default": (X,),
    "slice_copy.Tensor": (X, 1, 1, 3), "softshrink.default": (X, 0.4), "softshrink_backward.default": (X, X.flip(0), 0.4),
    "special_expit.default": (X,), "split.sizes": (X, [1, 3], 1), "split_with_sizes.default": (X, [1, 3], 1),
    "chunk.default": (X, 2, 1), "unsafe_chunk.default": (X, 2, 1), "unsafe_split.Tensor": (X, 2, 0),
    "unsafe_split_with_sizes.default": (X, [1, 3], 1), "tensor_split.sections": (X, 3, 1),
    "tensor_split.indices": (X, [1, 2], 1), "split.Tensor": (X, 2, 1), "unbind.int": (X, 1), "square.default": (X,),
    "squeeze.dims": (X.view(3, 1, 4, 1), [1, 3]), "squeeze_copy.default": (X.view(3, 1, 4),), "std.default": (X,),
    "squeeze.default": (X.view(3, 1, 4),), "squeeze.dim": (X.view(3, 1, 4), 1), "std.dim": (X, [1]),
    "std_mean.default": (X,), "std_mean.dim": (X, [0], False, True), "var.default": (X, False), "var.dim": (X, [1]),
    "var_mean.default": (X,), "var_mean.dim": (X, [1]), "swapdims.default": (X, 0, 1), "swapaxes.default": (X, 0, 1),
    "t.default": (X,), "t_copy.default": (X,), "tile.default": (X, [2, 1, 2]), "repeat.default": (X, [2, 1, 2]),
    "prims.convert_element_type.default": (X, torch.int64),
    "to.dtype_layout": (X, {"dtype": torch.float64, "layout": torch.strided}),
    "to.device": (X, torch.device("cpu"), torch.float64), "to.dtype": (X, torch.int64), "to.other": (X, I),
    "transpose.int": (X, 0, 1), "transpose_copy.int": (X, 0, 1), "true_divide.Tensor": (I, X), "type_as.default": (X, I),
    "unflatten.int": (X, 1, [2, 2]), "unsqueeze_copy.default": (X, 1), "view_as.default": (X, I.view(12)), "view_copy.default": (X, [12]),
    "flatten.using_ints": (X, 0, 1), "where.Scalar": (B, 1.5, 2.5), "where.ScalarOther": (B, X, 2.5),
    "where.ScalarSelf": (B, 1.5, X), "xlogy.Scalar_Other": (X, 2.5), "xlogy.Scalar_Self": (2.5, X.abs()),
    "xlogy.Tensor": (X, X.abs()), "softmax.int": (X, 1), "log_softmax.int": (X, 0), "nansum.default": (X / 0, [1]),
    "add.Scalar": (X, 2, 3), "sub.Scalar": (X, 2), "mul.Scalar": (X, 0.1), "div.Scalar": (I, 3), "zeros.default": ([2, 3],),
    "eye.default": (3,), "eye.m": (3, 4), "full.default": ([2], 1.5), "ones.default": ([2],), "scalar_tensor.default": (2.5,),
    "remainder.Scalar": (I, -4), "ge.Scalar": (X, 0.1), "gt.Scalar": (X, 0.1), "le.Scalar": (X, 0.1), "ne.Scalar": (I, 2),
    "eq.Scalar": (I, 2), "copysign.Scalar": (X, -1.0), "masked_fill.Scalar": (X, B, 7), "fill.Scalar": (X, 3),
    "index_select.default": (X, 1, classes(3) % 4), "lerp.Scalar": (X, X.flip(0), 0.7), "argmin.default": (X, 1),
    "min.default": (X,), "prod.default": (X,), "celu.default": (X, 2.0), "glu.default": (X, 1), "mish.default": (X,),
    "binary_cross_entropy_with_logits.default": (X, X.sigmoid(), None, vector(4), 1), "sgn.default": (X,),
    "leaky_relu_backward.default": (X, X.flip(0), 0.1, False), "glu_backward.default": (floats(3, 2), X, 1),
    "nll_loss2d_forward.default": (IMAGE, classes(2, 3, 3), vector(5), 1, -100),
    "nll_loss2d_backward.default": (floats(), IMAGE, classes(2, 3, 3), vector(5), 1, -100, torch.tensor(3.0)),
    "avg_pool1d.default": (floats(2, 3, 9), [3], [2], [1]), "avg_pool2d.default": (IMAGE, [2, 3], [1, 1], [1, 1], False, False),
    "avg_pool3d.default": (floats(1, 2, 4, 4, 5), [2], [1], [0], False, True, 3),
    "_adaptive_avg_pool2d.default": (floats(2, 3, 4, 6), [2, 3]), "_adaptive_avg_pool3d.default": (floats(1, 2, 4, 4, 5), [2, 4, 1]),
    "adaptive_avg_pool1d.default": (floats(2, 3, 8), [4]), "adaptive_avg_pool2d.default": (IMAGE, [1, 1]),
    "adaptive_avg_pool3d.default": (floats(1, 2, 4, 4, 5), [1, 1, 1]), "max_pool1d.default": (floats(2, 3, 9), [3], [2], [1]),
    "max_pool2d.default": (IMAGE, [2, 3], [1, 1], [1, 1]), "max_pool3d.default": (floats(1, 2, 4, 4, 5), [2], [1]),
    "diff.default": (X, 1, 1, X, X.flip(1)), "max.other": (X, X.flip(0)), "min.other": (X, X.flip(0)),
    "reflection_pad1d.default": (X, [3, 2]), "reflection_pad2d.default": (IMAGE, [0, 2, 1, 2]),
    "reflection_pad3d.default": (floats(1, 2, 4, 3, 5), [1, 0, 2, 1, 0, 3]), "replication_pad1d.default": (X, [3, 6]),
    "replication_pad2d.default": (IMAGE, [5, 0, 1, 2]), "replication_pad3d.default": (floats(1, 2, 4, 3, 5), [1, 0, 2, 1, 0, 6]),
    "acosh.default": (X,), "asinh.default": (X,), "atanh.default": (X,),
    "avg_pool2d_backward.default": (floats(2, 3, 4, 5), floats(2, 3, 4, 5), [3], [1], [1], False, False, None),
    "avg_pool3d_backward.default": (floats(1, 2, 2, 2, 2), floats(1, 2, 4, 4, 5), [2], [2], [0], False, True, None),
    "_adaptive_avg_pool2d_backward.default": (floats(2, 3, 2, 3), floats(2, 3, 4, 6)),
    "_adaptive_avg_pool3d_backward.default": (floats(1, 2, 1, 2, 1), floats(1, 2, 4, 4, 5)),
    "elu_backward.default": (X, 1.5, 1.1, 0.9, False, X.flip(0)),
}  # fmt: skip
# Their values are not determined.
UNDETERMINED = {"empty.memory_format", "empty_like.default", "empty_permuted.default", "empty_strided.default", "new_empty.default",
                "new_empty_strided.default"}  # fmt: skip
