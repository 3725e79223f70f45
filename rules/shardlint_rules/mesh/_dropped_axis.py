"""Axes of meshes that no spec names, where a program drops the axes of its specs that a mesh has not. For SL351."""

from __future__ import annotations

import ast
import difflib
from collections import Counter

from shardlint.model.mesh.table import made_meshes, making_meshes
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk

# Names for the dimensions of arrays, which rules turn into mesh axes.
LOGICAL = (
    *(rf"(?:){word}(?<![A-Za-z0-9]{word})(?i:ly)?(?:\b|_)" for word in ("logical", "Logical", "LOGICAL")),
    r"(?:)Logical(?<!\wLogical)[A-Z(:.]",
    "axis_rules",
)
DROPS = (
    r"(?:\b(?:if|for)\b[^\n]*\bin\s+(?:\w+(?:\(\))?\.)*(?:axis_names|axis_sizes|shape|mesh_axes)\b)"
    r"|(?:=\s*(?:set|frozenset|tuple|list)\((?:\w+\.)*axis_names\))"
)
"""`name if name in mesh.axis_names else None`, and the same of each name of an entry."""
_SPEC = regex(r"\b(?:P|PS|PartitionSpec)\(((?:[^()\n]|\([^()]*\))*)\)")
# Names that axes of one kind have.
_KINDS = (
    regex(r"(?:dp|ddp|data|batch|rows|replicas?|data_parallel|fsdp|zero\d?|shards?|dp_shard)"),
    regex(r"(?:tp|mp|tensor|model|tensor_parallel|model_parallel|heads?)"),
    regex(r"(?:ep|experts?|expert_parallel)"),
    regex(r"(?:sp|cp|seq|sequence|context|length)"),
    regex(r"(?:pp|pipe|pipeline|stages?)"),
)
_NEAR = 0.7
_QUOTED = regex(r"""["'](\w+)["']""")


@dataclass(frozen=True)
class Dropped:
    """The axis of a mesh that nothing names, where it stands, and the axes of specs that no mesh has."""

    node: ast.expr
    axis: str
    lost: tuple[str, ...]


def dropped(site: Site) -> Dropped | None:
    """The axis of the mesh made here that nothing else names, where specs name others that no mesh has."""
    mesh = site.mesh_of(site.value(site.call))
    if mesh is None or mesh.axis_names is None or site.program.project.holds(site.file.path, *LOGICAL):
        return None
    if not site.program.project.saying(site.file.path, (DROPS,)):
        return None
    said = site.program.once(site.file, "SL351 dropped", lambda: _said(site))
    if said is None:
        return None
    counts, named, made = said
    lost = tuple(sorted(axis for axis in named - made if axis.isidentifier()))
    written = {one.value: one for one in walk(site.call) if isinstance(one, ast.Constant)}
    unused = [axis for axis in mesh.axis_names if counts.get(axis) == 1 and axis in written]
    if len(unused) != 1 or len(lost) != 1 or not named & set(mesh.axis_names) or not _alike(unused[0], lost[0]):
        return None
    if dict(zip(mesh.axis_names, mesh.sizes, strict=False)).get(unused[0]) == 1:
        return None
    return Dropped(written[unused[0]], unused[0], lost)


def _alike(one: str, other: str) -> bool:
    """Whether two names are for the same axis, by what they mean or how they are spelled."""
    if any(kind.fullmatch(one) and kind.fullmatch(other) for kind in _KINDS):
        return True
    return difflib.SequenceMatcher(None, one, other).ratio() >= _NEAR


def _said(site: Site) -> tuple[dict[str, int], frozenset[str], frozenset[str]] | None:
    """How often names are quoted, those that specs write out, and the axes of meshes; None where some are not known."""
    texts = [file.source.text for file in site.program.together(site.file)]
    made: set[str] = set()
    for file in making_meshes(site.program, site.file.path, tests=False):
        if file is None:
            return None
        for other in made_meshes(site.program, file):
            if other is None or other.axis_names is None:
                return None
            made.update(other.axis_names)
    counts = Counter(found[1] for text in texts for found in _QUOTED.finditer(text))
    named = {axis[1] for text in texts for spec in _SPEC.finditer(text) for axis in _QUOTED.finditer(spec[1])}
    return dict(counts), frozenset(named), frozenset(made)
