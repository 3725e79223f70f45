"""Bounds for the rank of an array: tests around a call, and shapes of arrays that may have any rank."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.ends import End
from shardlint.model.mesh.meshes import leaves
from shardlint.model.mesh.shardings import PLACING
from shardlint.model.path_tests import tests_to
from shardlint.model.reach import assigned_once, lookup
from shardlint.model.shapes import shape_of_value
from shardlint.model.signatures import Definition, of_definition, takes_self
from shardlint.model.values import Api, CallResult, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.trees import MAPS

MAKING = ("jax.make_array_from_single_device_arrays", "jax.make_array_from_callback")
_ARRAYS = tuple(f"{module}.{name}" for module in ("jax.numpy", "numpy") for name in ("asarray", "array"))
# What may be done with an array of any rank.
_CALLS = (*PLACING, *_ARRAYS, *MAKING, "jax.device_get", "jax.block_until_ready")
_LOOKING = ("isinstance", "hasattr", "getattr", "type", "callable", "print", "id", "str", "repr")
_ATTRIBUTES = (
    "dtype nbytes size sharding astype devices is_fully_replicated is_fully_addressable addressable_data "
    "addressable_shards device_buffers committed value"
).split()
# Arrays that are called so have a dimension for their examples, or one for each element.
_WITH_DIMENSIONS = (
    "batch data example feature input image label token ids mask index indices observation logit embed row "
    "vector matrix kernel sequence segment position"
).split()

_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_DEPTH = 4
# Of what is used in more places than these nobody can say what it is.
_MANY = 50


def rank_at_most(site: Site, array: ast.expr) -> int | None:
    """How many dimensions an array has at most by the tests around the call: `if x.ndim == 0:`."""
    if not isinstance(array, ast.Name) or not _ranks_asked(site.file, array):
        return None
    function = site.scope.function()
    if function is None:
        return None
    ranks = (
        _at_most(site.file, test, array, holds)
        for test, holds in tests_to(site.file, site.call, function.node)
    )
    return min((one for one in ranks if one is not None), default=None)


def _ranks_asked(file: FileFacts, array: ast.Name) -> bool:
    """Whether the function asks for the rank or the shape of what has this name anywhere."""
    home = file.home(array)
    scope = home.function() or home
    return file.remembered(
        f"ranks of {array.id}",
        scope.node,
        lambda: any(_asks(file, use) for use in file.mentions_in(scope, array.id)),
    )


def _asks(file: FileFacts, use: ast.AST) -> bool:
    match file.parent(use):
        case ast.Attribute(attr=attribute):
            return attribute in ("ndim", "shape")
        case ast.Call(func=ast.Attribute(attr=attribute)):
            return attribute == "ndim"
    return False


def _at_most(file: FileFacts, test: ast.expr, array: ast.Name, holds: bool) -> int | None:
    """The largest rank with which a test holds, or does not."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return _at_most(file, test.operand, array, not holds)
        case ast.BoolOp() if isinstance(test.op, ast.And) is holds:
            parts = [_at_most(file, part, array, holds) for part in test.values]
            return min((part for part in parts if part is not None), default=None)
        case ast.BoolOp():  # one of the parts decides
            parts = [_at_most(file, part, array, holds) for part in test.values]
            return None if None in parts else max(part for part in parts if part is not None)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _most_compared(file, left, op, right, array, holds)
        case ast.Compare(left=left, ops=ops, comparators=others):
            pairs = zip([left, *others], ops, others, strict=False)
            chain = ast.BoolOp(ast.And(), [ast.Compare(one, [op], [two]) for one, op, two in pairs])
            return _at_most(file, chain, array, holds)
        case ast.Attribute(attr="shape", value=value) if not holds and _same(file, value, array):
            return 0
        case _ if not holds and _rank_of(file, test, array):
            return 0
    return None


def _most_compared(
    file: FileFacts, left: ast.expr, op: ast.cmpop, right: ast.expr, array: ast.Name, holds: bool
) -> int | None:
    """The largest rank with which a comparison holds, or does not."""
    equal, below, at = (ast.Eq, ast.Lt, ast.LtE) if holds else (ast.NotEq, ast.GtE, ast.Gt)
    match left, op, right:
        case ast.Constant() | ast.Tuple(), _, ast.Name() | ast.Attribute() | ast.Call() if (
            type(op) in _MIRRORED
        ):
            return _most_compared(file, right, _MIRRORED[type(op)](), left, array, holds)
        case _, _, ast.Constant(value=int() as number) if _rank_of(file, left, array):
            return number - 1 if isinstance(op, below) else number if isinstance(op, at | equal) else None
        case _, ast.In() | ast.NotIn(), ast.Tuple() | ast.List() | ast.Set() if _rank_of(file, left, array):
            known = [
                one.value
                for one in right.elts
                if isinstance(one, ast.Constant) and isinstance(one.value, int)
            ]
            every = isinstance(op, ast.In) is holds and len(known) == len(right.elts)
            return max(known, default=None) if every else None
        case ast.Attribute(attr="shape", value=inner), _, ast.Tuple() if isinstance(op, equal):
            starred = any(isinstance(one, ast.Starred) for one in right.elts)
            return len(right.elts) if _same(file, inner, array) and not starred else None
    return None


