"""The backend of ``torch.compile(model, backend="tilefuse")``.

AOTAutograd splits the captured graph into forward and backward; each goes through the same path: capture to JSON,
the C++ engine, one operator to call. What cannot be compiled runs as captured, with a warning that says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from tilefuse.capture import Capture, CaptureError, capture
from tilefuse.complex_pairs import remove_round_trips
from tilefuse.cuda_graphs import CudaGraphs
from tilefuse.defined_ops import dissolve
from tilefuse.direct import DirectCall
from tilefuse.errors import UserError, warn_once
from tilefuse.held_calls import forget
from tilefuse.library import operators
from tilefuse.options import Options
from tilefuse.pins import see_pins
from tilefuse.trace_rules import trace_rules

__all__ = ["CompiledGraph", "backend", "collect_graphs", "compile_captured", "compile_graph", "regions_of"]

BoxedFunction = Callable[[list[Any]], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class CompiledGraph:
    """What became of one graph: ``answer`` is the library's (see torch_ext/library.h)."""

    role: str  # "inference", "forward", "backward", "inner" for a graph that a node of another holds, or a custom operator's name
    graph_json: str
    answer: Mapping[str, Any]
    milliseconds: float  # own time, capture included


_collectors: list[list[CompiledGraph]] = []


@contextlib.contextmanager
def collect_graphs() -> Iterator[list[CompiledGraph]]:
    """Collects the graphs compiled inside the ``with`` block."""
    graphs: list[CompiledGraph] = []
    _collectors.append(graphs)
    try:
        yield graphs
    finally:
        _collectors.remove(graphs)


