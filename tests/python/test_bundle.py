"""Exported programs as C libraries: called from C (tests/bundle/call.c) and through ctypes, beside eager."""

import copy
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from numeric import assert_close
from tilefuse import cli
from torch import nn
from test_offline import BATCH, Attention, Constants, Counter, Mlp, Norms, Tied, copied, expected
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
    torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}  # fmt: skip


class Softmax(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1), x.argmax(-1)


class NormActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(96)

    def forward(self, x, residual):
        return nn.functional.gelu(self.norm(x + residual)) * 2, (x + residual).square().mean()


class Block(nn.Module):
    """A transformer layer, with a mask."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x, mask):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.silu(self.up(self.second(x))))


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64).bfloat16())

    def forward(self, x, shift):
        return nn.functional.rms_norm(x, (64,), self.weight) + shift


class Integers(nn.Module):
    def forward(self, x, flags):
        return torch.where(flags, x * 3, -x).sum(1), (x % 7).to(torch.uint8), flags.any()


class Layouts(nn.Module):
    """Outputs that are views, of one value and of each other."""

    def forward(self, x):
        y = torch.relu(x) + 1
        return y.t(), y[1], y.expand(2, *y.shape), y.reshape(-1), x.t()


def plain(module, *inputs, dynamic=None, more=()):
    return lambda: (module().eval(), inputs, dynamic, more)


torch.manual_seed(0)  # the inputs are drawn here, not in a test: the same each time
CASES = {
    "mlp": plain(Mlp, torch.randn(8, 64)),
    "mlp_dynamic": plain(Mlp, torch.randn(8, 64), dynamic=({0: BATCH},), more=[(torch.randn(n, 64),) for n in (2, 7, 64)]),
    "softmax": plain(Softmax, torch.randn(300, 1000)),
    "norm_activation": plain(
        NormActivation, torch.randn(5, 7, 96), torch.randn(5, 7, 96), dynamic=({0: BATCH}, {0: BATCH}),
        more=[(torch.randn(n, 7, 96), torch.randn(n, 7, 96)) for n in (2, 31)],
    ),
    "attention": plain(Attention, torch.randn(2, 16, 32)),
    "attention_dynamic": plain(
        Attention, torch.randn(3, 16, 32), dynamic=({0: BATCH, 1: torch.export.Dim.AUTO},),
        more=[(torch.randn(2, 50, 32),), (torch.randn(9, 3, 32),)],
    ),
    "block": plain(Block, torch.randn(2, 12, 32), torch.rand(2, 1, 12, 12) < 0.7),
    "norms": plain(Norms, torch.randn(2, 3, 8, 8)),
    "norms_dynamic": plain(Norms, torch.randn(2, 3, 8, 8), dynamic=({0: BATCH},), more=[(torch.randn(5, 3, 8, 8),)]),
    "tied": plain(Tied, torch.randint(0, 50, (3, 7))),
    "half": plain(Half, torch.randn(9, 64).bfloat16(), torch.randn(64).bfloat16()),
    "integers": plain(Integers, torch.randint(-99, 99, (6, 50)), torch.rand(6, 50) < 0.5),
    "counter": plain(Counter, torch.randn(3, 4)),
    "counter_dynamic": plain(Counter, torch.randn(3, 4), dynamic=({0: BATCH},), more=[(torch.randn(9, 4),)]),
    "constants": plain(Constants, torch.randn(3, 4), 2, "plus"),
    "layouts": plain(Layouts, torch.randn(6, 5)),
    "nothing": plain(NormActivation, torch.randn(0, 96), torch.randn(0, 96)),
}  # fmt: skip


class Library:
    """A bundled model: its files, and a C program that calls it."""

    def __init__(self, folder, file, *flags):
        self.folder, self.name = folder, "model"
        self.path, self.header = folder / "libmodel.so", folder / "model.h"
        self.weights = folder / "model.weights"
        arguments = ["bundle", str(file), "-o", str(self.path), "--header", str(self.header), *flags]
        assert cli.main(arguments) == 0
        text = self.header.read_text()
        have = [f"-D{word}" for word in ("STATE", "WEIGHTS") if f"MODEL_{word}_BYTES" in text]
        subprocess.run(
            ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-DLOWER_NAME=model", "-DUPPER_NAME=MODEL",
             '-DHEADER="model.h"', *have, f"-I{folder}", ROOT / "tests/bundle/call.c", "-o", folder / "call",
             f"-L{folder}", "-lmodel", "-Wl,-rpath,$ORIGIN", "-lpthread"],
            check=True,
        )  # fmt: skip

    def run(self, inputs, like, repeat=1, threads=0):
        """The outputs, in the layout that the header declares for `like`, and the inputs as they are afterwards."""
        given = [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)]
        words = []
        for i, tensor in enumerate(given):
            (self.folder / f"in{i}").write_bytes(bytes_of(tensor))
            words.append(f"{DTYPES[tensor.dtype]}:{','.join(map(str, tensor.shape))}:{self.folder}/in{i}")
        words.append("=")
        words += [f"{DTYPES[t.dtype]}:{t.dim()}:{self.folder}/out{i}" for i, t in enumerate(like)]
        done = subprocess.run(
            [self.folder / "call", str(repeat), str(threads), self.weights, *words],
            env={"PATH": "/nonexistent"}, text=True, capture_output=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr)
        shapes = [tuple(map(int, line.split()[1:])) for line in done.stdout.splitlines() if line.startswith("output")]
        assert shapes == [tuple(t.shape) for t in like]
        outputs = [tensor_of(self.folder / f"out{i}", t) for i, t in enumerate(like)]
        return outputs, [tensor_of(self.folder / f"in{i}", t) for i, t in enumerate(given)], done.stdout


def is_dense(tensor):
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.numel() == 0 or last + 1 == tensor.numel()


def bytes_of(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def tensor_of(path, like):
    """The file's elements, with the sizes of `like` and its strides where these fill their memory."""
    data = bytearray(path.read_bytes())
    flat = torch.frombuffer(data, dtype=like.dtype) if data else torch.empty(0, dtype=like.dtype)
    return flat.as_strided(like.shape, like.stride()) if is_dense(like) else flat.view(like.shape)


