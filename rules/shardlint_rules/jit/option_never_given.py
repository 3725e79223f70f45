"""SL249."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import of_definition
from shardlint.model.values import Place
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule, Takes
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import none_by_default, walk
from shardlint_rules.jit.repeated import is_test

_NAMES = (
    "mesh", "device_mesh", "sharding", "shardings", "rules", "axis_rules", "logical_axis_rules", "sharding_rules",
    "partition_rules", "specs", "param_specs", "param_shardings", "axis_mapping", "sharding_config",
)  # fmt: skip
_FIELD = rf"\s*(?:{'|'.join(_NAMES)})\s*:[^=#\n]*=\s*(?:None\b|[\w.]*field\(default=None)"
_DOES = regex(r"with_\w*constraint|NamedSharding|device_put|shard_map|filter_shard|reshard\b|constrain|shard\(|Partit")
_BOXES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MOST = 12


@dataclass(frozen=True)
class _LeftOut:
    file: FileFacts
    call: ast.Call
    held: str
    """What the code around the call has, that it could give."""


class OptionNeverGiven(Rule):
    """A class or function shards only where it is given a mesh or rules, and no call gives it any.

    ## What it does
    Reports a parameter or field like `mesh`, `shardings` or `rules` with a default of None, where the code says what
    happens without it (`if self.mesh is not None: x = with_sharding_constraint(...)`, `rules or {}`), none of the calls
    in sight gives it, and the code around one of them has one of that name: `mesh` itself, `self.mesh`, `MESH`.

    ## Why it hurts
    The branch for one device is the one that is always taken: constraints are left out and arrays stay whole on every
    device. Nothing is raised, as None is allowed.

    ## Use instead
    Hand it on: `Attention(dim, heads, mesh=mesh)`; and no default, so that it cannot be left out.

    ## Evidence
    The proof shows an array whole on every device. Left alone: defaults that take the mesh in context or make one,
    what some other call is given, classes and functions that are handed on as values, and calls in tests.
    """

    code = "SL249"
    name = "option-never-given"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("never-given",)
    triggers = (
        Takes(*_NAMES),
        Lines(_FIELD, saying=_NAMES),
    )
    in_tests = False
    behind = ("SL231",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a parameter or field: at the call, where that stands in the same file."""
        taken = _taken(site)
        if taken is None or not site.wants("never-given"):
            return
        node, name = taken
        taking = site.file.parent(node) if isinstance(node, ast.FunctionDef) and node.name == "__init__" else node
        if not isinstance(taking, _BOXES) or not _skips(site, taking, name):
            return
        found = _left_out(site, taking, node, name)
        if found is None:
            return
        here = found.file is site.file
        place = Place(found.file, found.call)
        yield site.finding(
            found.call if here else site.syntax,
            f"`{name}` is not given here" if here else f"`{name}` is given by no call",
            f"`{taking.name}` shards only where it is given `{name}`, which is None by default: without it that is "
            "left out, and what it would split is whole on every device.",
            help=f"hand it on: {name}={found.held}" + ("" if here else f", at {site.where(place)}"),
            form="never-given",
            why=f"no call gives `{name}`, and `{found.held}` is at hand at {site.where(place)}",
        )


def _taken(site: Site) -> tuple[ast.FunctionDef | ast.ClassDef, str] | None:
    """What takes the parameter or field, and its name."""
    one = site.syntax
    if isinstance(one, ast.arg):
        arguments = site.file.parent(one)
        node = site.file.parent(arguments) if isinstance(arguments, ast.arguments) else arguments
        return (node, one.arg) if isinstance(node, ast.FunctionDef) and one.arg in none_by_default(node.args) else None
    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
        owner = site.file.parent(one)
        return (owner, one.target.id) if isinstance(owner, ast.ClassDef) else None
    return None


