"""OpenVINO as a contestant for whole models. It is no dependency: ``is_here()`` says whether it can be imported.

It always takes weights for constants, as TileFuse and Inductor do with ``--freeze``.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


def is_here() -> bool:
    return importlib.util.find_spec("openvino") is not None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Tracing warns of each branch of a model, the converter of the types that it changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _module() -> Any:
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # it would report each conversion to its makers
    import openvino

    return openvino


def _converted(openvino: Any, model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Any:
    """By tracing; from an exported program where the trace holds operators that it has no rule for."""
    try:
        return openvino.convert_model(model, example_input=tuple(inputs))
    except openvino.frontend.OpConversionFailure:
        return openvino.convert_model(torch.export.export(model, tuple(inputs)))


def compiled(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor], dtype: torch.dtype, threads: int
) -> Callable[[], torch.Tensor]:
    """A call that gives the model's first result. Shapes are those of the inputs, as for the others.

    bf16 is what it computes in, as is its usual way: weights, inputs and results are f32, of the same values.
    """
    openvino = _module()
    model = copy.deepcopy(model).float()
    inputs = [value.float() if value.is_floating_point() else value for value in inputs]
    with _quiet():
        graph = _converted(openvino, model, inputs)
    graph.reshape({place: list(value.shape) for place, value in enumerate(inputs)})
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        # Left alone it computes f32 models in bf16 where the processor has instructions for that.
        "INFERENCE_PRECISION_HINT": "bf16" if dtype == torch.bfloat16 else "f32",
        # The other contestants' threads run on the same cores.
        "ENABLE_CPU_PINNING": False,
    }
    request = openvino.Core().compile_model(graph, "CPU", settings).create_infer_request()
    shared = [openvino.Tensor(value.numpy(), shared_memory=True) for value in inputs]
    for place, tensor in enumerate(shared):
        request.set_input_tensor(place, tensor)

    def call(_kept: object = (inputs, shared)) -> torch.Tensor:  # OpenVINO keeps no hold of memory that is shared
        return torch.from_numpy(request.infer(share_outputs=True)[0])

    return call
