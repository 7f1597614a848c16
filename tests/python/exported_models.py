"""Eighteen more architectures, of other kinds than those of benchmarks/model_cases.py: small, with random weights.

name -> () -> (model, inputs), in evaluation mode, returning tensors.
"""

import torch


class First(torch.nn.Module):
    """A transformers model as a function of one tensor that returns its first tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, given):
        return self.model(given, return_dict=False)[0]


def transformer(config_name, class_name, given, **sizes):
    def make():
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, config_name)(**sizes)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        return First(getattr(transformers, class_name)(config)).eval(), (given(),)

    return make


def image_model(name, **sizes):
    def make():
        import timm

        torch.manual_seed(0)
        size = sizes.get("img_size", 64)
        return timm.create_model(name, pretrained=False, num_classes=10, **sizes).eval(), (torch.randn(2, 3, size, size),)

    return make


def ids():
    return torch.randint(0, 500, (2, 48))


def sound():
    return torch.randn(2, 2000)


def picture():
    return torch.randn(2, 3, 64, 64)


SIZES = dict(vocab_size=500, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=192)

EXPORTED = {
    # One layer's weights used by all, a factorised embedding.
    "albert": transformer("AlbertConfig", "AlbertModel", ids, embedding_size=32, **SIZES),
    # Scaled embeddings, norms that add one to their weight, a gate of tanh-gelu, a cap of the scores.
    "gemma2": transformer("Gemma2Config", "Gemma2Model", ids, num_key_value_heads=2, head_dim=24, sliding_window=16, **SIZES),
    # Attention and MLP side by side, rotary embedding of a part of each head.
    "gpt_neox": transformer("GPTNeoXConfig", "GPTNeoXModel", ids, **SIZES),
    # Scores gathered by relative position, from content to place and back.
    "deberta_v2": transformer(
        "DebertaV2Config", "DebertaV2Model", ids, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], **SIZES
    ),
    # Waves in: a stack of one-dimensional convolutions, a group norm over time, a grouped convolution for places.
    "wav2vec2": transformer(
        "Wav2Vec2Config", "Wav2Vec2Model", sound, conv_dim=(32, 32, 32), conv_kernel=(10, 3, 2), conv_stride=(5, 2, 2),
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, num_feat_extract_layers=3, **SIZES
    ),
    # Windows of attention, a gated MLP in one product, layers of two kinds.
    "modernbert": transformer(
        "ModernBertConfig", "ModernBertModel", ids, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, **SIZES
    ),
    # A selective scan, step by step.
    "mamba": transformer("MambaConfig", "MambaModel", ids, state_size=8, **SIZES),
    # Scores with a slope per head.
    "bloom": transformer("BloomConfig", "BloomModel", ids, vocab_size=500, hidden_size=96, n_layer=2, n_head=4),
    # Relative positions by einsum, shifted.
    "xlnet": transformer("XLNetConfig", "XLNetModel", ids, vocab_size=500, d_model=96, n_layer=2, n_head=4, d_inner=192),
    # Fourier transforms, which stay with torch, between norms.
    "fnet": transformer("FNetConfig", "FNetModel", ids, **SIZES),
    # Positions looked up behind an offset, a decoder of ReLUs.
    "opt": transformer("OPTConfig", "OPTModel", ids, ffn_dim=192, word_embed_proj_dim=96, **SIZES),
    # Bottlenecks: several small products and affine maps in place of norms in each layer.
    "mobilebert": transformer("MobileBertConfig", "MobileBertModel", ids, embedding_size=32, intra_bottleneck_size=48, **SIZES),
    # Convolutions of spans whose kernels are computed.
    "convbert": transformer("ConvBertConfig", "ConvBertModel", ids, **SIZES),
    # Patches, scores with a bias by place, a scale per channel behind each branch.
    "beit": transformer("BeitConfig", "BeitModel", picture, image_size=64, patch_size=8, **SIZES),
    # Attention between convolutions, keys narrower than values.
    "levit": transformer(
        "LevitConfig", "LevitModel", picture, image_size=64, hidden_sizes=[32, 48, 64], num_attention_heads=[2, 3, 4], depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    # Windows that roll, biases gathered by place, patches merged.
    "swin": image_model("swin_tiny_patch4_window7_224", img_size=56, embed_dim=24, depths=(2, 2), num_heads=(2, 4)),
    # Products across the patches, affine maps in place of norms.
    "mixer": image_model("resmlp_12_224", img_size=64),
    # Every layer reads the concatenation of all before it.
    "densenet": image_model("densenet121", growth_rate=8, block_config=(2, 2, 2)),
}  # fmt: skip
