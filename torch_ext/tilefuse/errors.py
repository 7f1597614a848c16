"""What the package raises, and what it warns of."""

from __future__ import annotations

import warnings

__all__ = ["TileFuseWarning", "UserError", "warn_once"]

_warned: set[str] = set()


class UserError(ValueError):
    """The caller's mistake: an unknown option, a value out of range, a malformed file. The message names it."""


class TileFuseWarning(UserWarning):
    """Something runs with plain PyTorch instead of a fused kernel; the message says what and why."""


def warn_once(message: str, *, about: str | None = None) -> None:
    """Each text once a process, or one text ``about`` each thing: a model has many graphs."""
    key = about or message
    if key not in _warned:
        _warned.add(key)
        warnings.warn(message, TileFuseWarning, stacklevel=3)
