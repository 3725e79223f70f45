"""SL346."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule, Takes
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import children, defaults
from shardlint_rules.mesh._chosen import chosen_when_asked
from shardlint_rules.mesh._imported import as_a_script, at_import, kept_globals, set_while_importing

_AMBIENT = ("jax.sharding.get_abstract_mesh", "jax.sharding.get_mesh")


class MeshReadAtImport(Rule):
    """The mesh that a program sets later is read while its modules are imported, when there is none yet.

    ## What it does
    Reports a module's mesh that is None until a function sets it (`global _MESH`), where it is read as modules are
    imported: `from state import _MESH`, a getter in the default of a parameter, in a class body, at module level, or in
    the body of a decorator that decorates a module's own functions. The same of `jax.sharding.get_abstract_mesh()`,
    which is empty there. Possible: axis names of an object that chooses them when it is first asked (`Axis.MODEL`,
    whose `__getattr__` takes them from a class that a flag or the environment decides on), in the same places.

    ## Why it hurts
    What was read stays None (or empty) for good. Code that has no constraints where there is no mesh then leaves
    out all of them, in every run, and nothing is raised: arrays are laid out as the compiler likes.

    ## Use instead
    Read it when the function is called: inside the wrapper that a decorator returns, in the body of the function, or as
    `state.MESH` through its module.

    ## Evidence
    The proof shows the activations without their sharding. Left alone: getters that make the mesh when there is none or
    raise, meshes that are set while a module is imported, and modules that are imported inside of functions, so
    perhaps after it was set.
    """

    code = "SL346"
    name = "mesh-read-at-import"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("read", "copied")
    triggers = (
        Lines(r"[^#\n]*mesh\w*\(\)", r"[^#\n]*Mesh\w*\(\)", saying=("mesh", "Mesh")),
        Lines(r"from\s[^#\n]*import\s[^#\n]*(?:mesh|MESH)\b", saying=("mesh", "MESH")),
        Takes(
            "mesh",
            "global_mesh",
            "device_mesh",
            "jax_mesh",
            "axis",
            "axes",
            "axis_name",
            "axis_names",
            "spec",
        ),
        Lines(r"\w+(?::[^=\n]*)?\s*=[^#\n]*Ax[ei]s\w*\.[A-Za-z]", saying=("Axis", "Axes")),
    )
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings for the reads of one statement."""
        if isinstance(site.syntax, ast.ImportFrom):
            yield from self._copies(site, site.syntax)
            return
        for call in _own(site):
            if not isinstance(call, ast.Call) or call.args or call.keywords:
                continue
            found = self._read(site, call)
            if found is not None:
                yield found
                return
        for read in _own(site):
            if isinstance(read, ast.Attribute) and isinstance(read.value, ast.Name):
                found = self._chosen(site, read, read.value)
                if found is not None:
                    yield found
                    return

    def _chosen(self, site: Site, read: ast.Attribute, chooser: ast.Name) -> Finding | None:
        """An attribute of what chooses when it is first asked."""
        if site.file.home(read).function() is not None or as_a_script(site.file, read):
            return None
        values = options(site.value(chooser))
        cls = chosen_when_asked(values[0], read.attr) if len(values) == 1 else None
        if cls is None:
            return None
        return site.finding(
            read,
            f"`{cls}` chooses when it is first asked, at the latest here: what a program sets after its imports "
            "does not count any more, and this keeps the name that was chosen.",
            label="this runs when its module is imported",
            help="read it when it is needed, in the function that is called",
            certainty=Certainty.POSSIBLE,
            form="chosen",
            why="it stands in no function",
        )

    def _read(self, site: Site, call: ast.Call) -> Finding | None:
        """A call that gives the mesh, where it runs as the module is imported."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if "mesh" not in name.lower():
            return None
        what = _gives(site, call)
        when = at_import(site, call) if what is not None else None
        if what is None or when is None:
            return None
        return site.finding(
            call,
            f"{what} So what is read here is no mesh, whatever is set later.",
            label=f"this runs when {when}",
            help="read it when it is needed, in the function that is called",
            certainty=Certainty.POSSIBLE,
            form="read",
            why=f"it runs when {when}",
        )

    def _copies(self, site: Site, statement: ast.ImportFrom) -> Iterator[Finding]:
        """Names that are taken from a module while they are still None."""
        if site.file.home(statement).kind != "module":
            return
        for alias in statement.names:
            if "mesh" not in alias.name.lower():
                continue
            name = alias.asname or alias.name
            file = _taken_from(site, statement)
            if file is None or alias.name not in kept_globals(file):
                continue
            if not any(
                isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and _of_module(site, one, name)
                for one in site.file.mentions(name)
            ) or set_while_importing(site, file, alias.name):
                continue
            yield site.finding(
                alias,
                f"This copies what `{alias.name}` is now: None. A function of {file.path.name} sets it later, "
                "and only there.",
                label=f"`{alias.name}` is None when it is imported",
                help=f"import the module, and read its `{alias.name}` when it is needed",
                certainty=Certainty.POSSIBLE,
                form="copied",
                why=f"{file.path.name} binds it to None, and sets it in a function",
            )


def _own(site: Site) -> Iterator[ast.Call | ast.Attribute]:
    """The calls and attributes of a statement itself, without those of what it defines; of a parameter, its default."""
    statement = site.syntax
    parts: list[ast.AST] = []
    if isinstance(statement, ast.arg):
        owner = site.file.parent(statement)
        arguments = getattr(owner, "args", owner)
        parts = list(_default(arguments, statement)) if isinstance(arguments, ast.arguments) else []
    elif isinstance(statement, ast.If | ast.While):
        parts = [statement.test]
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
        parts = [statement]
    while parts:
        node = parts.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call | ast.Attribute):
            yield node
        parts += children(node)


def _default(arguments: ast.arguments, parameter: ast.arg) -> Iterator[ast.expr]:
    return (default for one, default in defaults(arguments) if one is parameter and default is not None)


def _gives(site: Site, call: ast.Call) -> str | None:
    """What a call reads, in words, if it is a mesh that is set later."""
    found = options(site.value(call.func))
    if len(found) != 1:
        return None
    getter = found[0]
    if isinstance(getter, Api):
        ambient = getter.name in _AMBIENT and site.anywhere("set_mesh")
        return "No mesh is set while modules are imported." if ambient else None
    if not isinstance(getter, Function) or not isinstance(getter.node, ast.FunctionDef):
        return None
    file, name = getter.place.file, _returned(getter.node)
    if name is None or name not in kept_globals(file) or set_while_importing(site, file, name):
        return None
    return f"`{name}` of {file.path.name} is None until a function sets it."


def _returned(getter: ast.FunctionDef) -> str | None:
    """The name that a function gives, where it does nothing but that."""
    body = [
        one
        for one in getter.body
        if not isinstance(one, ast.Global)
        and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    match body:
        case [ast.Return(value=ast.Name(id=name))]:
            return name
    return None


def _taken_from(site: Site, statement: ast.ImportFrom) -> FileFacts | None:
    """The file of the module that something is taken from."""
    project, name = site.program.project, statement.module or ""
    here = site.file.path
    path = project.relative(here, statement.level, name) if statement.level else project.resolve(name, here)
    return project.facts(path) if path is not None else None


def _of_module(site: Site, use: ast.Name, name: str) -> bool:
    bindings, _ = lookup(site.file, use, name)
    return any(binding.kind == "from" for binding in bindings)
