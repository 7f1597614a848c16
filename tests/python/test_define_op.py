"""``tilefuse.op``: definitions, specialisations, errors, autocast, threads."""

import threading
import warnings

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from tilefuse.backend import collect_graphs
from tilefuse.custom_op import decompositions
from tilefuse.errors import TileFuseWarning
from tilefuse.library import operators


@tilefuse.op("tilefuse_test::scaled")
def scaled(x: torch.Tensor, bias: torch.Tensor | None = None, by: float = 2.0, *, power: int = 1) -> torch.Tensor:
    """Tanh of a power, scaled."""
    y = torch.tanh(x) ** power * by
    return y if bias is None else y + bias


@tilefuse.op("tilefuse_test::softmax_of_product", options={"strict": True})
def softmax_of_product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = a @ b
    return torch.softmax(y, -1), y.sum(-1)


def kernels(name):
    return operators().op_specialisations(name)


def test_looks_like_the_function():
    assert scaled.__doc__ == "Tanh of a power, scaled."
    assert str(torch.ops.tilefuse_test.scaled.default._schema) == (
        "tilefuse_test::scaled(Tensor x, Tensor? bias=None, float by=2., *, SymInt power=1) -> Tensor"
    )
    x = torch.randn(3, 4)
    torch.testing.assert_close(scaled(x, by=3.0, power=2), scaled.plain(x, by=3.0, power=2))
    torch.testing.assert_close(torch.ops.tilefuse_test.scaled(x, x[0]), scaled.plain(x, x[0]))


def test_one_kernel_a_kind_of_arguments():
    operators().forget_op("tilefuse_test::scaled")
    x = torch.randn(5, 6)
    for expected, arguments, keywords in (
        (1, (x,), {}),
        (1, (torch.randn(5, 6),), {}),
        (2, (torch.randn(7, 6),), {}),  # now the first size is a symbol
        (2, (torch.randn(100, 6),), {}),
        (3, (torch.randn(1, 6),), {}),
        (4, (x.double(),), {}),
        (5, (x,), {"by": 4.0}),
        (6, (x, x[0]), {}),
        (7, (torch.randn(6, 5).t(),), {}),
    ):
        torch.testing.assert_close(scaled(*arguments, **keywords), scaled.plain(*arguments, **keywords))
        assert kernels("tilefuse_test::scaled") == expected, arguments


def test_sizes_that_must_agree_are_guards():
    for m, k, n in ((4, 5, 6), (7, 5, 6), (7, 8, 9), (8, 3, 2), (2, 9, 9)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        torch.testing.assert_close(softmax_of_product(a, b), softmax_of_product.plain(a, b))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied|same reduction dim|must match"):
        softmax_of_product(torch.randn(4, 5), torch.randn(6, 7))


def test_layouts():
    full = torch.randn(6, 30)
    for x in (full[:, 10:20], full[:, ::3], full.t(), torch.randn(1, 5).expand(6, 5), full.view(6, 5, 6).transpose(0, 2)):
        got, want = scaled(x), scaled.plain(x)
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride() or x.stride(0) == 0


def test_dissolves_into_the_graph_of_the_backend():
    def between(x):
        return torch.relu(scaled(x + 1)) * 2

    x = torch.randn(33, 20)
    with torch.no_grad(), collect_graphs() as graphs:
        got = torch.compile(between, backend="tilefuse", options={"strict": True})(x)
    torch.testing.assert_close(got, between(x))
    assert len(graphs) == 1
    assert len(graphs[0].answer["regions"]) == 1


def test_decompositions_take_it_out_of_an_exported_program():
    class Module(torch.nn.Module):
        def forward(self, x):
            return scaled(x)

    exported = torch.export.export(Module(), (torch.randn(3, 4),))
    assert "tilefuse_test" in str(exported.graph)
    assert "tilefuse_test" not in str(exported.run_decompositions(decompositions()).graph)


@pytest.mark.parametrize(
    ("rule", "dtype"), [(None, torch.float32), ("lower", torch.bfloat16), (torch.float32, torch.float32)], ids=str
)
def test_autocast_rules(rule, dtype):
    name = f"tilefuse_test::doubled_{rule}".replace("torch.", "")

    @tilefuse.op(name, autocast=rule)
    def doubled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w) * 2

    x, w = torch.randn(4, 4), torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert doubled(x, w).dtype == dtype
        assert torch.compile(doubled, backend="tilefuse")(x, w).dtype == dtype
    assert doubled(x, w).dtype == torch.float32


