"""Constants: weights that are packed once, what counts as a change of one, and who holds the packs."""

import copy
import gc
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from exported_models import EXPORTED
from numeric import assert_close, to_double
from processors import runs_here
from tilefuse.library import operators

FROZEN = {"strict": True, "freeze": True, "products": "own"}
THAWED = {"strict": True, "products": "own"}


class Layer(torch.nn.Module):
    def __init__(self, inner=96, outer=160):
        super().__init__()
        self.linear = torch.nn.Linear(inner, outer)

    def forward(self, x):
        return F.relu(self.linear(x))


def packs():
    return json.loads(operators().pack_stats())


@pytest.fixture(autouse=True)
def no_packs_left():
    torch._dynamo.reset()
    gc.collect()
    assert packs() == {"packs": 0, "bytes": 0}
    yield


def check(model, compiled, x):
    with torch.no_grad():
        got = compiled(x)
        double = to_double(tuple(model.parameters()))
        names = [name for name, _ in model.named_parameters()]
        exact = torch.func.functional_call(model, dict(zip(names, double)), x.double())
        assert_close(got, model(x), exact, "layer")


@pytest.mark.parametrize("shape", [(1, 96, 160), (7, 96, 160), (64, 96, 160), (33, 50, 70), (40, 17, 5), (128, 256, 200)])
def test_frozen_products_are_right_and_packed_once(shape):
    rows, inner, outer = shape
    model = Layer(inner, outer)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    x = torch.randn(rows, inner)
    check(model, compiled, x)
    first = packs()
    for _ in range(3):
        check(model, compiled, torch.randn(rows, inner))
    assert packs() == first


def changed_in_place(linear):
    linear.weight.mul_(-2)


def stepped_by_an_optimizer(linear):
    linear.weight.grad = torch.randn_like(linear.weight)
    torch.optim.SGD([linear.weight], lr=0.5).step()
    linear.weight.grad = None


def loaded(linear):
    linear.load_state_dict({name: torch.randn_like(value) for name, value in linear.state_dict().items()})


def given_other_data(linear):
    linear.weight.data = torch.randn_like(linear.weight)


def replaced(linear):
    linear.weight = torch.nn.Parameter(torch.randn_like(linear.weight))


def swapped(linear):
    torch.utils.swap_tensors(linear.weight, torch.nn.Parameter(torch.randn_like(linear.weight)))


def set_to_another(linear):
    linear.weight.set_(torch.randn_like(linear.weight))


def written_through_a_view(linear):
    linear.weight[3:5].fill_(7)


def written_through_data(linear):
    linear.weight.data.copy_(torch.randn_like(linear.weight))


def written_through_numpy(linear):
    linear.weight.detach().numpy()[:] = 3


SEEN = [
    changed_in_place, stepped_by_an_optimizer, loaded, given_other_data, replaced, swapped, set_to_another,
    written_through_a_view,
]  # fmt: skip
UNSEEN = [written_through_data, written_through_numpy]


@pytest.mark.parametrize("change", SEEN + UNSEEN, ids=lambda change: change.__name__)
def test_without_freeze_every_change_of_a_weight_is_seen(change):
    model, x = Layer(), torch.randn(24, 96)
    compiled = torch.compile(model, backend="tilefuse", options=THAWED)
    check(model, compiled, x)
    with torch.no_grad():
        change(model.linear)
    check(model, compiled, x)
    assert packs()["packs"] == 0


@pytest.mark.parametrize("change", SEEN, ids=lambda change: change.__name__)
def test_a_change_that_pytorch_counts_is_packed_again(change):
    model, x = Layer(), torch.randn(24, 96)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    for _ in range(3):
        check(model, compiled, x)
        assert packs()["packs"] == 1
        with torch.no_grad():
            change(model.linear)
    check(model, compiled, x)


@pytest.mark.parametrize("change", UNSEEN, ids=lambda change: change.__name__)
def test_a_change_that_pytorch_does_not_count_is_seen_after_repack(change):
    model, x = Layer(), torch.randn(24, 96)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    check(model, compiled, x)
    with torch.no_grad():
        change(model.linear)
    tilefuse.repack()
    check(model, compiled, x)
    assert packs()["packs"] == 1


def test_graphs_share_packs_of_one_weight():
    model, x = Layer(), torch.randn(24, 96)
    with torch.no_grad():
        torch.compile(model, backend="tilefuse", options=FROZEN)(x)
        first = packs()
        assert first["packs"] == 1 and tilefuse.packed_bytes() == first["bytes"] >= model.linear.weight.nbytes
        other = torch.compile(lambda x: model(x) + 1, backend="tilefuse", options=FROZEN)
        other(x)
    assert packs() == first


