"""SL416."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardlint.model.reach import readers
from shardlint.model.values import Api, Parameter, Unknown, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map.per_device import (
    CALLED,
    PMAP,
    REPLICATE,
    PerDevice,
    called_from_elsewhere,
    per_device,
    pmapped_calls,
)

_NUMBERS = ("int", "float", "bool")
# What gives a truth value for each entry, and functions of Python that take one number.
_TRUTHS = ("isnan", "isfinite", "isinf", "logical_not", "abs")
_ELEMENTWISE = ("numpy.", "jax.numpy.", "jax.numpy.linalg.")
_OF_ONE = ("math.isnan", "math.isfinite", "math.isinf")
_STEPS = regex(r"(?i)step|update|train")
_COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class ReadAsScalar(Rule):
    """A value that has one entry for each device is read as if it were one number.

    ## What it does
    Follows what `replicate` and pmapped functions return, and reports where it, or a part of it (`state.step`,
    `metrics["loss"]`), is compared in a condition, asked for `jnp.isnan`, or given to `int`, `float`, `bool`,
    `math.isnan`, `.item()` or a number format; also a part of what a training step returns that is not seen, and is
    given what a pmapped function returned.

    ## Why it hurts
    With more than one device it raises: "The truth value of an array with more than one element is ambiguous", or "Only
    scalar arrays can be converted to Python scalars". On one device, where it was tried, it works.

    ## Use instead
    `flax.jax_utils.unreplicate(state.step)` first, or an average over the devices where they differ.

    ## Evidence
    Run on jax 0.12 with 8 devices. A result of which some way to the read is not seen, and one with
    `out_axes=None`, are left alone.
    """

    code = "SL416"
    name = "read-as-scalar"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("read", "handed-on")
    bound = True
    triggers = (Calls(PMAP, *REPLICATE), Uses(PMAP), CALLED)
    forms = ("call", "partial", "line", "name")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each read."""
        done: set[ast.AST] = set()
        for call in _calls(site):
            reads = [read for target in _targets(site.file, call) for read, _ in readers(site.file, target)]
            for read in (*reads, *_field_reads(site.file, call)):
                whole, form = _used(site, read)
                if not form and isinstance(read, ast.Name):
                    yield from self._handed_on(site, read, done)
                if not form or whole in done:
                    continue
                made = per_device(site.program, site.file, whole)
                if made is not None and _an_array(made):
                    done.add(whole)
                    yield self._finding(site, whole, made, form)

    def _handed_on(self, site: Site, read: ast.Name, done: set[ast.AST]) -> Iterator[Finding]:
        """What comes of a step out of sight that is given a result of a pmapped function."""
        call = _unseen_step(site, read) if site.wants("handed-on") else None
        made = per_device(site.program, site.file, read) if call is not None else None
        if call is None or made is None:
            return
        for target in _targets(site.file, call):
            for use, alone in readers(site.file, target):
                whole, form = _used(site, use)
                if form and alone and whole is not use and whole not in done:
                    done.add(whole)
                    yield self._finding(site, whole, made, form, call)

    def _finding(
        self, site: Site, whole: ast.expr, made: PerDevice, form: str, step: ast.Call | None = None
    ) -> Finding:
        by = "replicate" if made.by == "replicate" else "pmap"
        error = (
            "the truth value of an array is ambiguous"
            if form == "condition"
            else "only scalars can be converted"
        )
        return site.finding(
            whole,
            f"On {site.release('jax')} this raises with more than one device ({error}): {by} gave it a leading "
            "dimension.",
            label="has one entry for each device",
            help=f"take one entry first: jax_utils.unreplicate({site.text(whole)}), or average where they differ",
            form="handed-on" if step is not None else "read",
            why=f"{by} at line {made.call.lineno} of {made.file.path.name}"
            + (f" made what `{site.text(step.func)}` is given" if step is not None else ""),
        )


def _calls(site: Site) -> Iterable[ast.Call]:
    """The calls that give what has an entry for each device."""
    if site.form == "line":
        elsewhere = called_from_elsewhere(site)
        return [elsewhere] if elsewhere is not None else []
    return pmapped_calls(site) if site.form == "name" or site.api == PMAP else [site.call]