def _rank_of(file: FileFacts, node: ast.expr, array: ast.Name) -> bool:
    """`x.ndim`, `len(x.shape)`, `jnp.ndim(x)`."""
    match node:
        case ast.Name() if node.id != array.id and (value := assigned_once(file, node)) is not None:
            return not isinstance(value, ast.Name) and _rank_of(file, value, array)
        case ast.Attribute(attr="ndim", value=value):
            return _same(file, value, array)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(attr="shape", value=value)]):
            return _same(file, value, array)
        case ast.Call(func=ast.Attribute(attr="ndim"), args=[value]):
            return _same(file, value, array)
    return False


def _same(file: FileFacts, node: ast.expr, array: ast.Name) -> bool:
    if not isinstance(node, ast.Name) or node.id != array.id:
        return False
    here, there = lookup(file, node, node.id)[0], lookup(file, array, array.id)[0]
    return [binding.node for binding in here] == [binding.node for binding in there]


def any_shape(site: Site, shape: ast.expr) -> str | None:
    """Why an array of this shape may have no dimension: `shape` is that of an array that could be any."""
    file, asked = site.file, shape
    if isinstance(shape, ast.Name):
        bindings, owner = lookup(file, shape, shape.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None or owner is None:
            return None
        if owner.function() is None or any(
            use is not shape and isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load)
            for inner in file.inner_scopes(owner)
            for use in inner.named.get(shape.id, ())
        ):
            return None
        asked = bindings[0].value
    if not isinstance(asked, ast.Attribute) or asked.attr != "shape":
        return None
    root: ast.expr = asked.value
    while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
        root = root.func if isinstance(root, ast.Call) else root.value
    origin = _origin(site, root)
    if origin is None or origin.kind != "param" or origin.name in ("self", "cls"):
        return None
    if _says_dimensions(file, origin) or _treated_as_more(site, origin, asked):
        return None
    ends = site.program.flow.ends(file, origin.scope.node).found
    if any(wrapper.api in MAPS for end in ends for wrapper in end.wrappers):
        return "the leaves of the tree may have any rank" if _maps_any(site, origin, ends) else None
    if _callers_tell(site, origin, ends):
        return None
    return f"`{' '.join(file.text(asked.value).split())}` may have any rank"


# where an array comes from


def _origin(site: Site, node: ast.expr) -> Binding | None:
    """The parameter or loop variable that a name is, also as an array by now (`x = jnp.asarray(x)`)."""
    if not isinstance(node, ast.Name):
        return None
    bindings, _ = lookup(site.file, node, node.id)
    if any(binding.kind == "more" for binding in bindings):
        return None
    first = [binding for binding in bindings if binding.kind in ("param", "for", "comprehension")]
    for binding in bindings:
        if binding not in first:
            inner = _as_array(site, binding)
            before = lookup(site.file, inner, inner.id)[0] if inner is not None else []
            first += [one for one in before if one not in first]
    return first[0] if len(first) == 1 and first[0].kind in ("param", "for", "comprehension") else None


def _as_array(site: Site, binding: Binding) -> ast.Name | None:
    value = binding.value
    if binding.kind != "assign" or not isinstance(value, ast.Call) or not value.args:
        return None
    named = any(isinstance(one, Api) and one.name in _ARRAYS for one in options(site.value(value.func)))
    return value.args[0] if named and isinstance(value.args[0], ast.Name) else None


def _maps_any(site: Site, origin: Binding, ends: list[End]) -> bool:
    """Whether trees it is mapped over could hold a scalar for all that the text says."""
    node = origin.scope.node
    assert isinstance(node, Definition)
    positional = of_definition(node).positional
    if origin.name not in positional:
        return False
    for end in ends:
        if end.kind != "called" or not any(wrapper.api in MAPS for wrapper in end.wrappers):
            return False
        trees = site.program.evaluator.arguments(end.place).positional[1:]
        index = positional.index(origin.name) - (end.wrappers[-1].api == MAPS[1])
        if 0 <= index < len(trees) and not _could_be_any(site, trees[index]):
            return False
    return True


