"""Writes docs/coverage.md: what becomes of every operator of core ATen, and of those in exported models.

    python tools/coverage_table.py                  from the import table and the saved list of the models' operators
    python tools/coverage_table.py --models         exports the models of benchmarks/model_cases.py first

A test compares the page with what this program would write.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import sys
from collections.abc import Iterable, Mapping

import torch
from tilefuse.library import operators

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
EXPORTED = ROOT / "benchmarks" / "results" / "exported_operators.json"

KINDS = {
    "fuses": "expanded by the import table into maps, reductions, scans, views, gathers and scatters, which fuse; a form that the "
    "row declines runs as a [Call](glossary.md)",
    "where it pays": "in a region or by PyTorch's library, whichever the cost model finds faster ([products.md](products.md))",
    "composite": "AOTAutograd makes other operators of it before the engine sees it",
    "sizes": "arithmetic on sizes, which has no kernel",
    "Call": "runs as PyTorch runs it, between fused regions",
    "refused": "the size of its result depends on data: the graph around it runs as captured. Dynamo cuts graphs at such "
    "operators, so that only what is exported or captured whole is concerned",
}  # fmt: skip


def kind_of(overload: torch._ops.OpOverload, imported: frozenset[str]) -> str:
    """One of KINDS."""
    schema = overload._schema
    if str(overload) in imported:
        return "fuses"
    if operators().decomposes(schema.name, schema.overload_name):
        return "where it pays"
    if schema.name.startswith("aten::sym_"):
        return "sizes"
    if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"):
        return "composite"
    if {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(overload.tags):
        return "refused"
    return "Call"


def core_operators() -> list[torch._ops.OpOverload]:
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            overload = getattr(getattr(torch.ops.aten, schema.name[6:]), schema.overload_name or "default")
            if torch.Tag.core in overload.tags:
                found[str(overload)] = overload
    return [found[name] for name in sorted(found)]


def export_models() -> dict[str, list[str]]:
    """Per operator the models that have it, composites not broken down."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from model_cases import MODELS

    users = collections.defaultdict(list)
    for name, make in MODELS.items():
        model, inputs = make()
        with torch.no_grad():
            program = torch.export.export(model, inputs).run_decompositions({})
        for overload in {str(n.target) for n in program.graph.nodes if isinstance(n.target, torch._ops.OpOverload)}:
            users[overload].append(name)
    return {overload: users[overload] for overload in sorted(users)}


def _overload(name: str) -> torch._ops.OpOverload:
    space, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name.removeprefix('aten.').removesuffix('.default')}`" for name in names)


def page(exported: Mapping[str, list[str]]) -> str:
    """The text of docs/coverage.md."""
    imported = frozenset(operators().imported_operators().split("\n"))
    core = core_operators()
    by_kind = {kind: [str(o) for o in core if kind_of(o, imported) == kind] for kind in KINDS}
    lines = [
        "# What fuses",
        "",
        "Written by `tools/coverage_table.py` from the import table; a test keeps it fresh. Overloads named `default` are "
        "written without it.",
        "",
        f"## Core ATen: {len(core)} operators",
        "",
        "| | operators | what it means |",
        "|---|---|---|",
        *(f"| {kind} | {len(by_kind[kind])} | {text} |" for kind, text in KINDS.items()),
        "",
    ]
    for kind, names in by_kind.items():
        lines += [f"**{kind}**: {_listed(names)}", ""]
    further = sorted(imported - {str(o) for o in core})
    lines += [f"Outside of core ATen {len(further)} more fuse: {_listed(further)}", ""]
    models = sorted({model for users in exported.values() for model in users})
    counts = collections.Counter(kind_of(_overload(name), imported) for name in exported)
    summary = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    lines += [
        f"## {len(models)} exported models",
        "",
        f"`torch.export` of {', '.join(models)}, inference, `run_decompositions({{}})`: {len(exported)} operators, {summary}.",
        "",
        "| operator | | models |",
        "|---|---|---|",
    ]
    for name, users in sorted(exported.items(), key=lambda item: (-len(item[1]), item[0])):
        where = "all" if len(users) == len(models) else str(len(users))
        lines.append(f"| `{name.removeprefix('aten.').removesuffix('.default')}` | {kind_of(_overload(name), imported)} | {where} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", action="store_true", help="export the models again")
    if parser.parse_args().models:
        EXPORTED.write_text(json.dumps(export_models(), indent=1) + "\n")
    PAGE.write_text(page(json.loads(EXPORTED.read_text())))


if __name__ == "__main__":
    main()
