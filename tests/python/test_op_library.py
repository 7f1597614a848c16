"""Every operator of ``tilefuse.ops`` against its plain function: values, gradients, opcheck, compilers, export."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from numeric import assert_close, exact_or_eager
from op_cases import CASES, call, plain
from torch.utils import _pytree as pytree
from tilefuse import ops
from tilefuse.custom_op import _defined

# No operator may fall back to its plain function.
pytestmark = pytest.mark.filterwarnings("error::tilefuse.errors.TileFuseWarning")

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
DIFFERENTIABLE = [name for name, case in CASES.items() if case.differentiable]


def floating(arguments):
    return [a for a in arguments if isinstance(a, torch.Tensor) and a.is_floating_point()]


def with_gradients(arguments):
    return [a.detach().clone().requires_grad_() if a in floating([a]) else a for a in arguments]


def gradients(function, arguments):
    outputs = [o for o in pytree.tree_leaves(function(*arguments)) if o.is_floating_point()]
    loss = sum((o.double() * torch.arange(1, o.numel() + 1).reshape(o.shape).cos()).sum() for o in outputs)
    return torch.autograd.grad(loss, [a for a in floating(arguments) if a.requires_grad])


def test_every_operator_has_a_case():
    operators = {name for name in ops.__all__ if hasattr(getattr(ops, name), "op")}
    assert operators == set(CASES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_as_the_plain_function(name, dtype):
    for n in (13, 1, 40, 7):
        arguments = CASES[name].make(n, dtype)
        with torch.no_grad():
            got = call(name)(*arguments)
        assert_close(got, plain(name)(*arguments), exact_or_eager(plain(name), arguments), f"{name}, {n}")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_as_the_plain_function(name, dtype):
    arguments = with_gradients(CASES[name].make(13, dtype))
    doubles = [a.detach().double().requires_grad_() if a in floating([a]) else a for a in arguments]
    got = gradients(call(name), arguments)
    assert_close(got, gradients(plain(name), arguments), gradients(plain(name), doubles), name)


@pytest.mark.parametrize("name", CASES)
def test_nothing_in_nothing_out(name):
    def outcome(function):
        try:
            return function(*CASES[name].make(0, torch.float32))
        except (RuntimeError, IndexError) as error:
            return type(error)

    want, got = outcome(plain(name)), outcome(call(name))
    if isinstance(want, type):
        assert got is want
    else:
        assert_close(got, want, want, name)


@pytest.mark.parametrize("name", CASES)
def test_opcheck(name):
    case = CASES[name]
    for n in (5, 9):
        arguments = case.make(n, torch.float32)
        arguments = with_gradients(arguments) if case.differentiable else arguments
        torch.library.opcheck(getattr(ops, name).op, tuple(arguments), case.keywords)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradcheck(name):
    arguments = tuple(with_gradients(CASES[name].make(4, torch.float64)))
    assert torch.autograd.gradcheck(call(name), arguments, fast_mode=True)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradgradcheck(name):
    arguments = tuple(with_gradients(CASES[name].make(4, torch.float64)))
    assert torch.autograd.gradgradcheck(call(name), arguments, fast_mode=True, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_vmap(name):
    """Over batches of every tensor, and of the first one alone."""
    first, *rest = CASES[name].make(5, torch.float32)
    tensors = [isinstance(a, torch.Tensor) for a in rest]
    for in_dims in ((0, *(0 if t else None for t in tensors)), (0, *(None for _ in tensors))):
        stacked = [torch.stack([a, a * 2 if a.is_floating_point() else a]) if d == 0 else a for a, d in zip([first, *rest], in_dims)]
        got, want = (torch.vmap(f, in_dims)(*stacked) for f in (call(name), plain(name)))
        assert_close(got, want, want, name)


@pytest.mark.parametrize("name", CASES)
def test_non_contiguous_arguments(name):
    arguments = CASES[name].make(6, torch.float32)
    spread = [
        torch.stack([a, a], -1)[..., 0] if isinstance(a, torch.Tensor) else a for a in arguments
    ]  # fmt: skip
    assert not spread[0].is_contiguous()
    with torch.no_grad():
        assert_close(call(name)(*spread), plain(name)(*spread), exact_or_eager(plain(name), spread), name)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_autocast(name):
    """The same dtypes, inside and out, as the operator's rule says; gradients have their arguments' dtypes."""
    arguments = with_gradients(CASES[name].make(6, torch.float32))
    with torch.autocast("cpu", torch.bfloat16):
        outputs = [o for o in pytree.tree_leaves(call(name)(*arguments)) if o.is_floating_point()]
    rule = _defined[f"tilefuse::{name}"].autocast
    assert all(o.dtype == (torch.bfloat16 if rule == "lower" else torch.float32) for o in outputs)
    made = torch.autograd.grad(sum(o.float().sum() for o in outputs), floating(arguments), allow_unused=True)
    assert all(g is None or g.dtype == torch.float32 for g in made)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_calls_and_gradients_from_several_threads(name):
    """All at once, of sizes that no thread has seen yet."""
    cases = {n: with_gradients(CASES[name].make(n, torch.float32)) for n in (14, 15, 16)}
    doubles = {n: [a.detach().double().requires_grad_() if a in floating([a]) else a for a in c] for n, c in cases.items()}
    want = {n: gradients(plain(name), arguments) for n, arguments in cases.items()}
    best = {n: gradients(plain(name), arguments) for n, arguments in doubles.items()}
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda n: (n, gradients(call(name), cases[n])), [*cases] * 4))
    for n, made in got:
        assert_close(made, want[n], best[n], name)


BACKENDS = [(backend, name) for backend in ("aot_eager", "tilefuse", "inductor") for name in CASES]


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        pytest.param(backend, name, marks=[pytest.mark.slow] if backend == "inductor" and name != "add_rms_norm" else [])
        for backend, name in BACKENDS
    ],
)
def test_under_compilers(backend, name):
    """Between neighbours, with gradients where there are any, and again at another size."""
    case = CASES[name]

    def between(*arguments):
        first, *rest = arguments
        first = first * 2 if first.is_floating_point() else first
        return pytree.tree_map(lambda o: o + 1, call(name)(first, *rest))

    compiled = torch.compile(between, backend=backend, fullgraph=True)
    for n in (6, 11):
        arguments = case.make(n, torch.float32)
        with torch.no_grad():
            assert_close(compiled(*arguments), between(*arguments), exact_or_eager(between, arguments), name)
    if case.differentiable:
        arguments = with_gradients(case.make(6, torch.float32))
        doubles = [a.detach().double().requires_grad_() if a in floating([a]) else a for a in arguments]
        expected = gradients(between, arguments)
        assert_close(gradients(compiled, arguments), expected, gradients(between, doubles), name)


@pytest.mark.parametrize("name", CASES)
def test_export_round_trip(name):
    class Module(torch.nn.Module):
        def forward(self, *arguments):
            return call(name)(*arguments)

    arguments = CASES[name].make(6, torch.float32)
    with torch.no_grad():
        exported = torch.export.export(Module(), arguments)
    assert f"tilefuse.{name}.default" in str(exported.graph)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = torch.export.load(file)
    want = call(name)(*arguments)
    assert_close(loaded.module()(*arguments), want, want, name)
