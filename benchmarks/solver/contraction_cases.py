"""Writes contractions.txt: of each case of the benchmarks of products and convolutions the region with most products in it.

    python benchmarks/solver/contraction_cases.py

Products with prologues and epilogues, of few rows, batched, gated and back to back, attention in its variants, dense
convolutions; f32 and bf16. They are planned for one thread, all as kernels, whether or not PyTorch's library would be
faster; what is larger than draw.py allows is left out, as is what differs from others in names alone.
"""

from __future__ import annotations

import pathlib
import re
import sys

import draw
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from conv_cases import FAMILIES as CONVOLUTIONS  # noqa: E402
from memory_cases import DTYPES, Family  # noqa: E402
from product_cases import FAMILIES as PRODUCTS  # noqa: E402

OUTPUT = HERE / "contractions.txt"
# The product of bytes is the same as in f32; gradients and long sums take too long.
LEFT_OUT = re.compile(r"\w*int8_linear\w* bf16|int8_linear_(512|wide_128)|long_sum|\w*gradients?_")


def largest_region(family: Family, dtype: torch.dtype) -> str | None:
    torch.manual_seed(0)
    regions = draw.regions_of(family.function, tuple(family.inputs(False, dtype)), products=True)
    fitting = [graph for graph in regions if draw.is_product(graph)]
    return max(fitting, key=draw.count_products, default=None)


def main() -> None:
    torch.set_num_threads(1)
    shapes: set[str] = set()
    taken = []
    for family in (*PRODUCTS, *CONVOLUTIONS):
        for name, dtype in DTYPES.items():
            if LEFT_OUT.match(f"{family.name} {name}"):
                continue
            graph = largest_region(family, dtype)
            if graph is not None and draw.shape_of(graph) not in shapes:
                shapes.add(draw.shape_of(graph))
                taken.append(re.sub(r"^tile_graph \S+", f"tile_graph {family.name}_{name}", graph))
    OUTPUT.write_text("\n\n".join(taken) + "\n")
    print(f"{len(taken)} regions")


if __name__ == "__main__":
    main()
