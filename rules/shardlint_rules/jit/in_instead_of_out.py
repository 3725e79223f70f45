"""SL213."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.meshes import is_sharding
from shardlint.model.signatures import JITS, Definition, wrappings
from shardlint.model.values import CallResult, Function, Items, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.jit._carried import carried
from shardlint_rules.jit.sharded import SeenCall, calls, may_be_none, value_of


class InInsteadOfOut(Rule):
    """A function that returns its argument is jitted with `in_shardings` alone.

    Such a function is written to place arrays. But `in_shardings` declares the sharding that the arguments
    already have: an argument committed to another sharding or device raises ValueError. Only numpy arrays and
    uncommitted arrays are moved.

    ## Reports
    - proven: `jax.jit(lambda x: x, in_shardings=...)` without `out_shardings`, if a call passes an array that
      the text shows with another sharding.
    - `carried` (likely): `params, loss = step(params, batch)`, if the entries of `in_shardings` and
      `out_shardings` for `params` differ.
    - `hands-through` (possible): a function as in the first form, if no call shows the sharding of the
      argument.

    ## Write instead
    `out_shardings=...`, or `jax.device_put(x, target)` outside of traced code.

    ## Fix
    Renames the keyword to `out_shardings`. It is unsafe: code that raised moves data between devices.
    """

    code = "SL213"
    name = "in-instead-of-out"
    harm = Harm.CRASH
    likely = ("carried",)
    assumptions: ClassVar[Mapping[str, str]] = {"carried": "The call runs more than once."}
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
            return  # several arguments: more likely a stand-in than a placement
        sure = next((one for one, verdict in zip(seen, verdicts, strict=True) if verdict), None)
        line = f"line {sure.call.lineno} passes one" if sure is not None and sure.file is site.file else ""
        yield site.finding(
            keyword,
            "`in_shardings` never moves a committed array: one with another sharding raises ValueError.",
            why=line
            if sure is not None
            else "the function returns its argument, which is useful only to place it",
            help="place with out_shardings, or with jax.device_put",
            fix=_fix(site, keyword, count) if sure is not None else None,
            certainty=Certainty.PROVEN if sure is not None else Certainty.POSSIBLE,
            form="" if sure is not None else "hands-through",
        )

    def _carried(self, site: Site) -> Iterator[Finding]:
        """The argument that a call rebinds, if its result has another sharding."""
        for one in carried(site, _placement) if site.wants("carried") else ():
            taken, given = (site.shown(node) for node in (one.taken, one.given))
            yield site.finding(
                one.given,
                f"The next call raises ValueError: `{one.name}` comes back with a sharding other than in_shardings.",
                help="write the same sharding in in_shardings and out_shardings",
                certainty=Certainty.POSSIBLE,
                form="carried",
                why=f"{site.where(one.place)} passes `{one.name}` as `{taken}` and rebinds it as `{given}`",
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
        Safety.UNSAFE, f"write: out_shardings={text}", edits, "code that raised moves data between devices"
    )
