"""Random programs of PyTorch's operators, one for each seed: what a person might write without thinking of fusion.

A program is a list of steps over values that are there; shapes are found on tensors without memory. No step jumps where
rounding may decide: comparisons, floors and positions look at inputs alone.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import torch
from torch.nn import functional as F  # noqa: N812 - as in torch

__all__ = ["Program", "random_program"]

_SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 40, 65)
_MOST_ELEMENTS = 20_000
_STEPS = 12

Tensor = torch.Tensor
Step = tuple[Callable[..., Tensor], tuple[int, ...]]  # of earlier values

_UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.tanh, torch.sigmoid, torch.relu, torch.sin, torch.neg, torch.abs, F.gelu, F.silu, F.softplus, F.hardswish,
    lambda x: torch.exp(x.clamp(max=3)), lambda x: torch.log1p(x.abs()), lambda x: torch.sqrt(x.abs() + 0.1),
    lambda x: torch.rsqrt(x * x + 1), lambda x: x * 0.5 + 1, lambda x: 1 / (x.abs() + 1), lambda x: x.clone(),
)  # fmt: skip
_BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda x, y: x / (y.abs() + 0.5),
    lambda x, y: torch.atan2(x, y.abs() + 1), lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: x * torch.tanh(y),
)  # fmt: skip
_ALONG: tuple[Callable[[Tensor, int], Tensor], ...] = (
    lambda x, d: torch.softmax(x, d), lambda x, d: torch.log_softmax(x, d), lambda x, d: x.cumsum(d) / x.shape[d],
    lambda x, d: x - x.mean(d, keepdim=True), lambda x, d: x.flip(d), lambda x, d: x.roll(1, d),
    lambda x, d: x / (x.norm(dim=d, keepdim=True) + 1), lambda x, d: torch.cat([x, x.neg()], d),
    lambda x, d: x.narrow(d, x.shape[d] // 2, x.shape[d] - x.shape[d] // 2), lambda x, d: x.transpose(d, -1),
    lambda x, d: x.movedim(d, 0), lambda x, d: x.repeat_interleave(2, d), lambda x, d: x[(slice(None),) * d + (slice(0, None, 2),)],
)  # fmt: skip
_REDUCTIONS: tuple[Callable[[Tensor, int, bool], Tensor], ...] = (
    lambda x, d, k: x.mean(d, k), lambda x, d, k: x.sum(d, k) / x.shape[d], lambda x, d, k: x.amax(d, k),
    lambda x, d, k: x.amin(d, k), lambda x, d, k: x.logsumexp(d, k), lambda x, d, k: x.var(d, correction=0, keepdim=k),
    lambda x, d, k: torch.sigmoid(x).prod(d, k),
)  # fmt: skip


@dataclasses.dataclass
class Program:
    seed: int
    shapes: list[tuple[int, ...]]
    steps: list[Step]
    names: list[str]

    def inputs(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> list[Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        return [torch.randn(shape, generator=generator).to(dtype).to(device) for shape in self.shapes]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """The values that no step reads."""
        values = list(inputs)
        for function, operands in self.steps:
            values.append(function(*(values[i] for i in operands)))
        read = {i for _, operands in self.steps for i in operands}
        return [value for i, value in enumerate(values) if i >= len(inputs) and i not in read]

    def gradients(
        self, function: Callable[..., list[Tensor]], dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> tuple[Tensor | None, ...]:
        """Of the inputs, as the function, this program or one made of it, has them for the sums of all its results."""
        inputs = [value.requires_grad_() for value in self.inputs(dtype, device)]
        outputs = [value for value in function(*inputs) if value.requires_grad]
        return torch.autograd.grad([value.sum() for value in outputs], inputs, allow_unused=True) if outputs else ()

    def __str__(self) -> str:
        return f"program {self.seed} of {self.shapes}: " + "; ".join(self.names)


class _Writer:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        sizes = [self.choose.choice(_SIZES) for _ in range(self.choose.randint(1, 3))]
        shapes = [tuple(sizes)]
        for _ in range(self.choose.randint(0, 2)):  # broadcast against the first
            kept = sizes[self.choose.randint(0, len(sizes) - 1) :]
            shapes.append(tuple(1 if self.choose.random() < 0.2 else n for n in kept))
        self.values = [torch.empty(shape, device="meta") for shape in shapes]
        self.program = Program(seed, shapes, [], [])

    def run(self) -> Program:
        while len(self.program.steps) < _STEPS:
            self.try_step(self.choose.choices([self.unary, self.binary, self.along, self.reduction, self.product, self.look],
                                              [4, 5, 4, 3, 1, 2])[0])  # fmt: skip
        return self.program

    def any_value(self) -> int:
        recent = self.choose.random() < 0.7
        return self.choose.randrange(max(0, len(self.values) - 4) if recent else 0, len(self.values))

    def try_step(self, kind: Callable[[], tuple[str, Callable[..., Tensor], tuple[int, ...]]]) -> None:
        name, function, operands = kind()
        try:
            result = function(*(self.values[i] for i in operands))
        except (RuntimeError, IndexError):  # shapes that do not go together
            return
        if not 0 < result.numel() <= _MOST_ELEMENTS or result.dim() > 4:
            return
        self.values.append(result)
        self.program.steps.append((function, operands))
        self.program.names.append(f"v{len(self.values) - 1} = {name}{operands}")

    def unary(self) -> tuple[str, Callable[..., Tensor], tuple[int, ...]]:
        which = self.choose.randrange(len(_UNARY))
        return f"unary {which} ", _UNARY[which], (self.any_value(),)

    def binary(self) -> tuple[str, Callable[..., Tensor], tuple[int, ...]]:
        which = self.choose.randrange(len(_BINARY))
        return f"binary {which} ", _BINARY[which], (self.any_value(), self.any_value())

    def along(self) -> tuple[str, Callable[..., Tensor], tuple[int, ...]]:
        which, value = self.choose.randrange(len(_ALONG)), self.any_value()
        dim, function = self.choose.randrange(max(1, self.values[value].dim())), _ALONG[which]
        return f"along {which}, {dim} ", lambda x: function(x, dim), (value,)

    def reduction(self) -> tuple[str, Callable[..., Tensor], tuple[int, ...]]:
        which, value = self.choose.randrange(len(_REDUCTIONS)), self.any_value()
        dim, keeps = self.choose.randrange(max(1, self.values[value].dim())), self.choose.random() < 0.5
        function = _REDUCTIONS[which]
        return f"reduction {which}, {dim}, {keeps} ", lambda x: function(x, dim, keeps), (value,)

    def product(self) -> tuple[str, Callable[..., Tensor], tuple[int, ...]]:
        return "product ", lambda x, y: torch.tanh(x) @ torch.tanh(y).transpose(-1, -2) / x.shape[-1], (
            self.any_value(), self.any_value(),
        )  # fmt: skip

    def look(self) -> tuple[str, Callable[..., Tensor], tuple[int, ...]]:
        """At an input: where rounding decides nothing."""
        value = self.any_value()
        dim, which = self.choose.randrange(max(1, self.values[value].dim())), self.choose.randrange(4)

        def function(x: Tensor, given: Tensor) -> Tensor:
            if which == 0:
                return torch.where(given > 0.1, x, x * 0.5)
            if which == 1:
                return x.masked_fill(given < -0.5, 0.25)
            if which == 2:
                return x.index_select(dim, given.flatten().argsort()[: x.shape[dim]] % x.shape[dim])
            return x + given.argmax(-1, keepdim=True)

        return f"look {which}, {dim} ", function, (value, self.choose.randrange(len(self.program.shapes)))


def random_program(seed: int) -> Program:
    return _Writer(seed).run()

