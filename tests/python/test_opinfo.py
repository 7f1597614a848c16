"""PyTorch's own samples (OpInfo) of every operator in the import table, values and gradients.

Dynamo is left out: AOTAutograd traces the sample and hands forward and backward graphs to the backend's compiler,
which is quicker by far. Regions must compile (strict).

`make test` runs two samples of every operator in its first dtype and one in one more, which takes turns;
`make test-full` runs more samples in all dtypes.
"""

from __future__ import annotations

import contextlib
import itertools
import os

import pytest
import torch
from engine import compiled, engine
from functorch.compile import make_boxed_func
from opinfo_cases import COMPOSITES, UNINITIALISED, copied, dtypes_of, flat_call, is_tensor, operators_with_samples, samples_of, table
from opinfo_checks import UNTRACEABLE, cases, check_samples, upstream
from single_calls import SINGLE_CALLS
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

WANTED = os.environ.get("TILEFUSE_OPINFO_SAMPLES")
SAMPLES = int(WANTED or "2")  # of each operator and dtype, spread over all


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_samples(op, dtype):
    first = dtype == dtypes_of(op)[0]
    check_samples(engine, op, dtype, SAMPLES if first or WANTED else 1)


# ---------------------------------------------------------------- coverage
@pytest.mark.slow
def test_every_operator_of_the_table_has_samples():
    reached = set()

    def recorder(role):
        def compile_nothing(module, inputs):
            targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
            reached.update(target._opname for target in targets if isinstance(target, torch._ops.OpOverload))
            return make_boxed_func(module.forward)

        return compile_nothing

    for op in operators_with_samples():
        for dtype, sample in itertools.product(dtypes_of(op)[:1], samples_of(op, dtypes_of(op)[0], SAMPLES)):
            call, tensors = flat_call(op, sample)
            arguments = [copied(t).requires_grad_(t.requires_grad) for t in tensors]
            with contextlib.suppress(*UNTRACEABLE):
                outputs = pytree.tree_leaves(compiled(call, recorder)(*arguments))
                outputs = [o for o in outputs if is_tensor(o) and o.grad_fn is not None]
                torch.autograd.backward(outputs, [upstream(o) for o in outputs])
    called_alone = {name.split(".")[-2] for name in SINGLE_CALLS}  # by test_capture_import.py
    missing = table() - reached - UNINITIALISED - called_alone
    assert not missing, f"no sample reaches {sorted(missing)}"
    assert UNINITIALISED <= table()


def test_composites_exist():
    assert {op.name for op in op_db} >= COMPOSITES
