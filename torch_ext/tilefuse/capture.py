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
import operator
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from tilefuse.held_calls import NAMESPACE, GraphCompiler, attribute_of, has_tokens, hold, needs_holding
from tilefuse.schema_text import Argument, Numbers, enumeration, joined, quoted, real_text, tagged, tensor_meta

__all__ = ["Capture", "CaptureError", "capture"]

SCHEMA_MAJOR, SCHEMA_MINOR = 8, 17

_NONE: Argument = ("as_none", "true")
_POSITIONAL, _KEYWORD = 1, 2
_CONTAINERS = (list, tuple, dict)
_TABLES = ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values")
_SOURCE_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]+)(?:\n\s*(?P<code>[^\n]+))?')


class CaptureError(RuntimeError):
    """A graph holds something that the schema has no form for; the message names the node."""


@dataclasses.dataclass(frozen=True)
class Capture:
    """A captured graph. ``constants`` are the tensors for the inputs that follow the graph's placeholders, ``held`` the
    operators that were made for nodes of this graph (see ``held_calls``), ``nones`` the positions of inputs that are None:
    they count as sizes."""

    json: str
    constants: list[torch.Tensor]
    held: list[str]
    nones: list[int]


def capture(
    graph_module: torch.fx.GraphModule, *, name: str = "graph", compile_graph: GraphCompiler | None = None
) -> Capture:
    """Writes one graph. Call it inside the compiler that AOTAutograd calls, where the tracing context is set.
    ``compile_graph`` makes functions of the graphs that its nodes hold; None: they run as captured."""
    writer = _Writer(graph_module, compile_graph)
    writer.write()
    rest = {
        "opset_version": {"aten": 10},
        "range_constraints": dict(sorted(writer.numbers.ranges.items())),
        "schema_version": {"major": SCHEMA_MAJOR, "minor": SCHEMA_MINOR},
        "torch_version": torch.__version__,
    }
    module = (
        f'{{"graph": {writer.graph_text()}, '
        f'"signature": {{"input_specs": {joined(writer.input_specs)}, "output_specs": []}}, '
        f'"module_call_graph": [], "metadata": {{"name": {quoted(name)}}}}}'
    )
    return Capture(f'{{"graph_module": {module}, {json.dumps(rest)[1:]}', writer.constants, writer.held, writer.nones)


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


@functools.lru_cache(maxsize=1024)
def _source_of(stack_trace: str) -> str:
    """The last frame. Many nodes come from one line, and a trace is long."""
    last = _SOURCE_LINE.search(stack_trace, max(stack_trace.rfind('File "'), 0))
    if last is None:
        return ""
    place = f"{os.path.basename(last['file'])}:{last['line']} in {last['function'].strip()}"
    return f"{place}: {last['code'].strip()}" if last["code"] else place


def _source(node: torch.fx.Node) -> str:
    """``model.py:17 in forward: y = torch.relu(x)``; backward nodes carry the line of their forward node."""
    return _source_of(node.meta.get("stack_trace") or "")


@functools.lru_cache(maxsize=1024)
def _parameter_names(target: Any) -> tuple[str, ...] | None:
    """Quoted; None for an operator that has no signature."""
    if isinstance(target, torch._ops.OpOverload):
        return tuple(quoted(argument.name) for argument in target._schema.arguments)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return None
    return tuple(quoted(name) for name in inspect.signature(target).parameters)


@functools.lru_cache(maxsize=1024)
def _target_name(target: Any) -> str | None:
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.split("::")[1]
        return f"torch.ops.{target.namespace}.{name}.{target._overloadname}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target._name}"
    module = getattr(target, "__module__", "")
    if module in ("_operator", "math") or module.startswith("torch"):
        return f"{module}.{target.__name__}"
    return None


