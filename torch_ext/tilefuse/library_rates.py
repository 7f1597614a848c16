"""What PyTorch's own library takes on this machine: the ``library.*`` rates of a hardware profile.

The engine asks ``fusion/library_product.h`` what a product, an attention or a convolution costs as a call of the
library. Its formulas are sums of amounts times constants (``1 / gflops``, ``call``, ...), so the constants come
from timed calls by least squares::

    rates = measure(2 << 20, report=print)      # about 20 seconds, on one thread
    rates["library.f32.gflops"]        # {"value": 102.0, "unit": "GFLOP/s of ...", "source": "torch 2.15.0, ..."}

Every call is timed in turn, round after round, and its fastest round counts: what else runs on the machine only adds.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from tilefuse.errors import UserError

__all__ = ["Sample", "fit", "measure", "product_sample", "product_samples", "window_samples"]

_DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i32": torch.int32, "i8": torch.int8}
_INTEGERS = ("i32", "i8")  # i8: products of bytes that add up in 32 bits, one matrix a call
_ROUND_SECONDS = 2e-3  # one call's share of a round: many runs of a short one, one of a long one
_LEAST_ROUNDS = 5
_LEAST_SHARE = 0.01  # of a time: what is too small to be seen counts as that
_MOST_OFF = 4.0  # a time this many times its fit says that something went wrong, not that the formula is coarse

_UNITS = {
    "gflops": "GFLOP/s of the framework's library, a large product on one thread",
    "chain_gflops": "GFLOP/s of a library call with several products, attention",
    "chain_matrix": "us a matrix of such a call",
    "vector_gflops": "GFLOP/s of the library where an operand is a vector",
    "gbs": "GB/s that operands and results of a product pass the library at, where they do not fit L2",
    "rows": "rows of a product that packing and starting take as long as",
    "call": "us a call of the library",
    "matrix": "us a matrix of a batch",
    "window.gflops": "GFLOP/s of the library, windows of several taps, on one thread",
    "window.point_gflops": "GFLOP/s of the library, windows of one tap",
    "window.vector_gflops": "GFLOP/s of the library, windows over images of one element",
    "window.gbs": "GB/s that operands and results of the library pass at beside the arithmetic",
    "window.weights_gbs": "GB/s that weights of several taps are brought into the library's layout at",
    "window.call": "us a call of the library over windows",
    "window.single_gflops": "GFLOP/s of the library where every channel has weights of its own",
    "window.single_gbs": "GB/s that images, channels outermost, are brought into the library's layout and back at",
    "window.single_last_gbs": "GB/s that images with channels innermost pass at",
    "window.single_call": "us a call of the library where every channel has weights of its own",
}


@dataclasses.dataclass(frozen=True)
class Sample:
    """A call of the library, and its price in the formulas: the sum of amounts times constants is microseconds."""

    name: str
    amounts: Mapping[str, float]
    make: Callable[[], Callable[[], Any]]  # allocates the operands and returns the call


# (matrices, m, k, n): a product of m rows, in sizes from a single head to a large layer.
_PRODUCTS = (
    *((1, rows, 32, 32) for rows in (8, 32)),
    *((1, rows, 64, 64) for rows in (8, 64)),
    *((1, rows, 256, 256) for rows in (2, 8, 32, 128, 512)),
    *((1, rows, 384, 384) for rows in (2, 8, 32, 128)),
    *((1, rows, 768, 768) for rows in (2, 8, 32, 128)),
    *((1, rows, 1024, 2048) for rows in (4, 16, 64, 256)),
    (16, 8, 64, 64),
    (16, 64, 64, 64),
    (48, 128, 64, 128),
)
_VECTORS = ((256, 256), (384, 384), (512, 512), (768, 768), (1024, 2048), (4096, 1024))
# (heads, queries, features); many heads of few queries show what each costs by itself
_ATTENTIONS = ((1, 64, 64), (8, 64, 64), (12, 128, 64), (12, 384, 64), (4, 256, 128), (256, 2, 64), (128, 8, 64), (64, 16, 64))


def product_samples(dtype: str, l2_bytes: float) -> list[Sample]:
    """Products, products with a vector, and attention of floats, in one dtype."""
    products = [sizes for sizes in _PRODUCTS if dtype != "i8" or sizes[0] == 1]
    return [
        *(product_sample(dtype, *sizes, l2_bytes, turned=turned) for sizes in products for turned in (False, True)),
        *(product_sample(dtype, 1, 1, *sizes, l2_bytes, turned=True) for sizes in _VECTORS),
        *(_attention(dtype, *sizes) for sizes in _ATTENTIONS if dtype not in _INTEGERS),
    ]


def product_sample(dtype: str, batch: int, m: int, k: int, n: int, l2_bytes: float, *, turned: bool = False) -> Sample:
    """Of ``batch`` matrices; ``turned``: the weight is contiguous along the summed axis, as in a linear layer."""
    kind, rates = _DTYPES[dtype], f"library.{dtype}."
    few, many = sorted((m, n))
    of_a_row = 2e-3 * batch * k * many
    arithmetic = {rates + "1/vector_gflops": of_a_row} if few == 1 else {rates + "1/gflops": of_a_row * few, rates + "rows/gflops": of_a_row}
    of_sums = torch.int32 if dtype == "i8" else kind
    beyond = _beyond_l2(dtype, batch * ((m * k + k * n) * kind.itemsize + m * n * of_sums.itemsize), l2_bytes)
    amounts = {rates + "call": 1, "library.matrix": batch, **arithmetic, **beyond}

    def make() -> Callable[[], Any]:
        left, result = _values(kind, batch, m, k), torch.empty(batch, m, n, dtype=of_sums)
        right = _values(kind, batch, n, k).transpose(1, 2) if turned else _values(kind, batch, k, n)
        if batch > 1:
            return lambda: torch.bmm(left, right, out=result)
        one_left, one_right, one_result = left[0], right[0], result[0]
        multiply = torch._int_mm if dtype == "i8" else torch.mm
        return lambda: multiply(one_left, one_right, out=one_result)

    return Sample(f"{dtype} product {batch}x[{m}, {k}] by [{k}, {n}]{' turned' if turned else ''}", amounts, make)


# Nothing of what fits L2, all of what is twice as large.
def _beyond_l2(dtype: str, size: float, l2_bytes: float) -> dict[str, float]:
    beyond = min(size, 2 * (size - l2_bytes))
    return {f"library.{dtype}.1/gbs": beyond / 1e3} if beyond > 0 else {}


def _attention(dtype: str, heads: int, queries: int, features: int) -> Sample:
    kind, rates = _DTYPES[dtype], f"library.{dtype}."
    amounts = {rates + "call": 1, rates + "chain_matrix": 2 * heads, rates + "1/chain_gflops": 4e-3 * heads * queries * queries * features}

    def make() -> Callable[[], Any]:
        query, key, value = (_values(kind, 1, heads, queries, features) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(query, key, value)

    return Sample(f"{dtype} attention {heads}x{queries}x{features}", amounts, make)


_WINDOW_DTYPES = ("f32", "bf16")
# (channels in, channels out, size of the image, size of the window)
_WINDOWS = (
    *((64, 64, size, 3) for size in (14, 28, 56)),
    (128, 128, 14, 3),
    (256, 256, 7, 3),
    (256, 256, 14, 3),
    (512, 512, 7, 3),
    (16, 32, 56, 3),
    *((64, 64, size, 1) for size in (7, 28, 56)),
    (256, 64, 28, 1),
    (512, 128, 14, 1),
    *((channels, 4 * channels, 1, 1) for channels in (16, 64, 256)),
)
# (channels, size of the image, size of the window): the arithmetic shows by windows of other sizes
_SINGLES = ((32, 112, 3), (96, 56, 3), (144, 28, 3), (144, 28, 5), (240, 14, 3), (240, 14, 5), (96, 56, 7), (960, 7, 3), (960, 7, 7))


def window_samples(dtype: str) -> list[Sample]:
    """Convolutions: dense ones, of one tap, over images of one element, and depthwise in both layouts."""
    singles = [_single(dtype, *sizes, last=last) for sizes in _SINGLES for last in (False, True)]
    return [*(_window(dtype, *sizes) for sizes in _WINDOWS), *singles]


def _window(dtype: str, channels: int, results: int, size: int, taps: int) -> Sample:
    kind, rates = _DTYPES[dtype], f"library.window.{dtype}."
    kiloflops = 2e-3 * channels * results * taps_inside(size, taps) ** 2
    image, weight, result = channels * size * size, channels * results * taps * taps, results * size * size
    rate = "vector_gflops" if size == 1 else "point_gflops" if taps == 1 else "gflops"
    kilobytes = lambda elements: 1e-3 * kind.itemsize * elements  # noqa: E731
    amounts = {rates + "call": 1, rates + "1/" + rate: kiloflops}
    if taps > 1 and size > 1:
        amounts |= {rates + "1/gbs": kilobytes(image + result), rates + "1/weights_gbs": kilobytes(weight)}
    else:
        amounts |= {rates + "1/gbs": kilobytes(image + weight + result)}

    def make() -> Callable[[], Any]:
        x, w = _values(kind, 1, channels, size, size), _values(kind, results, channels, taps, taps)
        return lambda: functional.conv2d(x, w, padding=taps // 2)

    return Sample(f"{dtype} convolution {channels} to {results}, {size}x{size}, {taps}x{taps}", amounts, make)


def taps_inside(size: int, taps: int) -> int:
    """Pairs of an element and a tap that looks at another one of its row, and not at padding."""
    return sum(min(size, at + taps // 2 + 1) - max(0, at - taps // 2) for at in range(size))


def _single(dtype: str, channels: int, size: int, taps: int, *, last: bool) -> Sample:
    kind, rates = _DTYPES[dtype], f"library.window.{dtype}."
    image = channels * size * size
    kilobytes = 1e-3 * kind.itemsize * (2 * image + taps * taps * channels)
    kiloflops = 2e-3 * image * taps * taps
    amounts = {rates + "single_call": 1, rates + "1/single_gflops": kiloflops, rates + f"1/single{'_last' * last}_gbs": kilobytes}

    def make() -> Callable[[], Any]:
        x, w = _values(kind, 1, channels, size, size), _values(kind, channels, 1, taps, taps)
        x = x.contiguous(memory_format=torch.channels_last) if last else x
        return lambda: functional.conv2d(x, w, padding=taps // 2, groups=channels)

    return Sample(f"{dtype} depthwise {channels}, {size}x{size}, {taps}x{taps}{', channels last' * last}", amounts, make)


def _values(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    return torch.rand(sizes).to(dtype) if dtype.is_floating_point else torch.randint(-128, 128, sizes).to(dtype)


def measure(
    l2_bytes: float,
    seconds: float = 20.0,
    report: Callable[[str], None] = lambda line: None,
    timer: Callable[[Sequence[Sample], float], list[float]] | None = None,
) -> dict[str, dict[str, Any]]:
    """All ``library.*`` rates of a profile, each with its unit and its source. ``UserError`` where a call fails."""
    groups = {f"products in {dtype}": product_samples(dtype, l2_bytes) for dtype in _DTYPES} | {
        f"convolutions in {dtype}": window_samples(dtype) for dtype in _WINDOW_DTYPES
    }
    count = sum(len(group) for group in groups.values())
    constants: dict[str, float] = {}
    for name, group in groups.items():
        report(f"timing {len(group)} {name} of PyTorch's library")
        times = (timer or _fastest_us)(group, seconds * len(group) / count)
        found = fit(group, times, constants)
        report("  " + _quality(group, times, found))
        constants = found
    return _as_rates(constants)


def _fastest_us(samples: Sequence[Sample], seconds: float) -> list[float]:
    """The fastest round of each call on one thread, less what Python takes to make a call."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.no_grad():
            one, other = torch.zeros(1), torch.zeros(1)
            of_python = lambda: torch.is_same_size(one, other)  # noqa: E731  no kernel, no allocation
            python, *times = _interleaved([of_python, *(_made(sample) for sample in samples)], seconds)
    finally:
        torch.set_num_threads(threads)
    return [max(time - python, 0.01) for time in times]


