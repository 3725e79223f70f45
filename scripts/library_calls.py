"""Calls of library functions in public trainers, and how many of these functions layouts are followed through.

    python scripts/library_calls.py MIRRORS    count anew; MIRRORS holds OWNER+NAME/repo, bare
    python scripts/library_calls.py            write the page from the counts of before

Counts are kept in evaluation/library-calls.tsv, the page is evaluation/library-calls.md. library_calls.toml names the
repositories, and the functions that neither take nor make arrays. A call counts under the canonical name that
shardlint resolves it to: a call of a layer as `flax.linen.Dense()`, a method of an array as `array.sum`. Tests and
files that never mention jax are left out.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import checkouts

from shardlint.layouts.attributes import is_array_method
from shardlint.libraries import FUNCTIONS
from shardlint.libraries.flax_layers import OPAQUE
from shardlint.model import Program
from shardlint.model.values import Api, CallResult, options
from shardlint.source.text import Unreadable
from shardlint.syntax import FileFacts, NotParsed

ROOT = Path(__file__).resolve().parent.parent
COUNTS = ROOT / "evaluation" / "library-calls.tsv"
PAGE = ROOT / "evaluation" / "library-calls.md"
SCOPE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
LIBRARIES = frozenset("jax numpy flax equinox haliax optax orbax einshard grain einops chex".split())
_METHODS = frozenset(SCOPE["methods"]["array"])
# Their tensors have methods of the same names.
_OTHER_ARRAYS = ("torch", "tensorflow")
_UNCOVERED = 60
_PARTS = ("flax.linen", "flax.nnx", "jax.numpy", "jax.lax", "jax.experimental")


@dataclass
class Counts:
    """How often functions are called, in how many repositories, and the commits of these."""

    calls: Counter[str] = field(default_factory=Counter)
    repositories: Counter[str] = field(default_factory=Counter)
    commits: dict[str, str] = field(default_factory=dict)

    def write_counts(self) -> None:
        """Write them to the file that is kept."""
        lines = [f"{name}\t{commit}" for name, commit in sorted(self.commits.items())]
        order = sorted(self.calls.items(), key=lambda one: (-one[1], one[0]))
        lines += [f"{name}\t{count}\t{self.repositories[name]}" for name, count in order]
        COUNTS.write_text("\n".join(lines) + "\n", "utf-8")


def read_counts() -> Counts:
    """The counts that are kept."""
    found = Counts()
    for line in COUNTS.read_text("utf-8").splitlines():
        name, *cells = line.split("\t")
        if len(cells) == 1:
            found.commits[name] = cells[0]
        else:
            found.calls[name], found.repositories[name] = int(cells[0]), int(cells[1])
    return found


# counting


def count_calls(mirrors: Path) -> Counts:
    """The calls in all repositories. Raises `checkouts.NotAvailable` for one that is not among the mirrors."""
    found = Counts()
    for repository, folder in SCOPE["repositories"].items():
        mirror = checkouts.open_mirror(mirrors, repository)
        found.commits[repository] = mirror.head_commit()
        with tempfile.TemporaryDirectory() as laid_out:
            root = Path(laid_out)
            mirror.lay_out(found.commits[repository], root)
            calls = Counter(_called_in(root, root / folder))
        found.calls.update(calls)
        found.repositories.update(calls.keys())
        print(f"{repository}: {calls.total()}", file=sys.stderr, flush=True)
    return found


def _called_in(root: Path, folder: Path) -> Iterator[str]:
    """The functions that the files of a folder call, each as often as it is called."""
    program = Program(root)
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.ipynb"))):
        if not path.is_file() or _is_test(path.relative_to(root)):
            continue
        text = path.read_bytes()
        facts = _parse_facts(program, path) if b"jax" in text else None
        if facts is not None:
            yield from _called_libraries(
                program, facts, not any(one.encode() in text for one in _OTHER_ARRAYS)
            )
        program.trim_memory()


def _is_test(path: Path) -> bool:
    return any(part.startswith("test") or part.endswith("_test.py") for part in path.parts)


def _parse_facts(program: Program, path: Path) -> FileFacts | None:
    try:
        return program.project.facts(path)
    except (NotParsed, Unreadable):
        return None


def _called_libraries(program: Program, file: FileFacts, only_jax: bool) -> Iterator[str]:
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        found = set[str]()
        for one in options(program.value(file, function)):
            if isinstance(one, Api):
                found.add(one.name)
            elif isinstance(one, CallResult) and isinstance(one.by, Api):
                found.add(f"{one.by.name}()")
        yield from (name for name in found if name.partition(".")[0] in LIBRARIES)
        if isinstance(function, ast.Attribute) and not found:
            if _is_update(function):
                yield f"array.at.{function.attr}"
            elif only_jax and function.attr in _METHODS:
                yield f"array.{function.attr}"


def _is_update(function: ast.Attribute) -> bool:
    """Return whether a function is a method of `x.at[...]`."""
    owner = function.value
    return (
        isinstance(owner, ast.Subscript) and isinstance(owner.value, ast.Attribute) and owner.value.attr == "at"
    )


# what is covered


@cache
def reason_of(name: str) -> str:
    """Why a function is not counted among those of arrays; "" for one that is."""
    for reason, patterns in SCOPE["no-arrays"].items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return str(reason)
    return ""


@cache
def makes_functions(name: str) -> bool:
    """Return whether the result of a function takes arrays: a layer, an optimizer, an initializer, a transformed
    function.
    """
    return any(fnmatchcase(name, pattern) for pattern in SCOPE["makers"]["patterns"])


def is_covered(name: str) -> bool:
    """Return whether the layout of a function's result is modelled."""
    home, _, method = name.rpartition(".")
    if home == "array":
        return is_array_method(method)
    if home == "array.at":
        return method in SCOPE["methods"]["update"]
    name = name.removesuffix("()")
    return name in FUNCTIONS and name not in {f"flax.linen.{one}" for one in OPAQUE}


