"""PyTorch's own samples (OpInfo) of every operator in the import table, values and gradients.

Dynamo is left out: AOTAutograd traces the sample and hands forward and backward graphs to the backend's compiler,
which is quicker by far. Regions must compile (strict).

`make test` runs two samples of every operator in its first dtype and in one more, which takes turns;
`make test-full` runs more samples in all dtypes.
"""

from __future__ import annotations

import contextlib
import itertools
import os

import pytest
import torch
from engine import compiled, engine
from functorch.compile import make_boxed_func
from numeric import Inaccurate, assert_close, exact_or_eager, to_double
from opinfo_cases import (
    COMPOSITES,
    UNINITIALISED,
    copied,
    dtypes_of,
    flat_call,
    has_gradient,
    is_tensor,
    operators_with_samples,
    samples_of,
    table,
)
from single_calls import SINGLE_CALLS
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SAMPLES = int(os.environ.get("TILEFUSE_OPINFO_SAMPLES", "2"))  # of each operator and dtype, spread over all
SEED = 20
# What torch itself cannot trace: the shape of the result is in the data.
UNTRACEABLE = (DataDependentOutputException, DynamicOutputShapeException)
UNTRACED = {"nn.functional.gaussian_nll_loss"}  # asks whether any variance is negative


def cases():
    for number, op in enumerate(operators_with_samples()):
        dtypes = dtypes_of(op)
        quick = {*dtypes[:1], *dtypes[1 + number % max(1, len(dtypes) - 1) :][:1]}
        for dtype in dtypes:
            name = f"{op.formatted_name}-{str(dtype).removeprefix('torch.')}"
            yield pytest.param(op, dtype, id=name, marks=() if dtype in quick else pytest.mark.slow)


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_samples(op, dtype):
    traced = 0
    for sample in samples_of(op, dtype, SAMPLES):
        call, tensors = flat_call(op, sample)
        try:
            check_values(call, tensors, f"{op.name} {sample}")
            if has_gradient(op, dtype):
                check_gradients(call, tensors, f"gradient of {op.name} {sample}")
        except UNTRACEABLE:
            continue
        traced += 1
    assert traced or op.name in UNTRACED, "torch traces none of the samples"


def seeded(call):
    """The same random numbers at each call: what draws some draws them through torch in the engine as well."""

    def with_seed(*tensors):
        torch.manual_seed(SEED)
        return call(*tensors)

    return with_seed


def check_values(call, tensors, what):
    with torch.no_grad():
        expected = seeded(call)(*map(copied, tensors))
        exact = exact_or_eager(seeded(call), [copied(t) for t in tensors])
        got = seeded(engine(call))(*map(copied, tensors))
    compare(got, expected, exact, what, call, tensors)


def check_gradients(call, tensors, what):
    def gradients(function, arguments):
        arguments = [copied(a).requires_grad_(t.requires_grad) for a, t in zip(arguments, tensors, strict=True)]
        outputs = [o for o in pytree.tree_leaves(seeded(function)(*arguments)) if is_tensor(o) and o.requires_grad]
        wanted = [a for a in arguments if a.requires_grad]
        if not outputs or not wanted:
            return []
        return torch.autograd.grad(outputs, wanted, [upstream(o) for o in outputs], allow_unused=True)

    expected = gradients(call, tensors)
    if not expected:
        return
    try:
        exact = gradients(call, to_double(tensors))
    except (RuntimeError, ValueError, TypeError):
        exact = expected
    got = gradients(engine(call), tensors)
    compare(got, expected, exact, what, lambda *given: gradients(call, given), tensors)


def compare(got, expected, exact, what, function, tensors):
    try:
        assert_close(got, expected, exact, what)
    except Inaccurate:
        if not is_noise(function, tensors):
            raise


def is_noise(function, tensors):
    """Whether eager itself, in f32, is wrong by a hundredth, here or close by: differences of nearly equal numbers, as
    in the gradient of a norm over two elements. Rounding decides such results, in f64 as well."""
    torch.manual_seed(SEED)
    state = torch.get_rng_state()
    nearby = [is_noise_at(function, tensors, scale) for scale in (1.0, 1.1, 1.3)]
    return any(nearby) and torch.equal(state, torch.get_rng_state())  # random numbers differ from f32 to f64


def is_noise_at(function, tensors, scale):
    def widened(dtype):
        rounded = [copied(t).float() * scale if t.dtype.is_floating_point else copied(t) for t in tensors]
        return [r.to(dtype).requires_grad_(t.requires_grad) if r.dtype.is_floating_point else r for r, t in zip(rounded, tensors)]

    try:
        rough, exact = function(*widened(torch.float32)), function(*widened(torch.float64))
    except (RuntimeError, ValueError, TypeError):
        return False
    pairs = zip(pytree.tree_leaves(rough), pytree.tree_leaves(exact), strict=True)
    return any(is_tensor(r) and r.dtype == torch.float32 and relative_error(r, e) > 0.01 for r, e in pairs)


def relative_error(rough, exact):
    rough, exact = rough.detach().double(), exact.detach().double()
    finite = torch.isfinite(rough) & torch.isfinite(exact)
    if not finite.any():
        return 0.0
    return ((rough - exact)[finite].abs().max() / exact[finite].abs().max().clamp_min(1e-30)).item()


def upstream(output):
    """A gradient for the output, whose sums do not cancel to nothing but rounding errors."""
    return torch.linspace(-1, 2, output.numel(), dtype=torch.float64).reshape(output.shape).to(output.dtype)


# ---------------------------------------------------------------- coverage
@pytest.mark.slow
def test_every_operator_of_the_table_has_samples():
    reached = set()

    def recorder(role):
        def compile_nothing(module, inputs):
            targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
            reached.update(target._opname for target in targets if isinstance(target, torch._ops.OpOverload))
            return make_boxed_func(module.forward)

        return compile_nothing

    for op in operators_with_samples():
        for dtype, sample in itertools.product(dtypes_of(op)[:1], samples_of(op, dtypes_of(op)[0], SAMPLES)):
            call, tensors = flat_call(op, sample)
            arguments = [copied(t).requires_grad_(t.requires_grad) for t in tensors]
            with contextlib.suppress(*UNTRACEABLE):
                outputs = pytree.tree_leaves(compiled(call, recorder)(*arguments))
                outputs = [o for o in outputs if is_tensor(o) and o.grad_fn is not None]
                torch.autograd.backward(outputs, [upstream(o) for o in outputs])
    called_alone = {name.split(".")[-2] for name in SINGLE_CALLS}  # by test_capture_import.py
    missing = table() - reached - UNINITIALISED - called_alone
    assert not missing, f"no sample reaches {sorted(missing)}"
    assert UNINITIALISED <= table()


def test_composites_exist():
    assert {op.name for op in op_db} >= COMPOSITES
