"""SL110."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.equinox_modules import Instance, Leaf, Modules
from shardlint.facts.jit_settings import STATIC_SETTINGS
from shardlint.model.values import ClassValue, Constant, Function, Items, Place, Value
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox.jitted_functions import (
    Jitted,
    calls_of_compiled,
    is_failure_expected,
    jitted_function,
    replace_by_filter_jit,
)
from shardlint_rules.equinox.wrapped_functions import Definition, positional_parameters


@dataclass(frozen=True)
class _Problem:
    message: str
    why: str
    sure: bool = True


class ModuleThroughJaxJit(Rule):
    """`jax.jit` gets an Equinox Module with leaves that it cannot trace or hash.

    The first call raises TypeError or ValueError. `jax.jit` traces every leaf of an argument that is not static, and it
    cannot trace a function or a string. It hashes static arguments and the function that it compiles, and arrays are
    not hashable.

    ## Reports
    - proven: a call of a jitted function that passes a Module with a function or a string among its leaves, such as
      `eqx.nn.MLP`. For a method decorated with `jax.jit`, `self` is such an argument.
    - proven: a call that passes a Module with arrays as a static argument.
    - proven: `jax.jit` of a Module with arrays, or of a method of such a Module.
    - possible: any form above, if shardlint does not know the class of the Module.

    ## Write instead
    Use `eqx.filter_jit`. To keep `jax.jit` and its shardings, split the Module with
    `eqx.partition(model, eqx.is_array)`, pass the arrays as an argument and call `eqx.combine` inside.

    ## Fix
    Writes `eqx.filter_jit`. Safe, because the original call raises. Numbers are static under `filter_jit`: convert a
    number to an array if it must be traced. No fix if `jax.jit` has keywords that `filter_jit` does not take.

    ## Limits
    Not reported: Modules with only arrays and static fields. They work under `jax.jit`. SL105 reports dunder methods
    such as `model.__call__`.
    """

    code = "SL110"
    name = "module-through-jax-jit"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5", "jax": ">=0.4.38"}
    triggers = (Calls("jax.jit"), Uses("jax.jit"))
    in_version_checks = False
    project = "equinox"
    fixes = "safe"

    @detector("call", "partial", "name")
    def report_module(self, site: Site) -> Finding | None:
        """A jit that compiles a Module or is called with one, by the first thing that raises."""
        found = jitted_function(site)
        if found is None:
            return None
        problems = sorted(self._find_problems(site, found), key=lambda problem: not problem.sure)
        if not problems or is_failure_expected(site, found):
            return None
        return site.finding(
            found.name,
            problems[0].message,
            why=problems[0].why,
            help="write `eqx.filter_jit`, or split the Module with `eqx.partition`",
            fix=replace_by_filter_jit(site, found),
            certainty=Certainty.PROVEN if problems[0].sure else Certainty.POSSIBLE,
        )

    def _find_problems(self, site: Site, jitted: Jitted) -> Iterator[_Problem]:
        yield from self._check_compiled_module(site, jitted)
        static = _static_arguments(site, jitted)
        if static is None:
            return
        yield from self._find_self_problems(site, jitted, static)
        if isinstance(jitted.function, Definition) and site.file.evaluation_scope(jitted.function).kind == "class":
            return
        for where in calls_of_compiled(site, jitted):
            call = site.program.evaluator.read_arguments(where)
            for index, place in enumerate(call.positional):
                name = _parameter_name(jitted, index)
                yield from self._find_argument_problems(site, place, index in static or name in static)
            for name, place in call.keywords.items():
                yield from self._find_argument_problems(site, place, name in static)

    def _check_compiled_module(self, site: Site, jitted: Jitted) -> Iterator[_Problem]:
        """A Module, or a method of one, as what is compiled."""
        modules = site.program.find_room(Modules)
        instance = modules.module_instance(jitted.fun)
        what = "an instance"
        if (
            instance is None
            and isinstance(jitted.function, ast.Attribute)
            and _wrapped_method(site, jitted.fun)
        ):
            instance = modules.module_instance(site.value(jitted.function.value))
            what = "a method"
        if instance is not None and _holds_arrays(modules.list_leaves(instance)):
            yield _Problem(
                f"`jax.jit` of {what} of `{instance.class_name}` raises TypeError when called: arrays are not "
                f"hashable.",
                "jax.jit hashes the function that it compiles, and this function is a Module",
            )

    def _find_self_problems(self, site: Site, jitted: Jitted, static: set[int | str]) -> Iterator[_Problem]:
        if not isinstance(jitted.function, Definition):
            return
        home = site.file.evaluation_scope(jitted.function)
        names = [arg.arg for arg in positional_parameters(jitted.function)]
        if home.kind != "class" or not names or _is_static_method(site, jitted.function):
            return
        cls = ClassValue(Place(site.file, home.node))
        if site.program.find_room(Modules).is_class(cls):
            instance = Instance(cls, None)
            yield from self._check_passed_module(
                site, instance, f"`{names[0]}`", "", 0 in static or names[0] in static
            )

    def _find_argument_problems(self, site: Site, place: Place, static: bool) -> Iterator[_Problem]:
        value = site.program.evaluator.value(place)
        where = f"line {place.line}"
        if place.file is not site.file:
            where = f"{place.file.path.name}:{place.line}"
        for path, instance in site.program.find_room(Modules).modules_within(value):
            text = " ".join(place.source_text().split())
            yield from self._check_passed_module(site, instance, f"`{text}`{path}", f" at {where}", static)

    def _check_passed_module(
        self, site: Site, instance: Instance, what: str, where: str, static: bool
    ) -> Iterator[_Problem]:
        leaves = site.program.find_room(Modules).list_leaves(instance)
        if static:
            if _holds_arrays(leaves):
                yield _Problem(
                    f"The call raises ValueError: the static argument {what} contains arrays, "
            "and arrays are not hashable.",
                    f"{what}{where} is a Module of class {instance.class_name}",
                )
            return
        for leaf in leaves:
            if leaf.kind in ("function", "text"):
                kind = "a function" if leaf.kind == "function" else "a string"
                sure = leaf.sure and (instance.surely or instance.call is None)
                yield _Problem(
                    f"The call raises TypeError: `jax.jit` can't trace {kind}, the leaf `{leaf.path}` of {what}.",
                    f"{what}{where} is a Module of class {instance.class_name}",
                    sure,
                )
                return


def _holds_arrays(leaves: list[Leaf]) -> bool:
    return any(leaf.kind == "array" and leaf.sure for leaf in leaves)


def _wrapped_method(site: Site, value: Value) -> bool:
    """Return whether a value is a bound method that Equinox made a Module: not a dunder, and defined in a Module."""
    if not isinstance(value, Function) or not value.bound or not isinstance(value.node, Definition):
        return False
    home = value.place.scope
    cls = ClassValue(Place(value.place.file, home.node)) if home.kind == "class" else None
    return cls is not None and not value.node.name.startswith("__") and site.program.find_room(Modules).is_class(cls)


def _is_static_method(site: Site, definition: Definition) -> bool:
    return any(site.text(one) in ("staticmethod", "classmethod") for one in definition.decorator_list)


def _parameter_name(jitted: Jitted, index: int) -> str:
    node = jitted.fun.node if isinstance(jitted.fun, Function) else None
    names = [arg.arg for arg in positional_parameters(node)] if node is not None else []
    return names[index] if index < len(names) else ""


def _static_arguments(site: Site, jitted: Jitted) -> set[int | str] | None:
    """Positions and names of the static arguments; None where the text does not tell them."""
    if jitted.hidden:
        return None
    static: set[int | str] = set()
    for keyword in STATIC_SETTINGS:
        place = site.arguments.keywords.get(keyword) if keyword in jitted.keywords else None
        if place is None:
            continue
        value = site.program.evaluator.value(place)
        for item in value.items if isinstance(value, Items) and not value.open else (value,):
            if not isinstance(item, Constant) or not isinstance(item.value, int | str):
                return None
            if isinstance(item.value, int) and item.value < 0:
                return None
            static.add(item.value)
    return static
