"""Prints the file of dagre in the installed netron, without importing it."""

import importlib.util
import pathlib
import sys


def main() -> None:
    found = importlib.util.find_spec("netron")
    if found is None or found.origin is None:
        sys.exit("install netron first: pip install netron")
    file = pathlib.Path(found.origin).with_name("dagre.js")
    if not file.exists():
        sys.exit(f"this netron holds no {file.name}")
    print(file.as_posix(), end="")


if __name__ == "__main__":
    main()