def backend(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles one Dynamo graph; torch calls this. Raises UserError for unknown options."""
    settings = Options.parse(mode, options)
    dissolve(graph_module)
    as_it_is = DirectCall(graph_module, example_inputs)
    graphs = CudaGraphs(len(example_inputs), settings.cudagraph)

    def compiler(role: str) -> Callable[..., BoxedFunction]:
        def compile(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> BoxedFunction:
            return graphs.replayed(module, inputs, role, compile_graph(module, role, settings.for_training()))

        return compile

    def inference_compiler(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> BoxedFunction:
        compiled = compile_graph(module, "inference", settings)
        return as_it_is.offer(module, graphs.replayed(module, inputs, "inference", compiled))

    build = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=inference_compiler,
        partition_fn=_forward_and_backward,
        decompositions=trace_rules(),
        keep_inference_input_mutations=True,
    )
    # AOTAutograd's cache keys hold no trace of the backend or its options; the tag keeps entries apart.
    with torch.compiler.config.patch(cache_key_tag=settings.cache_tag()):
        wrapped = build(graph_module, example_inputs)
    return as_it_is.function or wrapped


def _forward_and_backward(joint: torch.fx.GraphModule, inputs: Any, **given: Any) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Splits a graph of both where least is kept. A result that autograd detached is the result itself, and can be computed again."""
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        node.replace_all_uses_with(node.args[0], delete_user_cb=lambda user: user.op != "output")
    remove_round_trips(joint.graph)
    return min_cut_rematerialization_partition(joint, inputs, **given)


def compile_graph(module: torch.fx.GraphModule, role: str, settings: Options) -> BoxedFunction:
    """Compiles one graph of AOTAutograd. Falls back to running it as captured, unless `strict`."""
    try:
        answer, captured = compile_captured(module, role, settings)
    except CaptureError as error:
        return _as_captured(module, str(error), settings)
    if answer["op"] is None:
        forget(captured.held)
        return _as_captured(module, answer["fallback_reason"], settings)
    if role == "backward" and answer["held"]:
        return _until_unused(_without_nones(_handing_over(answer, captured.constants), captured.nones), answer, captured)
    return _without_nones(_boxed(_until_unused(_call(answer, captured.constants), answer, captured)), captured.nones)


def _until_unused(call: Callable[..., Any], answer: Mapping[str, Any], captured: Capture) -> Callable[..., Any]:
    """Operators live on when nobody calls them any more; what they keep does not."""
    if answer["packs"]:
        weakref.finalize(call, operators().forget_packs, answer["op"]).atexit = False
    if captured.held:
        weakref.finalize(call, forget, captured.held).atexit = False
    return call


def _without_nones(boxed: BoxedFunction, nones: Sequence[int]) -> BoxedFunction:
    """An operator takes a number where the graph takes None."""
    if not nones:
        return boxed

    def run(inputs: list[Any]) -> Sequence[Any]:
        for position in nones:
            inputs[position] = 0
        return boxed(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _inner_compiler(settings: Options) -> Callable[[torch.fx.GraphModule], Callable[..., Any]]:
    """For graphs that a node holds: they are called with their inputs, and keep them."""

    def compile_inner(module: torch.fx.GraphModule) -> Callable[..., Any]:
        (output,) = module.graph.find_nodes(op="output")
        boxed = compile_graph(module, "inner", settings)
        if isinstance(output.args[0], (list, tuple)):
            return lambda *inputs: tuple(boxed(list(inputs)))
        return lambda *inputs: boxed(list(inputs))[0]

    return compile_inner


def compile_captured(module: torch.fx.GraphModule, role: str, settings: Options) -> tuple[Mapping[str, Any], Capture]:
    """The library's answer for a graph, and the graph as it was captured."""
    started = time.perf_counter()
    remove_round_trips(module.graph)
    captured = capture(module, name=role, compile_graph=_inner_compiler(settings))
    answer = _answer(captured.json, settings)
    if answer["warnings"]:  # what broke once breaks for every graph; tilefuse.explain lists it all
        warn_once(f"tilefuse: {'; '.join(answer['warnings'])}", about="faults")
    for note in answer["notes"]:
        warn_once(f"tilefuse: {note}")
    see_pins(settings.pins, regions_of(answer))
    milliseconds = (time.perf_counter() - started) * 1e3
    for graphs in _collectors:
        graphs.append(CompiledGraph(role, captured.json, answer, milliseconds))
    return answer, captured


def regions_of(answer: Mapping[str, Any]) -> list[str]:
    """The names of the regions, without their hashes, and of those that their pins left none of."""
    return [*(name.rpartition("_")[0] for name in answer["regions"]), *answer["unmet_pins"]]


def _answer(graph_json: str, settings: Options) -> Mapping[str, Any]:
    try:
        return json.loads(operators().compile(graph_json, settings.to_json(torch.get_num_threads())))
    except ValueError as error:
        raise UserError(str(error)) from None


def _as_captured(module: torch.fx.GraphModule, reason: str, settings: Options) -> BoxedFunction:
    message = f"tilefuse: a graph runs with plain PyTorch: {reason}"
    if settings.strict:
        raise UserError(message)
    warn_once(message)
    return make_boxed_func(module.forward)


def _call(answer: Mapping[str, Any], constants: Sequence[torch.Tensor]) -> Callable[..., Sequence[Any]]:
    """The operator as a graph is called: inputs in, a sequence of outputs back."""
    call = getattr(operators(), answer["op"]).default._op
    if answer["takes_lists"]:
        call = _by_lists(call, answer["inputs"])
    outputs = answer["outputs"]
    count = _count(outputs)
    extra = tuple(constants)
    if count != len(outputs) or count == 0:
        return lambda *inputs: _with_holes(call(*inputs, *extra), outputs)
    if count == 1:
        return lambda *inputs: (call(*inputs, *extra),)
    return lambda *inputs: call(*inputs, *extra)


def _boxed(call: Callable[..., Sequence[Any]]) -> BoxedFunction:
    """As AOTAutograd calls it: a list of inputs, which is emptied."""

    def run(inputs: list[Any]) -> Sequence[Any]:
        arguments = tuple(inputs)
        inputs.clear()
        return call(*arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    run.unboxed = call  # type: ignore[attr-defined]
    return run


def _handing_over(answer: Mapping[str, Any], constants: Sequence[torch.Tensor]) -> BoxedFunction:
    """As ``_boxed``, for a graph that alone has its inputs: it frees each after its last reader.

    Costs a microsecond or two more. A backward graph gets what the forward one saved, most of the memory of a
    training step, which eager frees on the way.
    """
    call, hold = getattr(operators(), answer["held"]).default._op, operators().hold.default._op
    kinds, outputs = answer["inputs"], answer["outputs"]
    sizes = [position for position, kind in enumerate(kinds) if kind == "size"]
    tensors = [position for position, kind in enumerate(kinds) if kind == "tensor"]

    def run(inputs: list[Any]) -> Sequence[Any]:
        inputs.extend(constants)
        given_sizes = [inputs[i] for i in sizes]
        held = hold([inputs[i] for i in tensors] if sizes else inputs)
        inputs.clear()
        return _with_holes(call(held, given_sizes), outputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _count(outputs: Sequence[str]) -> int:
    return sum(kind != "none" for kind in outputs)


def _with_holes(result: Any, outputs: Sequence[str]) -> list[Any]:
    """An operator returns nothing, a value or a tuple; the graph returns None where it says so."""
    values = iter((result,) if _count(outputs) == 1 else (result or ()))
    return [None if kind == "none" else next(values) for kind in outputs]


def _by_lists(call: Callable[..., Any], kinds: Sequence[str]) -> Callable[..., Any]:
    """An operator of many inputs takes its tensors and its sizes as two lists."""
    tensors = [position for position, kind in enumerate(kinds) if kind == "tensor"]
    sizes = [position for position, kind in enumerate(kinds) if kind == "size"]
    if not sizes:
        return lambda *arguments: call(arguments, ())
    return lambda *arguments: call([arguments[i] for i in tensors], [arguments[i] for i in sizes])
