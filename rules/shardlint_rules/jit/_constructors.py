"""What the classes of the project must be given, where their `__init__` is written or generated from fields."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from shardlint.model.signatures import Parameters, of_definition
from shardlint.model.values import Api, CallArguments, ClassValue, Place, Value, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk

MAKING = Lines(
    r"[^#\n]*[A-Z]\w*\(",
    file_says=r"mesh|Mesh|sharding|Sharding",
)
"""Statements that begin with a line which makes something, in files that speak of meshes."""
_ABOUT = regex(r"(^|_)(mesh|shardings?|(partition_|p)?specs?|axis_rules|axis_resources)$")
_GIVEN = regex(r"(?i)mesh|sharding|spec\b|specs\b")
_TYPES = regex(r"\b(Mesh|AbstractMesh|\w*Sharding|PartitionSpec)\b")
_GENERATED = (
    "flax.linen.Module",
    "equinox.Module",
    "typing.NamedTuple",
    "typing_extensions.NamedTuple",
    "flax.struct.PyTreeNode",
)
_DECORATORS = (
    "dataclasses.dataclass",
    "flax.struct.dataclass",
    "chex.dataclass",
    "jax_dataclasses.pytree_dataclass",
    "flax.nnx.dataclass",
)
_HARMLESS = ("abc.ABC", "typing.Protocol", "typing.Generic", "builtins.object", "flax.nnx.Module")


def made_here(site: Site) -> Iterator[tuple[ast.Call, ClassValue, Parameters]]:
    """The calls in a statement itself that make an object of a class of the project, and what that must be given."""
    statement = site.syntax
    inside = getattr(statement, "body", None)
    if isinstance(inside, list):
        return
    for call in walk(statement):
        if not isinstance(call, ast.Call) or not last_name(call.func)[:1].isupper() or _of_a_library(site, call.func):
            continue
        given = [*call.args, *(one.value for one in call.keywords)]
        if any(_GIVEN.search(site.text(one)) for one in given):
            continue  # it has one: quick to tell
        found = options(site.value(call.func))
        if len(found) == 1 and isinstance(found[0], ClassValue):
            parameters = _parameters(site, found[0])
            if parameters is not None:
                yield call, found[0], parameters


def _of_a_library(site: Site, node: ast.expr) -> bool:
    """Whether a name was surely imported from outside of the project, by its first part: quick to tell."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return True  # what an expression gives is not told here
    for binding in site.file.bindings(site.file.module, node.id):
        statement = site.file.parent(binding.node) if isinstance(binding.node, ast.alias) else None
        if statement is None or not isinstance(binding.node, ast.alias):
            return False
        if isinstance(statement, ast.ImportFrom) and (statement.level or not statement.module):
            return False
        module = statement.module if isinstance(statement, ast.ImportFrom) else binding.node.name
        if module is None or site.program.project.resolve(module.partition(".")[0], site.file.path) is not None:
            return False
    return bool(site.file.bindings(site.file.module, node.id)) or hasattr(builtins, node.id)


def missing(site: Site, cls: ClassValue, parameters: Parameters, arguments: CallArguments) -> str | None:
    """The mesh, sharding or spec that a call leaves out though it has no default."""
    if arguments.open_positional or arguments.open_keywords or parameters.double_star:
        return None
    known = (*parameters.positional, *parameters.keyword_only)
    if any(name not in known for name in arguments.keywords) or len(arguments.positional) > len(parameters.positional):
        return None
    left = [
        name
        for name in parameters.positional[len(arguments.positional) : parameters.required]
        if name not in arguments.keywords
    ]
    # Where others are missing too, something hands them in that is not seen.
    return left[0] if len(left) == 1 and _speaks_of_placement(site, cls, left[0]) else None


def _speaks_of_placement(site: Site, cls: ClassValue, name: str) -> bool:
    if _ABOUT.search(name):
        return True
    held = site.program.evaluator.classes.objects.fields(cls).get(name)
    annotation = held[0].annotation if held is not None else None
    return annotation is not None and _TYPES.search(held[1].place.file.text(annotation)) is not None if held else False


def _parameters(site: Site, cls: ClassValue) -> Parameters | None:
    """What making an object takes; None where the text does not tell."""
    evaluator = site.program.evaluator
    lineage = evaluator.lineage(cls)
    bases = [base for owner in lineage for base in _outer_bases(site, owner)]
    if any(name is None for name in bases) or any(owner.node.keywords for owner in lineage):
        return None  # a base out of sight, a metaclass, or linen's `kw_only`
    written = evaluator.classes.objects.init(cls)
    if any(_defines(owner, "__new__", "__call__") and "Meta" in owner.node.name for owner in lineage):
        return None
    decorated = [one for owner in lineage for one in owner.node.decorator_list]
    if written is not None:
        if written.node is None or isinstance(written.node, ast.Lambda) or written.node.decorator_list:
            return None
        if any(_defines(owner, "__new__") for owner in lineage) or cls.node.decorator_list:
            return None
        return of_definition(written.node).without_first()
    names = [_api(site, cls, one) for one in decorated]
    generated = any(name in _GENERATED for name in bases) or (bool(cls.node.decorator_list) and bool(names))
    if not generated or any(name not in _DECORATORS for name in names):
        return None
    if any("kw_only" in owner.place.file.text(one) for owner in lineage for one in owner.node.decorator_list):
        return None
    fields = evaluator.classes.objects.fields(cls)
    required = 0
    for binding, owner in fields.values():
        if evaluator.classes.objects.default(binding, Place(owner.place.file, binding.node)) is not None:
            break
        if binding.value is not None and "init" in owner.place.file.text(binding.value):
            return None  # `field(init=False)`
        required += 1
    if any(binding.value is None for binding, _ in list(fields.values())[required:]):
        return None  # fields that only keywords give
    extra = ("parent", "name") if "flax.linen.Module" in bases else ()
    return Parameters(tuple(fields), required, extra)


def _outer_bases(site: Site, owner: ClassValue) -> Iterator[str | None]:
    """The bases of a class that are of libraries, by name; None for one that is not known."""
    for base in owner.node.bases:
        node = base.value if isinstance(base, ast.Subscript) else base
        for one in options(site.program.value(owner.place.file, node)):
            if isinstance(one, ClassValue):
                continue
            name = one.name if isinstance(one, Api) else None
            yield name if name in (*_GENERATED, *_HARMLESS) else None


def _api(site: Site, cls: ClassValue, node: ast.expr) -> str:
    inner = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Call) and node.args:
        inner = node.args[0]  # `partial(dataclass, frozen=True)`
    for owner in site.program.evaluator.lineage(cls):
        if node in owner.node.decorator_list:
            value: Value = site.program.value(owner.place.file, inner)
            return value.name if isinstance(value, Api) else ""
    return ""


def _defines(owner: ClassValue, *names: str) -> bool:
    return any(isinstance(one, ast.FunctionDef) and one.name in names for one in owner.node.body)
