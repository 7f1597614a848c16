"""Captured graphs mean what torch computes: capture, import in C++, evaluate with the reference interpreter, compare.

No kernel takes part. The executable import_eval (built with the C++ tests) is found through TILEFUSE_IMPORT_EVAL or
below build/; without it these tests skip.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import operator
import os
import pathlib
import subprocess
from collections.abc import Callable

import pytest
import torch
from functorch.compile import aot_function, make_boxed_func
from numeric import assert_close, to_double
from single_calls import SINGLE_CALLS, UNDETERMINED, floats
from tilefuse.capture import capture
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).parents[2]
SAMPLES = int(os.environ.get("TILEFUSE_OPINFO_SAMPLES", "3"))
UNTRACEABLE = (DataDependentOutputException, DynamicOutputShapeException)  # by torch itself
NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def executable() -> str | None:
    named = os.environ.get("TILEFUSE_IMPORT_EVAL")
    found = [named] if named else sorted(glob.glob(str(ROOT / "build" / "*" / "tests" / "import_eval")))
    return found[-1] if found else None


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(executable() is None, reason="import_eval is not built"),
]


def rows() -> list[str]:
    if executable() is None:
        return []
    return subprocess.run([executable(), "--operators"], capture_output=True, text=True, check=True).stdout.split()


TABLE = rows()


# ---------------------------------------------------------------- files
def write_tensors(path: pathlib.Path, tensors: list[torch.Tensor]) -> None:
    with path.open("wb") as file:
        for tensor in tensors:
            file.write(" ".join(map(str, (NAMES[tensor.dtype], tensor.dim(), *tensor.shape))).encode() + b"\n")
            wide = tensor.detach().to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)
            file.write(wide.contiguous().numpy().tobytes())


def read_tensors(path: pathlib.Path) -> list[torch.Tensor]:
    tensors, data = [], path.read_bytes()
    while data:
        header, data = data.split(b"\n", 1)
        name, _, *shape = header.decode().split()
        shape, dtype = [int(extent) for extent in shape], DTYPES[name]
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        count = torch.Size(shape).numel()
        values = torch.frombuffer(bytearray(data[: 8 * count]), dtype=wide) if count else torch.empty(0, dtype=wide)
        tensors.append(values.reshape(shape).to(dtype))
        data = data[8 * count :]
    return tensors


# ---------------------------------------------------------------- capture
class Recorder:
    """A compiler for AOTAutograd: captures every graph, runs it eagerly, and keeps both sides' files."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.expected: list[list[torch.Tensor]] = []
        self.exact: list[Callable[[], list[torch.Tensor]]] = []  # the same in f64

    def __call__(self, module: torch.fx.GraphModule, _inputs: list[object]) -> object:
        number = len(self.expected)
        self.expected.append([])
        self.exact.append(list)
        captured = capture(module, name=f"graph_{number}")
        self.path(number, "json").write_text(captured.json)

        def run(*arguments: object) -> object:
            originals = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
            before = [a for a in originals if isinstance(a, torch.Tensor)]
            write_tensors(self.path(number, "in"), before + captured.constants)
            results = module(*arguments)
            after = [a for a in arguments if isinstance(a, torch.Tensor)]
            written = [a.detach().clone() for a, b in zip(after, before) if not same(a, b)]
            outputs = [r.detach().clone() for r in results if isinstance(r, torch.Tensor)]
            self.expected[number] = outputs + written
            self.exact[number] = lambda: in_double(module, originals, outputs + written)
            return results

        return make_boxed_func(run)

    def path(self, number: int, kind: str) -> pathlib.Path:
        return self.folder / f"{number}.{kind}"

    def compare(self) -> list[tuple[str, set[str], set[str]]]:
        """Verdict of each graph, with the overloads that were expanded and those that stayed calls."""
        ran = [n for n, expected in enumerate(self.expected) if self.path(n, "in").exists()]
        files = [str(self.path(n, kind)) for n in ran for kind in ("json", "in", "out")]
        done = subprocess.run([executable(), *files], capture_output=True, text=True, check=True)
        verdicts = []
        for number, line in zip(ran, done.stdout.splitlines(), strict=True):
            verdict, expanded, calls = line.split("\t")
            assert not verdict.startswith("error"), f"{verdict}\n{self.path(number, 'json').read_text()}"
            if verdict == "ok":
                self.check(number)
            verdicts.append((verdict, set(expanded.split()), set(calls.split())))
        return verdicts

    def check(self, number: int) -> None:
        actual = read_tensors(self.path(number, "out"))
        assert len(actual) == len(self.expected[number])
        for ours, theirs, exact in zip(actual, self.expected[number], self.exact[number](), strict=True):
            assert_close(ours, theirs, exact, str(self.path(number, "json")))


