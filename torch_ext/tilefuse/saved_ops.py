"""Operators as a file that C++ reads without Python (torch_ext/load_user_ops.h)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from tilefuse.errors import UserError
from tilefuse.options import Options
from tilefuse.specialise import is_tensors, tensors_of

__all__ = ["saved_call", "write"]

_VERSION = 2


class _Definition(Protocol):
    name: str
    schema: str
    python_name: str
    backward_schema: str
    autocast: str
    saved: list[dict[str, Any]]


def _argument(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return {"tensor": True}
    if is_tensors(value):
        return {"list": len(value)}
    return {"value": list(value) if isinstance(value, tuple) else value}


def saved_call(name: str, graph_json: str, settings: Options, args: Sequence[Any]) -> dict[str, Any]:
    """One kernel, but for its argument pattern. Arguments that are left out have their defaults in the schema."""
    schema = torch._C._get_schema(name, "")
    defaults = [argument.default_value for argument in schema.arguments[len(args) :]]
    return {
        "name": name,
        "graph": graph_json,
        "options": settings.to_json(torch.get_num_threads()),
        "types": [t.type().rpartition(".")[2].removesuffix("Tensor") for t in tensors_of(args)],
        "arguments": [_argument(value) for value in (*args, *defaults)],
    }


def write(path: Any, definitions: Sequence[_Definition]) -> int:
    """Writes the file. UserError for an argument that has no form in it, such as a dtype."""
    ops = [
        {
            "schema": definition.schema,
            "python_name": definition.python_name,
            "backward_schema": definition.backward_schema,
            "autocast": definition.autocast,
            "specialisations": definition.saved,
        }
        for definition in definitions
    ]
    try:
        text = json.dumps({"version": _VERSION, "ops": ops}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"tilefuse.save_ops: an argument of a call cannot be written: {error}") from error
    pathlib.Path(path).write_text(text + "\n")
    return sum(len(definition.saved) for definition in definitions)
