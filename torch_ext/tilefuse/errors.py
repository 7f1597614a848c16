"""What the package raises, and what it warns of."""

from __future__ import annotations

import warnings

__all__ = ["TileFuseWarning", "UserError", "warn_once"]

_warned: set[str] = set()


class UserError(ValueError):
    """The caller's mistake: an unknown option, a value out of range, a malformed file. The message names it."""


class TileFuseWarning(UserWarning):
    """Something runs with plain PyTorch instead of a fused kernel; the message says what and why."""


def warn_once(message: str) -> None:
    """Each text once a process: a model has many graphs."""
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, TileFuseWarning, stacklevel=3)
