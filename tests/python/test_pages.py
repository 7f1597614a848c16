"""The examples of the pages, copied from top to bottom: what is `sh` and `python` in them runs."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from slow_cases import slow_of

ROOT = pathlib.Path(__file__).resolve().parents[2]

# One session of Python beside a shell in one folder, as a reader has them.
SESSION = """
import json, subprocess, sys
names = {"__name__": "__main__"}
for line, kind, text in json.load(open(sys.argv[1])):
    print(f"### {kind}, line {line}", flush=True)
    if kind == "python":
        exec(compile("\\n" * line + text, "the page", "exec"), names)
    else:
        subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True)
"""


def blocks_of(page):
    """All but the bodies of functions with which docs/ops.md defines its operators."""
    text = (ROOT / page).read_text()
    for block in re.finditer(r"^```(sh|python)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        if re.search(r"^return ", block[2], flags=re.MULTILINE):
            continue
        yield text.count("\n", 0, block.start()) + 1, block[1], block[2]


PAGES = ["README.md", *(f"docs/{name}.md" for name in ("offline", "torch_compile", "explain", "custom_ops", "ops", "products", "solver"))]


# docs/offline.md compiles programs against all of torch's headers.
@pytest.mark.parametrize("page", slow_of({"docs/offline.md"}, PAGES))
def test_the_examples_of_a_page_run_in_its_order(page, tmp_path):
    blocks = list(blocks_of(page))
    assert blocks
    if any("transformers" in text for _, _, text in blocks):
        pytest.importorskip("transformers")
    (tmp_path / "blocks.json").write_text(json.dumps(blocks))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", SESSION, "blocks.json"], cwd=tmp_path, env=os.environ | {"PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    for line, kind, _ in blocks:
        assert f"### {kind}, line {line}\n" in done.stdout
