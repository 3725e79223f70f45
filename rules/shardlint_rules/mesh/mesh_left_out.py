"""SL347."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.meshes import Mesh, mesh_of
from shardlint.model.reach import lookup
from shardlint.model.signatures import of_definition
from shardlint.model.values import ClassValue, Constant, Function, Place, Transformed, Value, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import none_by_default, walk
from shardlint_rules.mesh._before_default import LINE, before_default

# What places its arguments, by its name.
_PLACING = ("put", "shard", "place", "replicate", "constrain")
# They only look at what they are given: what lies elsewhere may be compared with.
_LOOKING = ("assert", "close", "equal", "print", "compare", "log", "len", "isinstance", "zip")
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class MeshLeftOut(Rule):
    """A function that makes a mesh of its own where it is given none is called without the program's mesh.

    ## What it does
    Reports `policy = build(dim)` in a function that makes a mesh, where `build` takes a `mesh`, None by default, and
    then makes another one (`mesh = mesh or make_mesh()`), and where what it gives meets arrays of the program's mesh in
    one call. Also a mesh, devices, sharding, spec or rules, None by default, that a function hands on above the
    statement that replaces the None (`specs = build(mesh=mesh)`, and then `if mesh is None: mesh = default_mesh()`).

    ## Why it hurts
    The default is another mesh: mostly all devices on one axis, or the model axis of size 1. The weights are split over
    other axes than was meant, or whole on every device, and each call that meets arrays of both meshes has to move one
    of them. Where the devices are the same ones in the same order nothing is raised.

    ## Use instead
    `build(dim, mesh=mesh)`; and no default, so that it cannot be left out.

    ## Evidence
    The proof shows the weights whole on every device, over a model axis of size 1. Left alone: defaults that read the
    mesh in context, or make the very mesh that the caller has, results that are placed again
    or only compared with others.
    """

    code = "SL347"
    name = "mesh-left-out"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("own-mesh", "before-default")
    triggers = (
        Lines(
            r"\w*mesh\w*\s*(?::[^=#\n]*)?=[^=#\n]*\w\(",
            saying=("mesh",),
        ),
        Lines(LINE, saying=("mesh", "sharding", "spec", "rules", "devices")),
    )
    where = "host"
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the calls in the same function that leave the mesh out."""
        statement = site.syntax
        yield from self._before_default(site)
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        made = statement.value
        if not isinstance(target, ast.Name) or not isinstance(made, ast.Call) or not site.wants("own-mesh"):
            return
        owner = site.scope.node
        later = [one for one in _statements(owner) if one.lineno > statement.lineno and one is not statement]
        calls = [one for one in later if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call)]
        calls = [one for one in calls if not _says(one.value, {target.id})]
        ours = _mesh(site, site.value(made)) if calls else None
        if ours is None:
            return
        held = _made_with(later, target.id)
        for one in calls:
            call, names = one.value, {name.id for part in one.targets for name in _names(part)}
            assert isinstance(call, ast.Call)
            bound, _ = lookup(site.file, call, target.id)
            if [binding.value for binding in bound] != [made]:
                continue  # on another way, or made anew in between
            if _placed_again(later, one, names) or not _meet(later, names, held - names | {target.id}):
                continue
            found = self._left_out(site, call, made, ours)
            if found is None:
                continue
            name, default = found
            yield site.finding(
                call.func,
                f"`{last_name(call.func)}` then makes a mesh of its own, `{default}`: what it places lies over another "
                f"mesh than what is made with `{target.id}`.",
                label=f"`{name}` is not given here",
                help=f"hand it on: {name}={target.id}",
                certainty=Certainty.POSSIBLE,
                form="own-mesh",
                why=f"what it gives meets arrays over `{target.id}` in one call",
            )

    def _before_default(self, site: Site) -> Iterator[Finding]:
        """A parameter that is handed on while it may be None, above the statement that gives it a default."""
        found = before_default(site) if site.wants("before-default") else None
        if found is None:
            return
        node, name, call = found
        line = site.syntax.lineno if isinstance(site.syntax, ast.stmt) else 0
        yield site.finding(
            node,
            f"Where `{name}` is left out, `{last_name(call.func)}` gets None here, and what follows the default.",
            label=f"`{name}` may still be None: its default comes at line {line}",
            help=f"move the default of `{name}` above this",
            certainty=Certainty.POSSIBLE,
            form="before-default",
            why=f"`{name}` is None by default, and line {line} replaces that",
        )

    def _left_out(self, site: Site, call: ast.Call, made: ast.Call, ours: Mesh) -> tuple[str, str] | None:
        """The parameter that a call leaves out, and the mesh that is made in its place, if that is another one."""
        found = options(site.value(call.func))
        definition = _definition(site, found[0]) if len(found) == 1 else None
        if definition is None:
            return None
        function, bound = definition
        node = function.node
        assert isinstance(node, ast.FunctionDef)
        whole = of_definition(node)
        parameters = whole.without_first() if bound else whole
        given = parameters.bind(site.program.evaluator.arguments(Place(site.file, call)))
        if given is None:
            return None
        for name in (*parameters.positional, *parameters.keyword_only):
            if "mesh" not in name or name in given or name not in none_by_default(node.args):
                continue
            default = _own(node, name)
            if default is None:
                continue
            theirs = _mesh(site, site.program.value(function.place.file, default))
            if theirs is not None and not _same(ours, theirs, made, default):
                return name, " ".join(function.place.file.text(default).split())
        return None


