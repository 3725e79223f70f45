"""Layers that have a bias because nothing says that they have none."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardlint.model.reach import lookup
from shardlint.model.values import Api, Constant, Items, Unknown, Value, options, settled
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts

# What makes a layer of which the bias has one dimension: the keyword that takes it away, and how many positions may be
# given without saying anything of it. Those of haiku are called `b`.
_LAYERS = {
    "flax.linen.Dense": ("use_bias", 1),
    "flax.linen.Conv": ("use_bias", 5),
    "flax.nnx.Linear": ("use_bias", 2),
    "flax.nnx.Conv": ("use_bias", 4),
    "equinox.nn.Linear": ("use_bias", 2),
    "haiku.Linear": ("with_bias", 1),
}
_WORDS = tuple(dict.fromkeys(name.rpartition(".")[2] for name in _LAYERS))
# Where layers are stacked their biases have a dimension more.
_STACKING = ("vmap", "filter_vmap", "nn.scan", "nnx.scan", "split_rngs", "hk.layer_stack")


def biased_by_default(site: Site, names: frozenset[str]) -> tuple[str, str] | None:
    """A file and line where a layer of one of these names gets its bias by default, and the name.

    None also where some layer of such a name is told about its bias, or layers are stacked.
    """
    project = site.program.project
    found: tuple[str, str] | None = None
    for file in project.calling(site.file.path, _WORDS):
        if file is None:
            return None
        for call, name, biased in _layers(site, file):
            if name in names:
                if not biased:
                    return None
                found = found or (f"{file.path.name}:{call.lineno}", name)
    return None if found is None or any(site.anywhere(word) for word in _STACKING) else found


def _layers(site: Site, file: FileFacts) -> Iterator[tuple[ast.Call, str, bool]]:
    """The layers made in a file: the call, the name, and whether they have a bias by default."""
    for word in (one for one in _WORDS if file.says(one)):
        for node in file.mentions(word):
            call = file.parent(node)
            if not isinstance(call, ast.Call) or call.func is not node:
                continue
            made = site.program.value(file, node)
            told = _LAYERS.get(made.name) if isinstance(made, Api) else None
            if told is not None:
                biased = _has_bias(site, file, call, *told)
                yield from ((call, name, biased) for name in _names(site, file, call))


def _has_bias(site: Site, file: FileFacts, call: ast.Call, keyword: str, positions: int) -> bool:
    if len(call.args) > positions or any(isinstance(one, ast.Starred) for one in call.args):
        return False
    for given in call.keywords:
        if given.arg is None:
            return False
        if given.arg == keyword:
            return all(settled(one) == Constant(True) for one in options(site.program.value(file, given.value)))
    return True


def _names(site: Site, file: FileFacts, call: ast.Call) -> tuple[str, ...]:
    """What parameters of the layer are found under: its `name=`, or the attribute that it is kept in."""
    named = next((one.value for one in call.keywords if one.arg == "name"), None)
    if named is not None:
        value = site.program.value(file, named)
        return _strings([value if isinstance(value, Constant) else _looped(site, file, named)])
    match file.parent(call):
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
            return (name,)
    return ()


def _looped(site: Site, file: FileFacts, node: ast.expr) -> Value:
    """What a name of a loop stands for, turn by turn."""
    bindings = lookup(file, node, node.id)[0] if isinstance(node, ast.Name) else []
    over = bindings[0].value if len(bindings) == 1 and bindings[0].kind in ("for", "comprehension") else None
    value = site.program.value(file, over) if over is not None else Unknown()
    if isinstance(value, Constant) and isinstance(value.value, str):
        return Items("list", tuple(map(Constant, value.value)))
    return value


def _strings(values: Iterable[Value]) -> tuple[str, ...]:
    each = [one for value in values for one in (value.items if isinstance(value, Items) else (value,))]
    return tuple(one.value for one in each if isinstance(one, Constant) and isinstance(one.value, str))
