"""Fused files of programs on a GPU: run in Python and in C++ by the model of one, and made for CUDA tensors without one."""

from __future__ import annotations

import base64
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import host_gpu
import pytest
import tilefuse
import torch
from fused_file_models import Block, Counter, exported
from tilefuse import cli, errors, offline
from tilefuse.errors import TileFuseWarning
from tilefuse.library import operators
from tilefuse.options import nvrtc_folders
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def driver() -> Iterator[host_gpu.Driver]:
    with host_gpu.an_a100() as found:
        yield found


def _fused(file: pathlib.Path, *targets: str, **options: Any) -> pathlib.Path:
    fused = file.parent / "fused.pt2"
    answer = tilefuse.fuse_file(file, fused, targets=targets, **host_gpu.options(**options))
    assert answer["refusal"] is None and answer["warnings"] == [] and answer["launches"] > 0
    return fused


@pytest.fixture
def loading(monkeypatch):
    """Files whose regions run in the model of a GPU find it."""
    plain = offline._loading_options
    monkeypatch.setattr(offline, "_loading_options", lambda: plain() | {"gpu_on_host": host_gpu.driver_library()})


def _as_eager(model: nn.Module, module: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for x in inputs:
            torch.testing.assert_close(module(x), model(x), rtol=1e-5, atol=1e-5)


def _text(fused: pathlib.Path, name: str) -> str:
    with zipfile.ZipFile(fused) as archive:
        (found,) = [entry for entry in archive.namelist() if entry.endswith(name)]
        return archive.read(found).decode()


def _changed(fused: pathlib.Path, change: Callable[[str, bytes], bytes]) -> pathlib.Path:
    other = fused.parent / "changed.pt2"
    with zipfile.ZipFile(fused) as archive, zipfile.ZipFile(other, "w") as made:
        for entry in archive.infolist():
            made.writestr(entry, change(entry.filename, archive.read(entry)))
    return other


# ---------------------------------------------------------------- run in Python
@pytest.mark.parametrize("make", [Block, Counter])
def test_embedded_kernels_run(driver, loading, tmp_path, make):
    model, x, file = exported(tmp_path, make)
    fused = _fused(file, "cuda-sm80")
    with tilefuse.trusted_files():
        module = tilefuse.load(fused).module()
    driver.calls()
    _as_eager(copy.deepcopy(model), module, [x, torch.randn(5, x.shape[1]), torch.randn(64, x.shape[1])])
    assert driver.launches() > 0


def test_the_gpu_that_is_here_is_the_target(driver, loading, tmp_path):
    model, x, file = exported(tmp_path)
    fused = _fused(file)
    (target,) = json.loads(_text(fused, "tilefuse.json"))["targets"]
    assert target["architecture"] == "sm_80"
    with tilefuse.trusted_files():
        _as_eager(model, tilefuse.load(fused).module(), [x])


def test_the_newest_target_that_the_device_runs_is_taken(driver, loading, tmp_path):
    model, x, file = exported(tmp_path)
    fused = _fused(file, "cuda-sm90a", "cuda-sm80", "cuda-sm89")
    manifest = json.loads(_text(fused, "tilefuse.json"))
    assert [target["name"] for target in manifest["targets"]] == ["cuda-sm90a", "cuda-sm89", "cuda-sm80"]
    assert _ways(fused, manifest) == {"embedded for cuda-sm80"}


def _ways(fused: pathlib.Path, manifest: dict[str, Any], trusted: bool = True) -> set[str]:
    with zipfile.ZipFile(fused) as archive:
        files = {
            name.partition("extra/tilefuse/")[2]: archive.read(name).decode()
            for name in archive.namelist()
            if "extra/tilefuse/" in name and not name.endswith("report.json")
        }
    files["tilefuse.json"] = json.dumps(manifest)
    answer = operators().register_regions(json.dumps(files), "the file: ", trusted, json.dumps(offline._loading_options()))
    return set(json.loads(answer).values())


# Compute capability of the device, and the target whose kernels it runs; None: none.
@pytest.mark.parametrize(
    "capability, taken",
    [((9, 0), "cuda-sm90a"), ((10, 0), "cuda-sm89"), ((8, 9), "cuda-sm89"), ((8, 6), "cuda-sm80"), ((8, 0), "cuda-sm80")],
)
def test_devices_run_what_is_no_newer(driver, loading, tmp_path, capability, taken):
    _, _, file = exported(tmp_path)
    fused = _fused(file, "cuda-sm90a", "cuda-sm80", "cuda-sm89")
    driver.capability(*capability)
    assert _ways(fused, json.loads(_text(fused, "tilefuse.json"))) == {f"embedded for {taken}"}


def test_a_file_for_other_devices_is_compiled_and_says_so(driver, loading, tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "_warned", set())
    model, x, file = exported(tmp_path)
    fused = _fused(file, "cuda-sm90a")
    said = "are compiled: the file has no code for this machine: for cuda-sm90a the GPU is sm_80"
    with tilefuse.trusted_files(), pytest.warns(TileFuseWarning, match=said):
        module = tilefuse.load(fused).module()
    driver.calls()
    _as_eager(model, module, [x])
    assert driver.launches() > 0


def test_an_untrusted_file_is_compiled_from_its_graphs(driver, loading, tmp_path):
    model, x, file = exported(tmp_path)
    fused = _fused(file, "cuda-sm80")
    # Whoever reads the machine code of this one finds no machine code.
    spoilt = _changed(fused, lambda name, data: b"!" if name.endswith((".cubin.b64", ".ptx")) else data)
    assert _ways(spoilt, json.loads(_text(fused, "tilefuse.json")), trusted=False) == {"compiled"}
    module = tilefuse.load(spoilt).module()
    driver.calls()
    _as_eager(model, module, [x])
    assert driver.launches() > 0


def test_on_a_device_that_has_no_kernels_torch_runs_the_regions_and_says_so(driver, loading, tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "_warned", set())
    model, x, file = exported(tmp_path)
    fused = _fused(file, "cuda-sm80")
    driver.capability(7, 5)
    said = r"plain PyTorch: cannot make kernels for .*\(sm_75\).*: the file has no code for this machine: for cuda-sm80 the GPU is sm_75"
    with tilefuse.trusted_files(), pytest.warns(TileFuseWarning, match=said):
        module = tilefuse.load(fused).module()
    driver.calls()
    _as_eager(model, module, [x, torch.randn(5, x.shape[1])])
    assert driver.launches() == 0


def test_machine_code_that_the_driver_refuses_is_compiled_again(driver, loading, tmp_path):
    _, _, file = exported(tmp_path)
    fused = _fused(file, "cuda-sm80")
    driver.fail("cuModuleGetFunction", 500)
    compiled, embedded = sorted(_ways(fused, json.loads(_text(fused, "tilefuse.json"))))
    assert compiled.startswith("compiled: the file's code does not load: for cuda-sm80: cannot load the kernel")
    assert embedded == "embedded for cuda-sm80"


@pytest.mark.parametrize(
    "name, text, message",
    [
        (".cubin.b64", b"AAAA", "is not the machine code that tilefuse.json has the hash of"),
        (".cubin.b64", b"?", "is no base64"),
        (".ptx", b"nothing", "is not the machine code that tilefuse.json has the hash of"),
        ("program.json", b"{}", "program.json"),
        ("graph.txt", b"graph g() {}", "is not the graph that the operator is named after"),
        ("tilefuse.json", b'{"format": 4}', "format: must be 2 or 3, got 4; fuse the model again"),
    ],
)
def test_a_file_that_does_not_fit_is_an_error(driver, loading, tmp_path, name, text, message):
    _, _, file = exported(tmp_path)
    fused = _changed(_fused(file, "cuda-sm80"), lambda entry, data: text if entry.endswith(name) else data)
    with tilefuse.trusted_files(), pytest.raises(Exception, match=message):
        tilefuse.load(fused)


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("device", "tpu:0", "device: is no device: tpu:0"),
        ("device", "cuda:x", "device: is no device: cuda:x"),
        ("device", "cuda:128", "device: is no device: cuda:128"),
        ("targets", [], "targets: must be GPUs"),
        ("targets", [{"name": "x86-zen4", "architecture": "x86_64", "instructions": []}], "targets: must be GPUs"),
    ],
)
def test_a_manifest_that_does_not_fit_is_an_error(driver, loading, tmp_path, key, value, message):
    _, _, file = exported(tmp_path)
    fused = _fused(file, "cuda-sm80")
    manifest = json.loads(_text(fused, "tilefuse.json")) | {key: value}
    with pytest.raises(ValueError, match=message):
        _ways(fused, manifest)