def _skips(site: Site, taking: ast.AST, name: str) -> bool:
    """Whether code shards where it has the option, and does without where it is None: it puts nothing in its place."""
    if not _DOES.search(site.file.text(taking)):
        return False
    asked = False
    for one in walk(taking):
        match one:
            case ast.BoolOp(op=ast.Or(), values=[first, *rest]) if last_name(first) == name:
                if any(not isinstance(other, ast.Dict | ast.Tuple | ast.List | ast.Constant) for other in rest):
                    return False
                asked = True
            case ast.If(test=test) | ast.IfExp(test=test) if _asks(test, name):
                if isinstance(one, ast.If) and any(_binds(part, name) for part in walk(one)):
                    return False  # a default that is made, or the mesh in context
                if isinstance(one, ast.IfExp) and isinstance(site.file.parent(one), ast.Assign):
                    if _binds(site.file.parent(one), name):
                        return False
                asked = True
    return asked


def _asks(test: ast.expr, name: str) -> bool:
    """Whether a test asks if the option is there."""
    match test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return last_name(left) == name
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _asks(inner, name)
        case ast.BoolOp(values=parts):
            return any(_asks(one, name) for one in parts)
        case ast.Name() | ast.Attribute():
            return last_name(test) == name
    return False


def _binds(node: ast.AST | None, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(one, ast.Name | ast.Attribute) and last_name(one) == name for one in targets)


def _left_out(site: Site, taking: ast.AST, node: ast.AST, name: str) -> _LeftOut | None:
    """A call whose surroundings have what none of the calls gives."""
    assert isinstance(taking, _BOXES)
    ends = site.program.flow.in_sight(site.file, taking).found
    calls = [one for one in ends if not site.program.project.is_test(one.place.file.path)]
    calls = [one for one in calls if one.kind != "escaped" or "dataclass" not in one.place.text()]  # a decorator
    if not calls or len(calls) > _MOST or any(one.kind == "escaped" for one in calls):
        return None
    found = None
    for end in calls:
        call = end.place.node
        if not isinstance(call, ast.Call) or is_test(end.place.file, call) or end.wrappers:
            return None  # behind jit a mesh cannot be given
        arguments = site.program.evaluator.arguments(end.place)
        if arguments.open_positional or arguments.open_keywords or name in arguments.keywords:
            return None
        if len(arguments.positional) > _before(taking, node, name):
            return None
        if found is None:
            held = _held(end.place.file, call, name)
            found = _LeftOut(end.place.file, call, held) if held else None
    return found


def _before(taking: ast.AST, node: ast.AST, name: str) -> int:
    """How many positions come before the option."""
    if isinstance(node, ast.FunctionDef):
        parameters = of_definition(node)
        bound = parameters.positional[:1] in (("self",), ("cls",))
        order = (parameters.without_first() if bound else parameters).positional
    else:
        fields = [one.target for one in getattr(taking, "body", []) if isinstance(one, ast.AnnAssign)]
        order = tuple(one.id for one in fields if isinstance(one, ast.Name))
    return order.index(name) if name in order else len(order)


def _held(file: FileFacts, call: ast.Call, name: str) -> str:
    """What the code around a call has of that name, before it: a name, an attribute of its own object, a constant."""
    wanted = {name, name.upper(), f"_{name}"}
    for scope in file.home(call).outward():
        if scope.kind == "class":
            text = f"self.{name}"
            own = [one for one in walk(scope.node) if isinstance(one, ast.Assign) and not _none(one.value)]
            if any(file.text(to) == text for one in own for to in one.targets) and _has_self(file, call):
                return text
            continue
        for one in sorted(wanted):
            bound = [
                binding
                for binding in file.bindings(scope, one)
                if binding.kind in ("assign", "param", "import", "with") and not _none(binding.value)
            ]
            early = [b for b in bound if scope.kind == "module" or getattr(b.node, "lineno", 0) <= call.lineno]
            if early and not _optional(early[0].node, scope.node, one):
                return one
    return ""


def _none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _optional(node: ast.AST, function: ast.AST, name: str) -> bool:
    """Whether a parameter is None by default itself: then nothing says that there is one."""
    takes = function.args if isinstance(function, ast.FunctionDef) and isinstance(node, ast.arg) else None
    return takes is not None and name in none_by_default(takes)


def _has_self(file: FileFacts, call: ast.Call) -> bool:
    function = file.home(call).function()
    args = getattr(function.node, "args", None) if function is not None else None
    return isinstance(args, ast.arguments) and bool(args.args) and args.args[0].arg == "self"
