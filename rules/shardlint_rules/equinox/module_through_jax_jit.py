"""SL110."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.modules import Instance, Leaf
from shardlint.model.signatures import STATIC_SETTINGS
from shardlint.model.values import ClassValue, Constant, Function, Items, Place, Value
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox.jitted import Jitted, calls, expected, jitted, to_filter_jit
from shardlint_rules.equinox.wrapped import Definition, positional


@dataclass(frozen=True)
class _Problem:
    label: str
    message: str
    sure: bool = True


class ModuleThroughJaxJit(Rule):
    """`jax.jit` of a function that takes, or is, an Equinox Module it cannot handle.

    ## What it does
    Reports `jax.jit` where a call gives a Module with a function or a string among its leaves, such as
    `eqx.nn.MLP`; where a Module that holds arrays is a static argument; and where what is compiled is itself a
    Module that holds arrays, or a method of one. Methods decorated with `jax.jit` count for their `self`.

    ## Why it hurts
    `jax.jit` traces every leaf that is not static, and a function is not an array: TypeError at the first call.
    Static arguments and the compiled function are hashed, and arrays have no hash: ValueError, TypeError.

    ## Use instead
    To keep `jax.jit` and its shardings, split the Module with `eqx.partition(model, eqx.is_array)`, give the
    arrays as an argument and `eqx.combine` inside.

    ## Fix safety
    Safe: it raised before. Numbers given to the function are static under filter_jit; make arrays of those
    that are to be traced. There is no fix where `jax.jit` is told more, which filter_jit may not know.

    ## Evidence
    Run on equinox 0.11.5 to 0.13.8 with jax 0.4.38 to 0.12. Modules of
    arrays and static fields alone may be arguments of `jax.jit`, with shardings too, and are left alone, and
    so is a dunder method such as `model.__call__`, which is not wrapped: SL105 tells of that.
    """

    code = "SL110"
    name = "module-through-jax-jit"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5", "jax": ">=0.4.38"}
    triggers = (Calls("jax.jit"), Uses("jax.jit"))
    in_version_checks = False
    project = "equinox"
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a jit, for the first thing that raises."""
        found = jitted(site)
        if found is None:
            return
        problems = sorted(self._problems(site, found), key=lambda problem: not problem.sure)
        if not problems or expected(site, found):
            return
        for problem in problems[:1]:
            yield site.finding(
                found.name,
                problem.message,
                label=problem.label,
                help="compile it with eqx.filter_jit, or split the Module with eqx.partition",
                fix=to_filter_jit(site, found),
                certainty=Certainty.PROVEN if problem.sure else Certainty.POSSIBLE,
            )

    def _problems(self, site: Site, found: Jitted) -> Iterator[_Problem]:
        yield from self._compiled(site, found)
        static = _static(site, found)
        if static is None:
            return
        yield from self._of_self(site, found, static)
        yield from self._annotated(site, found, static)
        if isinstance(found.function, Definition) and site.file.home(found.function).kind == "class":
            return
        for where in calls(site, found):
            call = site.program.evaluator.arguments(where)
            for index, place in enumerate(call.positional):
                name = _parameter(found, index)
                yield from self._argument(site, place, index in static or name in static)
            for name, place in call.keywords.items():
                yield from self._argument(site, place, name in static)

    def _compiled(self, site: Site, found: Jitted) -> Iterator[_Problem]:
        """A Module, or a method of one, as what is compiled."""
        modules = site.program.modules
        instance = modules.instance(found.fun)
        what = "an instance"
        if (
            instance is None
            and isinstance(found.function, ast.Attribute)
            and _wrapped_method(site, found.fun)
        ):
            instance = modules.instance(site.value(found.function.value))
            what = "a method"
        if instance is not None and _holds_arrays(modules.leaves(instance)):
            yield _Problem(
                f"compiles {what} of {instance.name}, a Module",
                f"On {site.release('jax')} calling it raises TypeError: jax.jit hashes what it compiles, and arrays "
                "have no hash.",
            )

    def _of_self(self, site: Site, found: Jitted, static: set[int | str]) -> Iterator[_Problem]:
        if not isinstance(found.function, Definition):
            return
        home = site.file.home(found.function)
        names = [arg.arg for arg in positional(found.function)]
        if home.kind != "class" or not names or _is_static_method(site, found.function):
            return
        cls = ClassValue(Place(site.file, home.node))
        if site.program.modules.is_class(cls):
            instance = Instance(cls, None)
            yield from self._passed(site, instance, f"`{names[0]}`", "", 0 in static or names[0] in static)

    def _annotated(self, site: Site, found: Jitted, static: set[int | str]) -> Iterator[_Problem]:
        """Parameters annotated as a Module: half of a partitioned one is annotated so too, hence possible."""
        if not isinstance(found.fun, Function) or found.fun.bound or found.fun.place.file is not site.file:
            return
        for index, arg in enumerate(positional(found.fun.node)):
            if arg.annotation is None or index in static or arg.arg in static:
                continue
            binding = site.file.bindings(site.file.scope(found.fun.node), arg.arg)[0]
            value = site.program.evaluator.binding(site.file, binding)
            for path, instance in site.program.modules.within(value):
                for problem in self._passed(site, instance, f"`{arg.arg}{path}`", "", False):
                    yield _Problem(problem.label, problem.message, False)

    def _argument(self, site: Site, place: Place, static: bool) -> Iterator[_Problem]:
        value = site.program.evaluator.value(place)
        where = f"line {place.line}"
        if place.file is not site.file:
            where = f"{place.file.path.name}:{place.line}"
        for path, instance in site.program.modules.within(value):
            text = " ".join(place.text().split())
            yield from self._passed(site, instance, f"`{text}`{path}", f" at {where}", static)

    def _passed(
        self, site: Site, instance: Instance, what: str, where: str, static: bool
    ) -> Iterator[_Problem]:
        on = site.release("jax")
        leaves = site.program.modules.leaves(instance)
        if static:
            if _holds_arrays(leaves):
                yield _Problem(
                    f"{what}{where}, of {instance.name}, is static and holds arrays",
                    f"On {on} the call raises ValueError: static arguments are hashed, and arrays have no hash.",
                )
            return
        for leaf in leaves:
            if leaf.kind in ("function", "text"):
                kind = "a function" if leaf.kind == "function" else "a string"
                sure = leaf.sure and (instance.surely or instance.call is None)
                yield _Problem(
                    f"{what}{where} is of {instance.name}, whose `{leaf.path}` is {kind}",
                    f"On {on} the call raises TypeError: jax.jit takes arrays and numbers.",
                    sure,
                )
                return


