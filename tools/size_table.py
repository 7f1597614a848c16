"""Prints lines of code per folder, tests apart, and the longest files."""
import pathlib
import subprocess


def main() -> None:
    names = subprocess.run(
        ["git", "ls-files", "--", "*.cpp", "*.h", "*.py", "*.js", "*.css", "*.html"], check=True, capture_output=True, text=True
    ).stdout.split()
    lines = {name: pathlib.Path(name).read_text().count("\n") for name in names}
    folders: dict[str, list[int]] = {}
    for name, count in lines.items():
        folders.setdefault(name.split("/")[0] if "/" in name else ".", []).append(count)
    print(f"{'folder':12} {'files':>6} {'lines':>7} {'longest':>8}")
    for folder, counts in sorted(folders.items()):
        print(f"{folder:12} {len(counts):6} {sum(counts):7} {max(counts):8}")
    product = {n: c for n, c in lines.items() if not n.startswith(("tests/", "benchmarks/"))}
    print(f"{'total':12} {len(product):6} {sum(product.values()):7}  (without tests and benchmarks)")


if __name__ == "__main__":
    main()
