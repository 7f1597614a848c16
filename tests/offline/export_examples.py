"""Writes the programs beside it: what torch.export.save makes of small modules. Run again for a new schema."""

import pathlib

import torch


class Counter(torch.nn.Module):
    """Writes into its buffers, whole and in part, and into a view of what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(4))
        self.register_buffer("history", torch.zeros(2, 4), persistent=False)
        self.weight = torch.nn.Parameter(torch.arange(4.0))
        self.tied = self.weight

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.steps.add_(1)
        self.history[:, 1].mul_(2)
        self.history[0] = x[0]
        y = x * self.weight + self.tied
        y[:, 1:3] += 5
        return y * self.steps, self.history.sum()


def main() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Counter().eval(), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # names the folders of whoever runs this
    torch.export.save(program, pathlib.Path(__file__).parent / "counter.pt2")


if __name__ == "__main__":
    main()
