"""Exported and fused files that are damaged or made up, through the Python and the C++ surface: errors, never a crash.

The parsers have their own tests in C++ (tests/bad_files_test.cpp, tests/fuzz).
"""

import json
import random
import subprocess
import sys
import zipfile

import pytest
import tilefuse
import torch
from test_offline import Mlp, run_model  # noqa: F401

EXTRA = "extra/tilefuse/"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An exported model and the same fused, with a dynamic batch."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Mlp().eval(), (torch.randn(8, 64),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "model.pt2")
    answer = tilefuse.fuse_file(folder / "model.pt2", folder / "fused.pt2")
    assert answer["refusal"] is None and answer["warnings"] == []
    return folder


def rewritten(source, target, edit):
    """The archive with its entries edited: (name below the root, bytes) -> bytes, or None to leave it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            changed = edit(info.filename.split("/", 1)[1], old.read(info))
            if changed is not None:
                new.writestr(info.filename, changed)
    return target


def edited_program(source, target, edit):
    """The archive with the program's JSON edited in place."""

    def change(name, data):
        if not name.startswith("models/"):
            return data
        document = json.loads(data)
        edit(document["graph_module"]["graph"])
        return json.dumps(document).encode()

    return rewritten(source, target, change)


@pytest.mark.parametrize("name", ["model.pt2", "fused.pt2"])
def test_damaged_files_are_errors_that_name_them(name, files, tmp_path):
    whole = (files / name).read_bytes()
    generator = random.Random(3)
    bad, out = tmp_path / "bad.pt2", tmp_path / "out.pt2"
    for size in range(0, len(whole), len(whole) // 40):
        bad.write_bytes(whole[:size])
        with pytest.raises(tilefuse.UserError, match="bad.pt2: "):
            tilefuse.fuse_file(bad, out, embed=False)
    for _ in range(60):
        flipped = bytearray(whole)
        flipped[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        bad.write_bytes(flipped)
        try:
            tilefuse.fuse_file(bad, out, embed=False)
        except tilefuse.UserError as error:
            assert str(error).startswith(str(bad)), error


def test_an_older_layout_says_what_to_do(files, tmp_path):
    old = tmp_path / "old.pt2"
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("version", "8.2")
    with pytest.raises(tilefuse.UserError, match="old.pt2: .*save the program again with torch.export.save"):
        tilefuse.fuse_file(old, tmp_path / "out.pt2")


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("file", ["tilefuse.json", "graph.txt", "schedule.txt", "kernel.so.b64", "program.json"])
def test_changed_regions_are_errors_or_are_not_run(file, trusted, files, tmp_path):
    def change(name, data):
        is_it = name.startswith(EXTRA) and name.endswith(file)
        return b"#" + data[1:] if is_it else data

    bad = rewritten(files / "fused.pt2", tmp_path / "bad.pt2", change)
    load = f"import sys, torch, tilefuse; print(torch.export.load({str(bad)!r}).module()(torch.ones(2, 64)).shape)"
    if trusted:
        load = f"import tilefuse\nwith tilefuse.trusted_files():\n  {load}"
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True)
    reads = {True: {"tilefuse.json", "graph.txt", "kernel.so.b64", "program.json"}}.get(
        trusted, {"tilefuse.json", "graph.txt", "schedule.txt"}
    )
    if file in reads:
        assert done.returncode == 1 and f"bad.pt2: entry {EXTRA}" in done.stderr and file in done.stderr, done.stderr
    else:
        assert "torch.Size([2, 64])" in done.stdout, done.stderr


def test_an_operator_that_is_not_there_is_an_error_that_names_it(files, tmp_path, run_model):  # noqa: F811
    def unknown(graph):
        next(n for n in graph["nodes"] if "linear" in n["target"])["target"] = "torch.ops.aten.no_such.default"

    bad = edited_program(files / "model.pt2", tmp_path / "bad.pt2", unknown)
    assert tilefuse.fuse_file(bad, tmp_path / "out.pt2")["refusal"] is None  # torch may know it where it runs
    with pytest.raises(RuntimeError, match=r"out.pt2: .*aten::no_such"):
        run_model(tmp_path / "out.pt2", (torch.randn(8, 64),))


def test_a_file_that_is_not_fused_says_how_to_fuse_it(files, run_model):  # noqa: F811
    with pytest.raises(RuntimeError, match=r"model.pt2: cannot be run: no kernel computes \w+; `tilefuse fuse"):
        run_model(files / "model.pt2", (torch.randn(8, 64),))


def test_regions_take_what_they_were_fused_for(files):
    with tilefuse.trusted_files():
        program = torch.export.load(files / "fused.pt2")
    node = next(n for n in program.graph.nodes if str(n.target).startswith("tilefuse."))
    given = [n.meta["val"] if isinstance(n, torch.fx.Node) else n for n in node.args]
    right = [
        torch.zeros([8 if isinstance(s, torch.SymInt) else s for s in v.shape], dtype=v.dtype) if hasattr(v, "shape") else 8
        for v in given
    ]  # fmt: skip
    node.target(*right)
    tensors = [i for i, v in enumerate(right) if isinstance(v, torch.Tensor)]
    for change, message in {
        lambda t: t.double(): "must be a strided CPU tensor of Float",
        lambda t: t.to_sparse(): "sparse|Sparse|strided",
        lambda t: t.unsqueeze(0): "must have the sizes|has too few dimensions|is outside of",
        lambda t: t.reshape(-1)[:3]: "must have the sizes|has too few dimensions|is outside of",
        lambda t: t.to("meta"): ".",
    }.items():
        for i in tensors:
            wrong = [change(v) if j == i else v for j, v in enumerate(right)]
            try:
                outputs = node.target(*wrong)
            except (RuntimeError, NotImplementedError) as error:
                assert any(part in str(error) for part in message.split("|")), error
            else:  # nothing was computed
                assert all(o.is_meta for o in ([outputs] if isinstance(outputs, torch.Tensor) else outputs))
