"""Draws memory-bound regions of models at random, or such with products, for sets that the solver's choices are measured on.

    python benchmarks/solver/draw.py --seed 20261201 set.txt
    build/release/benchmarks/solver/solver_regret set.txt

Half of the models are timm's, half transformers', built from configurations with random weights: small ones whose name no
region of the known sets begins with, and one of a kind. Each is compiled for one thread: inference in f32 and in bf16,
and a training step in f32. Of each, up to three regions are taken that move at least 32 KB, are no product and look
through no window, and differ from all known ones in more than names. A model that fails is passed over.

With --products, regions with products instead: what the machine does in some milliseconds. They are those of kernels,
whether or not PyTorch's library is expected to be faster.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import random
import re
import tempfile
from collections.abc import Callable, Iterator

import timm
import torch
import transformers
from rich.console import Console
from torch.utils import _pytree as pytree
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

HERE = pathlib.Path(__file__).resolve().parent
KNOWN = tuple(HERE / f"{name}.txt" for name in ("tuned", "held_out", "contractions"))

MOST_PARAMETERS = 25_000_000
LEAST_BYTES = 32 * 1024
MOST_LINES = 200  # of a tile graph: a compiler takes half a minute for each schedule of longer ones
MOST_LOOKS = 4  # at each element that is moved: windows and products take more
MOST_PRODUCTS = 2**29  # multiplications of a region: a sweep times bad schedules, too
MODES = ("inference", "bf16", "training")

Model = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class _Text(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> object:
        return self.model(ids, return_dict=False)


def _is_small(make: Callable[[], torch.nn.Module]) -> bool:
    with torch.device("meta"):
        return sum(p.numel() for p in make().parameters()) <= MOST_PARAMETERS


def _image(name: str, draw: random.Random) -> Model | None:
    if not _is_small(lambda: timm.create_model(name)):
        return None
    model = timm.create_model(name)
    return model, (torch.randn(draw.choice((1, 2)), *model.default_cfg["input_size"]),)


def _text(name: str, draw: random.Random) -> Model | None:
    hidden = draw.choice((192, 256, 384, 512))
    heads = hidden // 64
    sizes = {"hidden_size": hidden, "intermediate_size": 2 * hidden, "vocab_size": 1000, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": heads, "num_key_value_heads": heads, "pad_token_id": 0}
    config = transformers.AutoConfig.for_model(name, **sizes)
    config.use_cache = False
    if not _is_small(lambda: transformers.AutoModel.from_config(config)):
        return None
    batch, length = draw.choice(((1, 256), (2, 128), (4, 64)))
    return _Text(transformers.AutoModel.from_config(config)), (torch.randint(10, 1000, (batch, length)),)


def _new_models(names: list[str], kind_of: Callable[[str], str], draw: random.Random, regions: list[str]) -> Iterator[str]:
    """Models of which no region is known in an order drawn at random, one of a kind."""
    known = tuple(re.split("_(?:inference|bf16|training|train)_", region)[0] + "_" for region in regions)
    kinds = set()
    for name in draw.sample(names, len(names)):
        title = re.sub(r"\W", "_", name) + "_"
        if kind_of(name) not in kinds and not title.startswith(known):
            kinds.add(kind_of(name))
            yield name


def _run(function: Callable[..., object], model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], mode: str) -> None:
    with torch.set_grad_enabled(mode == "training"):
        outputs = [x for x in pytree.tree_leaves(function(*inputs)) if isinstance(x, torch.Tensor)]
        if mode == "training":
            sum((x * x).mean() for x in outputs if x.is_floating_point()).backward()
    model.zero_grad()


def regions_of(
    function: Callable[..., object],
    inputs: tuple[torch.Tensor, ...],
    products: bool,
    run: Callable[[Callable[..., object]], object] | None = None,
) -> list[str]:
    """The tile graphs of all regions that the backend makes of a function when it runs, by default in inference."""
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as folder, torch.set_grad_enabled(run is not None):
        options = {"dump": "tiles", "dump_dir": folder, "products": "own" if products else "auto"}
        compiled = torch.compile(function, backend="tilefuse", dynamic=False, options=options)
        run(compiled) if run else compiled(*inputs)
        return [file.read_text() for file in sorted(pathlib.Path(folder).rglob("*tiles*.txt"))]


def _regions(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], mode: str, products: bool) -> list[str]:
    """The tile graphs of all regions that the backend makes of a model."""
    dtype = torch.bfloat16 if mode == "bf16" else torch.float32
    model = model.to(dtype).train(mode == "training")
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    _run(model, model, inputs, mode)  # what PyTorch cannot run is no fault of the backend
    return regions_of(model, inputs, products, lambda compiled: _run(compiled, model, inputs, mode))


def split_graphs(text: str) -> list[str]:
    return re.findall(r"^tile_graph .*?^}", text, re.MULTILINE | re.DOTALL)


def shape_of(graph: str) -> str:
    """A tile graph with names replaced by numbers: equal for graphs that differ in names alone."""
    numbers: dict[str, str] = {}
    without_title = re.sub(r"^tile_graph \S+", "tile_graph", graph)
    renamed = re.sub(r"%\w+", lambda name: numbers.setdefault(name[0], f"%{len(numbers)}"), without_title)
    return re.sub(r" +", " ", renamed)


def _axis_sizes(graph: str) -> dict[str, str]:
    axes = re.search(r"^  axes (.*)$", graph, re.MULTILINE)
    return dict(re.findall(r"(\w+): (\w+)", axes[1] if axes else ""))


def count_products(graph: str) -> int:
    """Multiplications in sums of products of which a factor stays the same along an axis of the result; 0: there are none."""
    sizes = _axis_sizes(graph)
    if graph.count("\n") > MOST_LINES or not all(size.isdigit() for size in sizes.values()):
        return 0
    values = re.findall(r"^  (%\w+) += (\w[\w.]*)\(?([^)\n]*?)\)?(?: over [\w, ]+)? +: \w+\[([^\]]*)\]$", graph, re.MULTILINE)
    axes = {name: {axis for axis in text.split(", ") if axis} for name, _, _, text in values}
    factors = {name: operands.split(", ") for name, op, operands, _ in values if op == "mul"}
    count = 0
    for _, op, operand, text in values:
        result = {axis for axis in text.split(", ") if axis}
        if op == "reduce.sum" and any(result - axes.get(factor, result) for factor in factors.get(operand, ())):
            count += math.prod(int(sizes[axis]) for axis in axes[operand])
    return count


def _elements_and_bytes(graph: str) -> tuple[int, int]:
    elements = moved = 0
    for dtype, bits, shape in re.findall(r"%\w+: ([a-z]+)(\d*)\w*\[([^\]]*)\] (?:in|out)\b", graph):
        count = math.prod(int(size) for size in shape.split(",") if size.strip())
        elements += count
        moved += count * (1 if dtype == "bool" else int(bits) // 8)
    return elements, moved


def is_memory_bound(graph: str) -> bool:
    """Whether a tile graph of constant sizes moves enough, and loads, or multiplies and sums up, little for it."""
    sizes = _axis_sizes(graph)
    if graph.count("\n") > MOST_LINES or not all(size.isdigit() for size in sizes.values()):
        return False
    elements, moved = _elements_and_bytes(graph)
    points, looks = {}, 0
    for name, op, axes in re.findall(r"^  (%\w+) += (load|mul)\b.* : \w+\[([^\]]*)\]$", graph, re.MULTILINE):
        points[name] = math.prod(int(sizes[axis]) for axis in axes.split(", ") if axis)
        looks += points[name] if op == "load" else 0
    summed = re.findall(r"= reduce\.sum\((%\w+)\)", graph)
    return moved >= LEAST_BYTES and max(looks, *(points.get(name, 0) for name in summed), 0) <= MOST_LOOKS * elements


def is_product(graph: str) -> bool:
    """Whether a tile graph has products, enough of them to be timed and not too many, and moves enough."""
    return LEAST_BYTES <= count_products(graph) <= MOST_PRODUCTS and _elements_and_bytes(graph)[1] >= LEAST_BYTES


def _take(graphs: list[str], title: str, most: int, draw: random.Random, shapes: set[str], products: bool) -> list[str]:
    """Up to `most` of them at random, named by the model; their shapes join those that are known."""
    taken: list[str] = []
    wanted = is_product if products else is_memory_bound
    for graph in draw.sample(graphs, len(graphs)):
        if len(taken) < most and wanted(graph) and shape_of(graph) not in shapes:
            shapes.add(shape_of(graph))
            taken.append(re.sub(r"^tile_graph (\S+)", rf"tile_graph {title}_\1_{len(taken) + 1}", graph))
    return taken


def _draw_model(
    name: str, make: Callable[..., Model | None], each: int, draw: random.Random, shapes: set[str], products: bool
) -> list[str]:
    made, found = make(name, draw), []
    for mode in MODES if made else ():
        title = re.sub(r"\W", "_", f"{name}_{mode}")
        found += _take(_regions(*made, mode, products), title, each, draw, shapes, products)
    return found


def draw_set(seed: int, models: int, each: int, products: bool, console: Console) -> list[str]:
    draw, drawn = random.Random(seed), []
    known = [graph for file in KNOWN if file.exists() for graph in split_graphs(file.read_text())]
    titles, shapes = [graph.split()[1] for graph in known], {*map(shape_of, known)}
    for make, names, kind_of in (
        (_image, timm.list_models(), lambda name: timm.models.model_entrypoint(name).__module__),
        (_text, sorted(MODEL_MAPPING_NAMES), lambda name: name),
    ):
        left = models // 2
        for name in _new_models(names, kind_of, draw, titles):
            torch.manual_seed(seed)
            try:
                found = _draw_model(name, make, each, draw, shapes, products)
            except Exception as error:  # a model may fail in any way: the next one takes its place
                console.print(f"{name}: passed over, {type(error).__name__}: {str(error)[:100]!r}", markup=False)
                continue
            console.print(f"{name}: {len(found)} regions")
            drawn += found
            left -= bool(found)
            if not left:
                break
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path, help="the file of tile graphs to write")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--each", type=int, default=3, help="regions, at most, of a model and mode")
    parser.add_argument("--products", action="store_true", help="regions with products instead of memory-bound ones")
    parser.add_argument("--most", type=int, default=80, help="regions of the set, at random of all that were taken")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    drawn = draw_set(arguments.seed, arguments.models, arguments.each, arguments.products, Console())
    taken = sorted(random.Random(arguments.seed).sample(range(len(drawn)), min(arguments.most, len(drawn))))
    arguments.output.write_text("\n\n".join(drawn[i] for i in taken) + "\n")


if __name__ == "__main__":
    main()
