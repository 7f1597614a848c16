"""Rotary embeddings as models write them: neighbours or halves turned, all of a head or a part of it, angles computed on the way."""

import pytest
import tilefuse
import torch
from numeric import assert_close, to_double

STRICT = {"strict": True}


def neighbours_turned(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def halves_turned(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def of_neighbours(x, cos, sin):
    return x * cos.repeat_interleave(2, -1) + neighbours_turned(x) * sin.repeat_interleave(2, -1)


def of_halves(x, cos, sin):
    return x * torch.cat((cos, cos), -1) + halves_turned(x) * torch.cat((sin, sin), -1)


def of_a_part(x, cos, sin):
    turned, rest = x[..., : 2 * cos.shape[-1]], x[..., 2 * cos.shape[-1] :]
    return torch.cat((of_neighbours(turned, cos, sin), rest), -1)


def of_angles(x, frequencies):
    angles = torch.arange(x.shape[-2], dtype=frequencies.dtype)[:, None] * frequencies
    return of_neighbours(x, angles.cos(), angles.sin())


def of_angles_for_each_head(x, frequencies):
    angles = torch.arange(x.shape[-2], dtype=frequencies.dtype)[:, None] * frequencies
    return angles.cos().expand(*x.shape[:-1], -1).contiguous(), angles.sin().expand(*x.shape[:-1], -1).contiguous()


def table(places, channels):
    return torch.rand(places, channels // 2) * 2 - 1


FORMS = {
    "neighbours": (of_neighbours, lambda n, d: (table(n, d), table(n, d))),
    "halves": (of_halves, lambda n, d: (table(n, d), table(n, d))),
    "part": (of_a_part, lambda n, d: (table(n, d // 2), table(n, d // 2))),
    "angles": (of_angles, lambda _, d: (torch.rand(d // 2),)),
    "angles_for_each_head": (of_angles_for_each_head, lambda _, d: (torch.rand(d // 2),)),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("channels", [8, 24, 64, 100])
@pytest.mark.parametrize("form", FORMS)
def test_is_as_exact_as_eager_in_one_region(form, channels, dtype, dynamic):
    function, others = FORMS[form]
    inputs = torch.randn(2, 6, 17, channels, dtype=dtype), *(x.to(dtype) for x in others(17, channels))
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options=STRICT, dynamic=dynamic)(*inputs)
        expected, exact = function(*inputs), function(*to_double(inputs))
        many = isinstance(got, tuple)
        for g, e, x in zip(*((t if many else [t]) for t in (got, expected, exact)), strict=True):
            assert_close(g, e, x, form)
        (graph,) = tilefuse.explain(function, *inputs, options=STRICT).json()["graphs"]
    assert len(graph["regions"]) == 1
    assert all(node["kind"] != "call" for node in graph["graph"]["nodes"])


def test_neighbours_change_places_in_registers():
    x, cos, sin = torch.randn(2, 6, 17, 64), table(17, 64), table(17, 64)
    report = tilefuse.explain(of_a_part, x, cos[:, :16], sin[:, :16], options=STRICT)
    (region,) = report.json()["graphs"][0]["regions"]
    source = report.source(region["name"])
    assert "load_exchanged<1, 1, 3, 3" in source
    assert "gather" not in source