def covered_share(calls: Mapping[str, int]) -> tuple[int, int]:
    """How many calls are covered, and how many there are."""
    return sum(count for name, count in calls.items() if is_covered(name)), sum(calls.values())


def calls_in_scope(counts: Counts) -> dict[str, int]:
    """The calls of functions that take or make arrays, or make what does."""
    return {name: count for name, count in counts.calls.items() if not reason_of(name)}


# the page


def _format_row(title: str, calls: Mapping[str, int]) -> str:
    covered, total = covered_share(calls)
    names = sum(map(is_covered, calls))
    return f"| {title} | {total:,} | {covered:,} | {100 * covered / max(total, 1):.1f}% | {names} of {len(calls)} |"


_INTRODUCTION = """\
# Calls of library functions in public trainers

`scripts/library_calls.py` counts the calls of library functions in 40 public repositories of trainers and models, by
canonical name, and says which of these functions `shardlint/libraries` knows: the layout of the result follows from
those of the arguments. A function that is known may still give an unknown layout for arguments that are unknown, or of
a form that its transfer does not read. A call that may be one of several functions counts for each.

Of functions whose arguments are arrays or trees of them, or which make arrays, and of what makes functions of arrays
(layers, optimizers, initializers, transforms such as `jit`):

| functions | calls | covered | | names covered |
|---|---|---|---|---|"""


def format_page(counts: Counts) -> str:
    """evaluation/library-calls.md."""
    counted = calls_in_scope(counts)
    arrays = {name: count for name, count in counted.items() if not makes_functions(name)}
    makers = {name: count for name, count in counted.items() if makes_functions(name)}
    by_library: dict[str, dict[str, int]] = {}
    for name, count in counted.items():
        by_library.setdefault(_library_name(name), {})[name] = count
    lines = [
        *_INTRODUCTION.splitlines(),
        _format_row("all", counted),
        _format_row("of arrays", arrays),
        _format_row("makers", makers),
        "",
    ]
    lines += ["| library | calls | covered | | names covered |", "|---|---|---|---|---|"]
    lines += [
        _format_row(title, calls)
        for title, calls in sorted(by_library.items(), key=lambda one: -sum(one[1].values()))
    ]
    lines += ["", "## Not covered", "", f"The {_UNCOVERED} functions that are called most often.", ""]
    lines += ["| function | calls | repositories |", "|---|---|---|"]
    left = sorted(((-count, name) for name, count in counted.items() if not is_covered(name)))[:_UNCOVERED]
    lines += [f"| `{name}` | {-count} | {counts.repositories[name]} |" for count, name in left]
    lines += ["", "## Functions without arrays", "", "They are not counted above.", "", "| why | calls | names |"]
    lines += ["|---|---|---|"]
    for reason in SCOPE["no-arrays"]:
        names = [name for name in counts.calls if reason_of(name) == reason]
        lines.append(f"| {reason} | {sum(counts.calls[name] for name in names):,} | {len(names)} |")
    lines += ["", "## Repositories", "", "| repository | folder | commit |", "|---|---|---|"]
    folders = SCOPE["repositories"]
    lines += [f"| {name} | `{folders[name]}` | {commit[:12]} |" for name, commit in counts.commits.items()]
    return "\n".join(lines) + "\n"


def _library_name(name: str) -> str:
    head, _, rest = name.partition(".")
    second = rest.partition(".")[0]
    if head == "array":
        return "methods of arrays"
    return f"{head}.{second}" if f"{head}.{second}" in _PARTS else head


def main() -> int:
    """Count, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mirrors", type=Path, nargs="?", metavar="MIRRORS")
    asked = parser.parse_args()
    for library in ("flax", "orbax", "haliax", "einshard"):
        FUNCTIONS.load_library(library)
    if asked.mirrors is not None:
        count_calls(asked.mirrors).write_counts()
    counts = read_counts()
    PAGE.write_text(format_page(counts), "utf-8")
    covered, total = covered_share(calls_in_scope(counts))
    print(f"{PAGE.relative_to(ROOT)} written: {covered:,} of {total:,} calls, {100 * covered / total:.1f}%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
