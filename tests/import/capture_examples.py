"""Writes the captured graphs beside this file: python tests/import/capture_examples.py"""

from __future__ import annotations

import pathlib

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from tilefuse.capture import capture
from torch._dynamo.backends.common import aot_autograd

FOLDER = pathlib.Path(__file__).parent


class EncoderBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.norm1, self.norm2 = torch.nn.LayerNorm(16), torch.nn.LayerNorm(16)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.project(x).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.out(attended))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target, label_smoothing=0.1)


def save(name, function, *inputs, dynamic=False, grad=False):
    def compiler(role):
        def compile_graph(module, _):
            (FOLDER / f"{name}{role}.json").write_text(capture(module, name=name).json + "\n")
            return make_boxed_func(module.forward)

        return compile_graph

    backend = aot_autograd(
        fw_compiler=compiler("_forward"), bw_compiler=compiler("_backward"), inference_compiler=compiler(""),
        partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True,
    )  # fmt: skip
    torch._dynamo.reset()
    with torch.set_grad_enabled(grad):
        result = torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)
        if grad:
            result.sum().backward()


if __name__ == "__main__":
    save("encoder_block_dynamic", EncoderBlock(), torch.randn(2, 5, 16), dynamic=True)
    save("batch_norm", torch.nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4), grad=True)
    save("cross_entropy", cross_entropy, torch.randn(4, 7, requires_grad=True), torch.arange(4), grad=True)
    save("half_softmax", lambda x: F.softmax(x * 0.3, -1), torch.randn(4, 7, dtype=torch.bfloat16))