def test_results_are_never_arguments():
    @tilefuse.op("tilefuse_test::same")
    def same(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x.view(-1)

    x = torch.randn(3, 4)
    y, flat = same(x)
    assert len({x.data_ptr(), y.data_ptr(), flat.data_ptr()}) == 3
    torch.library.opcheck(same.op, (x,))


def test_a_second_definition_takes_the_place_of_the_first():
    def define(factor):
        @tilefuse.op("tilefuse_test::again")
        def again(x: torch.Tensor) -> torch.Tensor:
            return x * factor

        return again

    x = torch.ones(4)
    assert define(2.0)(x).sum() == 8
    assert define(3.0)(x).sum() == 12
    with pytest.raises(tilefuse.UserError, match="defined already"):
        tilefuse.op("tilefuse_test::again")(scaled.plain)


def test_a_function_that_does_not_compile_runs_as_it_is_and_says_so_once():
    @tilefuse.op("tilefuse_test::looks_at_values")
    def looks_at_values(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x * 3

    x = torch.ones(4, requires_grad=True)
    with pytest.warns(TileFuseWarning, match="looks_at_values runs as plain PyTorch"):
        torch.testing.assert_close(looks_at_values(x), x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        torch.testing.assert_close(looks_at_values(-x), -x * 3)
        assert kernels("tilefuse_test::looks_at_values") == 1


def test_gradients_of_a_function_that_does_not_compile():
    @tilefuse.op("tilefuse_test::looks_at_values_too")
    def looks_at_values_too(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x * 3

    x = torch.ones(4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileFuseWarning)
        assert torch.autograd.grad(looks_at_values_too(x).sum(), x)[0].tolist() == [2.0] * 4
        assert torch.autograd.grad(looks_at_values_too(-x).sum(), x)[0].tolist() == [-3.0] * 4


def test_other_layouts_run_as_the_function_has_them():
    @tilefuse.op("tilefuse_test::doubled_twice")
    def doubled_twice(x: torch.Tensor) -> torch.Tensor:
        return x * 4

    x = torch.eye(3).to_sparse()
    with pytest.warns(TileFuseWarning, match="runs as plain PyTorch on cpu torch.sparse_coo tensors"):
        assert doubled_twice(x).to_dense().sum() == 12
    assert doubled_twice(torch.eye(3)).sum() == 12


def test_conjugates_and_negatives_that_are_only_marked():
    @tilefuse.op("define::imaginary")
    def imaginary(z: torch.Tensor) -> torch.Tensor:
        return z.conj().imag * 3

    z = torch.randn(3, 5, dtype=torch.complex64)
    for given in (z, z.conj()):
        torch.testing.assert_close(imaginary(given), imaginary.plain(given))


def test_errors_of_the_function_are_its_own():
    with pytest.raises(RuntimeError, match="must match the size"):
        scaled(torch.randn(3, 4), torch.randn(5))


def bad_definitions():
    def no_annotation(x):
        return x

    def no_tensor(n: int) -> torch.Tensor:
        return torch.ones(n)

    def no_result(x: torch.Tensor) -> None:
        return None

    def many(*x: torch.Tensor) -> torch.Tensor:
        return x[0]

    return {
        "type annotation": no_annotation, "no tensor": no_tensor, "return a Tensor": no_result, "varargs": many,
    }  # fmt: skip


@pytest.mark.parametrize(("message", "function"), bad_definitions().items())
def test_bad_definitions(message, function):
    with pytest.raises(tilefuse.UserError, match=message):
        tilefuse.op("tilefuse_test::bad")(function)


def test_bad_names_and_options():
    with pytest.raises(tilefuse.UserError, match="library::name"):
        tilefuse.op("nothing")
    with pytest.raises(tilefuse.UserError, match="autocast"):
        tilefuse.op("a::b", autocast="half")
    with pytest.raises(tilefuse.UserError, match="did you mean 'strict'"):
        tilefuse.op("a::b", options={"strikt": True})
    with pytest.raises(tilefuse.UserError, match="aten::relu is defined already"):
        tilefuse.op("aten::relu")(lambda_of_a_tensor)


def lambda_of_a_tensor(x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize("what", ["changes an argument", "random numbers"])
def test_what_an_operator_may_not_do(what):
    @tilefuse.op(f"tilefuse_test::{what.replace(' ', '_')}")
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1) if what == "changes an argument" else F.dropout(x, 0.5)

    with pytest.raises(ValueError, match=what):
        wrong(torch.ones(3))


def test_second_derivatives_are_those_of_the_function():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    given = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def second(function):
        (first,) = torch.autograd.grad(function(x * 2, by=0.5), x, given, create_graph=True)
        return torch.autograd.grad(first.sin().sum(), (x, given))

    torch.testing.assert_close(second(scaled), second(scaled.plain))
    assert torch.autograd.gradgradcheck(lambda t: scaled(t, by=0.5), x)
    third = [
        torch.func.grad(torch.func.grad(torch.func.grad(lambda t: f(t, by=0.5).sum())))(x[0, 0].detach())
        for f in (scaled, scaled.plain)
    ]  # fmt: skip
    torch.testing.assert_close(*third)


TRANSFORMS = {
    "vmap": lambda f, x: torch.func.vmap(f)(x),
    "vmap of the last dimension": lambda f, x: torch.func.vmap(f, in_dims=-1, out_dims=1)(x),
    "grad": lambda f, x: torch.func.grad(lambda t: f(t).cos().sum())(x),
    "gradients of samples": lambda f, x: torch.func.vmap(torch.func.grad(lambda t: f(t).cos().sum()))(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x.cos(),)),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x[0]),
    "hessian": lambda f, x: torch.func.hessian(lambda t: f(t).cos().sum())(x[0]),
    "functionalize": lambda f, x: torch.func.functionalize(f)(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning")
def test_transforms_of_functions(transform):
    x = torch.randn(3, 4)
    got, want = (TRANSFORMS[transform](lambda t, f=f: f(t, by=0.5, power=2), x) for f in (scaled, scaled.plain))
    torch.testing.assert_close(got, want)


def test_forward_mode():
    x, tangent = torch.randn(3, 4), torch.randn(3, 4)

    def derivative(function, primal):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(primal, tangent)
            return torch.autograd.forward_ad.unpack_dual(function(dual, by=0.5, power=2)).tangent

    for primal in (x, x.clone().requires_grad_()):
        torch.testing.assert_close(derivative(scaled, primal), derivative(scaled.plain, primal))


def test_gradients_share_no_memory():
    """The gradient of a sum is the same for both operands; compilers write into what they are given."""

    @tilefuse.op("tilefuse_test::added")
    def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    x = torch.randn(3, 4)
    given = torch.randn(3, 4)
    first, second = torch.ops.tilefuse_test.added_backward(x, x + 1, [given], 0b11)
    assert len({tensor.data_ptr() for tensor in (first, second, given)}) == 3


def test_lists_of_tensors():
    @tilefuse.op("tilefuse_test::total")
    def total(parts: list[torch.Tensor], weight: torch.Tensor) -> torch.Tensor:
        return torch.stack([part * weight for part in parts]).sum(0)

    weight = torch.randn(5, requires_grad=True)
    for count in (1, 3):
        parts = [torch.randn(4, 5, requires_grad=True) for _ in range(count)]
        torch.testing.assert_close(total(parts, weight), total.plain(parts, weight))
        got, want = (torch.autograd.grad(f(parts, weight).cos().sum(), [*parts, weight]) for f in (total, total.plain))
        torch.testing.assert_close(got, want)


def test_calls_from_many_threads():
    operators().forget_op("tilefuse_test::scaled")
    failures = []

    def work(seed):
        for n in range(2, 12):
            x = torch.full((n, 5), float(seed))
            if not torch.allclose(scaled(x), scaled.plain(x)):
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
