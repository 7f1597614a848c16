"""`mode="reduce-overhead"`: graphs that are recorded once and replayed give what they give kernel by kernel."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from on_device import assert_same
from tilefuse.errors import TileFuseWarning

CALLS = 5  # two run kernel by kernel, one records


@pytest.fixture(autouse=True)
def nobody_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        yield


def _replayed(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="tilefuse", mode="reduce-overhead", **more)


def _launched(call: Callable[[], Any]) -> list[str]:
    """What was asked of the driver."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return [event.name for event in seen.events() if event.name.startswith("cu") and "Launch" in event.name]


def test_inference_is_one_launch():
    model = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, dropout=0.0, activation="gelu").cuda().eval()
    compiled = _replayed(model)
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(4, 33, 64, device="cuda")
            assert_same(compiled(x).clone(), model(x))
        launches = _launched(lambda: compiled(x))
    assert sum("GraphLaunch" in name for name in launches) == 1
    assert sum("LaunchKernel" in name for name in launches) <= 1  # the input is copied to where it was recorded


def test_parameters_that_change_in_place_are_seen():
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).cuda()
    compiled, x = _replayed(model), torch.randn(8, 32, device="cuda")
    with torch.no_grad():
        for _ in range(CALLS):
            assert_same(compiled(x).clone(), model(x))
            for parameter in model.parameters():
                parameter.mul_(1.1)


def test_training_steps():
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
    twin = copy.deepcopy(model)
    compiled = _replayed(model)
    steps = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, twin)]
    for _ in range(CALLS):
        x, y = torch.randn(16, 32, device="cuda"), torch.randint(0, 8, (16,), device="cuda")
        for run, step in zip((compiled, twin), steps, strict=True):
            step.zero_grad()
            F.cross_entropy(run(x), y).backward()
            step.step()
        for got, want in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_other_sizes_are_recorded_anew():
    function = lambda x: torch.softmax(x, -1) * x.shape[0]  # noqa: E731
    compiled = _replayed(function, dynamic=True)
    with torch.no_grad():
        for rows in [3, 70, 3, 70, 3, 70, 3, 70]:
            x = torch.randn(rows, 20, device="cuda")
            assert_same(compiled(x).clone(), function(x))


def test_a_number_on_the_cpu_is_said_and_runs():
    function = lambda x, by: (x * by).exp()  # noqa: E731
    x, by = torch.randn(40, device="cuda"), torch.tensor(3.0)
    with torch.no_grad(), pytest.warns(TileFuseWarning, match="not replayed as a CUDA graph"):
        assert_same(_replayed(function)(x, by), function(x, by))
