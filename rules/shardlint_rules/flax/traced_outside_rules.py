"""SL520."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.logical_rules import SETTERS
from shardlint.model.function_uses import FunctionUse
from shardlint.model.signatures import JITS
from shardlint.model.values import Api, CallResult, ClassValue, Function, Place, Transformed, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector, on_lines
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.flax.linen_names import CONSTRAINTS

_RUNS = ("apply", "init", "init_with_output", "apply_fn")
_FOR_GOOD = ("set_logical_axis_rules", "set_axis_rules")
_DEPTH = 5

# A function that is only decorated runs a model if its own file says something of one; what is wrapped may be anything.
_RUNS_A_MODEL = ("apply", "init", "model", "state", "odule", on_lines(r"(?!from |import |@)", "jit"))


class TracedOutsideRules(Rule):
    """A jitted function is traced outside the logical axis rules that the program enters elsewhere.

    jit traces a function at its first call. The rules in context at that time map logical names to mesh axes. Without
    rules the constraints do nothing: the compiler chooses the layout of activations. Nothing is raised.

    ## Reports
    - `called` (likely): a jitted function that runs a linen module with logical constraints, if all its calls in the
      project are outside `logical_axis_rules` and the program enters rules around other code.

    ## Write instead
    Write `with nn.logical_axis_rules(RULES):` around the call, or once around the whole program.

    ## Limits
    Not reported: functions that enter the rules themselves, functions that code outside the project may call, calls
    under a context manager that shardlint does not know, and constraints with `rules=`.
    """

    code = "SL520"
    name = "traced-outside-rules"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("called",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "called": "No code outside the project calls the function."
    }
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.11"}
    triggers = (Calls(*JITS, "flax.linen.jit", file_says=_RUNS_A_MODEL),)
    project_says = ("axis_rules(",)
    where = "host"
    in_tests = False
    fixes = "none"

    @detector("call", "partial", finds="called")
    def report_call(self, site: Site) -> Finding | None:
        """A call that traces a jitted function without rules."""
        if not site.is_named_anywhere("with_logical_constraint"):
            return None
        if any(map(site.is_named_anywhere, _FOR_GOOD)):
            return None
        inside = _Constrained(site)
        named = [inside.constrained_module_of_value(one.inner, 0) for one in site.find_wrapped(*JITS, "flax.linen.jit")]
        if len(named) != 1 or named[0] is None:
            return None
        ends = _find_ends(site)
        calls = [one for one in ends if one.kind == "called"]
        if not calls or any(one.kind == "escaped" for one in ends):
            return None
        entered = _Entered(site)
        if any(entered.may_enter_rules(one.place, 0) for one in calls):
            return None
        elsewhere = site.program.once(site.file, "SL520", lambda: _find_rules_entered(site))
        if elsewhere is None:
            return None
        here = [one.place.node for one in calls if one.place.file is site.file]
        return site.finding(
            here[0] if here else site.syntax,
            f"The logical constraints of `{named[0]}` do nothing: this call traces it without logical axis rules.",
            help="write `with nn.logical_axis_rules(rules):` around this call: jit reads the rules at the first call, "
            "not where it is created",
            why=f"{elsewhere} enters rules, and no call of this function is under them",
        )


def _find_ends(site: Site) -> list[FunctionUse]:
    """Return the visible uses of the jitted function."""
    flow = site.program.flow
    if site.decorated is not None:
        return flow.in_sight(site.file, site.decorated).found
    return flow.calls(Place(site.file, site.syntax), every=True).found


class _Constrained:
    """Which linen module with logical constraints a function runs."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.program = site.program
        self.met: set[ast.AST] = set()

    def constrained_module_of_value(self, value: Value, depth: int) -> str | None:
        """The name of the module that a callable runs, or None where it enters rules itself or runs none."""
        while isinstance(value, Transformed):
            value = value.inner
        if isinstance(value, Function):
            return self._constrained_module_of_function(value.place.file, value.node, depth)
        return None

    def _constrained_module_of_function(self, file: FileFacts, node: ast.AST, depth: int) -> str | None:
        if node in self.met or depth > _DEPTH or any(name in file.source_text(node) for name in SETTERS):
            return None
        self.met.add(node)
        for call in [one for one in walk_nodes(node) if isinstance(one, ast.Call)]:
            found = self._constrained_module_of_call(file, call, depth)
            if found is not None:
                return found or getattr(node, "name", "lambda")
        return None

    def _constrained_module_of_call(self, file: FileFacts, call: ast.Call, depth: int) -> str | None:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _RUNS:
            model = (
                self._module_of_training_states() if func.attr == "apply_fn" else self._applied_module(file, func.value)
            )
            if model is not None:
                return model
        for option in options(self.program.value(file, func)):
            if _is_logical_constraint(option, call):
                return ""  # by the function itself
            if (
                isinstance(option, Function)
                and (found := self.constrained_module_of_value(option, depth + 1)) is not None
            ):
                return found
        return None

    def _applied_module(self, file: FileFacts, node: ast.expr) -> str | None:
        """The class of a linen module that is applied, if its `__call__` constrains something."""
        value = self.program.followed(self.program.value(file, node))
        for option in options(value):
            made = option.by if isinstance(option, CallResult) else None
            if isinstance(made, ClassValue) and self._class_constrains(made, 0):
                return made.node.name
        return None

    def _module_of_training_states(self) -> str | None:
        """The module of which a training state of this program keeps the `apply`."""
        for file in self.program.together(self.site.file):
            for mention in file.find_mentions("apply_fn"):
                given = mention.value if isinstance(mention, ast.keyword) else None
                if (
                    isinstance(given, ast.Attribute)
                    and (found := self._applied_module(file, given.value)) is not None
                ):
                    return found
        return None

    def _class_constrains(self, cls: ClassValue, depth: int) -> bool:
        if cls.node in self.met or depth > _DEPTH:
            return False
        self.met.add(cls.node)
        file = cls.place.file
        for call in [one for one in walk_nodes(cls.node) if isinstance(one, ast.Call)]:
            for option in options(self.program.value(file, call.func)):
                if isinstance(option, ClassValue) and self._class_constrains(option, depth + 1):
                    return True
                if _is_logical_constraint(option, call):
                    return True
        return False