def _could_be_any(site: Site, tree: Place) -> bool:
    """Whether a tree is not called what has dimensions, and is not seen to be made of arrays that have."""
    ranks = list(_ranks(site, site.program.evaluator.value(tree), 0))
    return not _called_so(tree.text()) and (0 in ranks or not any(ranks))


def _ranks(site: Site, tree: Value, depth: int) -> Iterator[int | None]:
    """Of each array in a tree, how many dimensions it has; None where that is not told."""
    for leaf in leaves(tree):
        if isinstance(leaf, CallResult) and leaf.api in MAPS and leaf.call is not None and depth < _DEPTH:
            trees = leaf.call.positional[1:2]  # what is mapped over it keeps dimensions, mostly
            for one in trees:
                yield from _ranks(site, site.program.evaluator.value(one, leaf.call.environment), depth + 1)
        else:
            shape = shape_of_value(site.program.evaluator, leaf)
            yield len(shape) if shape is not None else None


# what the code does with it


def _says_dimensions(file: FileFacts, origin: Binding) -> bool:
    """Whether its name, its annotation (`Float[Array, "b"]`) or that of a function around says that it has some."""
    function = file.home(origin.node).function()
    around = [scope.name for scope in (function.outward() if function is not None else ())]
    if any(_called_so(name) for name in (origin.name, *around)):
        return True
    annotated = [
        part
        for part in (walk(origin.annotation) if origin.annotation is not None else ())
        if isinstance(part, ast.Subscript)
    ]
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, str)
        for outer in annotated
        for part in walk(outer)
    )


def _called_so(text: str) -> bool:
    return any(word in text.lower() for word in _WITH_DIMENSIONS)


def _uses(site: Site, origin: Binding) -> Iterator[ast.Name]:
    """Where a parameter or loop variable is read, under its own name."""
    for use in site.file.mentions_in(origin.scope, origin.name):
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
            found = _origin(site, use)
            if found is not None and found.node is origin.node:
                yield use


def _treated_as_more(site: Site, origin: Binding, but: ast.Attribute) -> bool:
    """True if the code uses it as an array with dimensions, or asks for its rank. `but` is one allowed mention."""
    return any(
        count == _MANY or not _harmless(site, use, but) for count, use in enumerate(_uses(site, origin))
    )


def _harmless(site: Site, use: ast.Name, but: ast.Attribute) -> bool:
    file = site.file
    parent = file.parent(use)
    match parent:
        case ast.Attribute():
            return parent is but or parent.attr in _ATTRIBUTES or _handed_on(site, parent)
        case ast.Return() | ast.Lambda() | ast.keyword():
            return True
        case ast.IfExp():
            return use is not parent.test
        case ast.Compare():
            return all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)
        case ast.Subscript():
            # `lambda index: array[index]`: the index that a callback is given fits.
            return isinstance(parent.slice, ast.Name)
        case ast.Call() if use in parent.args:
            if isinstance(parent.func, ast.Name) and parent.func.id in _LOOKING:
                return True
            found = options(site.value(parent.func))
            return all(isinstance(one, Api) and one.name in _CALLS for one in found)
        case ast.ListComp() | ast.GeneratorExp():
            return use is parent.elt
    return False


def _handed_on(site: Site, shape: ast.Attribute) -> bool:
    """`x.shape` as an argument of what makes an array of that shape."""
    parent = site.file.parent(shape)
    if shape.attr != "shape" or not isinstance(parent, ast.Call) or shape not in parent.args:
        return False
    return all(isinstance(one, Api) and one.name in MAKING for one in options(site.value(parent.func)))


def _callers_tell(site: Site, origin: Binding, ends: list[End]) -> bool:
    """Whether calls that are seen give arrays that do have dimensions, and none gives one without."""
    node, evaluator = origin.scope.node, site.program.evaluator
    assert isinstance(node, Definition)
    parameters = of_definition(node)
    if takes_self(origin.scope):
        parameters = parameters.without_first()
    ranks: set[int | None] = set()
    for end in ends:
        if end.kind != "called" or end.wrappers:
            continue
        given = (parameters.bind(evaluator.arguments(end.place)) or {}).get(origin.name)
        ranks |= set(_ranks(site, evaluator.value(given), 0)) if given is not None else set()
    return any(ranks) and 0 not in ranks