def test_models_of_one_graph_have_packs_of_their_own():
    models, x = [Layer(), Layer()], torch.randn(24, 96)
    compiled = [torch.compile(model, backend="tilefuse", options=FROZEN) for model in models]
    for _ in range(2):
        for model, run in zip(models, compiled):
            check(model, run, x)
    assert packs()["packs"] == 2


def test_graphs_with_gradient_pack_nothing():
    model, x = Layer(), torch.randn(24, 96)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    for _ in range(3):
        compiled(x).sum().backward()
        with torch.no_grad():
            model.linear.weight.sub_(model.linear.weight.grad)
        assert_close(compiled(x), model(x), model.double()(x.double()), "layer")
        model.float()
    assert packs()["packs"] == 0


def test_a_buffer_that_the_graph_writes_is_no_constant():
    class Accumulating(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randn(96, 160))

        def forward(self, x):
            y = x @ self.weight
            self.weight.add_(1)
            return y

    eager, x = Accumulating(), torch.randn(24, 96)
    model = copy.deepcopy(eager)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), eager(x))
    assert packs()["packs"] == 0


def test_explain_says_what_is_packed_once():
    model, x = Layer(), torch.randn(24, 96)
    with torch.no_grad():
        assert "packed once" in str(tilefuse.explain(model, x, options=FROZEN))
        assert "packed once" not in str(tilefuse.explain(model, x, options=THAWED))


def test_threads_pack_together():
    model, x = Layer(256, 256).requires_grad_(False), torch.randn(24, 256)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    expected = compiled(x)
    for _ in range(5):
        tilefuse.repack()
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda _: compiled(x), range(16)))
        assert all(torch.equal(result, expected) for result in results)
        assert packs()["packs"] == 1


def test_a_graph_that_writes_a_constant_of_another_is_seen():
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randn(96, 160))

        def forward(self, x):
            return x @ self.weight

        def double(self):
            self.weight.mul_(2)

    model, x = Shared(), torch.randn(24, 96)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    write = torch.compile(model.double, backend="tilefuse", options=FROZEN)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), model(x))
        write()
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float16], ids=str)
def test_frozen_products_of_other_types(dtype):
    model, x = Layer(96, 160).to(dtype), torch.randn(24, 96, dtype=dtype)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    for _ in range(2):
        check(model, compiled, x)


# In pairs as the weight lies, where one instruction multiplies two; else widened.
@pytest.mark.parametrize(("target", "element_bytes"), [("x86-zen4", 2), ("x86-avx2", 4)])
def test_packs_of_bf16_take_what_the_processor_multiplies(target, element_bytes):
    if not runs_here(target):
        pytest.skip(f"no code for {target} runs here")
    model, x = Layer(128, 160).bfloat16(), torch.randn(64, 128, dtype=torch.bfloat16)
    check(model, torch.compile(model, backend="tilefuse", options={**FROZEN, "target": target}), x)
    assert packs() == {"packs": 1, "bytes": 128 * 160 * element_bytes}


def test_weights_in_odd_places():
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            storage = torch.randn(3 * 96 * 160 + 5)
            self.register_buffer("turned", storage[5:][: 96 * 160].view(160, 96).t())
            self.register_buffer("apart", storage.as_strided((96, 160), (480, 3), 1))

        def forward(self, x):
            return F.relu(x @ self.turned), F.relu(x @ self.apart)

    model, x = Odd(), torch.randn(24, 96)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x))


def test_batched_constants():
    class Batched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randn(3, 40, 70))

        def forward(self, x):
            return F.relu(x @ self.weight)

    model, x = Batched(), torch.randn(3, 24, 40)
    compiled = torch.compile(model, backend="tilefuse", options=FROZEN)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


def test_fused_programs_pack_their_weights_once():
    model, x = Layer().requires_grad_(False), torch.randn(24, 96)
    fused = tilefuse.fuse(torch.export.export(model, (x,)), products="own").module()
    for _ in range(2):
        torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-4)
        assert packs()["packs"] == 1
    with torch.no_grad():
        fused.linear.weight.mul_(2)
        model.linear.weight.mul_(2)
    torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-4)
    del fused  # its region's operator lives on
    gc.collect()
    assert packs()["packs"] == 0


# Which of the small swin's products stand in chains, which pack within the call, is for the solver to say.
@pytest.mark.parametrize(("name", "has_packs"), [("swin", None), ("gemma2", True)])
def test_frozen_models(name, has_packs):
    model, inputs = EXPORTED[name]()
    options = {"freeze": True, "strict": True}
    compiled = torch.compile(model, backend="tilefuse", options=options)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*to_double(inputs))
        for _ in range(2):
            assert_close(compiled(*inputs), model(*inputs), exact, name)
        made = packs()["packs"]
        (graph,) = tilefuse.explain(model, *inputs, options=options).json()["graphs"]
    planned = any("packed once" in region["schedule"] for region in graph["regions"])
    assert (made > 0) == planned
    assert has_packs is None or planned == has_packs
