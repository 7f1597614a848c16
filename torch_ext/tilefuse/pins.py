"""Pins whose region never comes.

A pin names a region, and a model is several graphs, each of which has some of the regions. So a pin that one graph knows
nothing of is in doubt until another has it: what nearly has the name of a region is misspelt and said so at once, what
``explain`` finds in no graph of the model is said there, and what no graph of the process had is said at its end.
"""

from __future__ import annotations

import atexit
import difflib
from collections.abc import Collection, Iterable

from tilefuse.errors import warn_once

__all__ = ["require_pins", "see_pins"]

_in_doubt: dict[str, set[str]] = {}  # by pin: the regions that are not it
_found: set[str] = set()


def see_pins(pins: Iterable[str], regions: Collection[str]) -> None:
    """``regions``: of one graph that was compiled with the pins."""
    for name in pins:
        if name in regions:
            _found.add(name)
            _in_doubt.pop(name, None)
        elif name not in _found:
            _in_doubt.setdefault(name, set()).update(regions)
            if difflib.get_close_matches(name, regions, n=1, cutoff=0.75):
                _warn(name, regions)


def require_pins(pins: Iterable[str], regions: Collection[str]) -> None:
    """``regions``: of all graphs of a model."""
    for name in pins:
        if name not in regions:
            _warn(name, regions)


def _warn(name: str, regions: Collection[str]) -> None:
    _in_doubt.pop(name, None)
    near = difflib.get_close_matches(name, sorted(regions), n=1, cutoff=0)
    hint = f"did you mean {near[0]!r}?" if near else "there is no region at all"
    warn_once(f"tilefuse: pin {name!r} has no effect: no region has this name; {hint}", about=f"pin {name}")


@atexit.register
def _warn_of_the_rest() -> None:
    for name, regions in list(_in_doubt.items()):
        _warn(name, regions)
