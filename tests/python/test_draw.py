"""Sets of regions for the solver's benchmark: what counts as memory-bound or as a product, and when two regions are the same."""

import pathlib
import sys

import pytest

pytest.importorskip("transformers")
pytest.importorskip("timm")
SOLVER = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "solver"
sys.path.insert(0, str(SOLVER))
import draw  # noqa: E402

ROW_SUM = """tile_graph {name} {{
  axes i: {rows}, r: 256
  buffers %{x}: f32[{rows}, 256] in, %y: f32[{rows}] out
  %0 = load %{x}[i*256 + r]   : f32[i, r]
  %1 = reduce.sum(%0) over r  : f32[i]
  store %1 -> %y[i]
}}"""

PRODUCT = """tile_graph product {
  axes i: 64, j: 64, k: 64
  buffers %a: f32[64, 64] in, %b: f32[64, 64] in, %c: f32[64, 64] out
  %0 = load %a[i*64 + k]     : f32[i, k]
  %1 = load %b[k*64 + j]     : f32[j, k]
  %2 = mul(%0, %1)           : f32[i, j, k]
  %3 = reduce.sum(%2) over k : f32[i, j]
  store %3 -> %c[i*64 + j]
}"""


def row_sum(name="row_sum", x="x", rows=64):
    return ROW_SUM.format(name=name, x=x, rows=rows)


def test_graphs_that_differ_in_names_alone_are_the_same():
    assert draw.shape_of(row_sum()) == draw.shape_of(row_sum(name="another", x="images"))
    assert draw.shape_of(row_sum()) != draw.shape_of(row_sum(rows=65))


def test_what_moves_enough_and_multiplies_little_is_memory_bound():
    assert draw.is_memory_bound(row_sum())
    assert not draw.is_memory_bound(row_sum(rows=16))  # 16 KB
    assert not draw.is_memory_bound(row_sum(rows="S"))
    assert not draw.is_memory_bound(PRODUCT)
    scaled = row_sum().replace("reduce.sum(%0)", "reduce.sum(%2)").replace("%1 =", "%2 = mul(%0, %0) : f32[i, r]\n  %1 =")
    assert draw.is_memory_bound(scaled)


def test_a_file_of_graphs_is_split_at_their_ends():
    graphs = draw.split_graphs((SOLVER / "held_out.txt").read_text())
    assert len(graphs) == 63
    assert all(graph.endswith("\n}") for graph in graphs)


def test_products_are_counted_by_their_multiplications():
    assert draw.count_products(PRODUCT) == 64**3
    assert draw.count_products(PRODUCT.replace("k: 64", "k: S")) == 0
    assert draw.count_products(row_sum()) == 0
    squares = row_sum().replace("reduce.sum(%0)", "reduce.sum(%2)").replace("%1 =", "%2 = mul(%0, %0) : f32[i, r]\n  %1 =")
    assert draw.count_products(squares) == 0  # no factor is shared by results
    assert draw.is_product(PRODUCT) and not draw.is_product(row_sum())
    assert not draw.is_product(PRODUCT.replace("k: 64", "k: 640000"))  # would be timed for minutes


def test_contractions_are_sixty_regions_and_more_of_all_kinds():
    graphs = draw.split_graphs((SOLVER / "contractions.txt").read_text())
    assert len(graphs) >= 60
    assert len({draw.shape_of(graph) for graph in graphs}) == len(graphs) == len({graph.split()[1] for graph in graphs})
    assert all(draw.is_product(graph) for graph in graphs)
    names = " ".join(graph.split()[1] for graph in graphs)
    kinds = "_f32 _bf16 int8 linear_gelu_1_ gated batched lora small_mlp attention_ dense_3x3 pointwise"
    assert all(kind in names for kind in kinds.split())
