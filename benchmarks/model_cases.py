"""Twelve architectures, small configurations with random weights: name -> (model, inputs), in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

Model = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class _Logits(torch.nn.Module):
    """A transformers model as a function of ids alone that returns its first tensor."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, return_dict=False)[0]


def _text(config_name: str, class_name: str, **sizes: object) -> Callable[[], Model]:
    def make() -> Model:
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, config_name)(**sizes)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        model = getattr(transformers, class_name)(config).eval()
        return _Logits(model).eval(), (torch.randint(0, 1000, (2, 128)),)

    return make


def _image(name: str, size: int = 224) -> Callable[[], Model]:
    def make() -> Model:
        import timm

        torch.manual_seed(0)
        return timm.create_model(name, pretrained=False).eval(), (torch.randn(1, 3, size, size),)

    return make


_ENCODER = dict(vocab_size=1000, hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536)
_DECODER = dict(_ENCODER, num_key_value_heads=2)

MODELS: Mapping[str, Callable[[], Model]] = {
    "bert": _text("BertConfig", "BertModel", **_ENCODER),
    "roberta": _text("RobertaConfig", "RobertaModel", **_ENCODER),
    "distilbert": _text("DistilBertConfig", "DistilBertModel", vocab_size=1000, dim=384, n_layers=4, n_heads=6, hidden_dim=1536),
    "gpt2": _text("GPT2Config", "GPT2Model", vocab_size=1000, n_embd=384, n_layer=4, n_head=6),
    "llama": _text("LlamaConfig", "LlamaModel", **_DECODER),
    "qwen2": _text("Qwen2Config", "Qwen2Model", **_DECODER),
    "t5_encoder": _text("T5Config", "T5EncoderModel", vocab_size=1000, d_model=384, d_ff=1024, num_layers=4, num_heads=6, d_kv=64),
    "resnet18": _image("resnet18"),
    "vit_tiny": _image("vit_tiny_patch16_224"),
    "convnext_atto": _image("convnext_atto"),
    "mobilenetv3_small": _image("mobilenetv3_small_100"),
    "poolformer_s12": _image("poolformer_s12"),
}  # fmt: skip