class InDouble(torch.fx.Interpreter):
    """Runs a graph with every float operand and every named float dtype widened to f64."""

    def call_function(self, target, args, kwargs):
        widen = lambda leaf: torch.float64 if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf
        args, kwargs = pytree.tree_map(widen, (args, kwargs))
        return super().call_function(target, *to_double((args, kwargs)))


def in_double(module, arguments, eager):
    """Outputs and written inputs in f64; eager's own where an operator does not take f64."""
    given = to_double([a.clone() if isinstance(a, torch.Tensor) else a for a in arguments])
    before = [a.clone() for a in given if isinstance(a, torch.Tensor)]
    try:
        results = InDouble(module).run(*given)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return eager
    after = [a for a in given if isinstance(a, torch.Tensor)]
    written = [a for a, b in zip(after, before) if not same(a, b)]
    exact = [r for r in results if isinstance(r, torch.Tensor)] + written
    return exact if len(exact) == len(eager) else eager


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def run_both(function, tensors, folder, *, dynamic=False, backward=False):
    recorder = Recorder(folder)
    compiled = aot_function(
        function, fw_compiler=recorder, bw_compiler=recorder, inference_compiler=recorder, dynamic=dynamic,
        keep_inference_input_mutations=True,
    )  # fmt: skip
    with torch.set_grad_enabled(backward):
        outputs = pytree.tree_leaves(compiled(*tensors))
        if backward:
            differentiable = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
            if differentiable:
                torch.autograd.backward(differentiable, [torch.randn_like(o) for o in differentiable])
    return recorder.compare()


# ---------------------------------------------------------------- OpInfo samples
# Not determined (random, uninitialised), not of one shape, or not of strided real tensors.
LEFT_OUT = (
    "empty", "new_empty", "uniform", "normal", "bernoulli", "multinomial", "cauchy", "exponential", "geometric",
    "log_normal", "rand", "dropout", "nn.functional.dropout", "rrelu", "item", "sparse", "linalg", "fft", "signal",
    "masked_select", "nonzero", "argwhere", "unique", "equal", "allclose", "svd", "pca", "special", "torch.ops", "ops.",
    "complex", "polar", "view_as_complex", "nn.functional.feature", "nn.functional.alpha", "as_strided_scatter",
    "histogram", "stft", "istft", "cholesky", "lu", "ormqr", "geqrf", "qr", "symeig", "pinverse", "triangular_solve",
    "logdet", "gradient", "cdist", "resize", "to_sparse", "_native_batch_norm", "_batch_norm",
)  # fmt: skip
COMPOSITE = {
    "softmax", "log_softmax", "nn.functional.cross_entropy", "nn.functional.nll_loss", "nn.functional.layer_norm",
    "nn.functional.group_norm", "nn.functional.batch_norm", "nn.functional.rms_norm", "nn.functional.normalize",
    "nn.functional.instance_norm", "nn.functional.pad", "nn.functional.embedding", "nn.functional.one_hot",
    "nn.functional.logsigmoid", "nn.functional.relu6", "nn.functional.prelu", "nn.functional.glu", "unflatten",
    "nn.functional.binary_cross_entropy_with_logits", "nn.functional.unfold", "float_power", "diff", "mT",
    "nn.functional.cosine_similarity", "nn.functional.softsign", "take_along_dim", "__getitem__", "hstack", "dstack",
    "nn.functional.softmin", "nn.functional.binary_cross_entropy", "var_mean", "std_mean", "nn.functional.silu",
    "nn.functional.hardswish", "nn.functional.mse_loss", "nn.functional.smooth_l1_loss", "nn.functional.huber_loss",
    "nn.functional.hardtanh", "nn.functional.threshold", "nn.functional.gelu", "nn.functional.softplus", "split",
    "nn.functional.hardsigmoid", "nn.functional.leaky_relu", "nn.functional.elu", "nn.functional.celu", "tensor_split",
    "nn.functional.selu", "nn.functional.mish", "nn.functional.hardshrink", "nn.functional.softshrink", "chunk",
    "nn.functional.tanhshrink", "nn.functional.relu", "nn.functional.l1_loss", "broadcast_to", "expand_as",
    "nn.functional.kl_div", "to", "index_select", "native_layer_norm", "ravel", "norm",
}  # fmt: skip


def cases():
    names = {row.split(".")[1] for row in TABLE}
    dtypes = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
    for op in op_db:
        is_wanted = (op.aten_name in names or op.name in COMPOSITE) and not op.name.startswith(LEFT_OUT)
        for dtype in dtypes if is_wanted else ():
            if dtype in op.supported_dtypes("cpu"):
                yield pytest.param(op, dtype, id=f"{op.formatted_name}-{NAMES[dtype]}")


