"""Constraints: the shardings that they are given, and files that have some. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.origins import values_on_paths
from shardlint.facts.shardings import CONSTRAINTS, literal_leaves
from shardlint.model import Program
from shardlint.model.mesh.meshes import Mesh, Spec, mesh_of, sharding_parts, spec_of
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

# A constraint by logical names, which becomes one of those.
LOGICAL = "flax.linen.with_logical_constraint"
_CONSTRAINING = tuple((name, name.rpartition(".")[2]) for name in (*CONSTRAINTS, LOGICAL))


def file_constraining_nearby(site: Site) -> FileFacts | None:
    """A file that runs together with the site's and constrains arrays over a mesh that the text does not tell."""
    for file in site.program.together(site.file):
        for name, word in _CONSTRAINING:
            if file.contains_text(word) and any(
                _may_be_over(site.program, file, node, name) for node in file.find_mentions(word)
            ):
                return file
    return None


def _may_be_over(program: Program, file: FileFacts, node: ast.AST, name: str) -> bool:
    """Return whether a mention is a call of the constraint `name` with axes of some mesh that is not known."""
    call = file.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node or not isinstance(node, ast.expr):
        return False
    if not any(isinstance(one, Api) and one.name == name for one in options(program.value(file, node))):
        return False
    argument = sharding_argument(call, name)
    if argument is None:
        return name == LOGICAL
    found = list(sharding_targets(program, file, argument))
    return not found or any(target.may_name_an_axis and not target.meshes for target in found)


def sharding_argument(call: ast.Call, name: str) -> ast.expr | None:
    """The argument of a constraint that says how to shard."""
    if name not in CONSTRAINTS:
        return None
    keyword = next((one.value for one in call.keywords if one.arg == CONSTRAINTS[name]), None)
    if keyword is not None:
        return keyword
    starred = any(isinstance(one, ast.Starred) for one in call.args[:2])
    return call.args[1] if len(call.args) > 1 and not starred else None


@dataclass(frozen=True)
class Target:
    """Sharding that an array is to get: a spec, and its possible meshes.

    Each of `meshes` is one way to the place: several meshes where the text does not tell which it is, none
    where it is not known. A bare spec has no ways at all.
    """

    meshes: tuple[tuple[Mesh, ...], ...]
    spec: Spec
    bare: bool

    @property
    def names_an_axis(self) -> bool:
        """True if the spec surely shards something."""
        return any(entry.known and entry.axes for entry in self.spec.entries)

    @property
    def may_name_an_axis(self) -> bool:
        """True if it may do so: of `P(*axes)` the text does not tell."""
        return self.spec.open or self.names_an_axis


def sharding_targets(program: Program, file: FileFacts, node: ast.expr) -> Iterator[Target]:
    """The shardings an expression holds for certain: one each for the leaves that have a single value."""
    evaluator = program.evaluator
    value = program.value(file, node)
    if len(options(value)) != 1:
        return
    for leaf in literal_leaves(value):
        parts = sharding_parts(leaf, evaluator)
        if parts is None:
            spec = spec_of(leaf, evaluator)
            if spec is not None:
                yield Target((), spec, True)
            continue
        spec = spec_of(parts[1], evaluator)
        if spec is not None:
            ways = [
                [mesh_of(one, evaluator) for one in options(way)] for way in values_on_paths(program, parts[0])
            ]
            known = [tuple(mesh for mesh in way if mesh is not None) for way in ways if None not in way]
            yield Target(tuple(known), spec, False)
