"""What the sources promise about themselves."""

import os
import pathlib
import re
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Composite operators and models. The names of core functions (exp, tanh, ...) are the vocabulary of the stages.
FORBIDDEN = (
    "softmax|layer_?norm|rms_?norm|group_?norm|batch_?norm|gelu|silu|swiglu|attention|cross_?entropy|embedding|rotary|"
    "dropout|linear|matmul|conv(?:olution|[123]d)|bert|llama|gpt|resnet|vit|mish|softplus|hardswish"
)


def code_of(path):
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def test_no_operator_or_model_name_decides_in_fusion_or_codegen():
    listing = subprocess.run(
        ["git", "ls-files", "--", "fusion/*.cpp", "fusion/*.h", "codegen/*.cpp", "codegen/*.h"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    files = listing.stdout.split()
    assert files
    word = re.compile(rf"\b(?:\w*_)?(?:{FORBIDDEN})(?:_\w*)?\b", re.IGNORECASE)
    findings = [f"{f}: {m.group()}" for f in files for m in word.finditer(code_of(f))]
    assert not findings, findings


def test_the_environment_is_read_in_one_file():
    listing = subprocess.run(
        ["git", "grep", "-l", "-E", r"\b(secure_)?getenv\b", "--", "core", "fusion", "codegen", "torch_ext", "tools"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert [f for f in listing.stdout.split() if f.endswith((".cpp", ".h"))] == ["core/options.cpp"]


def test_torch_is_found_inside_an_isolated_build(tmp_path):
    """Also where the environment has it through a .pth file only."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    folder = pathlib.Path(torch.__file__).parent
    (packages / "elsewhere.pth").write_text(f"{folder.parent}\n")
    hide = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]"
    (tmp_path / "sitecustomize.py").write_text(hide)
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    python, script = tmp_path / "venv" / "bin" / "python", ROOT / "torch_ext" / "find_torch.py"
    assert subprocess.run([python, "-c", "import torch"], env=environment, capture_output=True).returncode != 0
    found = subprocess.run([python, script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split(";")[0] == str(folder)


PAGES = sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md"))


def test_pages_that_use_words_of_ours_lead_to_the_glossary():
    words = re.compile(r"\b(?:regions?|Calls?|tile graphs?|nests?|chains?)\b")
    users = [page for page in PAGES if words.search(page.read_text()) and page.name not in ("glossary.md", "CONTRIBUTING.md")]
    assert len(users) > 10
    assert not [page.name for page in users if "glossary.md)" not in page.read_text()]


def test_links_between_pages_lead_somewhere():
    findings = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if link.startswith(("http://", "https://")):
                continue
            file, _, heading = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            if not target.exists():
                findings.append(f"{page.name}: {link}")
            elif heading and heading not in anchors_of(target):
                findings.append(f"{page.name}: {link} is no heading")
    assert not findings, findings


def anchors_of(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
