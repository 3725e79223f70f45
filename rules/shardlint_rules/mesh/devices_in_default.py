"""SL309."""

from __future__ import annotations

import ast

from shardlint.model.values import Api
from shardlint.rewrite.indent import indent_unit
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import parameters_with_defaults

_ASKING = (
    "jax.devices",
    "jax.local_devices",
    "jax.device_count",
    "jax.local_device_count",
    "jax.process_index",
    "jax.process_count",
    "jax.default_backend",
    "jax.make_mesh",
    "jax.experimental.mesh_utils.create_device_mesh",
)
_MESSAGE = "Importing this module initializes the backend, so a later `jax.distributed.initialize()` raises."


class DevicesInDefault(Rule):
    """A default argument or class attribute initializes the backend when the module is imported.

    Python computes defaults when it runs the `def`. After the import `jax.distributed.initialize()` raises, and
    `XLA_FLAGS` and `jax_platforms` have no effect. On a machine without a GPU, `jax.devices("gpu")` makes the import
    itself raise.

    ## Reports
    - proven: a parameter whose default calls `jax.devices()`, `jax.device_count()`, `jax.process_index()`,
      `jax.make_mesh(...)` or a similar function of jax. The function is at module level, or is a method of a class at
      module level.
    - proven: an attribute of a class at module level whose value calls one of these functions.

    ## Fix
    Writes `None` as the default and moves the call into the body. The default must be on one line, and the body below
    the `def`. No fix for class attributes. For a dataclass field use `default_factory`.

    ## Limits
    Tests and code under `if __name__ == "__main__":` are not reported.
    """

    code = "SL309"
    name = "devices-in-default"
    harm = Harm.CRASH
    triggers = (Calls(*_ASKING, at_module_level=True),)
    fixes = "safe"

    @detector("call")
    def report_default(self, site: Site) -> Finding | None:
        """A call in the default of a parameter."""
        found = _find_default(site)
        if found is None or not _runs_at_import(site):
            return None
        function, parameter, default = found
        return site.finding(
            site.call,
            _MESSAGE,
            label="runs at import",
            help=f"write {parameter.arg}=None, and make this call in the body",
            why=f"the default of `{parameter.arg}` is computed when `{function.name}` is defined",
            fix=self._write_fix(site, function, parameter, default),
        )

    @detector("call")
    def report_attribute(self, site: Site) -> Finding | None:
        """A call in the value of a class attribute."""
        statement = site.file.statement(site.call)
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not _runs_at_import(site):
            return None
        if not isinstance(site.file.parent(statement), ast.ClassDef):
            return None
        return site.finding(
            site.call,
            _MESSAGE,
            label="runs at import",
            help="make this call in a method, or use `default_factory` for a dataclass field",
            why="a class attribute is computed when the class is defined",
        )

    def _write_fix(
        self,
        site: Site,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        parameter: ast.arg,
        default: ast.expr,
    ) -> Fix | None:
        file = site.file
        first = function.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1:
            first = function.body[1]
        # A body on the line of its `def`, a default over several lines, or a nested default: left to the reader.
        text = site.text(default)
        start = file.source.offset_of(first.lineno, 0)
        indent = file.source.text[start : file.character_span(first)[0]]
        if indent.strip() or first.lineno == function.lineno or "\n" in text or _is_stub(function):
            return None
        if getattr(first, "decorator_list", None):
            return None
        edits = [site.replace(default, "None")]
        if parameter.annotation is not None:
            if not isinstance(parameter.annotation, ast.Name | ast.Attribute) or text.startswith("None"):
                return None
            end = file.character_span(parameter.annotation)[1]
            edits.append(Edit(end, end, " | None"))
        newline = file.source.common_newline
        name = parameter.arg
        lines = f"{indent}if {name} is None:{newline}{indent}{indent_unit(file, indent)}{name} = {text}{newline}"
        edits.append(Edit(start, start, lines))
        return site.fix(Safety.SAFE, f"write {name}=None, and in the body {name} = {text}", edits)


def _runs_at_import(site: Site) -> bool:
    """Return whether importing the module makes the call, which no call around it makes too."""
    if site.scope.enclosing_function() is not None or _is_test(site) or _only_as_a_script(site):
        return False
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.stmt):
            return True
        callee = site.value(outer.func) if isinstance(outer, ast.Call) else None
        if isinstance(callee, Api) and callee.name in _ASKING:
            return False
    return True


def _find_default(site: Site) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.arg, ast.expr] | None:
    """The function and parameter whose default makes the call."""
    inner: ast.AST = site.call
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            found = (
                (outer, parameter, default)
                for parameter, default in parameters_with_defaults(outer.args)
                if default is inner
            )
            return next(found, None)
        if isinstance(outer, ast.stmt):
            return None
        inner = outer
    return None


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    last = function.body[-1]
    return len(function.body) == 1 and isinstance(last, ast.Pass | ast.Raise | ast.Expr)


def _is_test(site: Site) -> bool:
    path, root = site.file.path, site.program.project.root
    folders = path.relative_to(root).parts[:-1] if root in path.parents else (path.parent.name,)
    name = path.stem
    return (
        name == "conftest"
        or name.startswith("test_")
        or name.endswith(("_test", "_tests"))
        or any(folder in ("test", "tests", "testing") for folder in folders)
    )


def _only_as_a_script(site: Site) -> bool:
    return any(
        isinstance(outer, ast.If) and "__name__" in site.text(outer.test)
        for outer in site.file.ancestors(site.call)
    )