class _Entered:
    """Test for axis rules that may be in context at a place."""

    def __init__(self, site: Site) -> None:
        self.program = site.program
        self.met: set[ast.AST] = set()

    def may_enter_rules(self, place: Place, depth: int) -> bool:
        """Return whether a `with`, a decorator, or a caller enters axis rules, or may do so out of sight."""
        file, node = place.file, place.node
        if depth > _DEPTH or any(map(file.contains_text, ("enter_context", ".__enter__("))):
            return True
        function = file.evaluation_scope(node).enclosing_function()
        inner = node
        for outer in file.ancestors(node):
            if isinstance(outer, ast.With | ast.AsyncWith) and not isinstance(inner, ast.withitem):
                if any(self._enters_rules(Place(file, item.context_expr)) for item in outer.items):
                    return True
            if function is not None and outer is function.node:
                break
            inner = outer
        if function is None:
            return False
        if function.node in self.met:
            return False
        self.met.add(function.node)
        if any("rules" in file.source_text(one) for one in getattr(function.node, "decorator_list", ())):
            return True
        if isinstance(function.node, ast.Lambda):
            return self.may_enter_rules(Place(file, function.node), depth + 1)
        assert isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef)
        ends = self.program.flow.in_sight(file, function.node).found
        calls = [one for one in ends if one.kind == "called"]
        if not calls:
            return not (function.node.name == "main" or file.contains_text("__main__"))
        return any(self.may_enter_rules(one.place, depth + 1) for one in calls)

    def _enters_rules(self, place: Place) -> bool:
        text = place.source_text()
        if any(name in text for name in SETTERS):
            return True
        manager = self.program.contexts.context_of_manager(place)
        if manager is None or manager.kind != "unknown":
            return False
        if not isinstance(place.node, ast.Call):
            return True
        found = options(self.program.value(place.file, place.node.func))
        while any(isinstance(one, Transformed) for one in found):
            found = tuple(one.inner if isinstance(one, Transformed) else one for one in found)
        if not all(isinstance(one, Function | ClassValue) for one in found):
            return not all(isinstance(one, Api) for one in found)
        texts = [one.place.source_text() for one in found if isinstance(one, Function | ClassValue)]
        return any("rules" in one for one in texts)


def _is_logical_constraint(value: Value, call: ast.Call) -> bool:
    """Return whether a call of this is a logical constraint that needs rules in context."""
    given = any(one.arg in (None, "rules") for one in call.keywords) or len(call.args) > 2
    return isinstance(value, Api) and value.name in CONSTRAINTS and not given


def _find_rules_entered(site: Site) -> str | None:
    """Where a file of the program enters axis rules by `with`."""
    for file in site.program.together(site.file):
        for name in SETTERS:
            for mention in file.find_mentions(name):
                call = file.parent(mention)
                if (
                    isinstance(call, ast.Call)
                    and call.func is mention
                    and isinstance(file.parent(call), ast.withitem)
                ):
                    return f"{file.path.name} (line {call.lineno})"
    return None
