"""The type of a mesh's axes on the user's release, and the meshes and specs that a call is given. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.shardings import EXPLICIT_SINCE
from shardlint.model import Program
from shardlint.model.mesh.meshes import Mesh, Spec, literal_leaves, mesh_of, sharding_parts, spec_of
from shardlint.model.values import Api, CallResult, ClassValue, Function, Parameter, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

CONSTRAINTS = {
    "jax.lax.with_sharding_constraint": "shardings",
    "equinox.filter_shard": "device_or_shardings",
}
"""Constraints, and the argument that holds their shardings."""
# A constraint by logical names, which becomes one of those.
LOGICAL = "flax.linen.with_logical_constraint"
_CONSTRAINING = tuple((name, name.rpartition(".")[2]) for name in (*CONSTRAINTS, LOGICAL))
_BEFORE_TYPES = "<0.5.3"
# What shows that a project means Explicit axes; `out_sharding` is a keyword of NNX's variables too.
_EXPLICIT_WORDS = (
    "AxisType.Explicit",
    "AxisTypes.Explicit",
    "auto_axes",
    "explicit_axes",
    "jax.reshard",
    "sharding.reshard",
    "import reshard",
)
_NNX = "nnx"
_DEPTH = 3
# A function called through these has the parameters it was written with.
_SAME_PARAMETERS = (
    "jit",
    "pjit",
    "filter_jit",
    "checkpoint",
    "remat",
    "filter_checkpoint",
    "lru_cache",
    "cache",
)


def written_for_auto(site: Site, api: str) -> bool:
    """Return whether the project was written for a release on which meshes made by `api` had Auto axes: the one it
    pins.
    """
    if site.pinned("jax", _BEFORE_TYPES):
        return True
    since = EXPLICIT_SINCE.get(api)
    return since is not None and site.pinned("jax", since.replace(">=", "<")) and not speaks_of_explicit(site)


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


def speaks_of_explicit(site: Site) -> bool:
    """Return whether the project mentions Explicit axes anywhere."""
    if any(site.is_named_anywhere(word) for word in _EXPLICIT_WORDS):
        return True
    return site.is_named_anywhere("out_sharding") and not site.is_named_anywhere(_NNX)


def makes_explicit_meshes(site: Site) -> bool:
    """Return whether some mesh of the project may have Explicit axes: code names the type, or a call (tests aside) no
    type.
    """
    turned = tuple(api for api in EXPLICIT_SINCE if site.shardings.is_explicit_by_default(api))
    return site.program.once(
        site.file, ("makes explicit meshes", turned), lambda: _makes_explicit(site, turned)
    )


def _makes_explicit(site: Site, turned: tuple[str, ...]) -> bool:
    program, path = site.program, site.file.path
    for file in program.project.files_holding(path, ("Explicit",)):
        if file is None or file.find_mentions("Explicit"):
            return True
    names = tuple(api.rpartition(".")[2] for api in turned)
    for file in program.project.files_calling(path, names) if names else ():
        if file is None:
            return True
        for node in (node for name in names for node in file.find_mentions(name)):
            call = file.parent(node)
            if isinstance(call, ast.Call) and call.func is node:
                found = options(program.value(file, call))  # a project may have a function of that name too
                made = [one for one in found if not isinstance(one, CallResult) or one.api in turned]
                meshes = [mesh_of(one, program.evaluator) for one in made]
                if any(mesh is not None and mesh.axis_types in ("default", "unknown") for mesh in meshes):
                    return True
    return False


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


def values_on_paths(program: Program, value: Value, depth: int = _DEPTH) -> list[Value]:
    """Return the values of an expression on each visible path. A parameter is followed to the arguments of its
    calls.
    """
    if isinstance(value, Parameter) and depth > 0:
        return [
            one
            for given in _values_from_callers(program, value)
            for one in values_on_paths(program, given, depth - 1)
        ]
    return [value]


def _values_from_callers(program: Program, parameter: Parameter) -> Iterator[Value]:
    file = parameter.place.file
    scope = file.evaluation_scope(parameter.place.node)
    node = scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or scope.parent is None:
        return
    owner = ClassValue(Place(file, scope.parent.node)) if scope.parent.kind == "class" else None
    function = Function(Place(file, node), owner is not None, owner)
    for end in program.flow.ends(file, node).found:
        plain = all(one.api.rpartition(".")[2] in _SAME_PARAMETERS for one in end.wrappers)
        if end.kind != "called" or not plain or not isinstance(end.place.node, ast.Call):
            continue
        arguments = program.evaluator.read_arguments(end.place)
        value = program.evaluator.bind_parameter(function, arguments, parameter.name)
        if value is not None:
            yield value
