"""Compiles a captured graph from its JSON alone and runs it: a bug report that needs no model."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console

from tilefuse.errors import UserError
from tilefuse.library import operators

__all__ = ["run"]

# Numbers of the export schema.
_DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16,
    7: torch.float32, 8: torch.float64, 12: torch.bool, 13: torch.bfloat16,
}  # fmt: skip


def run(case: pathlib.Path, console: Console, *, explain: bool = False) -> int:
    """Compiles ``case``, runs it on random inputs of the captured sizes, prints what came out."""
    text = case.read_text()
    try:
        graph = json.loads(text)["graph_module"]["graph"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{case}: no captured graph: {error!r}") from error
    answer = json.loads(operators().compile(text, "{}"))
    if answer["op"] is None:
        console.print(f"runs with plain PyTorch: {answer['fallback_reason']}", markup=False)
        return 1
    if explain:
        print(json.dumps(json.loads(operators().report(answer["report_id"])), indent=2))
    result = getattr(operators(), answer["op"])(*_inputs(graph))
    for value in result if isinstance(result, (tuple, list)) else [result]:
        described = f"{value.dtype} {list(value.shape)}" if isinstance(value, torch.Tensor) else str(value)
        console.print(f"{answer['op']} -> {described}", markup=False)
    return 0


def _inputs(graph: Mapping[str, Any]) -> list[Any]:
    torch.manual_seed(0)
    inputs: list[Any] = []
    for argument in graph["inputs"]:
        if "as_tensor" in argument:
            inputs.append(_tensor(graph["tensor_values"][argument["as_tensor"]["name"]]))
        elif "as_sym_int" in argument:
            inputs.append(_number(graph["sym_int_values"][argument["as_sym_int"]["as_name"]]))
        else:
            raise UserError(f"cannot make an input of kind {next(iter(argument))}")
    return inputs


def _number(size: Mapping[str, Any]) -> int:
    if "as_int" in size:
        return int(size["as_int"])
    hint = size["as_expr"].get("hint")
    if not hint:
        raise UserError(f"the size {size['as_expr']['expr_str']} was captured without an example")
    return int(hint["as_int"])


def _tensor(meta: Mapping[str, Any]) -> torch.Tensor:
    dtype = _DTYPES.get(meta["dtype"])
    if dtype is None:
        raise UserError(f"cannot make an input of dtype number {meta['dtype']}")
    sizes = [_number(size) for size in meta["sizes"]]
    strides = [_number(stride) for stride in meta["strides"]]
    tensor = torch.empty_strided(sizes, strides, dtype=dtype)
    if dtype.is_floating_point:
        return tensor.normal_() if dtype in (torch.float32, torch.float64) else tensor.copy_(torch.randn(sizes))
    return tensor.random_(0, 2)