class _Writer:
    """Walks the nodes once; what the methods return is text of the schema."""

    def __init__(self, graph_module: torch.fx.GraphModule, compile_graph: GraphCompiler | None) -> None:
        self.module = graph_module
        self.numbers = Numbers()
        self.input_specs: list[str] = []
        self.constants: list[torch.Tensor] = []
        self.held: list[str] = []
        self.nones: list[int] = []
        self._compile_graph = compile_graph
        self._inputs: list[str] = []
        self._constant_inputs: list[str] = []
        self._outputs = "[]"
        self._nodes: list[str] = []
        self._values: dict[str, list[str]] = {table: [] for table in _TABLES}  # '"name": value'
        self._arguments: dict[str, Argument] = {}  # what stands for a value that was defined, by name
        self._names: dict[torch.fx.Node, str] = {}  # of nodes that stand for another node's output
        self._node: torch.fx.Node | None = None

    def graph_text(self) -> str:
        tables = ", ".join(f'"{table}": {{{", ".join(rows)}}}' for table, rows in self._values.items())
        return (
            f'{{"inputs": {joined(self._inputs + self._constant_inputs)}, "outputs": {self._outputs}, '
            f'"nodes": {joined(self._nodes)}, {tables}, "is_single_tensor_return": false}}'
        )

    def write(self) -> None:
        static_inputs = _static_inputs()
        for node in self.module.graph.nodes:
            self._node = node
            if node.op == "placeholder":
                self._placeholder(node, _is_parameter(node, static_inputs))
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                returned = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
                self._outputs = joined([tagged(self._argument(value)) for value in returned])
            else:
                raise self._error(f"nodes of kind {node.op!r} have no form in the schema")

    def _error(self, message: str) -> CaptureError:
        where = "graph" if self._node is None else f"node '{self._node.name}' ({self._node.target})"
        return CaptureError(f"{where}: {message}")

    # ------------------------------------------------------------ inputs
    def _placeholder(self, node: torch.fx.Node, is_parameter: bool) -> None:
        is_token = any(has_tokens(user) and user.args[0] is node for user in node.users)
        argument = self._define(node.name, None if is_token else node.meta.get("val"))
        if argument == _NONE:
            self.nones.append(len(self._inputs))
        self._inputs.append(tagged(argument))
        if is_parameter and argument[0] == "as_tensor":
            spec = f'{{"parameter": {{"arg": {argument[1]}, "parameter_name": {quoted(node.name)}}}}}'
        else:
            spec = f'{{"user_input": {{"arg": {tagged(argument)}}}}}'
        self.input_specs.append(spec)

    def _constant(self, node: torch.fx.Node) -> None:
        value = attribute_of(node)
        if not isinstance(value, torch.Tensor):
            return  # of the nodes that hold it
        if isinstance(value, FakeTensor):
            raise self._error("a constant without data")
        if value.numel() <= 1 and value.device.type == "cpu" and not value.is_complex():
            self._literal(node, value)
            return
        argument = self._define(node.name, value)
        self._constant_inputs.append(tagged(argument))
        name = quoted(str(node.target))
        self.input_specs.append(f'{{"tensor_constant": {{"arg": {argument[1]}, "tensor_constant_name": {name}}}}}')
        self.constants.append(value)

    def _literal(self, node: torch.fx.Node, value: torch.Tensor) -> None:
        """A constant of one element, or none, needs no input: it is written as the ``full`` that makes it."""
        with unset_fake_temporarily():  # AOTAutograd compiles inside its fake mode
            fill = value.item() if value.numel() else 0
        arguments = {"size": list(value.shape), "fill_value": fill, "dtype": value.dtype}
        inputs = [self._input(quoted(name), argument, _POSITIONAL) for name, argument in arguments.items()]
        self._append(node, "torch.ops.aten.full.default", inputs, [self._define(node.name, value)])

    # ------------------------------------------------------------ values
    def _define(self, name: str, value: Any) -> Argument:
        if value is None:
            self._arguments[name] = _NONE
            return _NONE
        if isinstance(value, torch.Tensor):
            table, written = "tensor_values", tensor_meta(value, self.numbers)
            argument = ("as_tensor", f'{{"name": "{name}"}}')
        elif isinstance(value, (bool, torch.SymBool)):
            table, written = "sym_bool_values", tagged(self.numbers.truth(value))
            argument = ("as_sym_bool", f'{{"as_name": "{name}"}}')
        elif isinstance(value, (int, torch.SymInt)):
            table, written = "sym_int_values", tagged(self.numbers.size(value))
            argument = ("as_sym_int", f'{{"as_name": "{name}"}}')
        elif isinstance(value, (float, torch.SymFloat)):
            table, written = "sym_float_values", tagged(self.numbers.real(value))
            argument = ("as_sym_float", f'{{"as_name": "{name}"}}')
        else:
            table, written = "custom_obj_values", f'{{"name": "{name}", "class_fqn": {quoted(type(value).__name__)}}}'
            argument = ("as_custom_obj", written)
        self._values[table].append(f'"{name}": {written}')
        self._arguments[name] = argument
        return argument

    def _reference(self, node: torch.fx.Node) -> Argument:
        name = self._names.get(node, node.name)
        found = self._arguments.get(name)
        if found is not None:
            return found
        if node.op == "get_attr":
            raise self._error(f"the attribute '{node.target}' has no form in the schema")
        if node.meta.get("val") is None:
            return _NONE
        raise self._error(f"the list '{name}' is used as a whole, which the schema cannot say")

    # ------------------------------------------------------------ arguments
    def _argument(self, value: Any) -> Argument:
        if isinstance(value, torch.fx.Node):
            return self._reference(value)
        if value is None:
            return _NONE
        if isinstance(value, (list, tuple)):
            return self._list(value)
        if isinstance(value, bool):
            return self.numbers.truth(value)
        if isinstance(value, (int, torch.SymInt)):
            return self.numbers.size(value)
        if isinstance(value, float):
            return "as_float", real_text(value)
        if isinstance(value, complex):
            return "as_complex", f'{{"real": {real_text(value.real)}, "imag": {real_text(value.imag)}}}'
        if isinstance(value, str):
            return "as_string", quoted(value)
        if isinstance(value, torch._ops.OpOverload):
            return "as_operator", quoted(self._target(value))
        written = enumeration(value)
        if written is None:
            raise self._error(f"an argument of type {type(value).__name__} has no form in the schema")
        return written

    def _list(self, values: Sequence[Any]) -> Argument:
        items = [self._argument(v) for v in values]
        tags = {tag for tag, _ in items}
        if not tags:
            return "as_ints", "[]"
        if tags == {"as_tensor"}:
            return "as_tensors", joined([body for _, body in items])
        if tags <= {"as_tensor", "as_none"}:
            return "as_optional_tensors", joined([tagged(item) for item in items])
        if "as_sym_int" in tags and tags <= {"as_int", "as_sym_int"}:
            return "as_sym_ints", joined([item[1] if item[0] == "as_sym_int" else tagged(item) for item in items])
        if len(tags) == 1 and tags <= {"as_int", "as_float", "as_bool", "as_string"}:
            return f"{tags.pop()}s", joined([body for _, body in items])
        if tags <= {"as_int", "as_float"}:
            return "as_floats", joined([real_text(float(v)) for v in values])
        raise self._error(f"a list that mixes {', '.join(sorted(tags))} has no form in the schema")

    # ------------------------------------------------------------ nodes
    def _target(self, target: Any) -> str:
        name = _target_name(target)
        if name is None:
            raise self._error(f"a call of {target!r} has no form in the schema")
        return name

    def _call(self, node: torch.fx.Node) -> None:
        if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
            if isinstance(node.args[0].meta.get("val"), _CONTAINERS):
                return  # written as an output of the node it reads
        if self._is_plain_effect(node):
            return self._effect(node)
        if needs_holding(node):
            return self._hold(node)
        names = _parameter_names(node.target) or [f'"arg{i}"' for i in range(len(node.args))]
        self._append(node, self._target(node.target), self._inputs_of(names, node.args, node.kwargs), self._results(node))

    def _inputs_of(self, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        inputs = [self._input(name, value, _POSITIONAL) for name, value in zip(names, args)]
        return inputs + [self._input(quoted(name), value, _KEYWORD) for name, value in kwargs.items()]

    def _input(self, name: str, value: Any, kind: int) -> str:
        return f'{{"name": {name}, "arg": {tagged(self._argument(value))}, "kind": {kind}}}'

    @staticmethod
    def _is_plain_effect(node: torch.fx.Node) -> bool:
        """An operator that gives nothing, with its tokens."""
        return has_tokens(node) and isinstance(node.args[1], torch._ops.OpOverload) and not node.args[1]._schema.returns

    def _effect(self, node: torch.fx.Node) -> None:
        """The operator alone: the engine keeps the order of effects, and needs no token for it."""
        _, target, *args = node.args
        names = _parameter_names(target) or []
        self._results(node)
        self._append(node, self._target(target), self._inputs_of(names, args, node.kwargs), [])

    def _hold(self, node: torch.fx.Node) -> None:
        name, held = hold(node, self._compile_graph)
        self.held.append(name)
        inputs = self._inputs_of(('"tensors"', '"sizes"'), (held.tensors, held.sizes), {})
        self._append(node, f"torch.ops.{NAMESPACE}.{name}.default", inputs, self._results(node))

    def _results(self, node: torch.fx.Node) -> list[Argument]:
        value = node.meta.get("val")
        if not isinstance(value, _CONTAINERS):
            return [] if value is None else [self._define(node.name, value)]
        if has_tokens(node):
            value = (None, *value[1:])
        outputs = [self._define(name, item) for name, item in self._items([node], node.name, value)]
        if isinstance(node.target, torch._ops.OpOverload) and len(node.target._schema.returns) == 1:
            return [("as_tensors", joined([body for _, body in outputs]))]
        return outputs if any(output != _NONE for output in outputs) else []

    def _items(self, nodes: Sequence[torch.fx.Node], name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """What lies in a list or dict that ``nodes`` give, and in lists in there, with the name of the first getitem of it."""
        users: dict[Any, list[torch.fx.Node]] = {}
        for node in nodes:
            for user in node.users:
                if user.target is operator.getitem:
                    users.setdefault(user.args[1], []).append(user)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            readers = users.get(key, [])
            if isinstance(item, _CONTAINERS):
                yield from self._items(readers, f"{name}_{key}", item)
                continue
            shown = readers[0].name if readers else f"{name}_unused_{key}"
            self._names.update((reader, shown) for reader in readers)
            yield shown, item

    def _append(self, node: torch.fx.Node, target: str, inputs: list[str], outputs: list[Argument]) -> None:
        source = _source(node)
        metadata = f'{{"source": {quoted(source)}}}' if source else "{}"
        self._nodes.append(
            f'{{"target": {quoted(target)}, "inputs": {joined(inputs)}, '
            f'"outputs": {joined([tagged(output) for output in outputs])}, "metadata": {metadata}, '
            f'"is_hop_single_tensor_return": null, "name": "{node.name}"}}'
        )
