"""Fails if an include points against the direction core <- fusion <- codegen <- offline <- tools, torch_ext, or a file is too long."""
import pathlib
import re
import subprocess
import sys

MAY_INCLUDE = {
    "core": {"core"},
    "fusion": {"core", "fusion"},
    "codegen": {"core", "fusion", "codegen"},
    "offline": {"core", "fusion", "codegen", "offline"},
    "page": {"core", "page"},
    "tools": {"core", "fusion", "codegen", "offline", "page", "tools"},
    "torch_ext": {"core", "fusion", "codegen", "offline", "page", "torch_ext"},
}
SUFFIXES = ("cpp", "h", "py", "js", "css", "html")
LINE_LIMIT = 500
INCLUDE = re.compile(r'^#include\s+"([^"]+)"', re.MULTILINE)


def main() -> int:
    names = subprocess.run(
        ["git", "ls-files", "--", *(f"*.{suffix}" for suffix in SUFFIXES)], check=True, capture_output=True, text=True
    ).stdout.split()
    findings = []
    for name in names:
        folder = name.split("/")[0]
        text = pathlib.Path(name).read_text()
        if folder != "tests" and text.count("\n") > LINE_LIMIT:
            findings.append(f"{name}: {text.count(chr(10))} lines, limit {LINE_LIMIT}")
        if not name.endswith((".cpp", ".h")) or folder not in MAY_INCLUDE or name.startswith("codegen/runtime/"):
            continue
        for include in INCLUDE.findall(text):
            if include.split("/")[0] not in MAY_INCLUDE[folder]:
                findings.append(f'{name}: may not include "{include}"')
    print("\n".join(findings) or f"includes: {len(names)} files")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
