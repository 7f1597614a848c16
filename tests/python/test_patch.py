"""``tilefuse.ops.patch`` on small transformers models: what is swapped, that nothing changes, and the way back."""

import collections

import pytest
import torch
import transformers
from tilefuse import ops
from torch.utils._python_dispatch import TorchDispatchMode

SIZES = {
    "vocab_size": 100, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED))


def gemma():
    return transformers.GemmaForCausalLM(transformers.GemmaConfig(**GROUPED, head_dim=12))


def qwen3():
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**GROUPED, head_dim=12))


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))


MODELS = {
    llama: {"tilefuse::rms_norm": 5, "tilefuse::swiglu": 2, "tilefuse::rotary_embedding": 1},
    gemma: {"tilefuse::rms_norm": 5, "tilefuse::geglu": 2, "tilefuse::rotary_embedding": 1},
    qwen3: {"tilefuse::rms_norm": 9, "tilefuse::swiglu": 2, "tilefuse::rotary_embedding": 1},
    bert: {"tilefuse::layer_norm": 6},
}


class Called(TorchDispatchMode):
    """The operators that run."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function._schema.name)
        return function(*args, **kwargs or {})


def outcome(model, ids):
    model.zero_grad()
    output = model(input_ids=ids, labels=ids)
    output.loss.backward()
    return output.loss, output.logits, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_a_patched_model_computes_the_same(make):
    model = make().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2)  # a norm whose weights are all 1 or 0 hides what is done with them
    ids = torch.randint(0, 100, (2, 11))
    want = outcome(model, ids)
    with ops.patch(model) as patched:
        assert collections.Counter(swap.operator for swap in patched.swapped) == MODELS[make], patched
        with Called() as called:
            got = outcome(model, ids)
        assert called.names >= set(MODELS[make]) | {f"{name}_backward" for name in MODELS[make]}
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert all("forward" not in module.__dict__ for module in model.modules())
    torch.testing.assert_close(outcome(model, ids), want, rtol=0, atol=0)


def test_the_report_names_what_was_swapped():
    patched = ops.patch(bert())
    assert "bert.embeddings.LayerNorm: LayerNorm -> tilefuse::layer_norm" in str(patched)
    patched.unpatch()


def test_modules_that_compute_something_else_are_left_alone():
    class Norm(torch.nn.Module):
        """Holds what an RMS norm holds."""

        def __init__(self):
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.rand(8)), 1e-6

        def forward(self, x):
            return x / (x.abs().mean(-1, keepdim=True) + self.eps) * self.weight

    assert not ops.patch(Norm()).swapped
    assert str(ops.patch(Norm())) == "nothing to swap"


def test_a_model_is_patched_once():
    model = llama()
    first, second = ops.patch(model), ops.patch(model)
    assert len(first.swapped) == 8
    assert not [swap for swap in second.swapped if swap.kind != "function"]
    second.unpatch()
    first.unpatch()


def test_mixed_dtypes_run_as_the_model_has_them():
    norm = torch.nn.LayerNorm(16)
    x = torch.randn(3, 16, dtype=torch.bfloat16)
    want = norm(x)
    with ops.patch(norm):
        torch.testing.assert_close(norm(x), want, rtol=0, atol=0)
