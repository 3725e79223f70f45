"""SL106."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.equinox_modules import Instance, Modules
from shardlint.model.values import ClassValue, Function, Transformed, Value
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox.jitted_functions import Jitted, is_failure_expected, jitted_function
from shardlint_rules.equinox.wrapped_functions import Definition, donate_mode, positional_parameters

# Filtered transforms that keep the function's arrays where filter_jit finds and donates them.
_KEEPING = ("equinox.filter_vmap", "equinox.filter_grad", "equinox.filter_value_and_grad")
# Words of a body that makes a new self from the old one, which may then be donated.
_RENEWING = (
    "tree_at",
    "replace",
    "apply_updates",
    "partition",
    "combine",
    "tree.map",
    "tree_map",
    "type(self)",
)


@dataclass(frozen=True)
class _Problem:
    message: str
    why: str
    sure: bool


class DonatedModuleWeights(Rule):
    """`donate=` of `eqx.filter_jit` also donates the weights of the compiled Module.

    The next call raises an error: a weight was deleted. `filter_jit` treats the compiled Module as a pytree: its arrays
    are inputs of the compiled program, and `donate=` donates them like the arguments. A result with the shape of a
    weight reuses the buffer of the weight. `donate="all-except-first"` keeps only the first argument.

    ## Reports
    - proven: `eqx.filter_jit(..., donate=...)` of a Module instance, of one of its methods other than `__call__`, or of
      an `eqx.Partial` that contains a Module.
    - proven: `donate="all-except-first"` on a function whose parameters are all keyword-only. All arguments are
      donated.
    - possible: `donate=` for a Module that may contain no arrays, or for a compiled function that is called only once.

    ## Write instead
    Remove `donate`. To donate the other arguments, compile a function that takes the model as its first argument, with
    `donate="all-except-first"`.

    ## Limits
    Not reported: methods that return a new Module, because the caller replaces the old weights.
    `filter_jit(model.__call__)` and a `functools.partial` donate no weights: the weights become constants (SL105).
    """

    code = "SL106"
    name = "donated-module-weights"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.filter_jit", file_says=("donate",)),)
    in_version_checks = False

    @detector("call", "partial")
    def report_donation(self, site: Site) -> Finding | None:
        """A donation of the weights of a Module."""
        mode = donate_mode(site)
        if mode in (None, "none"):
            return None
        found = jitted_function(site)
        problem = self._find_problem(site, found, str(mode)) if found is not None else None
        keyword = site.keyword("donate")
        if found is None or problem is None or keyword is None or is_failure_expected(site, found):
            return None
        return site.finding(
            keyword,
            problem.message,
            why=problem.why,
            help='remove `donate`, or pass the model as the first argument with `donate="all-except-first"`',
            certainty=Certainty.PROVEN if problem.sure else Certainty.POSSIBLE,
        )

    def _find_problem(self, site: Site, jitted: Jitted, mode: str) -> _Problem | None:
        instance = _find_compiled_module(site, jitted.fun, jitted.function)
        if instance is not None:
            if _returns_new_self(site, instance, jitted):
                return None
            leaves = site.program.find_room(Modules).list_leaves(instance)
            sure = any(leaf.kind == "array" and leaf.sure for leaf in leaves) and not _is_wrapper_called_once(
                site, jitted
            )
            message = (
                f"The next call raises if a result reuses the buffer of a weight of `{instance.class_name}`: "
                "`donate` donates the weights too."
            )
            kept = (
                "only the first argument is kept"
                if mode.endswith("except-first")
                else "all arrays are donated"
            )
            return _Problem(message, f"filter_jit donates the arrays of the compiled function; {kept}", sure)
        function = jitted.function
        if isinstance(jitted.fun, Function) and not isinstance(function, Definition):
            function = jitted.fun.node
        if not isinstance(function, Definition | ast.Lambda):
            return None
        if mode.endswith("except-first") and _lacks_first_argument(function):
            message = (
                "The next call raises if a result reuses the buffer of an argument: "
                "`donate` donates all arguments."
            )
            return _Problem(message, "the function has no positional argument to keep", True)
        return None


def _find_compiled_module(site: Site, value: Value, node: ast.AST) -> Instance | None:
    """The Module whose arrays are part of what is compiled."""
    modules = site.program.find_room(Modules)
    instance = modules.module_instance(value)
    if instance is not None:
        return instance
    if isinstance(value, Function) and value.bound and isinstance(node, ast.Attribute):
        dunder = node.attr.startswith("__")
        return None if dunder else modules.module_instance(site.value(node.value))
    if isinstance(value, Transformed) and value.call is not None:
        places = value.call.positional
        if value.api.name in _KEEPING and places and places[0].file is site.file:
            return _find_compiled_module(site, value.inner, places[0].node)
        if value.api.name == "equinox.Partial":
            given = (*places[1:], *value.call.keywords.values())
            held = (modules.module_instance(site.program.evaluator.value(place)) for place in given)
            return next((one for one in held if one is not None), None)
    return None


def _returns_new_self(site: Site, instance: Instance, jitted: Jitted) -> bool:
    """Return whether the method that runs may return a new Module, so that the old one is intended to be donated."""
    if not isinstance(instance.cls, ClassValue):
        return False
    name = jitted.function.attr if isinstance(jitted.function, ast.Attribute) else "__call__"
    for owner in site.program.evaluator.project_ancestors(instance.cls):
        file = owner.place.file
        for binding in file.bindings(file.scope(owner.node), name):
            if isinstance(binding.node, Definition):
                return _returns_new_module(file.source_text(binding.node), owner.node.name)
    return True


def _is_wrapper_called_once(site: Site, jitted: Jitted) -> bool:
    """`filter_jit(model, donate=...)(x)`: the wrapper is gone after the call, and the model may be too."""
    parent = site.file.parent(jitted.made) if jitted.made is not None else None
    return isinstance(parent, ast.Call) and parent.func is jitted.made


def _lacks_first_argument(function: Definition | ast.Lambda) -> bool:
    args = function.args
    keywords = args.kwonlyargs or args.kwarg is not None
    return bool(keywords) and not positional_parameters(function) and args.vararg is None


def _returns_new_module(text: str, cls: str) -> bool:
    return f"{cls}(" in text or "return self" in text or any(word in text for word in _RENEWING)
