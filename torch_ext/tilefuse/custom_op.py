"""``tilefuse.op``: a plain PyTorch function becomes an operator with fused kernels.

    @tilefuse.op("mylib::scaled_tanh")
    def scaled_tanh(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return torch.tanh(x * scale)

A call finds its kernel in C++ (torch_ext/user_op.h). For dtypes, sizes or scalars not seen before it asks back: the
function is traced through AOTAutograd, the engine compiles the graph, and the next call of the kind finds it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import os
import re
import threading
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.attention import SDPBackend, sdpa_kernel

from tilefuse.backend import compile_captured
from tilefuse.defined_ops import by_target
from tilefuse.errors import UserError, warn_once
from tilefuse.library import operators
from tilefuse.options import Options
from tilefuse.saved_ops import saved_call, write
from tilefuse.specialise import NotSymbolic, Sizes, scalars_of, tensors_of, trace_backward, trace_forward, with_tensors

__all__ = ["CustomOp", "decompositions", "op", "save_ops"]

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_DEVICES = ("cuda", "cpu")  # that kernels are made for; whose autocast rule holds on both: the first one's
_AUTOCAST = {None: "", "lower": "lower", torch.float32: "float"}
_MOST_SPECIALISATIONS = 64  # of one operator: then its scalars vary more than kernels pay for
_MOST_TENSORS = 62  # gradients are asked for by the bits of an int

_defined: dict[str, CustomOp] = {}  # by name
_library = functools.cache(lambda space="tilefuse_python": torch.library.Library(space, "FRAGMENT"))


def op(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    autocast: str | torch.dtype | None = None,
    dynamic: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a plain PyTorch function of annotated signature as the operator ``name``, "library::name".

    What comes back is called as the function was: in eager code, under ``torch.compile`` with any backend (with
    ``"tilefuse"`` it dissolves into the graph around it), in ``torch.export``; ``torch.ops.library.name`` is the same
    operator. Its attribute ``plain`` is the function.

    ``options`` are those of the backend. ``autocast``: None, it computes with the dtypes that it is given; ``"lower"``,
    floating arguments become the dtype that autocast is for; ``torch.float32``. ``dynamic``: sizes are symbols from the
    first call on, instead of from the second size on.

    The function may not change its arguments, draw random numbers or look at the values of tensors.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"tilefuse.op: a name has the form library::name, got {name!r}")
    if autocast not in _AUTOCAST:
        raise UserError(f"tilefuse.op: autocast wants None, 'lower' or torch.float32, got {autocast!r}")
    settings = Options.parse(options=options)

    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        definition = CustomOp(name, function, settings, _AUTOCAST[autocast], dynamic)
        _register(definition)
        overload = definition.overload

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return overload(*args, **kwargs)

        call.plain = function  # type: ignore[attr-defined]
        call.op = overload  # type: ignore[attr-defined]
        return call

    return define


def save_ops(path: str | os.PathLike[str], *ops: Callable[..., Any]) -> int:
    """Writes operators with the kernels they have by now, for a process without Python; returns how many these are.

    There ``torch.ops.load_library`` (or dlopen) loads the library and the operator ``tilefuse::load_ops`` this file.
    """
    definitions = [_defined.get(str(getattr(getattr(each, "op", None), "_name", "")).partition(".")[0]) for each in ops]
    if None in definitions:
        raise UserError(f"tilefuse.save_ops: {ops[definitions.index(None)]!r} is no operator of tilefuse.op")
    return write(path, [definition for definition in definitions if definition is not None])


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Every operator's plain function, for ``exported_program.run_decompositions``."""
    return {definition.overload: definition.inlined for definition in _defined.values()}


