"""Graphs on a GPU end to end, by the model of one (host_gpu.py): the results are eager's, and kernels made them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import host_gpu
import pytest
import torch
import torch.nn.functional as F
from tilefuse import Report, errors
from tilefuse.backend import collect_graphs
from tilefuse.errors import TileFuseWarning, UserError


@pytest.fixture
def driver() -> Iterator[host_gpu.Driver]:
    with host_gpu.Driver.of_an_a100().memory() as found:
        yield found


def _all(values: Any) -> list[torch.Tensor]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _same(got: Any, want: Any, **tolerance: float) -> None:
    for have, expected in zip(_all(got), _all(want), strict=True):
        torch.testing.assert_close(have, expected, **tolerance)
        assert have.stride() == expected.stride()


def _residual_norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + y
    return F.rms_norm(total, (total.shape[-1],), w), total


def _attention_mask(x: torch.Tensor) -> torch.Tensor:
    keep = torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool, device=x.device).tril()
    return torch.softmax(x.masked_fill(~keep, float("-inf")), -1)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (lambda x: torch.softmax(x, -1), ((6, 40),)),
    "log_softmax": (lambda x: torch.log_softmax(x, 1), ((5, 33),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (48,), w, b), ((7, 48), (48,), (48,))),
    "gelu_chain": (lambda x, y: F.gelu(x * 2 + y, approximate="tanh").sigmoid(), ((3, 65), (3, 65))),
    "residual_norm": (_residual_norm, ((5, 64), (5, 64), (64,))),
    "reductions": (lambda x: (x.sum(), x.mean(0), x.amax(1), (x > 0).any(1)), ((9, 21),)),
    "long_sum": (lambda x: x.sum(), ((9000,),)),
    "transposed": (lambda x: (x.t() + 1).contiguous(), ((18, 35),)),
    "channels": (lambda x: (x * 2).mean((0, 2, 3)), ((2, 3, 5, 7),)),
    "embedding": (lambda w, i: F.embedding(i, w) * 3, ((11, 16), ("index", (4, 5), 11))),
    "gather": (lambda x, i: x.gather(1, i).exp(), ((6, 9), ("index", (6, 4), 9))),
    "concat": (lambda x, y: torch.cat([x, y * 2], 1), ((4, 8), (4, 12))),
    "f64": (lambda x: torch.softmax(x * 2 + 1, 1), (("double", (3, 9)),)),
    "angles": (lambda x: torch.sin(x * 1e6) ** 3 + torch.cos(x) * torch.tan(x / 4), ((7, 30),)),
    "rests": (lambda x, y: torch.fmod(x, y) + torch.remainder(x, y) + x // y, ((7, 30), (7, 30))),
    "integer_quotients": (lambda x: (x * 9).long() // 7 + (x * 9).long() % 5 + ((x * 9).int() << 2), ((7, 30),)),
    "masked": (_attention_mask, ((2, 12, 12),)),
    "arange": (lambda x: x + torch.arange(x.shape[1], device=x.device), ((3, 17),)),
    "full": (lambda x: torch.where(x > 0, x, torch.full_like(x, 3)), ((3, 17),)),
    "product": (lambda x, w: F.relu(x @ w + 1), ((6, 24), (24, 8))),
    "linear": (lambda x, w, b: F.gelu(F.linear(x, w, b)), ((6, 24), (8, 24), (8,))),
    "half": (lambda x: torch.softmax(x, -1) * 2, (("half", (4, 40)),)),
    "bf16": (lambda x, y: F.silu(x) * y, (("bfloat16", (4, 40)), ("bfloat16", (4, 40)))),
    "nan": (lambda x: torch.where(x > 0, x, float("nan")).nan_to_num(2.0) + x.clamp(max=float("inf")), ((3, 17),)),
    "nothing": (lambda x: (x + 1, x.sum(1)), ((0, 5),)),
    "sum_of_nothing": (lambda x: x.sum(1) + 1, ((4, 0),)),
    "scalars": (lambda x: (x.sum() * 2 + 1).exp(), ((3,),)),
    "numbers": (lambda x, y: (torch.exp(x * y) + 1).clamp(min=2), ((), ())),
    "running_sum": (lambda x: x.cumsum(1) * 2, ((3, 300),)),
    "running_sum_down": (lambda x: x.cumsum(0), ((9, 40),)),
    "running_sum_from_the_end": (lambda x: x.flip(1).cumsum(1).flip(1), (("half", (3, 70)),)),
    "position": (lambda x: x.argmax(1), ((3, 90),)),
    "position_of_all": (lambda x: (x * 2).argmin(), (("bfloat16", (7, 50)),)),
    "extreme_and_position": (lambda x: torch.max(x.exp(), 0), ((30, 9),)),
}


WITHOUT_ELEMENTS = ("nothing", "sum_of_nothing")


def _made(spec: Any) -> torch.Tensor:
    if spec[:1] == ("index",):
        return torch.randint(0, spec[2], spec[1])
    if spec and isinstance(spec[0], str):
        return torch.randn(spec[1]).to(getattr(torch, spec[0]))
    return torch.randn(spec)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_eager(driver, name):
    function, specs = CASES[name]
    inputs = [_made(spec) for spec in specs]
    low = any(value.dtype in (torch.half, torch.bfloat16) for value in inputs)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        got = host_gpu.on_gpu(function)(*inputs)
    assert driver.launches() > 0 or name in WITHOUT_ELEMENTS
    _same(got, function(*inputs), **({"rtol": 2e-2, "atol": 2e-2} if low else {"rtol": 1e-5, "atol": 1e-5}))


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.bmm(q, k.transpose(1, 2)) * 0.125


# With products="own": each is one kernel, with what is computed of the product.
PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "linear": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        (("bfloat16", (40, 64)), ("bfloat16", (48, 64)), ("bfloat16", (48,))),
    ),
    "residual": (lambda x, w, r: F.relu(x @ w) + r, (("half", (72, 128)), ("half", (128, 56)), ("half", (72, 56)))),
    "ragged": (lambda x, w: (x @ w).sigmoid(), (("half", (37, 50)), ("half", (50, 29)))),
    "batch": (_scores, (("bfloat16", (4, 64, 64)), ("bfloat16", (4, 72, 64)))),
    "tokens": (lambda x, w: F.silu(F.linear(x, w)), (("bfloat16", (2, 24, 64)), ("bfloat16", (40, 64)))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_on_tensor_cores(driver, name):
    function, specs = PRODUCTS[name]
    inputs = [_made(spec) for spec in specs]
    with torch.no_grad(), collect_graphs() as graphs, warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        got = host_gpu.on_gpu(function, products="own")(*inputs)
    assert driver.launches() == 1
    assert "product  %" in str(Report(graphs))
    _same(got, function(*inputs), rtol=2e-2, atol=2e-2)


def _weighed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def _of_one_projection(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    batch, length, _ = x.shape
    q, k, v = F.linear(x, w).view(batch, length, 3, 2, 32).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, 64)


_HEADS = ("bfloat16", (2, 4, 40, 64))
# With products="own": scores never lie in memory. Kernels, and the function.
CHAINS: dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]] = {
    "plain": (1, _weighed, (_HEADS, _HEADS, _HEADS)),
    "attention": (1, F.scaled_dot_product_attention, (_HEADS, _HEADS, _HEADS)),
    "causal": (1, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (_HEADS, _HEADS, _HEADS)),
    "half": (1, F.scaled_dot_product_attention, (("half", (1, 2, 37, 32)),) * 3),
    "of_other_lengths": (
        1,
        F.scaled_dot_product_attention,
        (("bfloat16", (1, 2, 20, 64)), ("bfloat16", (1, 2, 50, 64)), ("bfloat16", (1, 2, 50, 64))),
    ),
    "shared_heads": (
        1,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (_HEADS, ("bfloat16", (2, 2, 40, 64)), ("bfloat16", (2, 2, 40, 64))),
    ),
    "bias": (
        1,
        lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, bias),
        (_HEADS, _HEADS, _HEADS, ("bfloat16", (1, 4, 40, 40))),
    ),
    "behind_a_product": (2, _of_one_projection, (("bfloat16", (2, 40, 64)), ("bfloat16", (192, 64)))),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_products_on_tensor_cores(driver, name):
    kernels, function, specs = CHAINS[name]
    inputs = [_made(spec) for spec in specs]
    with torch.no_grad(), collect_graphs() as graphs, warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        got = host_gpu.on_gpu(function, products="own")(*inputs)
    assert "  chain    %" in str(Report(graphs))
    assert driver.launches() == kernels
    _same(got, function(*inputs), rtol=2e-2, atol=2e-2)


# What no kernel computes runs with ATen, and the report says why.
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "sine_of_f64": (lambda x: x.sin() + 1, (("double", (3, 9)),), "there is no sin of f64 for GPUs yet"),
    "two_axes": (lambda x: (x.sum(0), x.sum(1)), ((3, 9),), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_computes_runs_with_atens_operators(driver, name):
    function, specs, reason = REFUSED[name]
    inputs = [_made(spec) for spec in specs]
    with torch.no_grad(), collect_graphs() as graphs:
        _same(host_gpu.on_gpu(function)(*inputs), function(*inputs))
    assert reason in str(Report(graphs))


def test_a_training_step(driver):
    def loss(x, w, b, target):
        hidden = F.layer_norm(F.gelu(F.linear(x, w, b)), (16,))
        return F.cross_entropy(hidden, target)

    x, target = torch.randn(6, 24), torch.randint(0, 16, (6,))
    ours = [torch.randn(16, 24, requires_grad=True), torch.randn(16, requires_grad=True)]
    theirs = [value.detach().clone().requires_grad_() for value in ours]
    got, want = host_gpu.on_gpu(loss)(x, *ours, target), loss(x, *theirs, target)
    _same(got, want)
    got.backward()
    assert driver.launches() > 2
    want.backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_dynamic_sizes_are_compiled_once(driver):
    function = lambda x: torch.softmax(x, -1) * x.shape[0]  # noqa: E731
    with torch.no_grad(), collect_graphs() as graphs:
        compiled = torch.compile(function, backend="tilefuse", dynamic=True, options=host_gpu.options())
        for rows, columns in [(3, 20), (7, 33), (2, 5)]:
            x = torch.randn(rows, columns)
            _same(compiled(x), function(x))
    assert len(graphs) == 1
    assert driver.launches() == 3


def test_products_of_sizes_known_at_run_time(driver):
    function = lambda x, w: torch.relu(x @ w)  # noqa: E731
    w = torch.randn(64, 48).half()
    with torch.no_grad(), collect_graphs() as graphs:
        settings = host_gpu.options(products="own")
        compiled = torch.compile(function, backend="tilefuse", dynamic=True, options=settings)
        for rows in (40, 3, 129):
            x = torch.randn(rows, 64).half()
            _same(compiled(x, w), function(x, w), rtol=2e-2, atol=2e-2)
    assert len(graphs) == 1
    assert driver.launches() == 3
    assert "product  %" in str(Report(graphs))


def test_a_training_step_with_products_on_tensor_cores(driver):
    def loss(x, w, b):
        return F.gelu(F.linear(x, w, b)).float().square().mean()

    x = torch.randn(64, 48).bfloat16()
    ours = [torch.randn(40, 48).bfloat16().requires_grad_(), torch.randn(40).bfloat16().requires_grad_()]
    theirs = [value.detach().clone().requires_grad_() for value in ours]
    with collect_graphs() as graphs:
        got, want = host_gpu.on_gpu(loss, products="own")(x, *ours), loss(x, *theirs)
        _same(got, want, rtol=2e-2, atol=2e-2)
        got.backward()
        want.backward()
    assert "product  %" in str(Report(graphs))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=5e-2, atol=2e-2)


def test_inputs_are_written_in_place(driver):
    def step(x, y):
        x.add_(y).mul_(2)
        return x.sum(1)

    x, y = torch.randn(4, 10), torch.randn(4, 10)
    other = x.clone()
    with torch.no_grad():
        _same(torch.compile(step, backend="tilefuse", options=host_gpu.options())(x, y), step(other, y))
    _same(x, other)
    assert driver.launches() > 0


def test_inputs_of_other_strides_and_at_odd_places(driver):
    function = lambda x: F.relu(x) + 1  # noqa: E731
    base = torch.randn(4, 11)
    with torch.no_grad():
        compiled = host_gpu.on_gpu(function)
        for x in (base[:, :8], torch.randn(100)[1:33].view(4, 8), torch.randn(8, 4).t(), torch.randn(8).expand(4, 8)):
            torch.testing.assert_close(compiled(x), function(x))
    assert driver.launches() == 4


def test_calls_between_regions_and_views_of_results(driver):
    def block(x, w):
        query, key = (x.exp() @ w).chunk(2, -1)
        return torch.softmax(query * 2 @ key.t(), -1), key

    inputs = torch.randn(5, 12), torch.randn(12, 14)
    with torch.no_grad():
        got, want = host_gpu.on_gpu(block)(*inputs), block(*inputs)
    for have, expected in zip(got, want, strict=True):
        torch.testing.assert_close(have, expected, rtol=1e-4, atol=1e-5)


def test_regions_are_operators_of_their_own(driver):
    with torch.no_grad(), collect_graphs() as graphs:
        x = torch.randn(4, 9)
        host_gpu.on_gpu(lambda x: torch.softmax(x + 3, -1))(x)
    region = getattr(torch.ops.tilefuse, graphs[0].answer["regions"][0])
    torch.testing.assert_close(region(x), torch.softmax(x + 3, -1))


# ---------------------------------------------------------------- caches
def test_a_second_compilation_takes_machine_code_from_the_cache(driver, tmp_path):
    function = lambda x: torch.tanh(x) * 5  # noqa: E731
    x = torch.randn(40)

    def times() -> dict[str, float]:
        with torch.no_grad(), collect_graphs() as graphs:
            # Other pins, another plan: what is found again is machine code.
            pins = {"nothing": {"rows": str(len(seen))}}
            _same(host_gpu.on_gpu(function, cache_dir=str(tmp_path), pins=pins)(x), function(x))
        report = Report(graphs).json()["graphs"][0]
        return {stage["name"]: stage["milliseconds"] for stage in report["stages"]}

    seen: list[float] = []
    seen.append(times()["build"])
    seen.append(times()["build"])
    assert seen[1] < seen[0] / 2


# ---------------------------------------------------------------- bad input
@pytest.fixture
def warned(monkeypatch) -> Callable[..., str]:
    """Compiles, compares with eager, and returns the only warning."""
    return lambda *arguments, **options: _warned(monkeypatch, *arguments, **options)


def _warned(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], *inputs: Any, **options: Any) -> str:
    monkeypatch.setattr(errors, "_warned", set())
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _same(host_gpu.on_gpu(function, **options)(*inputs), function(*inputs), rtol=1e-5, atol=1e-5)
    texts = [str(warning.message) for warning in said if "tilefuse" in str(warning.message)]
    assert len(texts) == 1, texts
    return texts[0]


def _tanh(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 3


def test_no_driver(driver, warned):
    text = warned(_tanh, torch.randn(20), gpu_on_host="libno_such_driver.so")
    assert text.endswith("cannot use a GPU: there is no NVIDIA driver; tried libno_such_driver.so")


def test_a_driver_that_is_too_old(driver, warned):
    assert "libm.so.6 has no cuInit; the driver is too old" in warned(_tanh, torch.randn(20), gpu_on_host="libm.so.6")


def test_a_driver_that_does_not_start(driver, warned):
    driver.fail("cuInit", 100)
    assert "the driver does not start" in warned(_tanh, torch.randn(21))


def test_a_gpu_that_is_too_old(driver, warned):
    driver.capability(7, 5)
    assert "cannot make kernels for Model of a GPU (sm_75)" in warned(_tanh, torch.randn(22))


def test_a_gpu_without_a_profile_takes_the_nearest_one(driver, warned):
    driver.capability(8, 6)
    text = warned(_tanh, torch.randn(23))
    assert "no profile of Model of a GPU (sm_86): its kernels are planned with the numbers of cuda-sm80" in text
    assert driver.launches() == 1


def test_a_kernel_that_the_driver_does_not_load(driver, warned):
    driver.fail("cuModuleGetFunction", 500)
    text = warned(lambda x: torch.sigmoid(x) - 2, torch.randn(25))
    assert "a region runs with the framework's operators: cannot load the kernel" in text


# More shared memory than a kernel may declare: pieces of 128 x 64 of both factors, twice.
_LARGE_TILES = {"block_m": "128", "block_n": "128", "step": "64", "stages": "2", "parts": "1"}


def _large_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w)


def _large_tiles(depth: int) -> tuple[tuple[torch.Tensor, torch.Tensor], dict[str, Any]]:
    factors = (torch.randint(-4, 5, (128, depth)).half(), torch.randint(-4, 5, (depth, 128)).half())
    return factors, {"products": "own", "pins": {"mm_relu": _LARGE_TILES}}


def test_memory_beyond_what_a_kernel_may_declare_is_given_at_the_launch(driver):
    inputs, settings = _large_tiles(80)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        _same(host_gpu.on_gpu(_large_product, **settings)(*inputs), _large_product(*inputs), rtol=0, atol=0)
    calls = driver.calls()
    assert any("cuFuncSetAttribute" in call and call.endswith("attribute 8 = 65536") for call in calls)
    assert any("cuLaunchKernel" in call and "with 65536 bytes" in call for call in calls)


def test_products_by_warpgroups(driver):
    driver.capability(9, 0)
    driver.shared_bytes(227 << 10, 227 << 10)
    inputs, _ = _large_tiles(200)
    pins = {"mm_relu": {"multiply": "wgmma", "parts": "1"}}
    with torch.no_grad(), collect_graphs() as graphs, warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        got = host_gpu.on_gpu(_large_product, products="own", pins=pins)(*inputs)
    assert driver.launches() == 1
    assert "multiply wgmma" in str(Report(graphs))
    _same(got, _large_product(*inputs), rtol=0, atol=0)


def _bytes_by_bytes(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch._int_mm(x, w.t()) * 0.5


def _floats_by_floats(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.float() @ w.float().t())


@pytest.mark.parametrize("copies", ["async", "bulk"])
@pytest.mark.parametrize(
    "function, region, numbers, dtypes",
    [
        (_bytes_by_bytes, "int_mm_mul", "int8", (torch.int8, torch.int8)),
        (_floats_by_floats, "mm_relu", "float8", (torch.float8_e4m3fn, torch.float8_e5m2)),
        (_floats_by_floats, "mm_relu", "tf32", (torch.float32, torch.float32)),
    ],
)
def test_products_of_other_numbers_by_warpgroups(driver, function, region, numbers, dtypes, copies):
    driver.capability(9, 0)
    driver.shared_bytes(227 << 10, 227 << 10)
    x = torch.randint(-3, 4, (72, 176)).to(dtypes[0])
    w = torch.randint(-3, 4, (80, 176)).to(dtypes[1])
    pins = {region: {"multiply": "wgmma", "numbers": numbers, "copies": copies, "parts": "1"}}
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        with torch.no_grad(), collect_graphs() as graphs, warnings.catch_warnings():
            warnings.simplefilter("error", TileFuseWarning)
            got = host_gpu.on_gpu(function, products="own", pins=pins)(x, w)
    finally:
        matmul.fp32_precision = before
    assert driver.launches() == 1
    (schedule,) = [of["schedule"] for of in Report(graphs).regions()]
    assert f"multiply wgmma\n  numbers  {numbers}\n" in schedule
    assert ("copies   bulk" in schedule) == (copies == "bulk")
    _same(got, function(x, w), rtol=0, atol=0)


@pytest.mark.parametrize("precision, numbers", [("ieee", "tf32x3"), ("tf32", "tf32")])
def test_floats_are_rounded_to_tf32_where_torch_may(driver, precision, numbers):
    x, w = torch.randn(48, 64), torch.randn(64, 32)
    pins = {"mm": {"kernel": "product"}}
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = precision
        with torch.no_grad(), collect_graphs() as graphs:
            got = host_gpu.on_gpu(lambda x, w: x @ w, products="own", pins=pins)(x, w)
    finally:
        matmul.fp32_precision = before
    assert driver.launches() > 0
    (region,) = Report(graphs).regions()
    assert f"  numbers  {numbers}\n" in region["schedule"]
    error = (got.double() - x.double() @ w.double()).abs().max()
    assert error < (1e-1 if numbers == "tf32" else 1e-4)
    assert (error > 1e-3) == (numbers == "tf32")


def test_a_device_with_less_shared_memory_than_its_profile_says(driver, warned):
    driver.shared_bytes(48 << 10, 0)
    inputs, settings = _large_tiles(72)
    text = warned(_large_product, *inputs, **settings)
    assert "a region runs with the framework's operators: cannot give a block of " in text
    assert "65536 bytes of shared memory on GPU 0: CUDA_ERROR" in text
    assert not any("with 65536 bytes" in call for call in driver.calls())


def test_a_launch_that_finds_no_memory(driver, warned):
    driver.fail("cuLaunchKernel", 2)
    text = warned(_tanh, torch.randn(26))
    assert "cannot launch a kernel: CUDA_ERROR_OUT_OF_MEMORY" in text


def test_the_next_launch_is_not_spoiled(driver):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, compiled = torch.randn(27), host_gpu.on_gpu(_tanh)
        driver.fail("cuLaunchKernel", 701)  # more than the device has
        for _ in range(2):
            _same(compiled(x), _tanh(x), rtol=1e-5, atol=1e-5)
    assert driver.launches() == 2


def test_strict_mode_raises(driver):
    with torch.no_grad(), pytest.raises(UserError, match="cannot be compiled.*no NVIDIA driver"):
        host_gpu.on_gpu(_tanh, strict=True, gpu_on_host="libno_such_driver.so")(torch.randn(5))


def test_tensors_of_other_devices_and_types_are_refused(driver):
    with torch.no_grad(), collect_graphs() as graphs:
        host_gpu.on_gpu(_tanh)(torch.randn(28))
    graph = getattr(torch.ops.tilefuse, graphs[0].answer["op"])
    with torch.no_grad(), pytest.raises(RuntimeError, match="must be a strided CPU tensor of Float"):
        graph(torch.randn(28).double())
