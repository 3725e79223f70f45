"""Products and biases that a function of the project adds up: what `psum(dense(params, x), axis)` sums."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup
from shardlint.model.values import Constant, Function, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint_rules.shard_map.returned import returned

BIAS = regex(r"(?:^|[._\d])bias(?:es)?\d*(?:$|[._\[])|^b\d?$|\.b$|\[.b\d?.\]$|\[.bias.\]$", 2)
OTHER = regex(r"grad|local|scaled|partial|shard", 2)
_PRODUCTS = ("matmul", "dot", "einsum", "dot_general", "tensordot", "ragged_dot")
# Where the devices along an axis hold different layers, each bias is one of them and counts once.
_OWN = regex(r"expert|stage|ensemble|member|pipe|layer|head|data|batch|\b[ed]p\b", 2)
# With these a function may see to it that the bias counts once.
_CARE = regex(r"psum|pmean|axis_index|axis_size|\bwhere\b|\bcond\b|zeros")
_COMPUTED = ast.Call | ast.BinOp | ast.Dict | ast.IfExp | ast.DictComp


def bias_inside(site: Site, call: ast.Call) -> tuple[str, Function] | None:
    """The bias that a called function adds to a product and returns, as it is written there."""
    found = options(site.value(call.func))
    if len(found) != 1 or not isinstance(found[0], Function):
        return None
    function, over = found[0], site.argument("axis_name") or next(iter(site.call.args[1:]), None)
    file, result = function.place.file, returned(function)
    if over is None or _OWN.search(f"{site.text(over)} {_named(site, over)}"):
        return None
    if result is None or _CARE.search(file.text(function.node)):
        return None
    sum_ = _settled(file, result)
    if not isinstance(sum_, ast.BinOp) or not isinstance(sum_.op, ast.Add):
        return None
    for bias, other in ((sum_.right, sum_.left), (sum_.left, sum_.right)):
        if isinstance(bias, ast.Name | ast.Attribute | ast.Subscript) and _product(file, other):
            text = file.text(bias)
            if not OTHER.search(text) and BIAS.search(text) and _given(site, call, function, bias):
                return text, function
    return None


def _named(site: Site, node: ast.expr) -> str:
    value = site.value(node)
    return str(value.value) if isinstance(value, Constant) else ""


def _settled(file: FileFacts, node: ast.expr) -> ast.expr:
    """What a name is, where one line says it."""
    for _ in range(4):
        if not isinstance(node, ast.Name):
            break
        bindings, _ = lookup(file, node, node.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            break
        node = bindings[0].value
    return node


def _product(file: FileFacts, node: ast.expr) -> bool:
    node = _settled(file, node)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and file.text(node.func).rpartition(".")[2] in _PRODUCTS


def _given(site: Site, call: ast.Call, function: Function, bias: ast.expr) -> bool:
    """Whether the call gives the function a bias as it came: not computed there, and not left out."""
    root = bias
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    bindings, scope = lookup(function.place.file, root, root.id)
    if scope is None or scope.node is not function.node or [one.kind for one in bindings] != ["param"]:
        return False
    names = [one.arg for one in (*function.node.args.posonlyargs, *function.node.args.args)]
    if function.bound and names and names.pop(0) == root.id:
        return bias is not root
    if any(isinstance(one, ast.Starred) for one in call.args):
        return False
    given = next((one.value for one in call.keywords if one.arg == root.id), None)
    if given is None and root.id in names and names.index(root.id) < len(call.args):
        given = call.args[names.index(root.id)]
    if not isinstance(given, ast.Name | ast.Attribute | ast.Subscript) or OTHER.search(site.text(given)):
        return False
    if not isinstance(given, ast.Name):
        return True
    made, _ = lookup(site.file, given, given.id)
    return bool(made) and not any(isinstance(one.value, _COMPUTED) and one.kind == "assign" for one in made)
