"""List where jax, flax, equinox, haliax, optax and orbax raise exceptions about layouts, in the installed releases.

`--records FOLDER` writes evaluation/exceptions.md from what tests/verify/raise_all.py recorded in the folder.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from shardlint.run.raised.exception_report import explain_exceptions
from shardlint.run.raised.explain import explain_error
from shardlint.run.raised.kinds import KINDS
from shardlint.run.raised.layouts import ABOUT
from shardlint.run.raised.recognition import recognise_error
from shardlint.run.raised.record import Call, CallArgument, Error, Frame, Leaf, decode_exception

PACKAGES = ("jax", "flax", "equinox", "haliax", "optax", "orbax.checkpoint")
# Not for CPU devices, of experiments, or for the developers of the library.
ASIDE = re.compile(
    r"/(?:tests?|testing|pallas|mosaic|tpu_|cudnn|thunky|state|export|multihost|"
    r"experimental/(?!shard|mesh|pjit|multihost))|pathways|_test\.py|custom_partitioning|op_shardings"
)
NOT_FOR_USERS = re.compile(
    r"file (?:a bug|an issue)|open a(?:n issue| bug)|Unhandled|Unexpected XLA|'REPLICATE'|jnp\.(?:arg)?partition"
    r"|cell carry|typing spec|JaxprTypeError|hijax|SdyArray|self-referential"
)
TARGET = Path(__file__).parents[1] / "evaluation" / "exceptions.md"


@dataclass(frozen=True)
class RaisingSite:
    """A `raise` statement: its package, file and lines, and the class and the message as they are written."""

    package: str
    file: str
    lines: range
    text: str

    @property
    def kind_name(self) -> str:
        """The first kind whose pattern its message matches; empty if it is explained in general."""
        return next((kind.name for kind in KINDS if re.search(kind.pattern, self.text, re.DOTALL)), "")


def raising_sites(package: str) -> Iterator[RaisingSite]:
    """Yield the `raise` statements about layouts in a package; none if it is not installed."""
    spec = importlib.util.find_spec(package)
    root = Path(next(iter(spec.submodule_search_locations or ()))) if spec else Path()
    for path in sorted(root.rglob("*.py")) if spec else ():
        name = f"{package.replace('.', '/')}/{path.relative_to(root).as_posix()}"
        for node in ast.walk(ast.parse(path.read_text("utf-8"))) if not ASIDE.search(name) else ():
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                text = f"{ast.unparse(node.exc.func)}: {' '.join(map(_message_text, node.exc.args))}"
                if ABOUT.search(text) and not NOT_FOR_USERS.search(text):
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    yield RaisingSite(package.partition(".")[0], name, lines, text)


def is_explained(site: RaisingSite) -> bool:
    """Return whether the exception of a site is explained if the failing call was given an array."""
    name = site.text.partition(":")[0].rpartition(".")[2]
    array = Leaf("x", "f32", (8, 4), spec="P('data', None)", mesh={"data": 4})
    call = Call("f", "", ("x",), (CallArgument("x", "x", False, True, (array,)),), None)
    frame = Frame("train.py", 1, 1, "main", 1, call)
    inside = ((f"site-packages/{site.file}", site.lines[0], ""),)
    error = Error(name, (name,), site.text.partition(": ")[2], (frame,), inside)
    return explain_error(recognise_error(error)) is not None


def _message_text(node: ast.expr) -> str:
    """A message with `_` for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "_" for one in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def _reached_lines(folder: Path) -> dict[tuple[str, int], bool]:
    """The lines of libraries that recorded exceptions went through, and whether every one there was explained."""
    found: dict[tuple[str, int], bool] = {}
    for path in folder.glob("*.json"):
        record = decode_exception(json.loads(path.read_text("utf-8")))
        known = bool(explain_exceptions([record]))
        for error in record.errors:
            for file, line, _ in error.inside[-3:]:
                place = file.replace("\\", "/").rpartition("site-packages/")[2], line
                found[place] = found.get(place, True) and known
    return found


def _render_page(sites: list[RaisingSite], folder: Path) -> str:
    reached = _reached_lines(folder)
    at = {
        site: [reached[site.file, line] for line in site.lines if (site.file, line) in reached]
        for site in sites
    }
    releases = ", ".join(
        f"{one} {version(one)}" for one in ("jax", "flax", "equinox", "haliax", "optax", "orbax-checkpoint")
    )
    rows = defaultdict(lambda: [0, 0, 0, 0])
    kinds = defaultdict(int)
    for site in sites:
        kinds[site.kind_name or "(in general)"] += 1
        for row in (rows[site.package], rows["all"]):
            row[0] += 1
            row[1] += bool(at[site])
            row[2] += bool(at[site]) and all(at[site])
            row[3] += is_explained(site)
    lines = [
        "# Exceptions about layouts",
        "",
        f"`scripts/raising_sites.py` lists the `raise` statements about layouts of {releases}.",
        "Their class or message names shardings, meshes, specs, mapped axes, placements or donation.",
        "Left out are statements for accelerators other than CPU, for several processes, of experiments, and for",
        "developers of the library. `tests/verify/data/raising` has a program for each that is reached.",
        "The last column counts messages that are explained as an exception of a call that got an array.",
        "",
        "| library | statements | reached by a program | of these explained | explained by message |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {' | '.join(map(str, row))} |"
            for name, row in sorted(rows.items(), key=lambda one: -one[1][0])
        ),
        "",
        "By kind. Those in general are explained by the layouts of what the failing call got.",
        "",
        "| kind | statements |",
        "|---|---|",
        *(
            f"| {name} | {count} |"
            for name, count in sorted(kinds.items(), key=lambda one: (-one[1], one[0]))
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, help="the folder that tests/verify/raise_all.py wrote")
    parser.add_argument(
        "--missing", action="store_true", help="with --records, list the statements that were not reached"
    )
    options = parser.parse_args()
    found = [site for package in PACKAGES for site in raising_sites(package)]
    if options.records and not options.missing:
        TARGET.write_text(_render_page(found, options.records), "utf-8")
    else:
        lines = _reached_lines(options.records) if options.records else {}
        for site in found:
            if not any((site.file, line) in lines for line in site.lines):
                print(f"{site.file}:{site.lines[0]}\t{site.kind_name}\t{' '.join(site.text.split())[:150]}")
