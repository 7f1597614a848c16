"""PyTorch's own samples (OpInfo) of every operator in the import table, values and gradients.

Dynamo is left out: AOTAutograd traces the sample and hands forward and backward graphs to the backend's compiler,
which is quicker by far. Regions must compile (strict); a graph that the engine refuses as a whole is no failure of
an operator, but an operator of the table that no sample reaches is.
"""

from __future__ import annotations

import os

import pytest
import torch
from functorch.compile import aot_function, min_cut_rematerialization_partition
from numeric import assert_close, exact_or_eager, to_double
from tilefuse.backend import compile_graph
from tilefuse.library import operators
from tilefuse.options import Options
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.slow

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool)
SAMPLES = int(os.environ.get("TILEFUSE_OPINFO_SAMPLES", "4"))  # of each operator and dtype, spread over all
# Results that are not determined: random numbers, uninitialised memory; or that are no tensors of numbers.
UNDETERMINED = ("empty", "new_empty", "empty_like", "empty_permuted", "empty_strided", "new_empty_strided", "uniform",
                "normal", "bernoulli", "multinomial", "cauchy", "exponential", "geometric", "log_normal", "rand",
                "randn", "randint", "rand_like", "randn_like", "randint_like", "dropout", "rrelu", "item", "to_sparse",
                "equal", "allclose", "is_", "nonzero", "unique", "sparse", "svd", "lobpcg", "linalg", "pca", "stft",
                "fft", "signal", "cdist", "ormqr", "geqrf", "lu", "cholesky", "eig", "qr", "histogram", "masked_select",
                "argwhere", "bincount", "pinverse", "special", "torch.ops", "ops.", "complex", "polar")  # fmt: skip


def table() -> set[str]:
    """Base names of the operators in the import table: "aten.add.Tensor" -> "add"."""
    return {name.split(".")[1] for name in operators().imported_operators().split("\n")}


# Composite functions that reach table operators under other names.
COMPOSITES = {
    "nn.functional.layer_norm", "nn.functional.group_norm", "nn.functional.batch_norm", "nn.functional.rms_norm",
    "nn.functional.softmax", "softmax", "log_softmax", "nn.functional.cross_entropy", "nn.functional.nll_loss",
    "nn.functional.normalize", "nn.functional.mse_loss", "nn.functional.glu", "nn.functional.pad", "norm", "std_mean",
    "var_mean", "chunk", "stack", "unbind", "take_along_dim", "broadcast_to", "one_hot", "reshape", "flatten",
    "unflatten", "square", "float_power", "true_divide", "rsub", "hstack", "vstack", "dstack", "movedim", "tile", "t",
    "swapaxes", "ravel", "diff", "trapezoid", "nn.functional.instance_norm", "nn.functional.l1_loss", "addcdiv",
    "nn.functional.smooth_l1_loss", "nn.functional.huber_loss", "nn.functional.softsign", "nn.functional.tanhshrink",
    "nn.functional.logsigmoid", "nn.functional.relu6", "nn.functional.cosine_similarity", "nn.functional.embedding",
}  # fmt: skip


def cases():
    names = table()
    for op in op_db:
        if op.name.startswith(UNDETERMINED) or "." in op.name and op.name.split(".")[0] in ("fft", "linalg", "sparse"):
            continue
        if op.aten_name in names or op.name in COMPOSITES:
            for dtype in DTYPES:
                if dtype in op.supported_dtypes("cpu"):
                    yield pytest.param(op, dtype, id=f"{op.formatted_name}-{str(dtype).removeprefix('torch.')}")


def engine(function):
    settings = Options.parse(options={"strict": True})

    def compiler(role):
        return lambda module, inputs: compile_graph(module, role, settings)

    return aot_function(
        function, fw_compiler=compiler("forward"), bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"), partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )  # fmt: skip


def flat_call(op, sample):
    """The sample as a function of its tensors alone, and those tensors."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors):
        filled = list(leaves)
        for i, tensor in zip(where, tensors, strict=True):
            filled[i] = tensor
        input, args, kwargs = pytree.tree_unflatten(filled, spec)
        return op(input, *args, **kwargs)

    return call, [leaves[i] for i in where]


def spread(samples):
    samples = list(samples)
    step = max(1, len(samples) // SAMPLES)
    return samples[::step][:SAMPLES]


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_samples(op, dtype):
    gradient = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    for sample in spread(op.sample_inputs("cpu", dtype, requires_grad=gradient)):
        call, tensors = flat_call(op, sample)
        if any(t.layout != torch.strided for t in tensors) or not tensors:
            continue
        check_values(call, tensors, f"{op.name} {sample}")
        if gradient:
            check_gradients(call, tensors, f"gradient of {op.name} {sample}")


def check_values(call, tensors, what):
    plain = [t.detach() for t in tensors]
    with torch.no_grad():
        expected = call(*[t.clone() for t in plain])
        exact = exact_or_eager(call, [t.clone() for t in plain])
        got = engine(call)(*[t.clone() for t in plain])
    assert_close(got, expected, exact, what)


def check_gradients(call, tensors, what):
    def gradients(function, arguments):
        arguments = [a.detach().clone().requires_grad_(t.requires_grad) for a, t in zip(arguments, tensors, strict=True)]
        outputs = [o for o in pytree.tree_leaves(function(*arguments)) if isinstance(o, torch.Tensor) and o.requires_grad]
        wanted = [a for a in arguments if a.requires_grad]
        if not outputs or not wanted:
            return []
        seeds = [torch.linspace(-1, 1, o.numel(), dtype=torch.float64).reshape(o.shape).to(o.dtype) for o in outputs]
        return torch.autograd.grad(outputs, wanted, seeds, allow_unused=True)

    expected = gradients(call, tensors)
    if not expected:
        return
    try:
        exact = gradients(call, to_double(tensors))
    except (RuntimeError, ValueError, TypeError):
        exact = expected
    assert_close(gradients(engine(call), tensors), expected, exact, what)
