"""SL821."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, Constant, Function, Items, options
from shardlint.rules_api.rule import Attributes, Edit, Finding, Harm, Rule, Safety, Uses, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings

_NUMBERS = (
    "process_index", "process_count", "device_count", "local_device_count", "host_id", "host_count",
)  # fmt: skip
_LISTS = ("devices", "local_devices", "process_indices", "host_ids")
_NAMES = (
    *(f"jax.{name}" for name in (*_NUMBERS, *_LISTS, "default_backend")),
    "jax.distributed.is_initialized",
)
# What they make of a function is no error, and never what was meant.
_SHOW = ("builtins.str", "builtins.print", "builtins.format", "builtins.bool")
_TAKE = (
    *(f"builtins.{name}" for name in (
        "range", "len", "int", "float", "divmod", "min", "max", "list", "tuple", "set", "sorted", "enumerate", "iter",
        "zip", "sum", "any", "all", "reversed",
    )),
    "numpy.array", "numpy.asarray", "jax.sharding.Mesh", "jax.make_mesh", "jax.random.fold_in", "jax.random.split",
    "jax.random.key", "jax.random.PRNGKey", "jax.numpy.zeros", "jax.numpy.ones", "jax.numpy.arange",
    "jax.experimental.mesh_utils.create_device_mesh",
)  # fmt: skip
# A method of floats. Types of TensorFlow have a property of the name.
_METHODS = ("is_integer",)
_FUNCTION = compile_lazily(r"(?i)(?:^|_)(?:fn|func|function|callable|method|callback|getter)s?$")


@dataclass(frozen=True)
class _Wrong:
    """A function used without a call: the underlined node, a label and a message. The harm is silent if nothing
    raises.
    """

    node: ast.expr
    label: str
    message: str
    harm: Harm = Harm.SILENT


class FunctionNotCalled(Rule):
    """A function of jax is used without its parentheses where the code needs its result.

    A function object never equals a number and is always true. With `if jax.process_index == 0:` no process writes the
    checkpoint, and no error is raised. In a file name the function appears as an address that differs between
    processes. Arithmetic with a function raises TypeError.

    ## Reports
    - proven: `jax.process_index`, `process_count`, `device_count`, `local_device_count`, `devices`, `local_devices`,
      `default_backend` or `jax.distributed.is_initialized` without a call. The code compares, tests, indexes, iterates
      or formats the function, calculates with it, or passes it as a number or a list.
    - proven: `size.is_integer` without a call in an `assert` or another condition, if `size` is a quotient.

    ## Fix
    Adds `()`. Safe if the code raised before. Unsafe if it ran: the code may now take the other branch.
    """

    code = "SL821"
    name = "function-not-called"
    harm = Harm.SILENT
    triggers = (Uses(*_NAMES), Attributes(*_METHODS))
    fixes = "both"

    @detector("name")
    def report_function(self, site: Site) -> Finding | None:
        """A reference to a function that stands where its result is meant."""
        wrong = _find_wrong(site)
        return _make_finding(site, wrong) if wrong is not None else None

    @detector("attribute")
    def report_method(self, site: Site) -> Finding | None:
        """A reference to a method that stands where its result is meant."""
        wrong = _find_wrong(site)
        if wrong is None or not wrong.label.startswith("always") or not _is_attribute_of_quotient(site, site.syntax):
            return None
        return _make_finding(site, wrong)


def _find_wrong(site: Site) -> _Wrong | None:
    """The use of a function that is read and not called."""
    node = site.syntax
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return None
    return _find_mistake(site, node)


def _make_finding(site: Site, wrong: _Wrong) -> Finding:
    text, end = site.text(), site.file.character_span(site.syntax)[1]
    safety = Safety.UNSAFE if wrong.harm is Harm.SILENT else Safety.SAFE
    why = "the program then works with the value in place of the function object" if safety is Safety.UNSAFE else ""
    return site.finding(
        wrong.node,
        f"{wrong.message}: `{text}` is not called.",
        label=wrong.label,
        help=f"write `{text}()`",
        fix=site.fix(safety, f"write {text}()", [Edit(end, end, "()")], why),
        harm=wrong.harm,
    )


def _is_attribute_of_quotient(site: Site, node: ast.AST) -> bool:
    """Return whether an attribute is one of a quotient, which is a float."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    if isinstance(owner, ast.Name):
        bindings, _ = lookup_bindings(site.file, owner, owner.id)
        values = [one.value for one in bindings if one.kind == "assign" and one.value is not None]
        return bool(values) and len(values) == len(bindings) and all(map(_is_quotient, values))
    return owner is not None and _is_quotient(owner)


