"""Cases of a test that `make test` leaves to `make test-full`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_of(slow: Collection[str], names: Iterable[str]) -> list[Any]:
    """The names as parameters, the slow ones marked."""
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in names]