def test_what_was_loaded_is_saved_again(driver, loading, tmp_path):
    model, x, file = exported(tmp_path)
    fused, again = _fused(file, "cuda-sm80"), tmp_path / "again.pt2"
    with tilefuse.trusted_files():
        tilefuse.save(tilefuse.load(fused), again)
        manifest = json.loads(_text(again, "tilefuse.json"))
        assert manifest["device"] == "cpu" and all(row["objects"] for row in manifest["regions"])
        assert _ways(again, manifest) == {"embedded for cuda-sm80"}
        _as_eager(model, tilefuse.load(again).module(), [x])


# ---------------------------------------------------------------- run in C++
@pytest.fixture(scope="session")
def run_in_cpp(tmp_path_factory):
    """tests/offline/run_on_host_gpu.cpp as a function: (file, inputs, *flags) -> outputs, and what it printed."""
    host_gpu.driver_library()
    folder = tmp_path_factory.mktemp("run_on_host_gpu")
    package, torch_folder = pathlib.Path(tilefuse.__file__).parent, pathlib.Path(torch.__file__).parent
    compiler = ["ccache", "c++"] if shutil.which("ccache") else ["c++"]
    source, made = ROOT / "tests/offline/run_on_host_gpu.cpp", folder / "run.o"
    includes = [package / "include", torch_folder / "include", torch_folder / "include/torch/csrc/api/include"]
    subprocess.run([*compiler, "-std=c++20", "-O1", "-c", source, "-o", made, *(f"-I{each}" for each in includes)], check=True)
    places = [package / "lib", torch_folder / "lib"]
    subprocess.run(
        ["c++", made, "-o", folder / "run", *(f"-L{each}" for each in places), *(f"-Wl,-rpath,{each}" for each in places),
         "-Wl,--no-as-needed", "-ltilefuse_torch", "-ltorch_cpu", "-lc10", "-ldl"], check=True,
    )  # fmt: skip

    def run(file: pathlib.Path, inputs: list[torch.Tensor], *flags: str, nvrtc: str = "", cache: str = "") -> tuple[Any, str]:
        given, outputs = folder / "inputs.pt", folder / "outputs.pt"
        torch.save(inputs, given)
        libraries = [host_gpu.driver_library(), host_gpu._built("libhost_memory.so"), nvrtc or nvrtc_folders()[0]]
        environment = os.environ | ({"TILEFUSE_CACHE_DIR": cache} if cache else {})
        command = [folder / "run", *libraries, file, given, outputs, *flags]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return torch.load(outputs), done.stdout

    return run


