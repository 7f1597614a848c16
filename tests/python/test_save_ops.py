"""Operators in a process that never imports the Python package."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import tilefuse
import torch
from tilefuse import library
from tilefuse.library import operators


@tilefuse.op("tilefuse_saved::shifted_softmax")
def shifted_softmax(x: torch.Tensor, shift: torch.Tensor | None = None, scale: float = 1.0) -> torch.Tensor:
    return torch.softmax((x if shift is None else x + shift) * scale, -1)


WITHOUT_PYTHON = """
import sys, torch
torch.ops.load_library(sys.argv[1])
assert torch.ops.tilefuse.load_ops(sys.argv[2]) == int(sys.argv[3])
assert "tilefuse" not in sys.modules
op = torch.ops.tilefuse_saved.shifted_softmax
for n in (4, 9, 30):
    x, shift = torch.randn(n, 6, requires_grad=True), torch.randn(6)
    want = torch.softmax((x + shift) * 0.5, -1)
    torch.testing.assert_close(op(x, shift, 0.5), want)
    (got,), (wanted,) = (torch.autograd.grad(y.cos().sum(), x) for y in (op(x, shift, 0.5), want))
    torch.testing.assert_close(got, wanted)
try:
    op(torch.randn(4, 6, dtype=torch.float64))
except RuntimeError as error:
    assert "no kernel is loaded for a call of these dtypes and sizes" in str(error), error
else:
    raise AssertionError("a call without a kernel")
"""


def test_kernels_without_the_python_package(tmp_path):
    for n in (4, 5):
        x, shift = torch.randn(n, 6, requires_grad=True), torch.randn(6)
        shifted_softmax(x, shift, 0.5).sum().backward()
    count = tilefuse.save_ops(tmp_path / "ops.json", shifted_softmax)
    assert count == 4
    arguments = [sys.executable, "-c", WITHOUT_PYTHON, library._FILE, tmp_path / "ops.json", str(count)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_only_operators_are_saved(tmp_path):
    with pytest.raises(tilefuse.UserError, match="is no operator of tilefuse.op"):
        tilefuse.save_ops(tmp_path / "ops.json", torch.softmax)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "parse error"),
        ('{"version": 7, "ops": []}', "version 7 is not one that this library reads, 2"),
        ('{"version": 2, "ops": [{}]}', "key 'schema' not found"),
        ('{"version": 2}', "key 'ops' not found"),
    ],
)
def test_malformed_files_are_named(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        operators().load_ops(str(path))
    assert str(path) in str(raised.value)


def test_a_missing_file():
    with pytest.raises(ValueError, match="cannot read /nowhere"):
        operators().load_ops("/nowhere")


def test_a_kernel_of_other_tensors_is_refused(tmp_path):
    shifted_softmax(torch.randn(3, 4))
    path = pathlib.Path(tmp_path / "ops.json")
    tilefuse.save_ops(path, shifted_softmax)
    file = json.loads(path.read_text())
    file["ops"][0]["specialisations"][-1]["tensors"] *= 2
    path.write_text(json.dumps(file))
    with pytest.raises(ValueError, match="a specialisation of other tensors than its call's"):
        operators().load_ops(str(path))
