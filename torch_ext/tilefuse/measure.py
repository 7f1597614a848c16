"""Paired timings: contestants take turns in every round, so that a change of the machine's speed hits all alike."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch

__all__ = ["Timing", "compare", "empty_caches", "interleave"]

_ROUND_SECONDS = 2e-3  # one contestant's share of a round: many calls of a short one, one of a long one
_LEAST_ROUNDS = 5


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds a call: the median, the 10th and 90th percentile, and the least over all rounds."""

    median: float
    low: float
    high: float
    least: float
    rounds: int
    first_call: float | None = None


def interleave(contestants: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Timing]:
    """Times the contestants in turn for about ``seconds`` in all."""
    repeats = {}
    for name, call in contestants.items():
        for _ in range(3):
            call()
        started = time.perf_counter()
        call()
        repeats[name] = max(1, int(_ROUND_SECONDS / max(time.perf_counter() - started, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(samples.values()))) < _LEAST_ROUNDS:
        for name, call in contestants.items():
            count = repeats[name]
            call()  # the contestant before left its data in the caches
            started = time.perf_counter()
            for _ in range(count):
                call()
            samples[name].append((time.perf_counter() - started) / count)
    return {name: _summary(values) for name, values in samples.items()}


def _summary(values: list[float]) -> Timing:
    ordered = sorted(values)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
    return Timing(statistics.median(ordered), at(0.1), at(0.9), ordered[0], len(ordered))


@contextlib.contextmanager
def empty_caches() -> Iterator[str]:
    """Torch's caches on disk are empty inside; gives a folder for TileFuse's (its option ``cache_dir``)."""
    with tempfile.TemporaryDirectory() as folder:
        ours = os.path.join(folder, "tilefuse")
        os.mkdir(ours, 0o700)
        with mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "torch")}):
            yield ours


def compare(
    model: Callable[..., Any], inputs: Sequence[Any], *, inductor: bool = True, seconds: float = 5.0
) -> dict[str, Timing]:
    """Eager, TileFuse and (if wanted) Inductor on one model, inference. First calls are timed apart, with empty
    caches on disk; what this process has compiled before is not forgotten."""
    with torch.no_grad(), empty_caches() as folder:
        contestants: dict[str, Callable[[], Any]] = {"eager": lambda: model(*inputs)}
        first: dict[str, float | None] = {"eager": None}
        for name in ["tilefuse", "inductor"] if inductor else ["tilefuse"]:
            options = {"cache_dir": folder} if name == "tilefuse" else None
            compiled = torch.compile(model, backend=name, options=options)
            started = time.perf_counter()
            compiled(*inputs)
            first[name] = time.perf_counter() - started
            contestants[name] = lambda compiled=compiled: compiled(*inputs)
        timings = interleave(contestants, seconds)
    return {name: dataclasses.replace(timing, first_call=first[name]) for name, timing in timings.items()}
