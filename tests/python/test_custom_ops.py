"""Every region is an operator of its own."""

import json

import pytest
from tilefuse.backend import collect_graphs
import torch
import torch.nn.functional as F
from tilefuse.library import operators


def region_names(function, *inputs, **kwargs):
    with torch.no_grad(), collect_graphs() as graphs:
        torch.compile(function, backend="tilefuse", options={"strict": True}, **kwargs)(*inputs)
    return [name for graph in graphs for name in graph.answer["regions"]]


def test_region_can_be_called_alone():
    x = torch.randn(8, 64)
    (name,) = region_names(lambda x: torch.softmax(x, -1), x)
    torch.testing.assert_close(getattr(operators(), name)(x), torch.softmax(x, -1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_opcheck_passes(dynamic):
    x, w = torch.randn(8, 64), torch.randn(64)
    (name,) = region_names(lambda x, w: F.rms_norm(x, (64,), w) + x, x, w, dynamic=dynamic)
    op = getattr(operators(), name).default
    sizes = [a for a in op._schema.arguments if str(a.type) == "int"]
    assert not sizes, "sizes are read off the tensors"
    arguments = {2: (x, w), 1: (x,)}[len(op._schema.arguments)]
    torch.library.opcheck(op, arguments)


def test_equal_regions_are_one_operator():
    def twice(x):
        y = F.gelu(x) * 2
        return F.gelu(torch.sort(y).values) * 2  # sorting stays with torch

    names = region_names(twice, torch.randn(8, 64))
    assert len(set(names)) == 1


def test_a_region_takes_tensors_of_other_strides_than_it_was_compiled_for():
    (name,) = region_names(lambda x: torch.tanh(x) * 2 + 1, torch.randn(6, 10))
    run = getattr(operators(), name)
    shifted = torch.frombuffer(bytearray(range(241)), dtype=torch.float32, offset=1).view(6, 10)
    for x in (torch.randn(10, 6).t(), torch.randn(6, 20)[:, ::2], torch.randn(6, 1).expand(6, 10), shifted.nan_to_num()):
        torch.testing.assert_close(run(x), torch.tanh(x) * 2 + 1)


def test_kernels_read_what_lies_at_odd_addresses_from_a_copy():
    """Most loads of x86 forgive an address that is no multiple of the element's size: results do not show whether a copy
    was made, but its memory stays in the pool."""
    aligned = torch.randn(300, 400)
    (name,) = region_names(lambda x: torch.tanh(x) * 2 + 1, aligned)
    run = getattr(operators(), name)
    odd = torch.frombuffer(bytearray(aligned.nbytes + 1), dtype=torch.float32, offset=1).view(300, 400).copy_(aligned)

    def bytes_of_copies(x):
        operators().pool_trim()
        torch.testing.assert_close(run(x), torch.tanh(x) * 2 + 1)
        operators().pool_trim()
        y = run(x)  # holds its own memory: what is free now was freed on the way
        held = json.loads(operators().pool_stats())["held_bytes"]
        del y
        return held

    assert bytes_of_copies(aligned) < aligned.nbytes <= bytes_of_copies(odd)