def _is_quotient(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add | ast.Sub):
        return _is_quotient(node.left) or _is_quotient(node.right)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _find_mistake(site: Site, node: ast.expr) -> _Wrong | None:
    """Return the mistake in a function that is not called there; None if it may be intended."""
    parent = site.file.parent(node)
    match parent:
        case ast.Compare():
            return _find_wrong_comparison(site, node, parent)
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert() if parent.test is node:
            return _make_always_true(node)
        case ast.UnaryOp(op=ast.Not()):
            return _Wrong(parent, "always False", "The function is always true")
        case ast.BoolOp() if parent.values[-1] is not node or _is_only_tested(site, parent):
            return _make_always_true(node)
        case ast.FormattedValue():
            return _make_shown_as_function(node)
        case ast.BinOp() if _is_percent_format(parent):
            return _make_shown_as_function(node)
        case ast.BinOp() | ast.UnaryOp():
            return _make_raising(node, "has no arithmetic")
        case ast.AugAssign() if parent.value is node:
            return _make_raising(node, "has no arithmetic")
        case ast.Subscript() if parent.value is node:
            return _make_raising(node, "cannot be indexed")
        case ast.Subscript() | ast.Slice():
            return _make_raising(node, "is not an index")
        case ast.For() | ast.AsyncFor() | ast.comprehension() if parent.iter is node:
            return _make_raising(node, "cannot be iterated")
        case ast.Starred() | ast.Tuple() | ast.List() | ast.Call():
            return _find_wrong_argument(site, node)
    return None


def _make_always_true(node: ast.expr) -> _Wrong:
    return _Wrong(node, "always true", "The function is always true")


def _make_raising(node: ast.expr, what: str) -> _Wrong:
    return _Wrong(node, what, f"This raises TypeError, because a function {what}", Harm.CRASH)


def _is_only_tested(site: Site, node: ast.expr) -> bool:
    """Return whether only the truth of an expression is used."""
    parent = site.file.parent(node)
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
        return parent.test is node
    if isinstance(parent, ast.BoolOp):
        return _is_only_tested(site, parent)
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)


def _find_wrong_comparison(site: Site, node: ast.expr, parent: ast.Compare) -> _Wrong | None:
    """A comparison: never equal to what is no function, and in no order with anything."""
    operands = [parent.left, *parent.comparators]
    at = operands.index(node)
    for op, other, before in zip(parent.ops, operands[1:], operands, strict=False):
        if node not in (other, before) or isinstance(op, ast.Is | ast.IsNot):
            continue
        searched = isinstance(op, ast.In | ast.NotIn)
        if searched and other is node:
            return _make_raising(node, "cannot be searched")
        if not searched and _may_be_function(site, operands[at - 1] if other is node else other):
            continue
        if searched and not isinstance(site.value(other), Items | Constant):
            continue
        if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            return _make_raising(node, "has no order")
        said = "The function is never found" if searched else "The function never equals a value"
        return _Wrong(parent, f"always {isinstance(op, ast.NotEq | ast.NotIn)}", said)
    return None


def _may_be_function(site: Site, node: ast.expr) -> bool:
    """Return whether an expression may be a function, or is None."""
    found = options(site.value(node))
    if isinstance(node, ast.Lambda) or _FUNCTION.search(last_name(node)):
        return True
    return any(isinstance(one, Api | Function) or one == Constant(None) for one in found)


def _find_wrong_argument(site: Site, node: ast.expr) -> _Wrong | None:
    """An argument of what needs a number or a list, or an entry of a shape or a list of such."""
    inner: ast.AST = node
    outer = site.file.parent(node)
    while isinstance(outer, ast.Starred | ast.Tuple | ast.List | ast.keyword):
        if isinstance(outer, ast.Starred):
            return _make_raising(node, "cannot be unpacked")
        inner, outer = outer, site.file.parent(outer)
    if isinstance(outer, ast.BinOp) and _is_percent_format(outer):
        return _make_shown_as_function(node)
    if not isinstance(outer, ast.Call) or outer.func is inner:
        return None
    called = outer.func
    if isinstance(called, ast.Attribute) and called.attr == "reshape":
        return _make_raising(node, "is not a size")
    if (
        isinstance(called, ast.Attribute)
        and called.attr == "format"
        and isinstance(called.value, ast.Constant)
    ):
        return _make_shown_as_function(node)
    names = {one.name for one in options(site.value(called)) if isinstance(one, Api)}
    if names and names <= {*_SHOW} and inner is node:
        return _make_shown_as_function(node)
    entry = inner is not node
    takes = names <= {one for one in _TAKE if not (entry and one.startswith("builtins."))}
    return _make_raising(node, "is neither a number nor a list") if names and takes else None


def _is_percent_format(node: ast.BinOp) -> bool:
    """Return whether this is `"..." % values`."""
    text = node.left
    return isinstance(node.op, ast.Mod) and isinstance(text, ast.Constant) and isinstance(text.value, str)


def _make_shown_as_function(node: ast.expr) -> _Wrong:
    return _Wrong(
        node, "the function", "The text contains an address, which differs between processes"
    )