def _made(sample: Sample) -> Callable[[], Any]:
    try:
        call = sample.make()
        call()
    except (RuntimeError, MemoryError) as error:
        raise UserError(f"cannot time the library: {sample.name}: {str(error).splitlines()[0]}") from error
    return call


def _interleaved(calls: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    best = [math.inf] * len(calls)
    repeats = [0] * len(calls)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < _LEAST_ROUNDS or time.perf_counter() < end:
        for i, call in enumerate(calls):
            call()  # the one before left its data in the caches
            started = time.perf_counter()
            for _ in range(max(1, repeats[i])):
                call()
            took = (time.perf_counter() - started) / max(1, repeats[i])
            if repeats[i]:
                best[i] = min(best[i], took)
            repeats[i] = max(1, int(_ROUND_SECONDS / max(took, 1e-7)))
        rounds += 1
    return [1e6 * took for took in best]


def fit(samples: Sequence[Sample], times_us: Sequence[float], known: Mapping[str, float] | None = None) -> dict[str, float]:
    """Constants, all positive, that make the least of the sum of squared logarithms of price over time; those of ``known`` stay.

    Logarithms, because half and twice the time are as bad. Each step is a problem of least squares around the prices before.
    """
    given = dict(known or {})
    found = dict.fromkeys((name for sample in samples for name in sample.amounts if name not in given), 0.0)
    prices = list(times_us)
    for _ in range(20):
        targets = [price * (1 + max(-2.0, min(2.0, math.log(took / price)))) for took, price in zip(times_us, prices, strict=True)]
        _step(samples, prices, targets, given, found)
        prices = [max(_price(sample, given | found), 1e-3) for sample in samples]
    return given | found


def _step(samples: Sequence[Sample], scales: Sequence[float], targets: Sequence[float], given: Mapping[str, float], found: dict[str, float]) -> None:
    columns: dict[str, dict[int, float]] = {name: {} for name in found}
    rest = []
    for i, (sample, scale, target) in enumerate(zip(samples, scales, targets, strict=True)):
        shares = {name: amount / scale for name, amount in sample.amounts.items()}
        rest.append(target / scale - sum(share * (given[name] if name in given else found[name]) for name, share in shares.items()))
        for name in shares.keys() - given.keys():
            columns[name][i] = shares[name]
    for _ in range(2000):  # one constant at a time: the sum is convex, so that this ends at its least
        moved = 0.0
        for name, column in columns.items():
            least = _LEAST_SHARE / max(column.values())
            slope = sum(share * share for share in column.values())
            step = max(least - found[name], sum(share * rest[i] for i, share in column.items()) / slope)
            found[name] += step
            moved = max(moved, abs(step) * math.sqrt(slope))
            for i, share in column.items():
                rest[i] -= step * share
        if moved < 1e-7:
            break


def _price(sample: Sample, constants: Mapping[str, float]) -> float:
    return sum(constants[name] * amount for name, amount in sample.amounts.items())


def _quality(samples: Sequence[Sample], times_us: Sequence[float], constants: Mapping[str, float]) -> str:
    """How well the formulas hold. ``UserError`` where they do not: no profile is better than a wrong one."""
    off = []
    for sample, took in zip(samples, times_us, strict=True):
        price = _price(sample, constants)
        off.append((max(price / took, took / max(price, 1e-9)), sample.name, price, took))
    off.sort()
    _, name, price, took = off[-1]
    text = f"{name} takes {took:.3g} us, {price:.3g} us by its rates"
    if off[len(off) // 2][0] > _MOST_OFF:
        raise UserError(f"cannot fit the times of the library: half of them are off {_MOST_OFF:g} times and more; {text}. Try again on a quieter machine")
    return f"half of the times within {100 * (off[len(off) // 2][0] - 1):.0f} %; the worst: {text}"


def _as_rates(constants: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    values: dict[str, float] = {}
    for constant, value in constants.items():
        prefix, _, name = constant.rpartition(".")
        if name.startswith("1/"):
            values[f"{prefix}.{name[2:]}"] = 1 / value
        elif name == "rows/gflops":
            values[f"{prefix}.rows"] = value / constants[f"{prefix}.1/gflops"]
        else:
            values[constant] = value
    source = f"timed with torch {torch.__version__}, one thread, the fastest of several rounds"
    return {key: {"value": float(f"{value:.4g}"), "unit": _unit(key), "source": source} for key, value in values.items()}


def _unit(key: str) -> str:
    window = "window." if key.startswith("library.window.") else ""
    return _UNITS[window + key.rpartition(".")[2]]
