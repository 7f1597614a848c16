"""The library's rates, from times that are made up: what `tilefuse calibrate` fits, and what it says of it."""

import json
import re

import pytest
import torch

from processors import PROFILES
from tilefuse import explain, library_rates
from tilefuse.errors import UserError
from tilefuse.library_rates import Sample

L2_BYTES = 2 << 20


def constant(name):
    """Microseconds a unit of one amount, on a machine that is made up."""
    kind = name.rpartition(".")[2]
    table = {"call": 3.0, "matrix": 0.2, "1/gflops": 0.01, "rows/gflops": 0.08, "1/gbs": 0.04, "1/vector_gflops": 0.03, "1/chain_gflops": 0.02, "chain_matrix": 0.4}
    return table.get(kind, 0.025)


def made_up(samples, seconds):
    return [sum(amount * constant(name) for name, amount in sample.amounts.items()) for sample in samples]


def test_rates_are_found_again_in_the_times_they_make():
    rates = library_rates.measure(L2_BYTES, timer=made_up)
    for dtype in ("f32", "f64", "bf16"):
        values = {key: rates[f"library.{dtype}.{key}"]["value"] for key in ("call", "gflops", "rows", "gbs", "vector_gflops", "chain_gflops", "chain_matrix")}
        want = {"call": 3, "gflops": 100, "rows": 8, "gbs": 25, "vector_gflops": 1 / 0.03, "chain_gflops": 50, "chain_matrix": 0.4}
        assert values == pytest.approx(want, rel=0.02)
    assert rates["library.matrix"]["value"] == pytest.approx(0.2, rel=0.05)
    assert rates["library.window.f32.single_gbs"]["value"] == pytest.approx(40, rel=0.02)


def test_rates_are_those_that_a_profile_has_with_unit_and_source():
    rates = library_rates.measure(L2_BYTES, timer=made_up)
    profiles = [json.loads(file.read_text()) for file in PROFILES.glob("*.json")]
    for profile in profiles:
        measured = profile["rates"] if profile["kind"] == "cpu" else {}
        by_hand = {key for key, rate in measured.items() if "by hand" in profile["sources"].get(rate["source"], "")}
        assert {key for key in measured if key.startswith("library.")} - by_hand <= rates.keys()
    for rate in rates.values():
        assert rate["value"] > 0
        assert rate["unit"]
        assert torch.__version__ in rate["source"]


def test_a_slow_round_among_the_calls_moves_no_rate_far():
    def with_outliers(samples, seconds):
        return [took * (1.5 if i % 7 == 0 else 1) for i, took in enumerate(made_up(samples, seconds))]

    rates = library_rates.measure(L2_BYTES, timer=with_outliers)
    assert rates["library.f32.gflops"]["value"] == pytest.approx(100, rel=0.25)


def test_progress_says_what_is_timed_and_how_well_it_fits():
    lines = []
    library_rates.measure(L2_BYTES, report=lines.append, timer=made_up)
    assert re.match(r"timing \d+ products in f32 of PyTorch's library", lines[0])
    assert re.match(r"  half of the times within 0 %; the worst: .* takes .* us, .* us by its rates", lines[1])


def test_times_that_follow_no_formula_are_an_error():
    with pytest.raises(UserError, match=r"cannot fit the times of the library: .* quieter machine"):
        library_rates.measure(L2_BYTES, timer=lambda samples, seconds: [10.0 ** (i % 2 * 8) for i in range(len(samples))])


def test_a_call_that_fails_is_named():
    def make():
        raise RuntimeError("no such kernel")

    with pytest.raises(UserError, match="cannot time the library: f16 product: no such kernel"):
        library_rates._fastest_us([Sample("f16 product", {}, make)], 0.01)


def test_every_call_runs_and_is_timed_on_one_thread():
    threads = torch.get_num_threads()
    samples = [*library_rates.product_samples("bf16", L2_BYTES)[:4], *library_rates.window_samples("bf16")[-2:]]
    assert all(took > 0 for took in library_rates._fastest_us(samples, 0.01))
    assert torch.get_num_threads() == threads


def fast_library(samples, seconds):
    return [took / 1e3 for took in made_up(samples, seconds)]


@pytest.mark.parametrize("rows", [1, 2, 64])
def test_prices_are_those_of_the_engine(rows, tmp_path):
    profile = json.loads((PROFILES / "x86-avx2.json").read_text())
    l2_bytes = profile["l2_bytes"]["value"]
    profile["rates"] |= library_rates.measure(l2_bytes, timer=fast_library)
    path = tmp_path / "fast_library.json"
    path.write_text(json.dumps(profile))
    k, n = 512, 1024
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        report = explain(lambda x, w: torch.relu(x @ w), torch.randn(rows, k), torch.randn(k, n), options={"target": str(path)})
    finally:
        torch.set_num_threads(threads)
    said = re.search(r"framework's library, ([0-9.e+-]+) us there", str(report))
    sample = library_rates.product_sample("f32", 1, rows, k, n, l2_bytes)
    (took,) = fast_library([sample], 0)
    assert float(said[1]) == pytest.approx(took, rel=0.02)
