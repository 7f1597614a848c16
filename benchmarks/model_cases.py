"""Twenty architectures, small configurations with random weights: name -> (model, inputs), in evaluation mode.

``DEMO`` has the sizes of the demo's model (MiniLM), with a batch of sentences and with one short one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

Model = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class _Logits(torch.nn.Module):
    """A transformers model as a function of one tensor, ids or features, that returns its first tensor."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, return_dict=False)[0]


def _text(config_name: str, class_name: str, batch: int = 2, length: int = 128, **sizes: object) -> Callable[[], Model]:
    def make() -> Model:
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, config_name)(**sizes)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        model = getattr(transformers, class_name)(config).eval()
        return _Logits(model).eval(), (torch.randint(0, 1000, (batch, length)),)

    return make


def _speech(frames: int, **sizes: object) -> Callable[[], Model]:
    """Whisper's encoder, which halves the frames of a spectrogram by a convolution."""

    def make() -> Model:
        import transformers
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        torch.manual_seed(0)
        config = transformers.WhisperConfig(max_source_positions=frames // 2, **sizes)
        return _Logits(WhisperEncoder(config)).eval(), (torch.randn(1, config.num_mel_bins, frames),)

    return make


def _image(name: str, size: int = 224, **sizes: object) -> Callable[[], Model]:
    def make() -> Model:
        import timm

        torch.manual_seed(0)
        return timm.create_model(name, pretrained=False, **sizes).eval(), (torch.randn(1, 3, size, size),)

    return make


_ENCODER = dict(vocab_size=1000, hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536)
_DECODER = dict(_ENCODER, num_key_value_heads=2)

# A transformer as deep as BERT: what compiling a model of usual depth takes.
twelve_layers = _text("BertConfig", "BertModel", hidden_size=384, num_attention_heads=6, intermediate_size=1536)

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
    "albert": _text("AlbertConfig", "AlbertModel", **dict(_ENCODER, embedding_size=128)),
    "gpt_neox": _text("GPTNeoXConfig", "GPTNeoXModel", **_ENCODER),
    "gemma": _text("GemmaConfig", "GemmaModel", **dict(_DECODER, num_key_value_heads=1), head_dim=64, pad_token_id=0),
    "whisper_encoder": _speech(512, d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536),
    "swin": _image("swin_tiny_patch4_window7_224", embed_dim=48, depths=(2, 2, 2), num_heads=(2, 4, 8)),
    "cait": _image("cait_xxs24_224", depth=6),
    "mixer": _image("mixer_s32_224", num_classes=0),  # its classifier begins with zeros
    "regnetx_002": _image("regnetx_002"),
}  # fmt: skip

_MINILM = dict(vocab_size=1000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)

DEMO: Mapping[str, Callable[[], Model]] = {
    "minilm_8x128": _text("BertConfig", "BertModel", 8, 128, **_MINILM),
    "minilm_1x16": _text("BertConfig", "BertModel", 1, 16, **_MINILM),
}
