"""SL240."""

from __future__ import annotations

import ast
import math

from shardlint.model.values import Api, CallResult, Constant, Function, Place, options
from shardlint.rules_api.rule import (
    Calls,
    Certainty,
    Edit,
    Finding,
    Fix,
    Harm,
    Methods,
    Rule,
    Safety,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

_PUT = "jax.device_put"
_CONSTRAINT = "with_sharding_constraint"
_CONSTANT = ("zeros", "ones", "full", "empty")
_RANDOM = ("normal", "uniform", "truncated_normal", "randint", "bernoulli", "bits")
_JOINED = ("stack", "concatenate", "tile", "repeat", "broadcast_to", "vstack", "hstack")
_MAPS = ("jax.tree.map", "jax.tree_util.tree_map")
_NEAR = tuple(f"{name}(" for name in (*_CONSTANT, *_RANDOM, *_JOINED))
_SMALL = 1 << 20
_FEW = 1 << 10
_DEPTH = 4


@dataclass(frozen=True)
class _Source:
    """The call that creates the full array, and how."""

    file: FileFacts
    call: ast.Call
    form: str


class WholeOnOneDevice(Rule):
    """A large array is created on one device and only then sharded.

    The first device needs memory for the full array, and sends the shards to the other devices. The program may run out
    of memory there, or start slowly.

    ## Reports
    - `joined` (likely): `device_put(x, sharding)`, or a constraint outside jit, that shards the result of `jnp.tile` or
      `jnp.broadcast_to`. Also the result of `jnp.stack` or `jnp.concatenate` of repeated or computed parts:
      `jnp.stack([x] * n)`.
    - `constant` (possible): `device_put(x, sharding)` or a constraint that shards a new `jnp.zeros`, `ones`, `full` or
      `empty`. Also in a `tree.map` of a function that creates them.
    - `random` (possible): `device_put(x, sharding)` or a constraint that shards a new array from `jax.random.normal`,
      `uniform` or a similar function. Also in a `tree.map` of a function that creates them.

    ## Write instead
    Create each shard on its device, or the full array on the host:

    - For a constant write `jnp.zeros(shape, dtype, device=sharding)`.
    - For random numbers, `tile` and `broadcast_to` write a function `make`, and call
      `jax.jit(make, out_shardings=sharding)()`.
    - To join parts write `jax.device_put(np.stack(parts), sharding)`.

    ## Fix
    Adds `device=sharding` to the call that creates a constant. Safe: values and sharding stay the same.

    ## Limits
    Small arrays and tests are not reported.
    """

    code = "SL240"
    name = "whole-on-one-device"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("joined",)
    triggers = (Calls(_PUT, f"jax.lax.{_CONSTRAINT}", file_says=_NEAR), Methods(_CONSTRAINT, file_says=_NEAR))
    fixes = "safe"

    @detector("call", "method")
    def report_array(self, site: Site) -> Finding | None:
        """An array that is created whole and then sharded."""
        if len(site.call.args) < 2 or site.program.project.is_test(site.file.path):
            return None
        array, sharding = site.call.args[:2]
        source = _find_source(site, site.file, array)
        if source is None or site.region.traced == "always":
            return None
        if not _splits_array(site, sharding):
            return None
        maker = source.file.source_text(source.call.func)
        shown = f"`{array.id}`" if isinstance(array, ast.Name) else "the array"
        return site.finding(
            array,
            f"`{maker}` creates {shown} unsharded on the first device before it is sharded.",
            help=_write_help(source.form, maker),
            fix=self._write_fix(site, source, sharding) if source.call is array else None,
            form=source.form,
            why=f"line {source.call.lineno} creates it, and `{site.shown(sharding)}` shards it",
        )

    def _write_fix(self, site: Site, source: _Source, sharding: ast.expr) -> Fix | None:
        """`jnp.zeros(shape, device=sharding)` in place of the two calls, for a NamedSharding."""
        call = source.call
        if (
            source.form != "constant"
            or site.api != _PUT
            or len(site.call.args) + len(site.call.keywords) != 2
        ):
            return None
        if any(one.arg in ("device", None) for one in call.keywords) or not site.allows("jax", ">=0.4.38"):
            return None
        if any(isinstance(one, ast.Starred) for one in call.args) or not _is_named(site, sharding):
            return None
        inner = site.text(call)
        text = f"{inner[: inner.rindex(')')].rstrip().rstrip(',')}, device={site.text(sharding)})"
        edits: list[Edit] = [site.replace(site.call, text)]
        return site.fix(Safety.SAFE, f"write {text}", edits)


def _write_help(form: str, maker: str) -> str:
    if form == "constant":
        return f"write {maker}(..., device=sharding): it creates each shard on its device"
    if form == "random":
        return "create it in a function `make`, and write `jax.jit(make, out_shardings=sharding)()`"
    return f"call `{maker}` in a function under `jax.jit(make, out_shardings=sharding)`, or use numpy on the host"


def _is_named(site: Site, sharding: ast.expr) -> bool:
    return all(
        isinstance(one, CallResult) and site.sharding_parts(one) for one in options(site.value(sharding))
    )


def _splits_array(site: Site, sharding: ast.expr) -> bool:
    """True if a sharding splits an array, by its value, or by its name if the value is unknown."""
    value = site.value(sharding)
    if site.shardings.shards(value):
        return True
    if any(isinstance(one, CallResult | Constant | Api) for one in options(value)):
        return False
    name = last_name(sharding).lower()
    return "shard" in name and not any(word in name for word in ("replica", "single", "empty", "host", "rep"))


def _find_source(site: Site, file: FileFacts, node: ast.expr, depth: int = 0) -> _Source | None:
    """The call that creates the full array; the first of several."""
    if depth > _DEPTH:
        return None
    if isinstance(node, ast.Name):
        bindings, _ = lookup_bindings(file, node, node.id)
        values = [one.value for one in bindings if one.kind == "assign" and one.value is not None]
        if not values or len(values) < len(bindings):
            return None
        sources = [_find_source(site, file, one, depth + 1) for one in values]
        return sources[0] if all(sources) else None
    if not isinstance(node, ast.Call):
        return None
    for option in options(site.program.value(file, node.func)):
        if not isinstance(option, Api):
            return None
        if option.name in _MAPS and len(node.args) > 1:
            return _call_mapped_over_tree(site, file, node.args[0], depth + 1)
        form = _find_form(site, file, node, option.name)
        known = site.shape_of(Place(file, node)) if form else None
        if known is not None and all(known) and math.prod(one or 0 for one in known) <= _SMALL:
            return None
        return _Source(file, node, form) if form else None
    return None


def _call_mapped_over_tree(site: Site, file: FileFacts, function: ast.expr, depth: int) -> _Source | None:
    """The call that creates the result of a function that is mapped over a tree."""
    for option in options(site.program.value(file, function)):
        if not isinstance(option, Function):
            return None
        inside, node = option.place.file, option.node
        if isinstance(node, ast.Lambda):
            return _find_source(site, inside, node.body, depth)
        returned = [one.value for one in walk_nodes(node) if isinstance(one, ast.Return)]
        sources = [_find_source(site, inside, one, depth) if one is not None else None for one in returned]
        return sources[0] if sources and all(sources) else None
    return None


def _find_form(site: Site, file: FileFacts, call: ast.Call, name: str) -> str:
    """How a call creates an array on the default device; "" for small or placed arrays and other calls."""
    last = name.rpartition(".")[2]
    if any(one.arg in ("device", "out_sharding", None) for one in call.keywords) or not call.args:
        return ""
    if name.startswith("jax.numpy.") and last in _CONSTANT:
        return "" if _is_small_shape(site, file, call.args[0]) else "constant"
    if name.startswith("jax.random.") and last in _RANDOM and len(call.args) > 1:
        return "" if _is_small_shape(site, file, call.args[1]) else "random"
    if name.startswith("jax.numpy.") and last in _JOINED:
        if _repeats_small_array(site, file, call.args[0]):
            return ""
        return "joined" if last in ("tile", "broadcast_to") or _is_many_items(call.args[0]) else ""
    return ""


def _repeats_small_array(site: Site, file: FileFacts, node: ast.expr) -> bool:
    """`[jnp.zeros([])] * n`: as many scalars, or other small arrays, as there are devices."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=ast.List(elts=[repeated])):
            shape = site.shape_of(Place(file, repeated))
            return shape is not None and None not in shape and math.prod(one or 0 for one in shape) <= _FEW
    return False


def _is_many_items(node: ast.expr) -> bool:
    """`[x] * n`, or a list that is computed."""
    return isinstance(node, ast.ListComp) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult))


def _is_small_shape(site: Site, file: FileFacts, shape: ast.expr) -> bool:
    """True for a shape of at most one dimension, or of few elements."""
    if isinstance(shape, ast.Name):
        bindings, _ = lookup_bindings(file, shape, shape.id)
        written = [one.value for one in bindings if one.kind == "assign"]
        shape = written[0] if len(written) == 1 and written[0] is not None else shape
    if isinstance(shape, ast.Constant):
        return True
    if not isinstance(shape, ast.Tuple | ast.List):
        return isinstance(shape, ast.Attribute) and shape.attr != "shape"
    if len(shape.elts) < 2 and not any(isinstance(one, ast.Starred) for one in shape.elts):
        return True
    size = 1
    for one in shape.elts:
        value = site.program.value(file, one)
        if not isinstance(value, Constant) or not isinstance(value.value, int):
            return False
        size *= value.value
    return size <= _SMALL
