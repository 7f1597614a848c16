"""Which of the embedded profiles the processor can run code for, and which one tests plan for."""

from __future__ import annotations

import json
import pathlib

PROFILES = pathlib.Path(__file__).resolve().parents[2] / "configs" / "targets"


def runs_here(target: str) -> bool:
    profile = PROFILES / f"{target}.json"
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().replace("_", "").split() if cpuinfo.exists() else []
    return set(json.loads(profile.read_text())["instructions"]) <= set(flags)


# What tests of decisions plan for, also where its code does not run: by the prices of the machine's own profile, what
# gains little may gain nothing.
FIXED_TARGET = "x86-zen4"
