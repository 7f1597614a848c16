"""Graphs on a GPU replayed as CUDA graphs: ``options={"cudagraph": True}``, or ``mode="reduce-overhead"``.

A replay launches all kernels of a graph, torch's as well, at the cost of one. Recording, memory and results are torch's
(``torch._inductor.cudagraph_trees``, as in Inductor's mode of this name), and so are the rules: a result is valid until the next call of
the model (``torch.compiler.cudagraph_mark_step_begin``), sizes that differ are recorded anew, the first two calls run kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilefuse.errors import warn_once

__all__ = ["CudaGraphs"]

Boxed = Callable[[list[Any]], Sequence[Any]]


class CudaGraphs:
    """Replays the graphs of one Dynamo graph: forward and backward, which have a device in common.

    A graph that cannot be recorded (another device takes part, an operator waits for the device) runs kernel by kernel, with a
    warning that says why; one without a GPU is not meant, and nothing is said.
    """

    def __init__(self, dynamo_inputs: int, is_wanted: bool) -> None:
        self._dynamo_inputs = dynamo_inputs
        self._is_wanted = is_wanted
        self._device: int | None = None  # of a forward graph that is replayed

    def replayed(self, module: torch.fx.GraphModule, inputs: Sequence[Any], role: str, boxed: Boxed) -> Boxed:
        """``boxed``, compiled from AOTAutograd's ``module``, or what replays it."""
        if not self._is_wanted or not _is_on_gpu(module):
            return boxed
        from torch._inductor.utils import count_tangents, num_fw_fixed_arguments

        is_backward = role == "backward"
        if is_backward and self._device is None:
            return boxed
        if is_backward:
            static: Sequence[int] = range(count_tangents(module))
        else:
            static = _static_inputs(num_fw_fixed_arguments(self._dynamo_inputs, len(inputs)))
        if refusal := _refusal(module, static):
            warn_once(f"tilefuse: a graph is not replayed as a CUDA graph: {refusal}")
            return self._behind_a_replay(boxed) if is_backward else boxed
        return self._recorded(module, role, boxed, static)

    def _recorded(self, module: torch.fx.GraphModule, role: str, boxed: Boxed, static: Sequence[int]) -> Boxed:
        from torch._dynamo.backends.cudagraphs import find_input_mutations, get_device_index, get_stack_traces
        from torch._inductor.cudagraph_trees import cudagraphify_impl
        from torch._inductor.cudagraph_utils import get_placeholder_info

        device = get_device_index(module)
        if role != "backward":
            self._device = device
        settings = {
            "device_index": device, "is_backward": role == "backward", "is_inference": role == "inference",
            "stack_traces": get_stack_traces(module), "placeholders": get_placeholder_info(module.graph),
            "mutated_input_idxs": find_input_mutations(module.graph),
        }  # fmt: skip
        replay: Boxed | None = None

        def run(inputs: list[Any]) -> Sequence[Any]:
            nonlocal replay
            if replay is None:  # sizes are numbers now
                replay = cudagraphify_impl(boxed, list(inputs), static, **settings)
            return replay(inputs)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _behind_a_replay(self, boxed: Boxed) -> Boxed:
        """A backward graph that is not replayed tells the trees that its forward graph's memory is still in use."""
        from torch._inductor.cudagraph_trees import get_manager

        device = self._device

        def run(inputs: list[Any]) -> Sequence[Any]:
            if (manager := get_manager(device, create_if_none_exists=False)) is not None:
                manager.set_to_running_backward()
            return boxed(inputs)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def _is_on_gpu(module: torch.fx.GraphModule) -> bool:
    from torch._dynamo.backends.cudagraphs import get_device_node_mapping

    return any(device.type == "cuda" for device in get_device_node_mapping(module))


def _refusal(module: torch.fx.GraphModule, static: Sequence[int]) -> str | None:
    """Why the graph cannot be recorded, in torch's words."""
    from torch._dynamo.backends.cudagraphs import find_input_mutations, get_device_node_mapping
    from torch._inductor.cudagraph_utils import check_multiple_devices_or_any_cpu_nodes
    from torch._inductor.utils import get_first_incompatible_cudagraph_node

    if find_input_mutations(module.graph) - set(static):
        return "it changes an input that is neither a parameter nor a buffer"
    if devices := check_multiple_devices_or_any_cpu_nodes(get_device_node_mapping(module)):
        return devices
    if node := get_first_incompatible_cudagraph_node(module):
        return f"{node.name} cannot be recorded"
    return None


def _static_inputs(fixed: int) -> Sequence[int]:
    """Parameters and buffers, which stay where they are."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return range(fixed)
    return context.fw_metadata.static_input_indices
