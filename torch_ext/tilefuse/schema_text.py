"""The words of torch.export's graph schema, as JSON text.

Text from the first: a graph of a thousand nodes has ten thousand small objects, and building them as dictionaries to
write them out afterwards takes most of the time of a warm start. An argument is a pair of a tag and a body, and
``tagged(("as_int", "3"))`` is ``{"as_int": 3}``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["Argument", "Numbers", "enumeration", "joined", "quoted", "real_text", "tagged", "tensor_meta"]

Argument = tuple[str, str]  # tag, body

# Numbers of the export schema, which are not those of c10::ScalarType.
_DTYPE_NAMES = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "complex32": 9, "complex64": 10, "complex128": 11, "bool": 12, "bfloat16": 13, "uint16": 28,
    "float8_e4m3fn": 29, "float8_e5m2": 30, "float8_e4m3fnuz": 31, "float8_e5m2fnuz": 32, "float8_e8m0fnu": 33,
    "uint32": 34, "uint64": 35,
}  # fmt: skip
_LAYOUT_NAMES = {
    "sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 3, "sparse_bsr": 4, "sparse_bsc": 5, "_mkldnn": 6, "strided": 7,
}  # fmt: skip
_MEMORY_FORMAT_NAMES = {"contiguous_format": 1, "channels_last": 2, "channels_last_3d": 3, "preserve_format": 4}
_UNKNOWN = 0


def _by_object(names: dict[str, int]) -> dict[Any, int]:
    """Keyed by torch's objects; a version of torch that lacks one has no use for its number."""
    return {getattr(torch, name): number for name, number in names.items() if hasattr(torch, name)}


_DTYPES, _LAYOUTS = _by_object(_DTYPE_NAMES), _by_object(_LAYOUT_NAMES)
_MEMORY_FORMATS = _by_object(_MEMORY_FORMAT_NAMES)


# ---------------------------------------------------------------- text
def tagged(argument: Argument) -> str:
    """``{"as_int": 3}``"""
    return f'{{"{argument[0]}": {argument[1]}}}'


def joined(items: Iterable[str]) -> str:
    """A JSON array of what is JSON already."""
    return f"[{', '.join(items)}]"


def real_text(value: float) -> str:
    """JSON has no words for the non-finite numbers; the schema spells them."""
    if math.isfinite(value):
        return repr(float(value))
    return '"NaN"' if math.isnan(value) else ('"Infinity"' if value > 0 else '"-Infinity"')


@functools.lru_cache(maxsize=4096)
def _expression_text(expression: sympy.Expr) -> str:
    return quoted(sympy.srepr(expression))  # slow, and a graph has few different sizes


@functools.lru_cache(maxsize=64)
def _device_body(kind: str, index: int | None) -> str:
    return f'{{"type": {quoted(kind)}, "index": {"null" if index is None else index}}}'


def enumeration(value: Any) -> Argument | None:
    """A dtype, device, layout or memory format; None for anything else."""
    if isinstance(value, torch.dtype):
        return "as_scalar_type", str(_DTYPES.get(value, _UNKNOWN))
    if isinstance(value, torch.device):
        return "as_device", _device_body(value.type, value.index)
    if isinstance(value, torch.layout):
        return "as_layout", str(_LAYOUTS.get(value, _UNKNOWN))
    if isinstance(value, torch.memory_format):
        return "as_memory_format", str(_MEMORY_FORMATS.get(value, _UNKNOWN))
    return None


# ---------------------------------------------------------------- symbolic values
class Numbers:
    """Writes numbers that may be symbolic, and notes the bounds of the integer symbols in them."""

    def __init__(self) -> None:
        self._seen: set[sympy.Expr] = set()
        self.ranges: dict[str, Any] = {}  # null where there is no bound

    def size(self, value: int | torch.SymInt) -> Argument:
        """``as_int``, or ``as_expr`` with the text of the sympy expression."""
        if not isinstance(value, torch.SymInt):
            return "as_int", str(int(value))
        node = value.node
        if node.expr.is_number:
            return "as_int", str(int(node.expr))
        hint = node.hint if node.has_hint() else None
        return self._expression(node, None if hint is None else int(hint))

    def sizes(self, values: Iterable[int | torch.SymInt]) -> str:
        return joined([f'{{"as_int": {v}}}' if type(v) is int else tagged(self.size(v)) for v in values])

    def truth(self, value: bool | torch.SymBool) -> Argument:
        if isinstance(value, bool):
            return "as_bool", "true" if value else "false"
        return self._expression(value.node, None)

    def real(self, value: float | torch.SymFloat) -> Argument:
        return ("as_float", real_text(value)) if isinstance(value, float) else self._expression(value.node, None)

    def _expression(self, node: Any, hint: int | None) -> Argument:
        expression = node.expr
        if expression not in self._seen:
            self._seen.add(expression)
            self._note_ranges(expression, node.shape_env.var_to_range)
        written_hint = "null" if hint is None else f'{{"as_int": {hint}}}'
        return "as_expr", f'{{"expr_str": {_expression_text(expression)}, "hint": {written_hint}}}'

    def _note_ranges(self, expression: sympy.Expr, known: Any) -> None:
        for symbol in expression.free_symbols:
            limits = known.get(symbol)
            if limits is not None and limits.is_int:
                low, high = (int(b) if b.is_Integer else None for b in (limits.lower, limits.upper))
                self.ranges[symbol.name] = {"min_val": low, "max_val": high}


def tensor_meta(value: torch.Tensor, numbers: Numbers) -> str:
    """The TensorMeta of the schema."""
    layout = value.layout
    strided = layout == torch.strided
    device = value.fake_device if isinstance(value, FakeTensor) else value.device  # .device takes 3 us of a fake one
    strides = numbers.sizes(value.stride()) if strided else "[]"
    offset = tagged(numbers.size(value.storage_offset())) if strided else '{"as_int": 0}'
    return (
        f'{{"dtype": {_DTYPES.get(value.dtype, _UNKNOWN)}, "sizes": {numbers.sizes(value.shape)}, '
        f'"requires_grad": {"true" if value.requires_grad else "false"}, '
        f'"device": {_device_body(device.type, device.index)}, "strides": {strides}, '
        f'"storage_offset": {offset}, "layout": {_LAYOUTS.get(layout, _UNKNOWN)}}}'
    )
