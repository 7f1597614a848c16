"""Functions through AOTAutograd and the engine without Dynamo, which is quicker by far. Regions must compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import aot_function, min_cut_rematerialization_partition
from tilefuse.backend import compile_graph
from tilefuse.options import Options
from tilefuse.trace_rules import trace_rules

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
