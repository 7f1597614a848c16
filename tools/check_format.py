"""Fails if clang-format would change a C++ source."""
import subprocess
import sys


def main() -> int:
    files = subprocess.run(["git", "ls-files", "--", "*.cpp", "*.h"], check=True, capture_output=True, text=True)
    names = files.stdout.split()
    result = subprocess.run(["clang-format-19", "--dry-run", "--Werror", *names], capture_output=True, text=True)
    if result.returncode:
        print(result.stderr[:4000])
        print("run `make format`")
    else:
        print(f"format: {len(names)} files")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
