"""Exported programs: fused ahead of time, saved, loaded.

``tilefuse.fuse(torch.export.export(model, inputs))`` gives an ExportedProgram with one node per fused region;
``tilefuse.fuse_file`` does the same from file to file. ``tilefuse.load`` makes the operators of a fused file known and
lets torch read it; ``tilefuse.save`` hands torch's writer what such a file has to say of its regions. ``torch.export.load`` and
``torch.export.save`` alone do as well: importing this package has torch's reader and writer do the first part.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from tilefuse.errors import UserError, warn_once
from tilefuse.fused_files import REPORT, files_of, remember
from tilefuse.library import operators
from tilefuse.options import Options, nvrtc_folders

try:  # torch offers no public place where operators could be made known before its reader needs them, or be written
    from torch.export.pt2_archive import _package
except ImportError:
    _package = None  # type: ignore[assignment]

__all__ = ["fuse", "fuse_file", "know_fused_files", "load", "save", "trusted_files"]

_FOLDER = "tilefuse/"  # below torch's folder of extra files
_EXTRA = f"extra/{_FOLDER}"
_READY_OPERATOR = re.compile(r'"torch\.ops\.tilefuse\.(?!\w*_[0-9a-f]{16}\.)')  # those of regions end in a hash
_trusting = False


def fuse(program: ExportedProgram, **options: Any) -> ExportedProgram:
    """The program with its regions fused. Options: those of ``torch.compile(backend="tilefuse")``, and ``fuse_file``'s."""
    if not isinstance(program, ExportedProgram):
        raise UserError(f"tilefuse.fuse wants what torch.export.export gives, got {type(program).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        exported, fused = os.path.join(folder, "model.pt2"), os.path.join(folder, "fused.pt2")
        torch.export.save(program, exported)
        answer = fuse_file(exported, fused, **options)
        if answer["refusal"] is not None:
            warn_once(f"tilefuse: the program is not fused: {answer['refusal']}")
            return program
        if answer["warnings"]:
            warn_once(f"tilefuse: {'; '.join(answer['warnings'])}")
        with trusted_files():  # it was made here
            return load(fused)


def fuse_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    embed: bool = True,
    targets: Sequence[str | os.PathLike[str]] = (),
    **options: Any,
) -> Mapping[str, Any]:
    """Fuses a .pt2 file. Returns counts, warnings and the report, or under "refusal" why it was only copied.

    ``targets``: hardware profiles, names or files, to make machine code for; for this processor alone, or this GPU where the
    program's tensors are on one, unless given.
    """
    if isinstance(targets, (str, os.PathLike)):
        raise UserError(f"tilefuse: option 'targets' wants a list of names or files, got {str(targets)!r}")
    settings = json.loads(Options.parse(options=options).to_json(torch.get_num_threads()))
    settings |= {"embed": embed, "targets": [str(target) for target in targets]}
    try:
        text = operators().fuse_file(os.fspath(source), os.fspath(output), json.dumps(settings))
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


def load(path: str | os.PathLike[str], **options: Any) -> ExportedProgram:
    """``torch.export.load`` of a fused file, or of any other; the options are its own."""
    if isinstance(path, (str, os.PathLike)):  # torch's error for these is a page of tracebacks
        _require_program(path)
    if not _torch_knows():
        _register_operators_of(path)
    return torch.export.load(path, **options)


def _require_program(path: str | os.PathLike[str]) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{os.fspath(path)}: {getattr(error, 'strerror', None) or error}") from None
    if not names & {"archive_format", "serialized_exported_program.json"}:  # the latter until torch 2.7
        raise UserError(f"{os.fspath(path)}: is no file of torch.export.save")


def save(program: ExportedProgram, file: Any, **options: Any) -> None:
    """``torch.export.save`` of a fused program, or of any other; the options are its own."""
    options["extra_files"] = _with_regions([program], options.get("extra_files"))
    torch.export.save(program, file, **options)


def _with_regions(programs: Sequence[ExportedProgram], extra_files: Mapping[str, Any] | None) -> dict[str, Any] | None:
    regions = {_FOLDER + name: text for name, text in files_of(programs).items()}
    return dict(extra_files or {}) | regions if regions else extra_files  # type: ignore[return-value]


