"""SL106."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.modules import Instance
from shardlint.model.values import ClassValue, Function, Place, Transformed, Value
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox.jitted import Jitted, expected, jitted
from shardlint_rules.equinox.wrapped import Definition, donate, positional

# Filtered transforms that keep the function's arrays where filter_jit finds and donates them.
_KEEPING = ("equinox.filter_vmap", "equinox.filter_grad", "equinox.filter_value_and_grad")
# Words of a body that makes a new self from the old: then the old one is meant to go.
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
    label: str
    message: str
    sure: bool


class DonateTakesTheWeights(Rule):
    """`donate=` of `eqx.filter_jit` reaches the weights of the Module that is compiled.

    ## What it does
    Reports `donate=` given to `filter_jit` of a Module instance, of a method of one, or of `eqx.Partial` with
    one; and `"all-except-first"` on a function that has only keyword arguments. With `--certainty possible` also
    methods decorated with `donate="all"` that return no new self.

    ## Why it hurts
    filter_jit takes the compiled function as one more tree of arrays. Its arrays are donated along with the
    arguments, and `"all-except-first"` spares the first argument only: it donates the weights. Where a result
    has the shape of a weight its memory is reused, and the next call raises that the array was deleted or
    donated. A function without positional arguments has no first one, so everything is donated.

    ## Evidence
    Run on equinox 0.11.5 to 0.13.8 with jax 0.4.38 to 0.12. A donated
    array that no result can take the place of is not deleted. `filter_jit(model.__call__)` and a
    `functools.partial` donate no weights: they bake them in (SL105).
    """

    code = "SL106"
    name = "donate-takes-the-weights"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.filter_jit", file_says=("donate",)),)
    in_version_checks = False

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a filter_jit."""
        mode = donate(site)
        if mode in (None, "none"):
            return
        found = jitted(site)
        problem = self._problem(site, found, str(mode)) if found is not None else None
        keyword = site.keyword("donate")
        if found is None or problem is None or keyword is None or expected(site, found):
            return
        yield site.finding(
            keyword,
            problem.message,
            label=problem.label,
            help='make the model the first argument of a function, with donate="all-except-first"',
            certainty=Certainty.PROVEN if problem.sure else Certainty.POSSIBLE,
        )

    def _problem(self, site: Site, found: Jitted, mode: str) -> _Problem | None:
        on = site.release("equinox")
        rest = f"On {on} a result that takes the memory of %s leaves it deleted, and the next call raises."
        instance = _holding(site, found.fun, found.function)
        if instance is not None:
            if _returns_new_self(site, instance, found):
                return None
            leaves = site.program.modules.leaves(instance)
            sure = any(leaf.kind == "array" and leaf.sure for leaf in leaves) and not _called_once(
                site, found
            )
            but = ", and its first argument is not" if mode.endswith("except-first") else ""
            label = f"the weights of {instance.name} are donated{but}"
            return _Problem(label, rest % "a weight", sure)
        function = found.function
        if isinstance(found.fun, Function) and not isinstance(function, Definition):
            function = found.fun.node
        if not isinstance(function, Definition | ast.Lambda):
            return None
        if mode.endswith("except-first") and _no_first(function):
            return _Problem("there is no first argument to keep: all are donated", rest % "an array", True)
        if (
            mode in ("all", "warn")
            and _is_method(site, function)
            and not _renews(site.text(function), site.file.home(function).name)
        ):
            label = f"the weights of `{positional(function)[0].arg}` are donated, and no new one is returned"
            return _Problem(label, rest % "a weight", False)
        return None


def _holding(site: Site, value: Value, node: ast.AST) -> Instance | None:
    """The Module whose arrays are part of what is compiled."""
    modules = site.program.modules
    instance = modules.instance(value)
    if instance is not None:
        return instance
    if isinstance(value, Function) and value.bound and isinstance(node, ast.Attribute):
        dunder = node.attr.startswith("__")
        return None if dunder else modules.instance(site.value(node.value))
    if isinstance(value, Transformed) and value.call is not None:
        places = value.call.positional
        if value.api.name in _KEEPING and places and places[0].file is site.file:
            return _holding(site, value.inner, places[0].node)
        if value.api.name == "equinox.Partial":
            given = (*places[1:], *value.call.keywords.values())
            held = (modules.instance(site.program.evaluator.value(place)) for place in given)
            return next((one for one in held if one is not None), None)
    return None


def _returns_new_self(site: Site, instance: Instance, found: Jitted) -> bool:
    """Whether the method that runs may return the Module anew, so that the old one is meant to go."""
    if not isinstance(instance.cls, ClassValue):
        return False
    name = found.function.attr if isinstance(found.function, ast.Attribute) else "__call__"
    for owner in site.program.evaluator.lineage(instance.cls):
        file = owner.place.file
        for binding in file.bindings(file.scope(owner.node), name):
            if isinstance(binding.node, Definition):
                return _renews(file.text(binding.node), owner.node.name)
    return True


def _called_once(site: Site, found: Jitted) -> bool:
    """`filter_jit(model, donate=...)(x)`: the wrapper is gone after the call, and the model may be too."""
    parent = site.file.parent(found.made) if found.made is not None else None
    return isinstance(parent, ast.Call) and parent.func is found.made


def _no_first(function: Definition | ast.Lambda) -> bool:
    args = function.args
    keywords = args.kwonlyargs or args.kwarg is not None
    return bool(keywords) and not positional(function) and args.vararg is None


def _is_method(site: Site, function: Definition | ast.Lambda) -> bool:
    home = site.file.home(function)
    if home.kind != "class" or not positional(function) or isinstance(function, ast.Lambda):
        return False
    if any(site.text(one) in ("staticmethod", "classmethod") for one in function.decorator_list):
        return False
    return site.program.modules.is_class(ClassValue(Place(site.file, home.node)))


def _renews(text: str, cls: str) -> bool:
    return f"{cls}(" in text or "return self" in text or any(word in text for word in _RENEWING)
