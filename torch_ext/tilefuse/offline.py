"""Exported programs: fused ahead of time, saved, loaded.

``tilefuse.fuse(torch.export.export(model, inputs))`` gives an ExportedProgram with one node per fused region;
``tilefuse.fuse_file`` does the same from file to file. A fused file loads with ``torch.export.load`` as any other:
importing this package makes its operators known to torch's reader before that reads the program.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.pt2_archive import _package

from tilefuse.errors import UserError, warn_once
from tilefuse.library import operators
from tilefuse.options import Options

__all__ = ["fuse", "fuse_file", "know_fused_files", "trusted_files"]

_EXTRA = "extra/tilefuse/"
_REPORT = "extra/tilefuse/report.json"  # for explain
_trusting = False


def fuse(program: ExportedProgram, **options: Any) -> ExportedProgram:
    """The program with its regions fused. Options: those of ``torch.compile(backend="tilefuse")``, and ``fuse_file``'s."""
    with tempfile.TemporaryDirectory() as folder:
        exported, fused = os.path.join(folder, "model.pt2"), os.path.join(folder, "fused.pt2")
        torch.export.save(program, exported)
        answer = fuse_file(exported, fused, **options)
        if answer["refusal"] is not None:
            warn_once(f"tilefuse: the program is not fused: {answer['refusal']}")
            return program
        with trusted_files():  # it was made here
            return torch.export.load(fused)


def fuse_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    embed: bool = True,
    targets: Sequence[str | os.PathLike[str]] = (),
    **options: Any,
) -> Mapping[str, Any]:
    """Fuses a .pt2 file. Returns counts, warnings and the report, or under "refusal" why it was only copied.

    ``targets``: hardware profiles, names or files, to make machine code for; for this processor alone unless given.
    """
    if isinstance(targets, (str, os.PathLike)):
        raise UserError(f"tilefuse: option 'targets' wants a list of names or files, got {str(targets)!r}")
    settings = json.loads(Options.parse(options=options).to_json(torch.get_num_threads()))
    settings |= {"embed": embed, "targets": [str(target) for target in targets]}
    try:
        text = operators().fuse_file(str(source), str(output), json.dumps(settings))
    except ValueError as error:
        raise UserError(str(error)) from None
    return json.loads(text)


@contextmanager
def trusted_files() -> Iterator[None]:
    """Inside, ``torch.export.load`` runs the machine code that fused files hold, instead of compiling their graphs."""
    global _trusting
    before, _trusting = _trusting, True
    try:
        yield
    finally:
        _trusting = before


def _text(reader: Any, name: str) -> str:
    try:
        return reader.read_string(name)
    except UnicodeDecodeError as error:
        raise UserError(f"entry {name}: is no text: {error}") from None


def _register(reader: Any, names: list[str]) -> None:
    wanted = (name for name in names if name.startswith(_EXTRA) and name != _REPORT)
    files = {name.removeprefix(_EXTRA): _text(reader, name) for name in wanted}
    if not files:
        return
    settings = json.dumps({"python": sys.executable or "", "threads": torch.get_num_threads()})
    try:
        answer = json.loads(operators().register_regions(json.dumps(files), f"entry {_EXTRA}", _trusting, settings))
    except ValueError as error:
        raise UserError(str(error)) from None
    refusals = sorted({how for how in answer.values() if how != "compiled" and not how.startswith("embedded for ")})
    if refusals:
        warn_once(f"tilefuse: regions of a fused file run with plain PyTorch: {'; '.join(refusals)}", about="faults")


def know_fused_files() -> None:
    """Has torch's reader of .pt2 files register the operators of fused ones. torch offers no place for that."""
    load = _package._load_exported_programs
    if getattr(load, "_knows_fused_files", False):
        return

    @functools.wraps(load)
    def load_fused(archive_reader: Any, file_names: list[str], *arguments: Any, **keywords: Any) -> Any:
        _register(archive_reader, file_names)
        return load(archive_reader, file_names, *arguments, **keywords)

    load_fused._knows_fused_files = True  # type: ignore[attr-defined]
    _package._load_exported_programs = load_fused
    _package.load_pt2 = _naming_the_file(_package.load_pt2)


def _naming_the_file(load: Any) -> Any:
    @functools.wraps(load)
    def load_named(f: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return load(f, *arguments, **keywords)
        except UserError as error:
            place = os.fspath(f) if isinstance(f, (str, os.PathLike)) else "the file"
            raise UserError(f"{place}: {error}") from None

    return load_named
