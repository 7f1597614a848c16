"""What fused files say about their regions, kept as long as their operators live: as long as the process.

torch's writer of .pt2 files knows nothing of it. It writes a node ``torch.ops.tilefuse.<region>``, an operator that no other
process can know without the region's files. So whoever saves a program asks here for the files of its regions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from tilefuse.errors import UserError

__all__ = ["MANIFEST", "REPORT", "files_of", "remember"]

MANIFEST, REPORT = "tilefuse.json", "report.json"
_CODE = (".so.b64", ".cubin.b64", ".ptx")


@dataclasses.dataclass(frozen=True)
class _FusedFile:
    files: Mapping[str, str]  # by name below extra/tilefuse/
    manifest: Mapping[str, Any]

    @property
    def operators(self) -> set[str]:
        return {row["op"] for row in self.manifest["regions"]}


_known: dict[str, _FusedFile] = {}  # by all that is no machine code; the latest last


def remember(files: Mapping[str, str], trusted: bool) -> None:
    """Keeps what a fused file says. Machine code that was not trusted is left out: saved again, it would pass for the saver's."""
    read = _FusedFile(dict(files), json.loads(files[MANIFEST]))
    without_code = _without_code(read)
    key = hashlib.sha256(json.dumps(without_code.files, sort_keys=True).encode()).hexdigest()
    if trusted or key not in _known:
        _known.pop(key, None)
        _known[key] = read if trusted else without_code


def _without_code(file: _FusedFile) -> _FusedFile:
    rows = [{key: value for key, value in row.items() if key != "objects"} for row in file.manifest["regions"]]
    manifest = {**file.manifest, "regions": rows}
    kept = {name: text for name, text in file.files.items() if not name.endswith(_CODE)}
    return _FusedFile(kept | {MANIFEST: json.dumps(manifest)}, manifest)


def files_of(programs: Iterable[ExportedProgram]) -> dict[str, str]:
    """The files of the regions that the programs call, by name below extra/tilefuse/. Empty: they call none."""
    called = _operators_of(programs)
    parts: list[tuple[_FusedFile, set[str]]] = []
    while known := max(reversed(_known.values()), key=lambda known: len(known.operators & called), default=None):
        of_this = known.operators & called
        if not of_this:
            break
        parts.append((known, of_this))
        called -= of_this
    return _joined(parts) if parts else {}


def _operators_of(programs: Iterable[ExportedProgram]) -> set[str]:
    modules = (module for program in programs for module in program.graph_module.modules())
    nodes = (node for module in modules if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes)
    targets = {node.target for node in nodes if isinstance(node.target, torch._ops.OpOverload)}
    return {target._schema.name.removeprefix("tilefuse::") for target in targets if target.namespace == "tilefuse"}


def _joined(parts: list[tuple[_FusedFile, set[str]]]) -> dict[str, str]:
    """One fused file of these regions of several."""
    files: dict[str, str] = {}
    rows: list[Any] = []
    for known, operators in parts:
        rows += [row for row in known.manifest["regions"] if row["op"] in operators]
        files |= {name: text for name, text in known.files.items() if name.partition("/")[0] in operators}
    known_parts = [known for known, _ in parts]
    manifest = {**_manifest_for_all(known_parts), "regions": rows}
    return files | {MANIFEST: json.dumps(manifest, indent=1)} | _report_of_all(known_parts)


def _report_of_all(known: list[_FusedFile]) -> dict[str, str]:
    reports = [file.files[REPORT] for file in known if REPORT in file.files]
    if len(reports) <= 1:
        return {REPORT: text for text in reports}
    try:
        graphs = [graph for text in reports for graph in json.loads(text)["graphs"]]
    except (ValueError, LookupError, TypeError) as error:  # of a file that somebody else wrote
        raise UserError(f"tilefuse: {REPORT} of a fused file is no report: {error}") from None
    return {REPORT: json.dumps({"version": 1, "graphs": graphs})}


def _manifest_for_all(known: list[_FusedFile]) -> Mapping[str, Any]:
    refusal = "tilefuse: regions of two fused files cannot be saved in one:"
    targets: dict[str, Any] = {}
    for target in (target for file in known for target in file.manifest["targets"]):
        if targets.setdefault(target["name"], target) != target:
            raise UserError(f"{refusal} target {target['name']} is not the same in both")
    if len({file.manifest["numerics"] for file in known}) > 1:
        raise UserError(f"{refusal} those of one round where eager rounds")
    if len({file.manifest.get("device") for file in known}) > 1:
        raise UserError(f"{refusal} they are for two devices")
    return {**known[0].manifest, "targets": list(targets.values())}