def _register_operators_of(path: str | os.PathLike[str]) -> None:
    with _naming(path), zipfile.ZipFile(path) as archive:
        root = os.path.commonprefix(archive.namelist()).partition("/")[0] + "/"
        names = [name.removeprefix(root) for name in archive.namelist()]
        _register(lambda name: archive.read(root + name).decode(), names)


@contextmanager
def _naming(file: Any) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        place = os.fspath(file) if isinstance(file, (str, os.PathLike)) else "the file"
        raise UserError(f"{place}: {error}") from None


def _text(read: Callable[[str], str], name: str) -> str:
    try:
        return read(name)
    except UnicodeDecodeError as error:
        raise UserError(f"entry {name}: is no text: {error}") from None


def _register(read: Callable[[str], str], names: Sequence[str]) -> None:
    """Makes the operators of a file known, its regions and ours of ``tilefuse.ops``; ``read`` gives the text of an entry."""
    if any(name.startswith("models/") and _READY_OPERATOR.search(_text(read, name)) for name in names):
        importlib.import_module("tilefuse.ops")
    files = {name.removeprefix(_EXTRA): _text(read, name) for name in names if name.startswith(_EXTRA)}
    if not files.keys() - {REPORT}:
        return
    report = {name: files.pop(name) for name in (REPORT,) if name in files}
    settings = json.dumps(_loading_options())
    try:
        answer = json.loads(operators().register_regions(json.dumps(files), f"entry {_EXTRA}", _trusting, settings))
    except ValueError as error:
        raise UserError(str(error)) from None
    remember(files | report, _trusting)
    ways = sorted(set(answer.values()))
    compiled = [how for how in ways if how.startswith("compiled: ")]
    if compiled:
        warn_once(f"tilefuse: regions of a fused file are {'; '.join(compiled)}", about="faults")
    refusals = [how for how in ways if not how.startswith(("compiled", "embedded for "))]
    if refusals:
        warn_once(f"tilefuse: regions of a fused file run with plain PyTorch: {'; '.join(refusals)}", about="faults")


def _loading_options() -> dict[str, Any]:
    """For regions that are made again."""
    return {"python": sys.executable or "", "threads": torch.get_num_threads(), "nvrtc": nvrtc_folders()}


def _torch_knows() -> bool:
    return getattr(getattr(_package, "_load_exported_programs", None), "_knows_fused_files", False)


def know_fused_files() -> None:
    """Has torch's reader of .pt2 files register the regions of fused ones, and its writer write them; warns where this torch's
    have no place for it."""
    if _torch_knows():
        return
    read, write = getattr(_package, "_load_exported_programs", None), getattr(_package, "package_pt2", None)
    if read is None or write is None or not hasattr(_package, "load_pt2"):
        warn_once(
            f"tilefuse: the reader of .pt2 files of torch {torch.__version__} is another than those known: fused files load "
            "with tilefuse.load and are saved with tilefuse.save, not with torch.export alone"
        )
        return

    @functools.wraps(read)
    def read_fused(archive_reader: Any, file_names: list[str], *arguments: Any, **keywords: Any) -> Any:
        _register(archive_reader.read_string, file_names)
        return read(archive_reader, file_names, *arguments, **keywords)

    @functools.wraps(write)
    def write_fused(f: Any, *, exported_programs: Any = None, extra_files: Any = None, **keywords: Any) -> Any:
        one_or_many = exported_programs if isinstance(exported_programs, Mapping) else {"model": exported_programs}
        programs = [program for program in one_or_many.values() if program is not None]
        return write(f, exported_programs=exported_programs, extra_files=_with_regions(programs, extra_files), **keywords)

    read_fused._knows_fused_files = True  # type: ignore[attr-defined]
    _package._load_exported_programs = read_fused
    _package.package_pt2 = write_fused
    _package.load_pt2 = _naming_the_file(_package.load_pt2)


def _naming_the_file(load_pt2: Any) -> Any:
    @functools.wraps(load_pt2)
    def load_named(f: Any, *arguments: Any, **keywords: Any) -> Any:
        with _naming(f):
            return load_pt2(f, *arguments, **keywords)

    return load_named
