"""SL213."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.meshes import is_sharding
from shardlint.model.signatures import JITS, Definition, wrappings
from shardlint.model.values import CallResult, Function, Items, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.jit._carried import carried
from shardlint_rules.jit.sharded import SeenCall, calls, may_be_none, value_of


class InInsteadOfOut(Rule):
    """A function that returns its argument is jitted with `in_shardings` alone.

    ## What it does
    Reports `jax.jit(lambda x: x, in_shardings=...)` without `out_shardings`, where a call gives it an array that the
    text shows to be placed otherwise. Where no call shows that, the finding is possible. And a jit whose calls give
    and bind again the same name (`params, loss = step(params, batch)`), where the entries of `in_shardings` and
    `out_shardings` for it are different shardings, or a tree of shardings and one that names no axis.

    ## Why it hurts
    Such a function is written to place arrays. But `in_shardings` says how its arguments are placed already: for one
    that is committed to another sharding or device the call raises ValueError ("Sharding passed to jit does not match
    the sharding on the respective arg"). Only numpy arrays and fresh ones, which are bound to no device, are moved.

    ## Use instead
    Outside of traced code `jax.device_put(x, target)` does the same.

    ## Fix safety
    Unsafe: what raised moves data between devices instead.

    ## Evidence
    Run on jax 0.4.38 to 0.12: a committed argument is never moved (but for meshes that differ
    in the order of devices alone), `out_shardings` moves it.
    """

    code = "SL213"
    name = "in-instead-of-out"
    harm = Harm.CRASH
    likely = ("carried",)
    triggers = (Calls(*JITS, file_says=("in_shardings",)),)
    closed = ("keywords",)
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a wrapper."""
        keyword = site.keyword("in_shardings")
        if keyword is None:
            return
        yield from self._carried(site)
        functions = list(wrappings(site.program, site.file, site.call, site.form))
        if len(functions) != 1 or functions[0].setting("out_shardings") is not None:
            return
        function = functions[0]
        count = _returns_arguments(function.inner)
        wanted = value_of(site, function, "in_shardings")
        if count is None or wanted is None or may_be_none(wanted):
            return
        seen = list(calls(site))
        verdicts = [_placed_otherwise(site, one, wanted) for one in seen]
        if verdicts and all(verdict is False for verdict in verdicts):
            return
        if count > 1 and not any(verdicts):
            return  # several arguments handed through: more likely a stand-in than a way to place arrays
        sure = next((one for one, verdict in zip(seen, verdicts, strict=True) if verdict), None)
        label = "says how the argument is placed already, not how it shall be"
        if sure is not None and sure.file is site.file:
            label += f": at line {sure.call.lineno} it gets one that is placed otherwise"
        yield site.finding(
            keyword,
            f"On {site.release('jax')} this raises ValueError for an array that is placed otherwise; it never "
            f"moves one.",
            label=label,
            help="place with out_shardings, or with jax.device_put",
            fix=_fix(site, keyword, count) if sure is not None else None,
            certainty=Certainty.PROVEN if sure is not None else Certainty.POSSIBLE,
            form="" if sure is not None else "hands-through",
            why=""
            if sure is not None
            else "it returns its argument as it is, which is of use only to place it",
        )

    def _carried(self, site: Site) -> Iterator[Finding]:
        """What a call binds again to its result comes back with another sharding than it is taken with."""
        for one in carried(site, _placement) if site.wants("carried") else ():
            taken, given = (site.shown(node) for node in (one.taken, one.given))
            yield site.finding(
                one.given,
                f"On {site.release('jax')} the next call raises ValueError, as the sharding that jit was given is not "
                f"that of `{one.name}` by then: nothing moves it.",
                label=f"`{one.name}` comes back as `{given}`, and is taken as `{taken}`",
                help="give both the same sharding",
                certainty=Certainty.POSSIBLE,
                form="carried",
                why=f"{site.where(one.place)} gives `{one.name}` and binds it to the result",
            )
            return


def _returns_arguments(function: Value) -> int | None:
    """How many arguments a function takes if it returns them as they are, in order; None if it does not."""
    if not isinstance(function, Function) or function.bound:
        return None
    node = function.node
    args = node.args
    names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    if args.vararg or args.kwarg or args.kwonlyargs or args.defaults or not names:
        return None
    body = _result(node)
    parts = body.elts if isinstance(body, ast.Tuple) else [body] if body is not None else []
    same = [part.id for part in parts if isinstance(part, ast.Name)] == names
    return len(names) if same and isinstance(body, ast.Tuple) == (len(names) > 1) else None


def _result(node: Definition) -> ast.expr | None:
    if isinstance(node, ast.Lambda):
        return node.body
    body = [
        one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    only = body[0] if len(body) == 1 else None
    return only.value if isinstance(only, ast.Return) else None


def _placed_otherwise(site: Site, seen: SeenCall, wanted: Value) -> bool | None:
    """Whether a call gives an array that is committed to another sharding; False where surely none is committed."""
    if seen.arguments.open_positional or seen.arguments.keywords or seen.arguments.open_keywords:
        return None
    verdicts = []
    for index, place in enumerate(seen.arguments.positional):
        entry = wanted
        if isinstance(wanted, Items):
            if wanted.open or index >= len(wanted.items):
                return None
            entry = wanted.items[index]
        for option in options(site.program.evaluator.value(place)):
            verdicts.append(_otherwise(site, option, entry))
    if any(verdict is True for verdict in verdicts):
        return True
    return False if verdicts and all(verdict is False for verdict in verdicts) else None


def _otherwise(site: Site, value: Value, wanted: Value) -> bool | None:
    if not isinstance(value, CallResult):
        return None
    if value.api.startswith(("numpy.", "jax.numpy.", "jax.random.")):
        return False
    target = (
        value.call.get("device", ("x", "device")) if value.api == "jax.device_put" and value.call else None
    )
    if target is None or value.call is None:
        return None
    placed = site.program.evaluator.value(target, value.call.environment)
    one, two = _placement(site, placed), _placement(site, wanted)
    if one is None or two is None:
        return None
    return one != two


def _placement(site: Site, value: Value) -> object:
    """The mesh and the axes of a sharding, to compare; None where not told."""
    parts = site.sharding_parts(value) if is_sharding(value) else None
    if parts is None:
        return None
    mesh, spec = site.mesh_of(parts[0]), site.spec_of(parts[1])
    if (
        mesh is None
        or spec is None
        or spec.open
        or not all(e.known and not e.unconstrained for e in spec.entries)
    ):
        return None
    if any(size == 1 for size in mesh.sizes):
        return None
    axes = [entry.axes for entry in spec.entries]
    while axes and not axes[-1]:
        axes.pop()
    return mesh.place, tuple(axes)


def _fix(site: Site, keyword: ast.keyword, count: int) -> Fix | None:
    value = keyword.value
    text = site.text(value)
    if count == 1 and isinstance(value, ast.Tuple | ast.List):
        if len(value.elts) != 1 or "#" in text:
            return None
        text = site.text(value.elts[0])
    elif count == 1 and not is_sharding(site.value(value)):
        return None  # it may be a tuple with an entry for the argument
    start, end = site.file.span(keyword)

    edits = [Edit(start, end, f"out_shardings={text}")]
    return site.fix(
        Safety.UNSAFE, f"write: out_shardings={text}", edits, "what raised moves data between devices instead"
    )
