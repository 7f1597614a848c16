"""Functions through AOTAutograd and the engine without Dynamo, which is quicker by far. Regions must compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import aot_function, min_cut_rematerialization_partition
from tilefuse.backend import compile_graph
from tilefuse.capture import capture
from tilefuse.options import Options
from tilefuse.trace_rules import trace_rules
from torch._subclasses.fake_tensor import FakeTensorMode

Compiler = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


def compiled(function: Callable[..., Any], compiler: Callable[[str], Compiler]) -> Callable[..., Any]:
    """The function in graphs of AOTAutograd; compiler(role) makes what compiles one of them."""
    return aot_function(
        function, fw_compiler=compiler("forward"), bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"), partition_fn=min_cut_rematerialization_partition,
        decompositions=trace_rules(), keep_inference_input_mutations=True,
    )  # fmt: skip


def engine(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    settings = Options.parse(options={"strict": True, **options})
    return compiled(function, lambda role: lambda module, inputs: compile_graph(module, role, settings))


def captured_on_gpu(function: Callable[..., Any], inputs: Callable[[], Sequence[Any]]) -> str:
    """The graph of a function of CUDA tensors, as it is captured; nothing runs. ``inputs`` makes them, of no memory."""
    graphs: list[str] = []

    def keep(role: str) -> Callable[..., Any]:
        def compile(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            graphs.append(capture(module, name=role).json)
            return module.forward

        return compile

    with FakeTensorMode(), torch.no_grad():
        compiled(function, keep)(*inputs())
    return graphs[0]
