"""Writes the FX graphs that AOTAutograd hands over as JSON in the graph schema of torch.export.

The JSON is everything the engine learns about a graph, so a saved file replays without Python. It holds the nodes
in order, the metadata of every value, the ranges of the size symbols, which inputs are parameters, and the user's
source line of every node (``metadata.source``).

Symbolic sizes are read through ``.node.expr`` only: asking a SymInt anything else could add a guard and with it a
recompile. Data types, devices and layouts are written as far as the schema has them; the importer decides what to
do with them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import operator
import os
import re
from collections.abc import Sequence
from typing import Any

import sympy
import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

__all__ = ["Capture", "CaptureError", "capture"]

Json = dict[str, Any]

SCHEMA_MAJOR, SCHEMA_MINOR = 8, 17

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

_POSITIONAL, _KEYWORD = 1, 2
_SOURCE_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]+)(?:\n\s*(?P<code>[^\n]+))?')


class CaptureError(RuntimeError):
    """A graph holds something that the schema has no form for; the message names the node."""


@dataclasses.dataclass(frozen=True)
class Capture:
    """A captured graph. ``constants`` are the tensors for the inputs that follow the graph's placeholders."""

    json: str
    constants: list[torch.Tensor]


def capture(graph_module: torch.fx.GraphModule, *, name: str = "graph") -> Capture:
    """Writes one graph. Call it inside the compiler that AOTAutograd calls, where the tracing context is set."""
    writer = _Writer(graph_module)
    writer.write()
    signature = {"input_specs": writer.input_specs, "output_specs": []}
    document = {
        "graph_module": {
            "graph": writer.graph,
            "signature": signature,
            "module_call_graph": [],
            "metadata": {"name": name},
        },
        "opset_version": {"aten": 10},
        "range_constraints": dict(sorted(writer.numbers.ranges.items())),
        "schema_version": {"major": SCHEMA_MAJOR, "minor": SCHEMA_MINOR},
        "torch_version": torch.__version__,
    }
    return Capture(json.dumps(document, allow_nan=False), writer.constants)


# ---------------------------------------------------------------- symbolic values
@functools.lru_cache(maxsize=4096)
def _expression_text(expression: sympy.Expr) -> str:
    return sympy.srepr(expression)  # slow, and a graph has few different sizes


def _float(value: float) -> float | str:
    """JSON has no words for the non-finite numbers; the schema spells them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


class _Numbers:
    """Writes numbers that may be symbolic, and notes the bounds of the integer symbols in them."""

    def __init__(self) -> None:
        self._seen: set[sympy.Expr] = set()
        self.ranges: Json = {}  # null where there is no bound

    def size(self, value: int | torch.SymInt) -> Json:
        """``as_int``, or ``as_expr`` with the text of the sympy expression."""
        if not isinstance(value, torch.SymInt):
            return {"as_int": int(value)}
        node = value.node
        if node.expr.is_number:
            return {"as_int": int(node.expr)}
        hint = node.hint if node.has_hint() else None
        return self._expression(node, None if hint is None else {"as_int": int(hint)})

    def truth(self, value: bool | torch.SymBool) -> Json:
        return {"as_bool": value} if isinstance(value, bool) else self._expression(value.node, None)

    def real(self, value: float | torch.SymFloat) -> Json:
        return {"as_float": _float(value)} if isinstance(value, float) else self._expression(value.node, None)

    def _expression(self, node: Any, hint: Json | None) -> Json:
        expression = node.expr
        if expression not in self._seen:
            self._seen.add(expression)
            self._note_ranges(expression, node.shape_env.var_to_range)
        return {"as_expr": {"expr_str": _expression_text(expression), "hint": hint}}

    def _note_ranges(self, expression: sympy.Expr, known: Any) -> None:
        for symbol in expression.free_symbols:
            limits = known.get(symbol)
            if limits is not None and limits.is_int:
                low, high = (int(b) if b.is_Integer else None for b in (limits.lower, limits.upper))
                self.ranges[symbol.name] = {"min_val": low, "max_val": high}


# ---------------------------------------------------------------- facts about inputs and nodes
def _static_inputs() -> frozenset[int]:
    """Positions, in the joint graph, of the inputs whose storage stays: parameters, buffers, module attributes."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    return frozenset(getattr(metadata, "static_input_indices", None) or ())