def _statements(owner: ast.AST) -> list[ast.stmt]:
    """The statements of a function or module, without those of functions in it."""
    found: list[ast.stmt] = []
    waiting = list(getattr(owner, "body", []))
    while waiting:
        one = waiting.pop(0)
        found.append(one)
        if isinstance(one, _NESTED):
            continue
        for block in ("body", "orelse", "finalbody"):
            waiting += [part for part in getattr(one, block, []) if isinstance(part, ast.stmt)]
    return found


def _names(node: ast.AST) -> list[ast.Name]:
    return [one for one in walk(node) if isinstance(one, ast.Name)]


def _says(node: ast.AST, names: set[str]) -> bool:
    return any(one.id in names for one in _names(node))


def _made_with(statements: list[ast.stmt], mesh: str) -> set[str]:
    """The names of what is made with a mesh, and of what is made with that: shardings, and arrays placed by them."""
    held = {mesh}
    for one in sorted(statements, key=lambda statement: statement.lineno):
        if isinstance(one, ast.Assign) and _says(one.value, held):
            held |= {name.id for part in one.targets for name in _names(part)}
    return held - {mesh}


def _placed_again(statements: list[ast.stmt], made: ast.stmt, results: set[str]) -> bool:
    """Whether what a statement binds is bound once more to what is placed, by the name of what does it."""
    return any(
        isinstance(one, ast.Assign)
        and one is not made
        and any(name.id in results for part in one.targets for name in _names(part))
        and any(isinstance(call, ast.Call) and _named(call, _PLACING) for call in walk(one.value))
        for one in statements
    )


def _named(call: ast.Call, words: tuple[str, ...]) -> bool:
    return any(word in last_name(call.func).lower() for word in words)


def _meet(statements: list[ast.stmt], results: set[str], held: set[str]) -> bool:
    """Whether some call is given what one call made, in one argument, and what is held by the mesh in another."""
    for statement in statements:
        parts = [one for one in ast.iter_child_nodes(statement) if isinstance(one, ast.expr)]
        for part in () if isinstance(statement, _NESTED) else parts:
            for call in walk(part):
                if not isinstance(call, ast.Call) or _named(call, (*_LOOKING, *_PLACING)):
                    continue
                given = [*call.args, *(one.value for one in call.keywords)]
                ours = [one for one in given if _says(one, held)]
                if ours and any(_says(one, results) for one in given if one not in ours):
                    return True
    return False


def _definition(site: Site, value: Value) -> tuple[Function, bool] | None:
    """The function of the project that is called, or the `__init__` of a class, and whether its self is given."""
    while isinstance(value, Transformed) and value.api.name != "functools.partial":
        value = value.inner
    bound = isinstance(value, Function) and value.bound
    if isinstance(value, ClassValue):
        init = site.program.evaluator.classes.objects.init(value)
        if init is None:
            return None
        value, bound = Function(init.place, True, value), True
    if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
        return None
    return value, bound


def _own(node: ast.FunctionDef, name: str) -> ast.Call | None:
    """The call that makes what a parameter is where None was given."""
    for one in walk(ast.Module(node.body, [])):
        match one:
            case ast.BoolOp(op=ast.Or(), values=[ast.Name(id=read), ast.Call() as made]) if read == name:
                return made
            case ast.IfExp(test=test, body=ast.Name(id=read), orelse=ast.Call() as made) if (
                read == name and _asks(test, name, ast.IsNot)
            ):
                return made
            case ast.IfExp(test=test, body=ast.Call() as made, orelse=ast.Name(id=read)) if (
                read == name and _asks(test, name, ast.Is)
            ):
                return made
            case ast.If(test=test, body=body) if _asks(test, name, ast.Is):
                for inner in body:
                    match inner:
                        case ast.Assign(targets=[ast.Name(id=read)], value=ast.Call() as made) if (
                            read == name
                        ):
                            return made
    return None


def _asks(test: ast.expr, name: str, how: type[ast.cmpop]) -> bool:
    match test:
        case ast.Compare(left=ast.Name(id=read), ops=[operator], comparators=[ast.Constant(value=None)]):
            return read == name and isinstance(operator, how)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=read)):
            return read == name and how is ast.Is
        case ast.Name(id=read):
            return read == name and how is ast.IsNot
    return False


def _mesh(site: Site, value: Value) -> Mesh | None:
    """The one mesh that a call surely makes."""
    found = options(value)
    return (
        mesh_of(found[0], site.program.evaluator) if len(found) == 1 and found[0] != Constant(None) else None
    )


def _same(ours: Mesh, theirs: Mesh, made: ast.Call, default: ast.Call) -> bool:
    """Whether both may be one mesh: the same call, or the same axes with sizes that may be equal."""
    if ast.dump(made) == ast.dump(default):
        return True
    if ours.axis_names is not None and theirs.axis_names is not None and ours.axis_names != theirs.axis_names:
        return False
    theirs_given = [*default.args, *(one.value for one in default.keywords)]
    if last_name(made.func) != last_name(default.func) or any(_names(one) for one in theirs_given):
        return True  # what the function is given may make it the same one
    ours_given = [*made.args, *(one.value for one in made.keywords)]
    return [ast.dump(one) for one in ours_given] == [ast.dump(one) for one in theirs_given]
