"""Exported programs of CUDA tensors, fused ahead of time: run in Python and in C++ from the file, beside eager."""

from __future__ import annotations

import copy
import json
import pathlib
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import tilefuse
import torch
from fused_file_models import Block, Counter, exported
from on_device import assert_same
from tilefuse import offline
from tilefuse.library import operators
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
ON_DEVICE = {"device": "cuda", "batch": torch.export.Dim("batch", min=2, max=512)}


def _fused(file: pathlib.Path, *targets: str) -> pathlib.Path:
    fused = file.parent / "fused.pt2"
    answer = tilefuse.fuse_file(file, fused, targets=targets)
    assert answer["refusal"] is None and answer["warnings"] == [] and answer["launches"] > 0
    return fused


def _ways(fused: pathlib.Path, trusted: bool = True) -> set[str]:
    """Where the kernels of the regions come from."""
    with zipfile.ZipFile(fused) as archive:
        names = [name for name in archive.namelist() if "extra/tilefuse/" in name and not name.endswith("report.json")]
        files = {name.partition("extra/tilefuse/")[2]: archive.read(name).decode() for name in names}
    answer = operators().register_regions(json.dumps(files), "the file: ", trusted, json.dumps(offline._loading_options()))
    return set(json.loads(answer).values())


def _as_eager(model: nn.Module, module: Callable[..., Any], x: torch.Tensor) -> None:
    with torch.no_grad():
        for rows in (8, 5, 300):
            given = torch.randn(rows, x.shape[1], device="cuda")
            assert_same(module(given), model(given))


@pytest.mark.parametrize("trusted", [True, False], ids=["embedded", "compiled"])
@pytest.mark.parametrize("make", [Block, Counter])
def test_as_eager(tmp_path, make, trusted):
    model, x, file = exported(tmp_path, make, **ON_DEVICE)
    fused = _fused(file)
    (how,) = _ways(fused, trusted)
    assert how.startswith("embedded for cuda-") if trusted else how == "compiled"
    with tilefuse.trusted_files():
        _as_eager(copy.deepcopy(model), tilefuse.load(fused).module(), x)


def test_an_older_target_is_compiled_by_the_driver(tmp_path):
    model, x, file = exported(tmp_path, **ON_DEVICE)
    fused = _fused(file, "cuda-sm80")
    assert _ways(fused) == {"embedded for cuda-sm80"}
    with tilefuse.trusted_files():
        _as_eager(model, tilefuse.load(fused).module(), x)


def test_a_cuda_graph_captures_a_call(tmp_path):
    model, x, file = exported(tmp_path, Counter, **ON_DEVICE)
    with tilefuse.trusted_files():
        module = tilefuse.load(_fused(file)).module()
    with torch.no_grad():
        module(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = module(x)
        model(x)
        graph.replay()
        assert_same(captured, model(x))


@pytest.mark.parametrize("flags", [["--trust"], []], ids=["embedded", "compiled"])
def test_in_cpp(tmp_path, flags):
    package, torch_folder, build = pathlib.Path(tilefuse.__file__).parent, pathlib.Path(torch.__file__).parent, tmp_path / "build"
    places = f"-DCMAKE_PREFIX_PATH={package};{torch_folder}"
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "-B", build, places, "-DON_GPU=ON", *launcher, ROOT / "examples/cpp"], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    model, x, file = exported(tmp_path, **ON_DEVICE)
    fused, given, made = _fused(file), tmp_path / "inputs.pt", tmp_path / "outputs.pt"
    torch.save([x], given)
    nvrtc = [f"--nvrtc={folder}" for folder in tilefuse.options.nvrtc_folders()[:1]]
    done = subprocess.run([build / "run_model", fused, given, made, *flags, *nvrtc], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (": embedded for cuda-" if flags else ": compiled\n") in done.stdout
    with torch.no_grad():
        assert_same(torch.load(made), model(x))


def test_inputs_on_another_device_are_an_error(tmp_path):
    _, x, file = exported(tmp_path, **ON_DEVICE)
    with tilefuse.trusted_files():
        module = tilefuse.load(_fused(file)).module()
    with torch.no_grad(), pytest.raises(Exception, match="(?i)device|cuda"):
        module(x.cpu())
