"""A fused file has the regions that torch.compile finds: one engine, and two forms of the same program.

torch.export keeps operators whole that AOTAutograd splits (`linear` is `t`, `view` and `addmm` there), and calls
values otherwise. The weights of a file are constants. Regions are compared by their tile graphs, names aside: what is computed, and over which axes.
"""

import collections
import re

import pytest
import tilefuse
import torch
from processors import FIXED_TARGET
from slow_cases import slow_of
from test_offline import CASES, copied

pytestmark = pytest.mark.usefixtures("two_threads")

EQUAL = ["mlp", "norms", "attention", "resnet18", "vit_tiny", "mobilenetv3_small"]
# Masks are kept as they are exported, true and false; AOTAutograd makes numbers of them. Products keep the dims of
# their operand, which AOTAutograd makes one of.
AS_MANY = ["bert", "gpt2", "t5_encoder"]


def computed(tile_graph):
    """({"mul: f32[128, 384]": 2, ...}), every axis by its extent."""
    extents = dict(re.findall(r"(\w+): (\w+)", re.search(r"axes (.*)", tile_graph)[1]))
    lines = re.findall(r"%\w+ += ([\w.]+)[( ].* : (\w+)\[(.*)\]", tile_graph)
    sized = [(op, dtype, *sorted(extents[axis] for axis in axes.split(", ") if axis)) for op, dtype, axes in lines]
    return tuple(sorted(collections.Counter(line for line in sized if line[0] != "constant").items()))


def regions_of(report):
    found = collections.Counter()
    for region in report["regions"]:
        found[computed(region["tile_graph"])] += region["uses"]
    return found


def regions_of_both(name, folder):
    torch.manual_seed(0)
    model, inputs, _ = CASES[name]()
    torch.export.save(torch.export.export(model, copied(inputs)), folder / "model.pt2")
    fused = tilefuse.fuse_file(folder / "model.pt2", folder / "fused.pt2", target=FIXED_TARGET, embed=False)
    with torch.no_grad():
        compiled = tilefuse.explain(model, *inputs, options={"freeze": True, "target": FIXED_TARGET}).json()["graphs"]
    assert len(compiled) == 1 and fused["launches"] > 0
    return regions_of(fused["report"]), regions_of(compiled[0])


@pytest.mark.parametrize("name", slow_of({"mobilenetv3_small"}, EQUAL))
def test_a_fused_file_has_the_regions_of_torch_compile(name, tmp_path):
    from_file, from_torch = regions_of_both(name, tmp_path)
    assert from_file - from_torch == from_torch - from_file


@pytest.mark.parametrize("name", AS_MANY)
def test_a_fused_language_model_has_as_many_regions_as_in_torch_compile(name, tmp_path):
    from_file, from_torch = regions_of_both(name, tmp_path)
    assert from_file.total() == from_torch.total()
