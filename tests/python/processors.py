"""Which of the embedded profiles the processor can run code for."""

from __future__ import annotations

import json
import pathlib

PROFILES = pathlib.Path(__file__).resolve().parents[2] / "configs" / "targets"


def runs_here(target: str) -> bool:
    profile = PROFILES / f"{target}.json"
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().replace("_", "").split() if cpuinfo.exists() else []
    return set(json.loads(profile.read_text())["instructions"]) <= set(flags)