@pytest.fixture
def export(tmp_path):
    def save(name):
        torch.manual_seed(0)
        model, inputs, dynamic, more = CASES[name]()
        file = tmp_path / "exported.pt2"
        torch.export.save(torch.export.export(model, copied(inputs), dynamic_shapes=dynamic), file)
        return model, inputs, more, file

    return save


@pytest.mark.parametrize("name", CASES)
def test_a_library_as_eager(name, export, tmp_path):
    model, inputs, more, file = export(name)
    library = Library(tmp_path, file)
    for given in (inputs, *more):
        results = expected(copy.deepcopy(model), given)
        for repeat, want in enumerate(results, 1):
            assert_close(library.run(given, want[0], repeat)[0], *want, name)
        written = copied(given)
        with torch.no_grad():
            copy.deepcopy(model)(*written)
        _, after, _ = library.run(given, results[0][0])
        for left, want in zip(after, (t for t in pytree.tree_leaves(written) if isinstance(t, torch.Tensor)), strict=True):
            assert torch.equal(left, want)


def test_a_library_needs_the_c_library_alone_and_exports_its_functions(export, tmp_path):
    _, _, _, file = export("mlp_dynamic")
    library = Library(tmp_path, file)
    needed = subprocess.run(["ldd", library.path], check=True, capture_output=True, text=True).stdout
    names = {re.match(r"[a-z0-9-]+", word)[0] for word in re.findall(r"[^\s/]+\.so\S*", needed)}
    assert names <= {"linux-vdso", "libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}
    symbols = subprocess.run(["nm", "-D", "--defined-only", library.path], check=True, capture_output=True, text=True).stdout
    declared = re.findall(r"^(?:int|size_t|const char\*) (\w+)\(", library.header.read_text(), re.MULTILINE)
    assert sorted(line.split()[-1] for line in symbols.splitlines()) == sorted(declared)
    assert len(declared) == 5


@pytest.mark.parametrize("name", ["softmax", "block", "counter_dynamic"])
def test_the_callers_threads_run_the_tasks(name, export, tmp_path):
    model, inputs, _, file = export(name)
    library = Library(tmp_path, file, "--threads", "4")
    want = expected(copy.deepcopy(model), inputs)[0]
    outputs, _, printed = library.run(inputs, want[0], threads=4)
    assert_close(outputs, *want, name)
    if name == "softmax":
        assert not printed.endswith(" 0 parallel calls\n")


def test_a_fused_file_becomes_a_library_with_the_schedules_it_holds(export, tmp_path, capfd):
    model, inputs, _, file = export("mlp")
    fused = tmp_path / "fused.pt2"
    assert cli.main(["fuse", str(file), "-o", str(fused), "--products", "library"]) == 0
    arguments = ["bundle", str(fused), "-o", str(tmp_path / "libmodel.so"), "--header", str(tmp_path / "model.h")]
    assert cli.main(arguments) == 2
    error = capfd.readouterr().err
    assert "fused.pt2: cannot be a library: torch would have to run 2 operators:" in error
    assert error.count("fuse with --products own, or bundle the exported program itself") == 2
    assert cli.main(["fuse", str(file), "-o", str(fused), "--products", "own"]) == 0
    want = expected(model, inputs)[0]
    assert_close(Library(tmp_path, fused).run(inputs, want[0])[0], *want, "fused")


def test_weights_lie_beside_the_library_where_the_caller_wants_them(export, tmp_path):
    model, inputs, _, file = export("counter")
    library = Library(tmp_path, file, "--weights", str(tmp_path / "model.weights"))
    for repeat, want in enumerate(expected(copy.deepcopy(model), inputs), 1):
        assert_close(library.run(inputs, want[0], repeat)[0], *want, "counter")
    damaged = bytearray(library.weights.read_bytes())
    damaged[20] ^= 1
    library.weights.write_bytes(damaged)
    with pytest.raises(RuntimeError, match="the weights are not those of this library"):
        library.run(inputs, want[0])


def test_what_torch_would_have_to_run_is_named_with_its_reason(tmp_path, capfd):
    class Largest(nn.Module):
        def forward(self, x):
            values, places = torch.topk(torch.relu(x) * 2 + 1, 3)
            return torch.softmax(values, -1), places

    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Largest(), (torch.randn(8, 64),)), file)
    assert cli.main(["bundle", str(file), "-o", str(tmp_path / "l.so"), "--header", str(tmp_path / "l.h")]) == 2
    error = capfd.readouterr().err
    assert re.search(r"model.pt2: cannot be a library: torch would have to run 1 operator:\n  %\w+ = aten::topk: nothing", error)
    assert not (tmp_path / "l.so").exists() and not (tmp_path / "l.h").exists()


