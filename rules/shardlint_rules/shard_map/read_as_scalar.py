"""SL416."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from shardlint.model.reach import readers
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
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
_COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class ReadAsScalar(Rule):
    """A per-device array of `pmap` is read as a single number.

    With more than one device this raises: "The truth value of an array with more than one element is ambiguous", or
    "Only scalar arrays can be converted to Python scalars". On one device it works.

    ## Reports
    - `read` (likely): a result of `replicate` or a pmapped function, or a part of one (`state.step`,
      `metrics["loss"]`), that is compared in a condition, passed to `jnp.isnan`, or given to `int`, `float`, `bool`,
      `math.isnan`, `.item()` or a number format.

    ## Write instead
    `flax.jax_utils.unreplicate(state.step)`, or the mean over the devices if they differ.

    ## Limits
    Results with `out_axes=None` are not reported, nor values that may come from code that is not in sight.
    """

    code = "SL416"
    name = "read-as-scalar"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("read",)
    assumptions: ClassVar[Mapping[str, str]] = {"read": "The program runs on more than one device."}
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
                if not form or whole in done:
                    continue
                made = per_device(site.program, site.file, whole)
                if made is not None and _an_array(made):
                    done.add(whole)
                    yield self._finding(site, whole, made, form)

    def _finding(self, site: Site, whole: ast.expr, made: PerDevice, form: str) -> Finding:
        name, by = site.shown(whole), "replicate" if made.by == "replicate" else "pmap"
        effect = "this condition is ambiguous" if form == "condition" else "it does not convert to a scalar"
        return site.finding(
            whole,
            f"`{name}` has one entry per device: with more than one device {effect}, and raises.",
            label="one entry per device",
            help=f"read one entry: jax_utils.unreplicate({name}), or average the entries",
            form="read",
            why=f"{by} at line {made.call.lineno} of {made.file.path.name} adds a leading device dimension",
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
