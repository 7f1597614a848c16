"""Prints the folder and the version of the installed torch, a semicolon between, without importing it."""

import importlib.util
import os
import sys
import sysconfig


def torch_folder() -> str:
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin is not None:
        return os.path.dirname(found.origin)
    for scheme in ("platlib", "purelib"):
        folder = os.path.join(sysconfig.get_paths()[scheme], "torch")
        if os.path.exists(os.path.join(folder, "version.py")):
            return folder
    sys.exit("install torch first: pip install 'torch>=2.11'")


def main() -> None:
    folder = torch_folder()
    facts: dict[str, object] = {}
    with open(os.path.join(folder, "version.py")) as file:
        exec(file.read().split("try:")[0], facts)  # the rest imports torch
    print(folder, facts["__version__"], sep=";", end="")


if __name__ == "__main__":
    main()