def test_without_a_compiler_there_is_no_library(export, tmp_path, monkeypatch, capfd):
    _, _, _, file = export("softmax")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("TILEFUSE_CACHE_DIR", str(tmp_path / "cache"))
    assert cli.main(["bundle", str(file), "-o", str(tmp_path / "l.so"), "--header", str(tmp_path / "l.h")]) == 2
    assert "a library needs a compiler: cannot compile kernels: found no C++ compiler" in capfd.readouterr().err
    assert cli.main(["bundle", str(file), "-o", str(tmp_path / "l.so"), "--header", "x.h", "--name", "a b"]) == 2
    assert "--name: 'a b' is no identifier of C" in capfd.readouterr().err


# ---------------------------------------------------------------- what the caller may get wrong
class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]

    @classmethod
    def of(cls, tensor, **changes):
        def numbers(values):
            return (ctypes.c_int64 * max(len(values), 1))(*values)

        facts = {
            "data": tensor.data_ptr(), "sizes": numbers(tensor.shape), "strides": numbers(tensor.stride()),
            "rank": tensor.dim(), "dtype": list(DTYPES.values()).index(DTYPES[tensor.dtype]),
        } | changes  # fmt: skip
        return cls(**facts)


ORDER = ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"]


def test_what_does_not_fit_is_a_status_with_a_text(export, tmp_path):
    _, _, _, file = export("mlp_dynamic")
    library = ctypes.CDLL(str(Library(tmp_path, file).path))
    library.model_error_text.restype = ctypes.c_char_p
    library.model_workspace_bytes.restype = ctypes.c_size_t
    assert list(DTYPES.values()) == ORDER

    x, y = torch.randn(8, 64), torch.empty(8, 64)
    memory = torch.empty(1 << 20, dtype=torch.uint8)
    start = (memory.data_ptr() + 63) // 64 * 64

    def run(given=None, wanted=None, workspace=start, size=1 << 19):
        pointers = (ctypes.byref(t) if t is not None else None for t in (given or Tensor.of(x), wanted or Tensor.of(y)))
        status = library.model_run(*pointers, ctypes.c_void_p(workspace), ctypes.c_size_t(size), None)
        return library.model_error_text(status).decode()

    assert run() == "no error"
    size_range = r"size s\d+, dimension 0 of input x, is out of its range: from 2 to 64"
    for text, message in {
        run(Tensor.of(x.double())): r"input x has another dtype; it is f32\[s\d+, 64\]",
        run(Tensor.of(x[0])): r"input x has another rank",
        run(Tensor.of(torch.randn(8, 63))): r"input x has other sizes",
        run(Tensor.of(torch.randn(64, 8).t())): r"input x has other strides",
        run(Tensor.of(torch.randn(8, 128)[:, :64])): r"input x has other strides",
        run(Tensor.of(x, data=None)): r"input x has no data",
        run(Tensor.of(torch.randn(65, 64))): size_range,
        run(wanted=Tensor.of(torch.empty(7, 64))): r"output \w+ has other sizes",
        run(wanted=Tensor.of(torch.empty(8, 64, dtype=torch.int32))): r"output \w+ has another dtype",
        run(size=64): r"the workspace is not aligned to 64 bytes, or smaller than",
        run(workspace=start + 8): r"the workspace is not aligned",
        run(workspace=None): r"an argument that must not be NULL is NULL",
    }.items():
        assert re.match(message, text), (message, text)
    assert run(Tensor.of(x, strides=None)) == "no error"
    assert library.model_workspace_bytes((ctypes.c_int64 * 1)(65), None) == 0
    assert library.model_error_text(12345).decode() == "no status of this library"


