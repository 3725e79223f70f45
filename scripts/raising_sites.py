"""List where installed libraries raise an exception about layouts: `file:line  class  message`."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("jax", "flax", "equinox", "haliax", "optax", "orbax.checkpoint")
ABOUT = re.compile(
    r"shard(?!map_)|\bmesh\b|\bmesh_|_mesh\b|partition|(?:in|out)_(?:specs|axes)\b|\bPspec|\bpspec|reshard|device assignment"
    r"|incompatible device|memory.(?:kind|space)|\bpmap|squeeze out|axis name|axis_name|unbound axis|donat|deleted"
    r"|manual|\bvma\b|varying|replicat|addressable|logical ax|named ?array|NamedArray|tree prefix|axis_size"
    r"|carry.{0,80}type|number of devices",
    re.IGNORECASE | re.DOTALL,
)
ASIDE = re.compile(r"/(?:tests?|testing|pallas|mosaic|tpu_|experimental/(?!shard|mesh|pjit|multihost|layout|custom_part))")


def raising_sites(package: str) -> Iterator[tuple[str, int, str, str]]:
    """Yield the file, line, exception class and message of each `raise` about layouts in a package."""
    spec = importlib.util.find_spec(package)
    root = Path(next(iter(spec.submodule_search_locations or ()))) if spec else Path()
    for path in sorted(root.rglob("*.py")) if spec else ():
        name = f"{package.replace('.', '/')}/{path.relative_to(root).as_posix()}"
        if ASIDE.search(name) or path.name.endswith("_test.py"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                text = " ".join(ast.unparse(one) for one in (*node.exc.args, node.exc.func))
                if ABOUT.search(text):
                    yield name, node.lineno, ast.unparse(node.exc.func), re.sub(r"\s+", " ", text)


if __name__ == "__main__":
    for package in sys.argv[1:] or PACKAGES:
        for name, line, kind, text in raising_sites(package):
            print(f"{name}:{line}\t{kind}\t{text[:220]}")
