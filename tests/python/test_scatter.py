"""Writes at places that are data: values as eager's, regions as few as the algebra allows, errors as eager raises them."""

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, to_double
from processors import FIXED_TARGET

STRICT = {"strict": True}


def check(function, *inputs, dynamic=False, options=STRICT):
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options=options, dynamic=dynamic)(*inputs)
        assert_close(got, function(*inputs), function(*to_double(inputs)), "scatter")
    return got


def graph_of(function, *inputs, options=STRICT):
    with torch.no_grad():
        (graph,) = tilefuse.explain(function, *inputs, options={"target": FIXED_TARGET, **options}).json()["graphs"]
    return graph


def ops_of(function, *inputs, options=STRICT):
    return [region["ops"] for region in graph_of(function, *inputs, options=options)["regions"]]


def rows(count, extent):
    return torch.randint(0, extent, (count,))


def t(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


# function, inputs: each is one region, with nothing left to PyTorch
FORMS = {
    "index_add": (lambda b, i, x: b.index_add(0, i, x), lambda d: (t(9, 40, dtype=d), rows(30, 9), t(30, 40, dtype=d))),
    "index_add_columns": (
        lambda b, i, x: b.index_add(1, i, x, alpha=0.5),
        lambda d: (t(9, 7, 5, dtype=d), rows(30, 7), t(9, 30, 5, dtype=d)),
    ),
    "index_add_last": (lambda b, i, x: b.index_add(-1, i, x), lambda d: (t(9, 7, dtype=d), rows(30, 7), t(9, 30, dtype=d))),
    "index_add_of_products": (
        lambda b, i, w, x: (b * 2).index_add(0, i, w * F.silu(x)),
        lambda d: (t(9, 40, dtype=d), rows(30, 9), t(30, 40, dtype=d), t(30, 40, dtype=d)),
    ),
    "index_add_into_zeros": (
        lambda i, x: x.new_zeros(9, 40).index_add(0, i, x * x),
        lambda d: (rows(30, 9), t(30, 40, dtype=d)),
    ),
    "index_copy": (
        lambda b, i, x: b.index_copy(0, i, x * 2),
        lambda d: (t(30, 40, dtype=d), torch.randperm(30)[:9], t(9, 40, dtype=d)),
    ),
    "scatter_add": (
        lambda b, i, x: b.scatter_add(0, i, x),
        lambda d: (t(9, 40, dtype=d), torch.randint(0, 9, (30, 33)), t(31, 34, dtype=d)),
    ),
    "scatter_add_last": (
        lambda b, i, x: b.scatter_add(1, i, x.exp()),
        lambda d: (t(9, 11, dtype=d), torch.randint(0, 11, (9, 30)), t(9, 30, dtype=d)),
    ),
    "scatter_add_flat": (lambda b, i, x: b.scatter_add(0, i, x), lambda d: (t(9, dtype=d), rows(70, 9), t(70, dtype=d))),
    "scatter_src": (
        lambda b, i, x: b.scatter(1, i, x * 2),
        lambda d: (t(5, 30, dtype=d), torch.stack([torch.randperm(30)[:7] for _ in range(5)]), t(5, 9, dtype=d)),
    ),
    "scatter_value": (lambda b, i: b.scatter(1, i, 1.5), lambda d: (t(5, 30, dtype=d), torch.randint(0, 30, (5, 7)))),
    "scatter_prod": (
        lambda b, i, x: b.scatter_reduce(0, i, x, "prod"),
        lambda d: (t(9, 40, dtype=d), torch.randint(0, 9, (12, 40)), t(12, 40, dtype=d)),
    ),
    "scatter_amax": (
        lambda b, i, x: b.scatter_reduce(0, i, x, "amax"),
        lambda d: (t(9, 40, dtype=d), torch.randint(0, 9, (12, 40)), t(12, 40, dtype=d)),
    ),
    "scatter_amin": (
        lambda b, i, x: b.scatter_reduce(1, i, x, "amin"),
        lambda d: (t(9, 4, dtype=d), torch.randint(0, 4, (9, 40)), t(9, 40, dtype=d)),
    ),
    "index_put_accumulate": (
        lambda b, i, x: b.index_put((i,), x, accumulate=True),
        lambda d: (t(9, 40, dtype=d), torch.randint(-9, 9, (30,)), t(30, 40, dtype=d)),
    ),
    "index_put_broadcast": (
        lambda b, i, j, x: torch.ops.aten.index_put(b, [i, None, j], x, True),
        lambda d: (t(4, 3, 6, dtype=d), torch.randint(-4, 4, (7, 1)), torch.randint(0, 6, (1, 5)), t(3, dtype=d)),
    ),
    "index_put_of_one_value": (
        lambda b, i, j: b.index_put((i, j), b.new_full((), 2.0)),
        lambda d: (t(9, 40, dtype=d), rows(30, 9), rows(30, 40)),
    ),
    "index_put_distinct": (
        lambda b, i, x: torch.ops.aten.index_put(b, [None, i], x),
        lambda d: (t(3, 30, 4, dtype=d), torch.randperm(30)[:9], t(3, 9, 4, dtype=d)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_one_region(name, dtype):
    function, make = FORMS[name]
    torch.manual_seed(0)
    inputs = make(dtype)
    check(function, *inputs)
    graph = graph_of(function, *inputs)
    assert [len(graph["regions"]), graph["unfused_edges"]] == [1, []], graph["unfused_edges"]


@pytest.mark.parametrize("name", FORMS)
def test_sizes_may_change(name):
    function, make = FORMS[name]
    torch.manual_seed(0)
    check(function, *make(torch.float32), dynamic=True)


@pytest.mark.parametrize("name", ["index_add", "scatter_add", "scatter_amax", "index_put_accumulate"])
def test_integers(name):
    function, make = FORMS[name]
    torch.manual_seed(0)
    check(function, *(x if x.dtype == torch.int64 else (4 * x).to(torch.int32) for x in make(torch.float32)))


def test_many_elements_in_one_place_add_up_in_eagers_order():
    x = torch.randn(5000, 33)
    index = torch.zeros(5000, dtype=torch.int64)
    got = check(lambda b, i, x: b.index_add(0, i, x), torch.zeros(2, 33), index, x)
    assert torch.equal(got, torch.zeros(2, 33).index_add(0, index, x))


def test_no_index_leaves_the_base():
    base = torch.randn(4, 5)
    none, x = torch.zeros(0, dtype=torch.int64), torch.zeros(0, 5)
    for dynamic in (False, True):
        torch._dynamo.reset()
        assert torch.equal(check(lambda b, i, x: b.index_add(0, i, x), base, none, x, dynamic=dynamic), base)


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (lambda b, i, x: b.index_add(0, i, x), 9),
        (lambda b, i, x: b.index_add(0, i, x), -1),
        (lambda b, i, x: b.scatter_add(0, i[:, None].expand(3, 40), x), 9),
        (lambda b, i, x: b.index_put((i,), x, accumulate=True), 9),
        (lambda b, i, x: b.index_put((i,), x), -10),
    ],
)
def test_a_place_outside_is_an_error(function, place):
    base, x, index = torch.randn(9, 40), torch.randn(3, 40), torch.tensor([1, place, 2])
    with pytest.raises((IndexError, RuntimeError)):
        function(base, index, x)
    with pytest.raises(IndexError, match="out of range"), torch.no_grad():
        torch.compile(function, backend="tilefuse", options=STRICT)(base, index, x)


def test_what_was_written_is_read_behind_its_region():
    def softmax_of_sums(b, i, x):
        return torch.softmax(b.index_add(0, i, x.tanh()), -1)

    inputs = torch.randn(9, 40), rows(30, 9), torch.randn(30, 40)
    check(softmax_of_sums, *inputs)
    graph = graph_of(softmax_of_sums, *inputs)
    assert len(graph["regions"]) == 2
    reasons = [edge["text"] for edge in graph["unfused_edges"]]
    assert any("it is scattered: it is whole only behind its region" in reason for reason in reasons), reasons


def test_mutation_reaches_the_input():
    def add_into(b, i, x):
        b.index_add_(0, i, x * 2)
        return b.sum()

    base, index, x = torch.randn(9, 40), rows(30, 9), torch.randn(30, 40)
    ours, theirs = base.clone(), base.clone()
    with torch.no_grad():
        got = torch.compile(add_into, backend="tilefuse", options=STRICT)(ours, index, x)
    assert_close([got, ours], [add_into(theirs, index, x), theirs], [got, theirs.double()], "mutation")


@pytest.mark.parametrize("padding", [None, 3])
def test_training_step_with_embeddings(padding):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(50, 24, padding_idx=padding)
            self.places = torch.nn.Embedding(12, 24)
            self.head = torch.nn.Linear(24, 5)

        def forward(self, ids):
            places = torch.arange(ids.shape[1])
            return self.head(F.gelu(self.words(ids) + self.places(places)))

    torch.manual_seed(0)
    model, ids = Model(), torch.randint(0, 50, (8, 12))
    target = torch.randint(0, 5, (8 * 12,))

    def gradients(run):
        model.zero_grad()
        F.cross_entropy(run(ids).flatten(0, 1), target).backward()
        return [p.grad.clone() for p in model.parameters()]

    expected = gradients(model)
    got = gradients(torch.compile(model, backend="tilefuse", options=STRICT))
    exact = [g.double() for g in expected]
    assert_close(got, expected, exact, "gradients")


def test_gradients_through_a_scatter():
    def loss(b, x, index):
        return (b.index_add(0, index, x.sigmoid()) ** 2).sum()

    torch.manual_seed(0)
    index = rows(30, 9)
    tensors = [torch.randn(9, 40, requires_grad=True), torch.randn(30, 40, requires_grad=True)]
    expected = torch.autograd.grad(loss(*tensors, index), tensors)
    got = torch.autograd.grad(torch.compile(loss, backend="tilefuse", options=STRICT)(*tensors, index), tensors)
    assert_close(list(got), list(expected), [e.double() for e in expected], "gradient")


def experts(x, gates, up, down, index, out):
    """A mixture's combine: each expert's rows, weighted, back to where they came from."""
    for expert in range(up.shape[0]):
        hidden = F.silu(x[expert] @ up[expert])
        out = out.index_add(0, index[expert], gates[expert, :, None] * (hidden @ down[expert]))
    return out


def test_combine_of_a_mixture_of_experts():
    torch.manual_seed(0)
    count, tokens, width, hidden = 2, 24, 32, 48
    inputs = (
        t(count, tokens, width), torch.rand(count, tokens), t(count, width, hidden) / 6, t(count, hidden, width) / 7,
        torch.stack([torch.randperm(40)[:tokens] for _ in range(count)]), t(40, width),
    )  # fmt: skip
    check(experts, *inputs, options={**STRICT, "products": "own"})
    taken = ops_of(experts, *inputs, options={**STRICT, "products": "own"})
    assert len(taken) == 2 * count, taken  # of each expert: the hidden rows, and the product that is scattered
    check(experts, *inputs)