def _is_parameter(node: torch.fx.Node, static_inputs: frozenset[int]) -> bool:
    description = node.meta.get("desc")
    if type(description).__name__ in ("ParamAOTInput", "BufferAOTInput"):
        return True
    return getattr(description, "idx", None) in static_inputs and type(description).__name__ == "PlainAOTInput"


def _source(node: torch.fx.Node) -> str:
    """``model.py:17 in forward: y = torch.relu(x)``; backward nodes carry the line of their forward node."""
    matches = list(_SOURCE_LINE.finditer(node.meta.get("stack_trace") or ""))
    if not matches:
        return ""
    last = matches[-1]
    place = f"{os.path.basename(last['file'])}:{last['line']} in {last['function'].strip()}"
    return f"{place}: {last['code'].strip()}" if last["code"] else place


class _Writer:
    """Walks the nodes once; every method returns plain dicts of the schema."""

    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        self.module = graph_module
        self.numbers = _Numbers()
        self.graph: Json = {
            "inputs": [],
            "outputs": [],
            "nodes": [],
            "tensor_values": {},
            "sym_int_values": {},
            "sym_bool_values": {},
            "sym_float_values": {},
            "custom_obj_values": {},
            "is_single_tensor_return": False,
        }
        self.input_specs: list[Json] = []
        self.constants: list[torch.Tensor] = []
        self._constant_inputs: list[Json] = []
        self._names: dict[torch.fx.Node, str] = {}  # of nodes that stand for another node's output
        self._here = "graph"

    def write(self) -> None:
        static_inputs = _static_inputs()
        for node in self.module.graph.nodes:
            self._here = f"node '{node.name}' ({node.target})"
            if node.op == "placeholder":
                self._placeholder(node, _is_parameter(node, static_inputs))
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self.graph["outputs"] = [self._argument(a) for a in self._outputs(node)]
            else:
                raise CaptureError(f"{self._here}: nodes of kind {node.op!r} have no form in the schema")
        self.graph["inputs"] += self._constant_inputs

    @staticmethod
    def _outputs(node: torch.fx.Node) -> Sequence[Any]:
        returned = node.args[0]
        return returned if isinstance(returned, (list, tuple)) else [returned]

    # ------------------------------------------------------------ inputs
    def _placeholder(self, node: torch.fx.Node, is_parameter: bool) -> None:
        argument = self._define(node.name, node.meta.get("val"))
        self.graph["inputs"].append(argument)
        if is_parameter and "as_tensor" in argument:
            spec = {"parameter": {"arg": argument["as_tensor"], "parameter_name": node.name}}
        else:
            spec = {"user_input": {"arg": argument}}
        self.input_specs.append(spec)

    def _constant(self, node: torch.fx.Node) -> None:
        value = operator.attrgetter(str(node.target))(self.module)
        if not isinstance(value, torch.Tensor):
            raise CaptureError(f"{self._here}: an attribute of type {type(value).__name__} has no form in the schema")
        if isinstance(value, FakeTensor):
            raise CaptureError(f"{self._here}: a constant without data")
        if value.numel() <= 1 and value.device.type == "cpu" and not value.is_complex():
            self._literal(node, value)
            return
        argument = self._define(node.name, value)
        self._constant_inputs.append(argument)
        spec = {"arg": argument["as_tensor"], "tensor_constant_name": str(node.target)}
        self.input_specs.append({"tensor_constant": spec})
        self.constants.append(value)

    def _literal(self, node: torch.fx.Node, value: torch.Tensor) -> None:
        """A constant of one element, or none, needs no input: it is written as the ``full`` that makes it."""
        with unset_fake_temporarily():  # AOTAutograd compiles inside its fake mode
            fill = value.item() if value.numel() else 0
        arguments = {"size": list(value.shape), "fill_value": fill, "dtype": value.dtype}
        inputs = [{"name": k, "arg": self._argument(v), "kind": _POSITIONAL} for k, v in arguments.items()]
        self._append(node, "torch.ops.aten.full.default", inputs, [self._define(node.name, value)])

    # ------------------------------------------------------------ values
    def _tensor_meta(self, value: torch.Tensor) -> Json:
        layout, size = value.layout, self.numbers.size
        strided = layout == torch.strided
        return {
            "dtype": _DTYPES.get(value.dtype, _UNKNOWN),
            "sizes": [size(s) for s in value.shape],
            "requires_grad": value.requires_grad,
            "device": {"type": value.device.type, "index": value.device.index},
            "strides": [size(s) for s in value.stride()] if strided else [],
            "storage_offset": size(value.storage_offset()) if strided else {"as_int": 0},
            "layout": _LAYOUTS.get(layout, _UNKNOWN),
        }

    def _define(self, name: str, value: Any) -> Json:
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.Tensor):
            self.graph["tensor_values"][name] = self._tensor_meta(value)
            return {"as_tensor": {"name": name}}
        if isinstance(value, (bool, torch.SymBool)):
            self.graph["sym_bool_values"][name] = self.numbers.truth(value)
            return {"as_sym_bool": {"as_name": name}}
        if isinstance(value, (int, torch.SymInt)):
            self.graph["sym_int_values"][name] = self.numbers.size(value)
            return {"as_sym_int": {"as_name": name}}
        if isinstance(value, (float, torch.SymFloat)):
            self.graph["sym_float_values"][name] = self.numbers.real(value)
            return {"as_sym_float": {"as_name": name}}
        class_name = type(value).__name__
        self.graph["custom_obj_values"][name] = {"name": name, "class_fqn": class_name}
        return {"as_custom_obj": {"name": name, "class_fqn": class_name}}

    def _reference(self, node: torch.fx.Node) -> Json:
        name = self._names.get(node, node.name)
        for table, tag in (("sym_int_values", "as_sym_int"), ("sym_bool_values", "as_sym_bool"),
                           ("sym_float_values", "as_sym_float")):  # fmt: skip
            if name in self.graph[table]:
                return {tag: {"as_name": name}}
        if name in self.graph["tensor_values"]:
            return {"as_tensor": {"name": name}}
        if name in self.graph["custom_obj_values"]:
            return {"as_custom_obj": self.graph["custom_obj_values"][name]}
        if node.meta.get("val") is None:
            return {"as_none": True}
        raise CaptureError(f"{self._here}: the list '{name}' is used as a whole, which the schema cannot say")

    # ------------------------------------------------------------ arguments
    def _argument(self, value: Any) -> Json:
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.fx.Node):
            return self._reference(value)
        if isinstance(value, (list, tuple)):
            return self._list(value)
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, (int, torch.SymInt)):
            return self.numbers.size(value)
        if isinstance(value, float):
            return {"as_float": _float(value)}
        if isinstance(value, complex):
            return {"as_complex": {"real": _float(value.real), "imag": _float(value.imag)}}
        if isinstance(value, str):
            return {"as_string": value}
        return self._enumeration(value)

    def _enumeration(self, value: Any) -> Json:
        if isinstance(value, torch.dtype):
            return {"as_scalar_type": _DTYPES.get(value, _UNKNOWN)}
        if isinstance(value, torch.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, torch.layout):
            return {"as_layout": _LAYOUTS.get(value, _UNKNOWN)}
        if isinstance(value, torch.memory_format):
            return {"as_memory_format": _MEMORY_FORMATS.get(value, _UNKNOWN)}
        if isinstance(value, torch._ops.OpOverload):
            return {"as_operator": self._target(value)}
        raise CaptureError(f"{self._here}: an argument of type {type(value).__name__} has no form in the schema")

    def _list(self, values: Sequence[Any]) -> Json:
        items = [self._argument(v) for v in values]
        tags = {next(iter(item)) for item in items}
        if not tags:
            return {"as_ints": []}
        if tags == {"as_tensor"}:
            return {"as_tensors": [item["as_tensor"] for item in items]}
        if tags <= {"as_tensor", "as_none"}:
            return {"as_optional_tensors": items}
        if "as_sym_int" in tags and tags <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [item.get("as_sym_int", item) for item in items]}
        if len(tags) == 1 and tags <= {"as_int", "as_float", "as_bool", "as_string"}:
            tag = tags.pop()
            return {f"{tag}s": [item[tag] for item in items]}
        if tags <= {"as_int", "as_float"}:
            return {"as_floats": [_float(float(v)) for v in values]}
        raise CaptureError(f"{self._here}: a list that mixes {', '.join(sorted(tags))} has no form in the schema")

    # ------------------------------------------------------------ nodes
    def _target(self, target: Any) -> str:
        if isinstance(target, torch._ops.OpOverload):
            name = target._schema.name.split("::")[1]
            return f"torch.ops.{target.namespace}.{name}.{target._overloadname}"
        if isinstance(target, torch._ops.HigherOrderOperator):
            return f"torch.ops.higher_order.{target._name}"
        module = getattr(target, "__module__", "")
        if module in ("_operator", "math") or module.startswith("torch"):
            return f"{module}.{target.__name__}"
        raise CaptureError(f"{self._here}: a call of {target!r} has no form in the schema")

    def _call(self, node: torch.fx.Node) -> None:
        if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
            if isinstance(node.args[0].meta.get("val"), (list, tuple)):
                return  # written as an output of the node it reads
        target = self._target(node.target)
        self._append(node, target, self._inputs(node), self._results(node))

    def _inputs(self, node: torch.fx.Node) -> list[Json]:
        if isinstance(node.target, torch._ops.OpOverload):
            names = [argument.name for argument in node.target._schema.arguments]
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            names = [f"arg{i}" for i in range(len(node.args))]
        else:
            names = list(inspect.signature(node.target).parameters)
        pairs = [(name, value, _POSITIONAL) for name, value in zip(names, node.args)]
        pairs += [(name, value, _KEYWORD) for name, value in node.kwargs.items()]
        return [{"name": name, "arg": self._argument(value), "kind": kind} for name, value, kind in pairs]

    def _results(self, node: torch.fx.Node) -> list[Json]:
        value = node.meta.get("val")
        if not isinstance(value, (list, tuple)):
            return [] if value is None else [self._define(node.name, value)]
        users: dict[int, list[torch.fx.Node]] = {}
        for user in node.users:
            if user.target is operator.getitem:
                users.setdefault(user.args[1], []).append(user)
        outputs = []
        for i, item in enumerate(value):
            name = users[i][0].name if i in users else f"{node.name}_unused_{i}"
            self._names.update((user, name) for user in users.get(i, ()))
            outputs.append(self._define(name, item))
        if isinstance(node.target, torch._ops.OpOverload) and len(node.target._schema.returns) == 1:
            return [{"as_tensors": [output["as_tensor"] for output in outputs]}]
        return outputs

    def _append(self, node: torch.fx.Node, target: str, inputs: list[Json], outputs: list[Json]) -> None:
        source = _source(node)
        self.graph["nodes"].append(
            {
                "target": target,
                "inputs": inputs,
                "outputs": outputs,
                "metadata": {"source": source} if source else {},
                "is_hop_single_tensor_return": None,
                "name": node.name,
            }
        )