def spread(items, count):
    """`count` of the items, from the first to the last."""
    items = list(items)
    if len(items) <= count:
        return items
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


def usable(tensors) -> bool:
    return all(t.dtype in NAMES and t.layout == torch.strided and t.numel() < 5000 for t in tensors)


def samples_of(op, dtype, backward):
    """Functions of their tensors alone, and those tensors."""
    samples = op.sample_inputs("cpu", dtype, requires_grad=backward)
    for sample in spread(itertools.islice(samples, 60), SAMPLES):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[i] for i in places]
        if not tensors or not usable(tensors):
            continue

        def call(*given, leaves=leaves, spec=spec, places=places):
            full = list(leaves)
            for place, tensor in zip(places, given):
                full[place] = tensor
            first, args, kwargs = pytree.tree_unflatten(full, spec)
            return op.op(first, *args, **kwargs)

        outputs = [o for o in pytree.tree_leaves(call(*tensors)) if isinstance(o, torch.Tensor)]
        if outputs and usable(outputs):
            yield call, tensors


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_opinfo_samples_evaluate_as_in_eager(op, dtype, tmp_path):
    backward = dtype == torch.float32 and op.supports_autograd
    for number, (call, tensors) in enumerate(samples_of(op, dtype, backward)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with contextlib.suppress(*UNTRACEABLE):
            run_both(call, tensors, folder, backward=backward)


# ---------------------------------------------------------------- forms that no OpInfo sample reaches
aten = torch.ops.aten
DIRECT = {
    "adaptive_max_pools": lambda x: (aten.adaptive_max_pool2d(x.reshape(1, 3, 4), [3, 2])[0],
                                     aten.adaptive_max_pool3d(x.reshape(1, 3, 2, 2), [3, 1, 2])[0]),
    "aminmax": lambda x: aten.aminmax(x, dim=1),
    "any_dims": lambda x: (aten.any.dims(x > 1, [0, 1]), aten.all.dims(x > -9, [1], True)),
    "arange": lambda x: x + torch.arange(0.5, 2.5, 0.5) + torch.arange(1, 8, 2),
    "bitwise_shift": lambda x: ((x * 9).long() << 3) + ((x * 99).long() >> 2),
    "copy": lambda x: aten.copy(x, torch.arange(4)),
    "diagonal": lambda x: torch.diagonal(x.expand(2, 3, 4), 1, 1, 2),
    "dropout_backward": lambda x: aten.native_dropout_backward(x, x > 0, 2.0),
    "eye": lambda x: x[:, :3] * torch.eye(3) + torch.eye(3, 3),
    "fill": lambda x: aten.fill.Scalar(x, 3) + aten.fill.Tensor(x, torch.tensor(2.5)),
    "full": lambda x: torch.full_like(x, 0.1) + x.new_full((3, 1), 2) + torch.ones(3, 4) + x.new_ones(4),
    "gather": lambda x: torch.gather(x, 1, torch.tensor([[0, 3], [1, 1], [2, 0]])),
    "maximum_pool": lambda x: (torch.max_pool2d(x[None], 2), torch.max_pool3d(x[None, None], 1)),
    "index_mixed": lambda x: x.expand(2, 3, 4)[:, torch.tensor([0, -1]), torch.tensor([[1], [2]])],
    "index_apart": lambda x: x.expand(2, 3, 4)[torch.tensor([0, 1]), :, torch.tensor([3, -2])],
    "linspace": lambda x: x + torch.linspace(-1, 2, 4),
    "mutation": lambda x: x.add_(1).mul_(2),
    "norms": lambda x: (torch.linalg.vector_norm(x, 3), torch.linalg.vector_norm(x, float("inf"), 1), x.norm(1)),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "roll": lambda x: torch.roll(x, (1, -2), (0, 1)),
    "select_scatter": lambda x: torch.select_scatter(x, torch.zeros(3), 1, 2),
    "slice_negative": lambda x: (x[:, -3:-1], x[-3:, ::2], x[1:]),
    "slice_scatter": lambda x: torch.slice_scatter(x, torch.ones(3, 2), 1, 0, 4, 2),
    "softmax_masked": lambda x: aten._safe_softmax(x.masked_fill(x > -9, float("-inf")), 1),
    "symmetric_pad": lambda x: torch.nn.functional.pad(x, (1, -1, 0, 2), value=7.0),
    "threshold": lambda x: torch.nn.functional.threshold(x, 0.1, 20),
    "triangles": lambda x: torch.tril(x, -1) + torch.triu(x, 1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "where_scalars": lambda x: torch.where(x > 0, 1.0, x) + torch.where(x > 0, x, 2),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", sorted(DIRECT))
def test_other_forms_evaluate_as_in_eager(name, dynamic, tmp_path):
    torch.manual_seed(0)
    for verdict, _, calls in run_both(DIRECT[name], [floats(3, 4)], tmp_path, dynamic=dynamic):
        assert verdict == "ok", (verdict, calls)


class Composites(torch.nn.Module):
    """What torch.export keeps whole and AOTAutograd does not."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.GroupNorm(2, 4), torch.nn.BatchNorm1d(4), torch.nn.LayerNorm(6)])
        self.rms = torch.nn.RMSNorm(6)

    def forward(self, x):
        for norm in self.norms:
            x = norm(x)
        x = torch.dropout(self.rms(x).contiguous(), 0.5, False)
        y = torch.softmax(x, -1).to(torch.float64) + torch.log_softmax(x, 1).type_as(x.double())
        parts = torch.chunk(y.flatten(1).reshape(2, -1).unflatten(1, (4, 6)), 2, 1)
        return torch.cat(parts, -1), torch.movedim(y, 0, 2), y.swapaxes(0, 1).mT.expand_as(y.swapaxes(0, 1).mT)


def test_exported_composites_evaluate_as_in_eager(tmp_path):
    inputs = (torch.randn(2, 4, 6),)
    program = torch.export.export(Composites().eval(), inputs)
    recorder = Recorder(tmp_path)
    state = [*program.state_dict.values()]
    recorder(program.graph_module, [])(state + list(inputs))
    [(verdict, _, calls)] = recorder.compare()
    assert verdict == "ok", (verdict, calls)


# ---------------------------------------------------------------- overloads that neither way leaves whole
def graph_of(overload, arguments, keywords, result):
    """A graph of one call, with the metadata that a tracer would leave; and its tensor inputs."""
    graph, mode = torch.fx.Graph(), FakeTensorMode()
    tensors = []

    def place(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        node = graph.placeholder(f"arg{len(tensors)}")
        node.meta["val"] = mode.from_tensor(leaf)
        tensors.append(leaf)
        return node

    node = graph.call_function(overload, *pytree.tree_map(place, (tuple(arguments), keywords)))
    fake = lambda leaf: mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf
    node.meta["val"] = pytree.tree_map(fake, result)
    outputs = [node]
    if isinstance(result, (list, tuple)):
        outputs = [graph.call_function(operator.getitem, (node, i)) for i in range(len(result))]
        for output, value in zip(outputs, result):
            output.meta["val"] = fake(value)
    graph.output(tuple(outputs))
    return torch.fx.GraphModule(torch.nn.Module(), graph), tensors


@pytest.mark.parametrize("name", sorted(SINGLE_CALLS))
def test_one_call_evaluates_as_in_eager(name, tmp_path):
    namespace, packet, variant = name.split(".") if name.count(".") == 2 else ("aten", *name.split("."))
    overload = getattr(getattr(getattr(torch.ops, namespace), packet), variant)
    arguments = [a for a in SINGLE_CALLS[name] if not isinstance(a, dict)]
    keywords = next((a for a in SINGLE_CALLS[name] if isinstance(a, dict)), {})
    module, tensors = graph_of(overload, arguments, keywords, overload(*arguments, **keywords))
    recorder = Recorder(tmp_path)
    recorder(module, [])(list(tensors))
    [(verdict, _, calls)] = recorder.compare()
    assert verdict == "ok", (verdict, calls)


# ---------------------------------------------------------------- coverage
def test_every_row_has_a_sample(tmp_path):
    """A row is expanded in a sample above: called alone, in a form of its own, or in PyTorch's samples of the
    operators that are named like it or consist of it."""
    missing = {row for row in TABLE if row.removeprefix("aten.") not in SINGLE_CALLS.keys() | UNDETERMINED}
    for number, (function, tensors, backward) in enumerate(most_promising_samples(missing)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with contextlib.suppress(*UNTRACEABLE):
            for verdict, expanded, _ in run_both(function, tensors, folder, backward=backward):
                missing -= expanded if verdict == "ok" else set()
        if not missing:
            return
    raise AssertionError(f"no sample reaches {sorted(missing)}")


def most_promising_samples(missing):
    """`missing` shrinks meanwhile. First what is cheap, then operators named like a row, then those made of others."""
    for name in sorted(DIRECT):
        yield DIRECT[name], [floats(3, 4)], False
    parameters = [case.values for case in cases()]
    for is_named_like in (True, False):
        for op, dtype in parameters:
            names = {row.split(".")[1].removesuffix("_backward").strip("_") for row in missing}
            if (op.aten_name.strip("_") in names) == is_named_like:
                backward = dtype == torch.float32 and op.supports_autograd
                for function, tensors in samples_of(op, dtype, backward):
                    yield function, tensors, backward
