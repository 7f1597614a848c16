"""Prints the folder and the version of the installed torch, a semicolon between, without importing it."""

import importlib.util
import os
import subprocess
import sys


def torch_folder() -> str:
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin is not None:
        return os.path.dirname(found.origin)
    # pip hides the environment from an isolated build through PYTHONPATH: an interpreter that ignores it sees all.
    question = "import importlib.util as u; found = u.find_spec('torch'); print(found.origin if found else '')"
    origin = subprocess.run([sys.executable, "-E", "-c", question], capture_output=True, text=True).stdout.strip()
    if not origin:
        sys.exit("install torch first: pip install 'torch>=2.11'")
    return os.path.dirname(origin)


def main() -> None:
    folder = torch_folder()
    facts: dict[str, object] = {}
    with open(os.path.join(folder, "version.py")) as file:
        exec(file.read().split("try:")[0], facts)  # the rest imports torch
    print(folder, facts["__version__"], sep=";", end="")


if __name__ == "__main__":
    main()