def _holds_arrays(leaves: list[Leaf]) -> bool:
    return any(leaf.kind == "array" and leaf.sure for leaf in leaves)


def _wrapped_method(site: Site, value: Value) -> bool:
    """Whether a value is a bound method that Equinox made a Module: not a dunder, and defined in a Module."""
    if not isinstance(value, Function) or not value.bound or not isinstance(value.node, Definition):
        return False
    home = value.place.scope
    cls = ClassValue(Place(value.place.file, home.node)) if home.kind == "class" else None
    return cls is not None and not value.node.name.startswith("__") and site.program.modules.is_class(cls)


def _is_static_method(site: Site, definition: Definition) -> bool:
    return any(site.text(one) in ("staticmethod", "classmethod") for one in definition.decorator_list)


def _parameter(found: Jitted, index: int) -> str:
    node = found.fun.node if isinstance(found.fun, Function) else None
    names = [arg.arg for arg in positional(node)] if node is not None else []
    return names[index] if index < len(names) else ""


def _static(site: Site, found: Jitted) -> set[int | str] | None:
    """Positions and names of the static arguments; None where the text does not tell them."""
    if found.hidden:
        return None
    static: set[int | str] = set()
    for keyword in STATIC_SETTINGS:
        place = site.arguments.keywords.get(keyword) if keyword in found.keywords else None
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
