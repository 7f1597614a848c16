"""The ``tilefuse`` command."""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

import tilefuse
from tilefuse.errors import UserError
from tilefuse.options import nvrtc_folders

__all__ = ["main"]

_PROGRAM = pathlib.Path(__file__).parent / "bin" / "tilefuse"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0, or 2 after an error that the user can mend."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    explains_file = given[:1] == ["explain"] and any(argument.endswith(".pt2") for argument in given)
    if explains_file or given[:1] in (["bundle"], ["fuse"], ["show"]):  # a program of their own, which needs neither Python nor torch
        folders = [f"--nvrtc={folder}" for folder in nvrtc_folders()] if given[:1] == ["fuse"] else []
        return subprocess.run([_PROGRAM, *given, *folders], check=False).returncode
    options = _parser().parse_args(given)
    console = Console(highlight=False, soft_wrap=True)
    try:
        return options.run(options, console) or 0
    except (UserError, ValueError, OSError) as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"tilefuse: {_in_words(error)}", markup=False)
        return 2


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error).removeprefix("tilefuse: ")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilefuse", description="Fuses PyTorch graphs into generated kernels, and says what it did and why."
    )
    parser.add_argument("--version", action="version", version=f"tilefuse {tilefuse.__version__}, torch {torch.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Callable[..., Any], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    demo = command("demo", _demo, "Embed real sentences with a real model, beside eager and Inductor.")
    demo.add_argument("--no-inductor", action="store_true", help="leave out the comparison with Inductor")

    explain = command("explain", _explain, "Show what is fused in a model, with which schedules, and why not the rest.")
    explain.add_argument(
        "model",
        nargs="?",
        default="tilefuse.demo:model_and_inputs",
        help="package.module:function; the function returns (model, inputs). Default: the model of the demo. "
        "Or a .pt2 file, exported or fused",
    )
    explain.add_argument("--html", metavar="FILE", help="write the report as a page, one file")
    explain.add_argument("--json", metavar="FILE", help="write the report as JSON; - for standard output")
    explain.add_argument("--source", metavar="REGION", help="print the generated source of one region")

    bench = command("bench", _bench, "Time a model with eager, Inductor and TileFuse, interleaved.")
    bench.add_argument(
        "model",
        nargs="?",
        default="tilefuse.demo:model_and_inputs",
        help="as for explain; of a .pt2 file, an exported one with its example inputs",
    )
    bench.add_argument("--no-inductor", action="store_true", help="leave out Inductor")
    bench.add_argument("--seconds", type=float, default=5.0, help="time to spend on measuring (default: 5)")

    calibrate = command("calibrate", _calibrate, "Measure this machine and write a hardware profile.")
    calibrate.add_argument("--seconds", type=float, default=20.0, help="time to spend on PyTorch's own library (default: 20)")
    calibrate.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: standard output)")

    replay = command("replay", _replay, "Compile a captured graph from its JSON and run it on random inputs.")
    replay.add_argument("case", help="a captured graph: 00-capture.json of TILEFUSE_DUMP=capture")
    replay.add_argument("--explain", action="store_true", help="print the report")

    for name, text in {
        "fuse": "Fuse an exported program: .pt2 in, .pt2 out.",
        "bundle": "Make a C library of an exported program: .pt2 in, .so and .h out.",
        "show": "Print what is in a .pt2 file.",
    }.items():
        commands.add_parser(name, help=text, add_help=False)

    cache = command("cache", _cache, "Show or clear the cache of kernels and plans.")
    cache.add_argument("action", nargs="?", choices=["show", "clear"], default="show")
    cache.add_argument("--dir", default="", help="the cache directory (default: the one in use)")
    return parser


def _load_exported(path: str) -> tuple[Any, Sequence[Any]]:
    program = tilefuse.load(path)
    if any(str(node.target).startswith("tilefuse.") for node in program.graph.nodes):
        raise UserError(f"{path}: is fused; bench takes the exported program that it was made of")
    if program.example_inputs is None:
        raise UserError(f"{path}: holds no example inputs to call it with")
    arguments, named = program.example_inputs
    module = program.module()
    return (functools.partial(module, **named) if named else module), arguments