def _targets(file: FileFacts, call: ast.Call) -> Iterator[ast.Name]:
    parent = file.parent(call)
    if isinstance(parent, ast.Assign):
        for target in parent.targets:
            yield from (one for one in walk(target) if isinstance(one, ast.Name))


def _field_reads(file: FileFacts, call: ast.Call) -> Iterator[ast.Attribute]:
    """The reads, in its class, of the fields that a call's results are bound to: `self.state, loss = step(...)`."""
    parent = file.parent(call)
    around = next((one for one in file.ancestors(call) if isinstance(one, ast.ClassDef)), None)
    if not isinstance(parent, ast.Assign) or around is None:
        return
    bound = [one for target in parent.targets for one in walk(target)]
    names = {one.attr for one in bound if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
    for node in walk(around) if names else ():
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Load()) if attr in names:
                yield node


def _unseen_step(site: Site, read: ast.Name) -> ast.Call | None:
    """The call of a training step that nothing is known of, to which a name is given."""
    outer = site.file.parent(read)
    call = site.file.parent(outer) if isinstance(outer, ast.keyword) else outer
    if not isinstance(call, ast.Call) or call.func is read or not _STEPS.search(last_name(call.func)):
        return None
    found = options(site.value(call.func))
    unseen = all(isinstance(one, Unknown | Parameter) for one in found)
    return call if unseen and isinstance(site.file.parent(call), ast.Assign) else None


def _used(site: Site, read: ast.expr) -> tuple[ast.expr, str]:
    """The whole of what is read (`state.step`), and what as."""
    file = site.file
    node: ast.expr = read
    parent = file.parent(node)
    while (isinstance(parent, ast.Attribute) and parent.value is node) or (
        isinstance(parent, ast.Subscript)
        and parent.value is node
        and isinstance(parent.slice, ast.Constant)
        and isinstance(parent.slice.value, str)
    ):
        outer = file.parent(parent)
        if isinstance(outer, ast.Call) and outer.func is parent:
            item = isinstance(parent, ast.Attribute) and parent.attr == "item" and not outer.args
            return node, "number" if item else ""
        node, parent = parent, outer
    if isinstance(parent, ast.Call) and parent.args == [node] and not parent.keywords:
        if isinstance(parent.func, ast.Name) and parent.func.id in _NUMBERS:
            return node, "number"
        if last_name(parent.func) in _TRUTHS:
            called = [one.name if isinstance(one, Api) else "" for one in options(site.value(parent.func))]
            if all(one in _OF_ONE for one in called):
                return node, "number"
            if all(one.startswith(_ELEMENTWISE) for one in called):
                asked = last_name(parent.func).startswith("is")
                return node, "condition" if _compared(file, parent, asked) else ""
        return node, ""
    if isinstance(parent, ast.FormattedValue) and parent.format_spec is not None:
        return node, "number" if file.text(parent.format_spec).rstrip("}'\"")[-1:] in (
            "f",
            "d",
            "e",
            "g",
        ) else ""
    return node, "condition" if _compared(file, node) else ""


def _compared(file: FileFacts, node: ast.expr, compared: bool = False) -> bool:
    """Whether it is compared with a number, itself or after some arithmetic, where a truth value is needed."""
    inner: ast.AST = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.BinOp):
            pass
        elif isinstance(outer, ast.Compare):
            if not all(isinstance(op, _COMPARED) for op in outer.ops):
                return False
            compared = True
        elif isinstance(outer, ast.BoolOp) or (
            isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not)
        ):
            pass
        elif isinstance(outer, ast.If | ast.While | ast.IfExp | ast.Assert):
            return outer.test is inner and (compared or isinstance(inner, ast.BinOp))
        else:
            return False
        inner = outer
    return False


def _an_array(made: PerDevice) -> bool:
    """Whether it is one result, or a part of one: a tuple of several results is none."""
    return bool(made.path) or made.index is not None or made.by == "replicate"
