"""Samples of PyTorch's OpInfo through a compiler of functions, beside eager: values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from numeric import Inaccurate, assert_close, exact_or_eager, to_double
from opinfo_cases import copied, dtypes_of, flat_call, has_gradient, is_tensor, operators_with_samples, samples_of
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils import _pytree as pytree

Engine = Callable[[Callable[..., Any]], Callable[..., Any]]  # a function as the engine computes it

SEED = 20
# What torch itself cannot trace: the shape of the result is in the data.
UNTRACEABLE = (DataDependentOutputException, DynamicOutputShapeException)
UNTRACED = {"nn.functional.gaussian_nll_loss"}  # asks whether any variance is negative


def cases(device: str = "cpu", slow: bool = True, quick_dtypes: int = 2) -> Iterator[Any]:
    """Every operator in its first dtype and in one more, which takes turns; the other dtypes, where wanted, are slow.

    `quick_dtypes` of 1: in one of the two, in turns.
    """
    for number, op in enumerate(operators_with_samples(device)):
        dtypes = dtypes_of(op, device)
        pair = [*dtypes[:1], *dtypes[1 + number % max(1, len(dtypes) - 1) :][:1]]
        quick = pair if quick_dtypes == 2 else [pair[number % len(pair)]]
        for dtype in dtypes:
            name = f"{op.formatted_name}-{str(dtype).removeprefix('torch.')}"
            if dtype in quick or slow:
                yield pytest.param(op, dtype, id=name, marks=() if dtype in quick else pytest.mark.slow)


def check_samples(engine: Engine, op: Any, dtype: torch.dtype, count: int, device: str = "cpu") -> None:
    """`count` samples of the operator, or eight where torch traces none of these; an AssertionError says which one differs
    from eager."""

    def traced(samples: Iterable[Any]) -> int:
        return sum(check_sample(engine, op, dtype, sample, device) for sample in samples)

    found = traced(samples_of(op, dtype, count, device)) or traced(samples_of(op, dtype, 8, device))
    assert found or op.name in UNTRACED, "torch traces none of the samples"


def check_sample(engine: Engine, op: Any, dtype: torch.dtype, sample: Any, device: str) -> bool:
    """Whether torch traces it."""
    call, tensors = flat_call(op, sample)
    try:
        check_values(engine, call, tensors, f"{op.name} {sample}")
        if has_gradient(op, dtype, device):
            check_gradients(engine, call, tensors, f"gradient of {op.name} {sample}")
    except UNTRACEABLE:
        return False
    return True


def seeded(call):
    """The same random numbers at each call: what draws some draws them through torch in the engine as well."""

    def with_seed(*tensors):
        torch.manual_seed(SEED)
        return call(*tensors)

    return with_seed


def check_values(engine: Engine, call, tensors, what):
    with torch.no_grad():
        expected = seeded(call)(*map(copied, tensors))
        exact = exact_or_eager(seeded(call), [copied(t) for t in tensors])
        got = seeded(engine(call))(*map(copied, tensors))
    compare(got, expected, exact, what, call, tensors)


def check_gradients(engine: Engine, call, tensors, what):
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
    state = _random_state(tensors)
    nearby = [is_noise_at(function, tensors, scale) for scale in (1.0, 1.1, 1.3)]
    return any(nearby) and torch.equal(state, _random_state(tensors))  # random numbers differ from f32 to f64


def _random_state(tensors):
    return torch.cuda.get_rng_state() if any(t.is_cuda for t in tensors) else torch.get_rng_state()


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
    values = torch.linspace(-1, 2, output.numel(), dtype=torch.float64, device=output.device)
    return values.reshape(output.shape).to(output.dtype)