def _load(specification: str) -> tuple[Any, Sequence[Any]]:
    module_name, _, function = specification.partition(":")
    if not function:
        raise UserError(f"{specification!r} is not of the form package.module:function")
    sys.path.insert(0, "")
    try:
        make = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"cannot load {specification!r}: {error}") from error
    made = make()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], (tuple, list))):
        raise UserError(f"{specification!r} must return (model, inputs), inputs a tuple of the model's arguments")
    return made[0], made[1]


def _demo(options: argparse.Namespace, console: Console) -> int:
    from tilefuse import demo

    return demo.run(console, inductor=not options.no_inductor)


def _explain(options: argparse.Namespace, console: Console) -> int:
    from tilefuse.explain import explain

    model, inputs = _load(options.model)
    with torch.no_grad():
        report = explain(model, *inputs)
    if options.html:
        report.html(options.html, title=options.model)
    if options.json == "-":
        print(json.dumps(report.json(), indent=2))
    elif options.json:
        pathlib.Path(options.json).write_text(json.dumps(report.json(), indent=2) + "\n")
    elif options.source:
        try:
            console.print(Syntax(report.source(options.source), "cpp", word_wrap=False))
        except KeyError as error:
            raise UserError(error.args[0]) from None
    elif not options.html:
        console.print(str(report), markup=False)
    return 0


def _bench(options: argparse.Namespace, console: Console) -> int:
    from tilefuse import measure

    if options.seconds <= 0:
        raise UserError("--seconds must be positive")
    model, inputs = (_load_exported if options.model.endswith(".pt2") else _load)(options.model)
    rows = measure.compare(model, inputs, inductor=not options.no_inductor, seconds=options.seconds)
    table = Table("", "first call", "median", "p10", "p90", "speed-up over eager")
    eager = rows["eager"].median
    for name, row in rows.items():
        first = "" if row.first_call is None else f"{row.first_call:.2f} s"
        times = (f"{t * 1e3:.3f} ms" for t in (row.median, row.low, row.high))
        table.add_row(name, first, *times, f"{eager / row.median:.2f}x")
    console.print(table)
    return 0


def _calibrate(options: argparse.Namespace, console: Console) -> int:
    from tilefuse import library_rates
    from tilefuse.library import operators
    from tilefuse.options import Options

    if options.seconds <= 0:
        raise UserError("--seconds must be positive")
    progress = Console(stderr=True, highlight=False, soft_wrap=True)  # the profile itself may go to standard output
    report = lambda line: progress.print(line, markup=False)  # noqa: E731
    report("timing kernels")
    profile = json.loads(operators().calibrate(Options.parse().to_json(1)))
    profile["rates"] |= library_rates.measure(profile["l2_bytes"]["value"], options.seconds, report)
    text = json.dumps(profile, indent=2)
    if options.output:
        pathlib.Path(options.output).write_text(text + "\n")
        path = pathlib.Path(options.output).resolve()
        console.print(
            f"wrote {options.output}; use it with options={{'target': '{options.output}'}}, or in every program with "
            f"TILEFUSE_TARGET={path}",
            markup=False,
        )
    else:
        print(text)
    return 0


def _replay(options: argparse.Namespace, console: Console) -> int:
    from tilefuse import replay

    return replay.run(pathlib.Path(options.case), console, explain=options.explain)


def _cache(options: argparse.Namespace, console: Console) -> int:
    from tilefuse.library import operators

    if options.dir and not pathlib.Path(options.dir).is_dir():
        raise UserError(f"{options.dir}: there is no such directory")
    settings = json.dumps({"cache_dir": options.dir} if options.dir else {})
    if options.action == "clear":
        answer = json.loads(operators().cache_clear(settings))
        console.print(f"removed {answer['removed']} entries")
    else:
        answer = json.loads(operators().cache_stats(settings))
        megabytes = answer["bytes"] / 1e6
        console.print(f"{answer['directory']}: {answer['entries']} entries, {megabytes:.1f} MB", markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