def test_an_index_out_of_range_is_a_status(export, tmp_path):
    _, _, _, file = export("tied")
    library = Library(tmp_path, file)
    with pytest.raises(RuntimeError, match="an index that is read from an input is out of range"):
        library.run((torch.full((3, 7), 50),), [torch.empty(3, 7, 50)])


def test_the_example_runs_with_and_without_threads(tmp_path):
    shutil.copytree(ROOT / "examples/c", tmp_path, dirs_exist_ok=True)
    subprocess.run([sys.executable, "export_digits.py", "digits.pt2"], cwd=tmp_path, check=True)
    bundle = ["bundle", str(tmp_path / "digits.pt2"), "-o", str(tmp_path / "libdigits.so"), "--header", str(tmp_path / "digits.h")]
    assert cli.main(bundle) == 0
    pixels = torch.sin(0.37 * torch.arange(0, 5 * 64).float()).view(5, 64)
    with torch.no_grad():
        scores, classes = torch.export.load(tmp_path / "digits.pt2").module()(pixels).max(1)
    for flags in ([], ["-fopenmp"]):
        command = ["gcc", "-std=c11", "-O2", "-Wall", "-Werror", *flags, "run_digits.c", "-o", "run_digits"]
        links = ["-L.", "-ldigits", "-Wl,-rpath,.", "-lm"]
        subprocess.run([*command, *links], cwd=tmp_path, check=True)
        done = subprocess.run(["./run_digits", "5"], cwd=tmp_path, check=True, capture_output=True, text=True)
        printed = re.findall(r"row \d: class (\d), ([0-9.]+)", done.stdout)
        assert [int(c) for c, _ in printed] == classes.tolist()
        assert [float(s) for _, s in printed] == pytest.approx(scores.tolist(), abs=2e-4)
