"""Reductions as operators of their own; ``dim`` is a list, None means all."""

from __future__ import annotations

import torch

from tilefuse.custom_op import op

__all__ = ["amax", "amin", "logsumexp", "mean", "norm", "sum", "var"]


@op("tilefuse::sum")
def sum(x: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False) -> torch.Tensor:  # noqa: A001
    """The sum over ``dim``."""
    return torch.sum(x, dim=dim, keepdim=keepdim)


@op("tilefuse::mean")
def mean(x: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False) -> torch.Tensor:
    """The mean over ``dim``."""
    return torch.mean(x, dim=dim, keepdim=keepdim)


@op("tilefuse::var")
def var(x: torch.Tensor, dim: list[int] | None = None, correction: int = 1, keepdim: bool = False) -> torch.Tensor:
    """The variance over ``dim``."""
    return torch.var(x, dim=dim, correction=correction, keepdim=keepdim)


@op("tilefuse::norm")
def norm(x: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False) -> torch.Tensor:
    """The Euclidean norm over ``dim``."""
    return torch.linalg.vector_norm(x, dim=dim, keepdim=keepdim)


@op("tilefuse::amax")
def amax(x: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False) -> torch.Tensor:
    """The largest value over ``dim``."""
    return torch.amax(x, dim or (), keepdim)


@op("tilefuse::amin")
def amin(x: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False) -> torch.Tensor:
    """The least value over ``dim``."""
    return torch.amin(x, dim or (), keepdim)


@op("tilefuse::logsumexp")
def logsumexp(x: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False) -> torch.Tensor:
    """``log(sum(exp(x)))`` over ``dim``."""
    return torch.logsumexp(x, list(range(x.dim())) if dim is None else dim, keepdim)