@dataclasses.dataclass(eq=False)
class CustomOp:
    """One definition; a second one of the same name and schema takes its place."""

    name: str
    function: Callable[..., Any]
    settings: Options
    autocast: str
    dynamic: bool

    def __post_init__(self) -> None:
        self.python_name = self.name.replace("::", "__")
        self.schema = _schema(self.name, self.function)
        self.backward_schema = _backward_schema(self.name, self.function)
        parameters = inspect.signature(self.function).parameters.values()
        self._keywords = [p.name for p in parameters if p.kind == inspect.Parameter.KEYWORD_ONLY]
        self._positional = len(parameters) - len(self._keywords)
        self._sizes = {"": Sizes(self.dynamic), "_backward": Sizes(self.dynamic)}
        self._lock = threading.RLock()
        self.saved: list[dict[str, Any]] = []  # what save_ops writes of each kernel

    @property
    def overload(self) -> torch._ops.OpOverload:
        return _packet(self.name).default

    # ------------------------------------------------------------ the plain function
    def plain(self, *args: Any, **kwargs: Any) -> Any:
        """The function's results as an operator's: none is an argument or shares memory with one or another."""
        arguments = [t for t in tensors_of((*args, *kwargs.values())) if t.layout == torch.strided]
        seen = {StorageWeakRef(t.untyped_storage()) for t in arguments}

        def fresh(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                raise UserError(f"{self.name}: the function returned {type(value).__name__} where a tensor is declared")
            if value.layout != torch.strided:
                return value.clone() if any(value is argument for argument in args) else value
            storage = StorageWeakRef(value.untyped_storage())
            if storage not in seen:
                seen.add(storage)
                return value
            return value.clone()

        kwargs |= zip(self._keywords, args[self._positional :])  # C++ passes all by position
        result = self.function(*args[: self._positional], **kwargs)
        return tuple(map(fresh, result)) if isinstance(result, (tuple, list)) else fresh(result)

    def inlined(self, *args: Any, **kwargs: Any) -> Any:
        """As ``plain``, with the autocast rule of the operator: for graphs that it dissolves into."""
        enabled = [device for device in _DEVICES if torch.is_autocast_enabled(device)]
        given = {tensor.device.type for tensor in tensors_of((*args, *kwargs.values()))}
        device = next((device for device in enabled if device in given), None)
        if self.autocast and device is not None:
            to = torch.get_autocast_dtype(device) if self.autocast == "lower" else torch.float32
            args = tuple(_cast(value, to, device) for value in args)
            kwargs = {name: _cast(value, to, device) for name, value in kwargs.items()}
        with contextlib.ExitStack() as without:
            for each in enabled:
                without.enter_context(torch.autocast(each, enabled=False))
            return self.plain(*args, **kwargs)

    def backward(self, *args: Any) -> list[torch.Tensor]:
        """The gradients of the backward operator, by PyTorch."""
        *arguments, grads, wanted = args
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_(bool(wanted >> i & 1)) for i, t in enumerate(tensors_of(arguments))]
            outputs = self._outputs(*with_tensors(arguments, leaves))
            pairs = [(o, g) for o, g in zip((o for o in outputs if o.is_floating_point()), grads) if o.requires_grad]
            inputs = [leaf for leaf in leaves if leaf.requires_grad]
            made = torch.autograd.grad(
                [o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True, materialize_grads=True
            )  # fmt: skip
        return [torch.empty_like(leaf).copy_(grad) for leaf, grad in zip(inputs, made)]

    def _outputs(self, *args: Any) -> tuple[torch.Tensor, ...]:
        result = self.plain(*args)
        return result if isinstance(result, tuple) else (result,)

    # ------------------------------------------------------------ derivatives that no kernel makes
    def derivable(self, suffix: str, args: Sequence[Any]) -> Any:
        """The function, or its gradients, in operators of PyTorch, which know every further derivative."""
        # torch's fused attention has one derivative, and none forwards; what it is made of has all.
        with sdpa_kernel(SDPBackend.MATH):
            return self._derivable_gradients(*args) if suffix else self.derivable_results(*args)

    def derivable_results(self, *args: Any, **kwargs: Any) -> Any:
        kwargs |= zip(self._keywords, args[self._positional :])
        result = self.function(*args[: self._positional], **kwargs)
        given = tensors_of((*args, *kwargs.values()))

        def fresh(value: torch.Tensor) -> torch.Tensor:
            return value.clone() if value._is_view() or any(value is argument for argument in given) else value

        return tuple(map(fresh, result)) if isinstance(result, (tuple, list)) else fresh(result)

    def _derivable_gradients(self, *args: Any) -> list[torch.Tensor]:
        *arguments, grads, wanted = args
        # Views: what one argument has to do with another is no business of this gradient.
        leaves = [t.view_as(t) if t.requires_grad else t for t in tensors_of(arguments)]
        inputs = [leaf for i, leaf in enumerate(leaves) if wanted >> i & 1]
        for leaf in inputs:
            leaf.requires_grad_()
        result = self.derivable_results(*with_tensors(arguments, leaves))
        outputs = [o for o in (result if isinstance(result, tuple) else (result,)) if o.is_floating_point()]
        pairs = [(o, g) for o, g in zip(outputs, grads) if o.requires_grad]
        return list(
            torch.autograd.grad(
                [o for o, _ in pairs], inputs, [g for _, g in pairs],
                create_graph=True, allow_unused=True, materialize_grads=True,
            )
        )  # fmt: skip

    # ------------------------------------------------------------ what C++ asks for
    def specialise(self, suffix: str, args: Sequence[Any]) -> tuple[str, list[torch.Tensor]]:
        """Answers torch_ext/user_op.h."""
        with self._lock, torch.no_grad():
            return self._specialise(suffix, args)

    def _specialise(self, suffix: str, args: Sequence[Any]) -> tuple[str, list[torch.Tensor]]:
        tensors = tensors_of(args)
        other = next((t for t in tensors if t.device.type not in _DEVICES or t.layout != torch.strided or t.is_conj()), None)
        if other is not None:
            warn_once(f"tilefuse: {self.name} runs as plain PyTorch on {other.device.type} {other.layout} tensors")
            return "{}", []
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return self._plain_while_capturing()
        if operators().op_specialisations(self.name + suffix) >= _MOST_SPECIALISATIONS:
            warn_once(
                f"tilefuse: {self.name} has kernels for {_MOST_SPECIALISATIONS} kinds of arguments; others run as plain "
                f"PyTorch. Scalars count by their value ({scalars_of(args)}): pass what varies as a tensor"
            )
            return "{}", []
        inputs = len(tensors_of(args[:-2] if suffix else args))
        try:
            return self._compiled(suffix, args, self._sizes[suffix].patterns(args, inputs))
        except NotSymbolic:
            return self._compiled(suffix, args, Sizes(False).patterns(args, inputs))

    def _compiled(self, suffix: str, args: Sequence[Any], patterns: list[dict[str, Any]]) -> tuple[str, list[torch.Tensor]]:
        trace = trace_backward if suffix else trace_forward
        is_static = not any(-1 in pattern["sizes"] for pattern in patterns)
        try:
            traced = trace(self.name, self.plain, args, patterns)
            answer, captured = compile_captured(traced.module, self.python_name + suffix, self.settings)
        except (UserError, NotSymbolic):
            raise
        except Exception as error:  # noqa: BLE001 - whatever tracing meets in the user's function
            if not is_static:
                raise NotSymbolic(str(error)) from error
            return self._plain_from_now_on(suffix, args, f"{type(error).__name__}: {error}", patterns)
        if answer["op"] is None:
            if not is_static:
                raise NotSymbolic(answer["fallback_reason"])
            return self._plain_from_now_on(suffix, args, answer["fallback_reason"], patterns)
        pattern = {"tensors": patterns, "symbols": traced.symbols, "guards": traced.guards}
        pattern |= self.settings.of_gpu_products({t.device.type for t in tensors_of(args)})
        if not captured.constants:  # their data is in no file
            self.saved.append(saved_call(self.name + suffix, captured.json, self.settings, args) | pattern)
        return json.dumps({"graph": answer["op"], **pattern}), captured.constants

    def _plain_while_capturing(self) -> tuple[str, list[torch.Tensor]]:
        reason = (
            f"{self.name} has no kernel for a call of this kind yet, and none can be made while a CUDA graph is captured: "
            "call it once with such arguments before"
        )
        if self.settings.strict:
            raise UserError(reason)
        warn_once(f"tilefuse: the graph holds PyTorch's operators: {reason}")
        return "{}", []

    def _plain_from_now_on(
        self, suffix: str, args: Sequence[Any], reason: str, patterns: list[dict[str, Any]]
    ) -> tuple[str, list[torch.Tensor]]:
        self.run_plain(suffix, args)  # arguments that the function itself refuses are its error to raise
        if self.settings.strict:
            raise UserError(f"{self.name} cannot be compiled: {reason}")
        warn_once(f"tilefuse: {self.name} runs as plain PyTorch: {reason}")
        return json.dumps({"graph": None, "tensors": patterns, "symbols": [], "guards": []}), []

    def run_plain(self, suffix: str, args: Sequence[Any]) -> Any:
        if suffix:
            return self.backward(*args)
        with torch.no_grad():
            return self.plain(*with_tensors(args, [t.detach() for t in tensors_of(args)]))


def _cast(value: Any, to: torch.dtype, device: str) -> Any:
    is_tensor = isinstance(value, torch.Tensor) and value.device.type == device
    return value.to(to) if is_tensor and value.is_floating_point() and value.dtype != torch.float64 else value


# ---------------------------------------------------------------- schemas and registration
def _prototype(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """A function of that signature, for torch to read a schema from; its annotations are words of the same file."""
    empty = types.FunctionType((lambda: None).__code__, inspect.unwrap(function).__globals__, function.__name__)
    empty.__signature__ = signature  # type: ignore[attr-defined]
    return empty


def _schema(name: str, function: Callable[..., Any]) -> str:
    try:
        text = torch.library.infer_schema(_prototype(function, inspect.signature(function)), mutates_args=())
    except ValueError as error:  # torch's own sentence, without the list of all types that it knows
        reason = str(error).removeprefix("infer_schema(func): ").partition(". The valid types")[0]
        raise UserError(f"tilefuse.op: {name}: {reason}; docs/custom_ops.md says what arguments and results may be") from error
    parsed = torch._C.parse_schema(f"{name}{text}")
    if not any("Tensor" in str(argument.type) for argument in parsed.arguments):
        raise UserError(f"tilefuse.op: {name} has no tensor among its arguments")
    if len(parsed.arguments) > _MOST_TENSORS:
        raise UserError(f"tilefuse.op: {name} has {len(parsed.arguments)} arguments, {_MOST_TENSORS} are the most")
    if not parsed.returns or any(str(result.type) != "Tensor" for result in parsed.returns):
        raise UserError(f"tilefuse.op: {name} must be annotated to return a Tensor or a tuple of Tensors")
    return f"{name}{text}"


def _backward_schema(name: str, function: Callable[..., Any]) -> str:
    positional, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    given = [p.replace(kind=positional, default=empty) for p in inspect.signature(function).parameters.values()]
    added = [
        inspect.Parameter("output_grads", positional, annotation=typing.List[torch.Tensor]),  # noqa: UP006 - schema text
        inspect.Parameter("wanted_grads", positional, annotation=int),
    ]
    signature = inspect.Signature([*given, *added], return_annotation=typing.List[torch.Tensor])  # noqa: UP006
    return f"{name}_backward{torch.library.infer_schema(_prototype(function, signature), mutates_args=())}"


def _packet(name: str) -> torch._ops.OpOverloadPacket:
    space, _, short = name.partition("::")
    return getattr(getattr(torch.ops, space), short)


def _register(definition: CustomOp) -> None:
    name = definition.name
    known = _defined.get(name)
    if known is not None:
        if (known.schema, known.autocast) != (definition.schema, definition.autocast):
            raise UserError(
                f"tilefuse.op: {name} is defined already, as {known.schema}: an operator keeps its schema and autocast "
                "rule as long as the process"
            )
        _defined[name] = definition
        for each in (name, f"{name}_backward"):
            operators().forget_op(each)
    else:
        _define(definition)
        _defined[name] = definition
    for target in (definition.overload, _packet(name)):
        by_target[target] = definition


def _define(definition: CustomOp) -> None:
    name, backward = definition.name, f"{definition.name}_backward"
    try:
        operators().define_op(
            definition.schema, definition.python_name, definition.backward_schema, definition.autocast
        )  # fmt: skip
    except ValueError as error:
        raise UserError(f"tilefuse.op: {error}") from None
    torch.library.register_fake(name, lambda *args, **kwargs: _defined[name].plain(*args, **kwargs))
    torch.library.register_fake(backward, _fake_backward)
    # vmap sees the function's operators in its place, and knows how to batch them.
    space = name.partition("::")[0]
    _library(space).impl(name, lambda *args, **kwargs: _defined[name].derivable_results(*args, **kwargs), "FuncTorchBatched")
    for suffix, schema in (("", definition.schema), ("_backward", definition.backward_schema)):
        arguments, returns = schema.partition("(")[2].rpartition(") -> ")[::2]
        _ask_python(name, suffix, f"{definition.python_name}{suffix}", arguments, returns)


def _fake_backward(*args: Any) -> list[torch.Tensor]:
    *arguments, _, wanted = args
    return [torch.empty_like(t) for i, t in enumerate(tensors_of(arguments)) if wanted >> i & 1]


def _ask_python(name: str, suffix: str, python_name: str, arguments: str, returns: str) -> None:
    """The operators by which C++ asks back. Keyword-only arguments come as the others do."""
    arguments = arguments.replace("*, ", "")
    library = _library()
    library.define(f"{python_name}_specialise({arguments}) -> (str, Tensor[])")
    library.define(f"{python_name}_plain({arguments}) -> {returns}")
    library.define(f"{python_name}_derivable({arguments}) -> {returns}")
    key = "CompositeImplicitAutograd"
    library.impl(f"{python_name}_specialise", lambda *args: _defined[name].specialise(suffix, args), key)
    library.impl(f"{python_name}_plain", lambda *args: _defined[name].run_plain(suffix, args), key)
    library.impl(f"{python_name}_derivable", lambda *args: _defined[name].derivable(suffix, args), key)