@pytest.mark.parametrize("make", [Block, Counter])
@pytest.mark.parametrize("flags, how", [(["--trust"], "embedded for cuda-sm80"), ([], "compiled")])
def test_a_file_runs_in_cpp(run_in_cpp, tmp_path, make, flags, how):
    model, x, file = exported(tmp_path, make)
    fused = _fused(file, "cuda-sm80", "cuda-sm90a")
    outputs, text = run_in_cpp(fused, [x], *flags)
    assert f": {how}\n" in text and "cuLaunchKernel" in text
    with torch.no_grad():
        model(x)
        want = model(x)
    torch.testing.assert_close(outputs, want if isinstance(want, tuple) else (want,), rtol=1e-5, atol=1e-5)


def test_embedded_code_needs_no_compiler(run_in_cpp, tmp_path):
    model, x, file = exported(tmp_path)
    away = {"nvrtc": "/nonexistent", "cache": str(tmp_path / "cache")}
    outputs, text = run_in_cpp(_fused(file, "cuda-sm80"), [x], "--trust", **away)
    assert ": embedded for cuda-sm80\n" in text and "cuLaunchKernel" in text
    with torch.no_grad():
        torch.testing.assert_close(outputs, model(x), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- CUDA tensors, without a GPU
def _of_cuda_tensors(file: pathlib.Path, kind: str = "cuda", number: int = 0) -> pathlib.Path:
    """The program as it is exported where its tensors are on cuda:0."""
    other = file.parent / "cuda.pt2"
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(other, "w") as made:
        for entry in archive.infolist():
            data = archive.read(entry)
            if entry.filename.endswith("model.json"):
                data = re.sub(rb'\{"type": "cpu", "index": null\}', f'{{"type": "{kind}", "index": {number}}}'.encode(), data)
            made.writestr(entry, data)
    return other


@pytest.fixture
def no_gpu():
    if torch.cuda.is_available():
        pytest.skip("SKIPPED, no missing GPU is missed: there is one")
    if not nvrtc_folders():
        pytest.skip("SKIPPED, no kernel of a GPU is compiled: torch brings no NVRTC")


def test_a_program_of_cuda_tensors_is_fused_without_a_gpu(no_gpu, tmp_path, capfd):
    _, _, file = exported(tmp_path)
    cuda, fused = _of_cuda_tensors(file), tmp_path / "fused.pt2"
    arguments = ["fuse", str(cuda), "-o", str(fused), "--target", "cuda-sm80", "--target", "cuda-sm90a"]
    assert cli.main(arguments) == 0
    printed = capfd.readouterr()
    assert "fused regions" in printed.out and not printed.err
    manifest = json.loads(_text(fused, "tilefuse.json"))
    assert manifest["device"] == "cuda:0" and [t["architecture"] for t in manifest["targets"]] == ["sm_90a", "sm_80"]
    for row in manifest["regions"]:
        for target, architecture in (("cuda-sm90a", "sm_90a"), ("cuda-sm80", "sm_80")):
            folder = f"{row['op']}/{target}"
            assert base64.b64decode(_text(fused, f"{folder}/kernel_0.cubin.b64"))[:4] == b"\x7fELF"
            assert f".target {architecture}" in _text(fused, f"{folder}/kernel_0.ptx")
            assert "__global__" in _text(fused, f"{folder}/kernel_0.cu")
            assert set(row["objects"]) == {"cuda-sm80", "cuda-sm90a"}
    program = json.loads(_text(fused, "models/model.json"))
    values = program["graph_module"]["graph"]["tensor_values"].values()
    assert {json.dumps(value["device"]) for value in values} == {'{"index": 0, "type": "cuda"}'}
    assert cli.main(["show", str(fused)]) == 0
    assert 'on "cuda:0"' in capfd.readouterr().out


def test_the_same_regions_have_other_names_on_another_device(no_gpu, tmp_path):
    _, _, file = exported(tmp_path)
    names = []
    for source, target in ((file, "portable-cpu"), (_of_cuda_tensors(file), "cuda-sm80")):
        tilefuse.fuse_file(source, tmp_path / "fused.pt2", targets=[target], embed=False, products="library")
        rows = json.loads(_text(tmp_path / "fused.pt2", "tilefuse.json"))["regions"]
        assert all("objects" not in row for row in rows)
        names.append({row["op"] for row in rows})
    assert not names[0] & names[1]


@pytest.mark.parametrize(
    "kind, number, reason",
    [("xpu", 0, "on xpu: kernels are made for processors and NVIDIA's GPUs"), ("cuda", 500, "on cuda:500: there is no such device")],
)
def test_programs_on_other_devices_are_copied(tmp_path, kind, number, reason):
    _, _, file = exported(tmp_path)
    answer = tilefuse.fuse_file(_of_cuda_tensors(file, kind, number), tmp_path / "fused.pt2", targets=["cuda-sm80"])
    assert answer["refusal"].endswith(reason)


def test_targets_are_of_the_programs_kind(no_gpu, tmp_path):
    _, _, file = exported(tmp_path)
    cuda, fused = _of_cuda_tensors(file), tmp_path / "fused.pt2"
    with pytest.raises(tilefuse.UserError, match="target x86-zen4: is a processor, and the program's tensors are on cuda:0"):
        tilefuse.fuse_file(cuda, fused, targets=["x86-zen4"])
    with pytest.raises(tilefuse.UserError, match="target cuda-sm80: is a GPU, and the program's tensors are on the CPU"):
        tilefuse.fuse_file(file, fused, targets=["cuda-sm80"])
    with pytest.raises(tilefuse.UserError, match="no GPU says what to make kernels for: .*; name it with --target: .*cuda-sm90a"):
        tilefuse.fuse_file(cuda, fused)
    assert not fused.exists()


def test_a_file_without_its_gpu_says_so(no_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "_warned", set())
    _, x, file = exported(tmp_path)
    fused = tmp_path / "fused.pt2"
    tilefuse.fuse_file(_of_cuda_tensors(file), fused, targets=["cuda-sm80"])
    said = "regions of a fused file run with plain PyTorch: cannot use a GPU: there is no NVIDIA driver"
    with tilefuse.trusted_files(), pytest.warns(TileFuseWarning, match=said):
        program = tilefuse.load(fused)
    assert any("tilefuse" in str(node.target) for node in program.graph.nodes)


def test_a_file_without_its_gpu_does_not_run_in_cpp(no_gpu, run_in_cpp, tmp_path):
    _, x, file = exported(tmp_path)
    fused = tmp_path / "fused.pt2"
    tilefuse.fuse_file(_of_cuda_tensors(file), fused, targets=["cuda-sm80"])
    with pytest.raises(RuntimeError, match="fused.pt2: .*(cuda|CUDA)"):
        run_in_cpp(fused, [x], "--trust")


def test_no_library_is_made_of_it(no_gpu, tmp_path, capfd):
    _, _, file = exported(tmp_path)
    cuda, fused = _of_cuda_tensors(file), tmp_path / "fused.pt2"
    tilefuse.fuse_file(cuda, fused, targets=["cuda-sm80"], embed=False)
    for source in (cuda, fused):
        assert cli.main(["bundle", str(source), "-o", str(tmp_path / "lib.so"), "--header", str(tmp_path / "lib.h")]) == 2
        assert "cannot be a library: its tensors are on cuda:0, and libraries are for processors" in capfd.readouterr().err
