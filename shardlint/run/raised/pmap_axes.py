"""Arguments of a pmapped function whose leaves do not have one row for each device along the axis that is mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.run.raised.explanation import Explanation, callee, some
from shardlint.run.raised.recognition import RecognisedError
from shardlint.run.raised.record import Call, Given, Leaf
from shardlint.source.patterns import regex


def leading_axis(found: RecognisedError) -> Explanation | None:
    """The first argument that has no axis of devices, or another number of rows along it, and what to write."""
    call = found.error.call
    if call is None:
        return None
    mapped = [[leaf for leaf in given.leaves if leaf.axis is not None] for given in call.arguments]
    devices = _devices(call, mapped)
    wrong = [[leaf for leaf in leaves if _rows(leaf) != devices] for leaves in mapped]
    at = next((at for at, leaves in enumerate(wrong) if leaves), None)
    if at is None:
        return None
    given, leaves = call.arguments[at], mapped[at]
    name, shown = _name(given), [_text(leaf, given) for leaf in wrong[at]]
    what = f"every leaf of `{name}`" if len(leaves) > 1 else shown[0]
    rows = {_rows(leaf) for leaf in leaves}
    size = rows.pop() if len(rows) == 1 else None
    axis = leaves[0].axis
    return Explanation(
        f"{callee(call)} maps axis {axis} of {what}, which has no such axis: it needs one row for each of {devices} "
        "devices"
        if size is None
        else (
            f"{callee(call)} maps axis {axis} of {what}: it has {size} rows, and needs {devices}, one per "
            "device"
        ),
        some(shown) if len(leaves) > 1 else (),
        _replicated(given, call, found) if size is None else _split(size, devices, axis),
        live=True,
    )


def _name(given: Given) -> str:
    """How an argument is called: as it is written, or by its parameter where that is an expression."""
    return given.text if _PLAIN.fullmatch(given.text) or not given.parameter else given.parameter


def _text(leaf: Leaf, given: Given) -> str:
    return replace(leaf, where=_name(given) + leaf.where.removeprefix(given.text)).text()


_PLAIN = regex(r"[\w.]+(?:\[[^\]]*\])*")


def _rows(leaf: Leaf) -> int | None:
    """The size of a leaf along the axis that is mapped; None where it has no such axis."""
    axis, shape = leaf.axis, leaf.shape or ()
    return shape[axis] if axis is not None and -len(shape) <= axis < len(shape) else None


def _devices(call: Call, arguments: Sequence[Sequence[Leaf]]) -> int:
    """How many rows there should be: one for each device, or fewer where all leaves of an argument agree on that."""
    rows = [{_rows(leaf) for leaf in leaves} for leaves in arguments]
    agreed = [size for sizes in rows if len(sizes) == 1 for size in sizes if size is not None]
    fewer = [size for size in agreed if size < call.devices]
    several = len(set(agreed)) > 1 or any(len(sizes) > 1 or None in sizes for sizes in rows)
    return fewer[-1] if fewer and several and call.devices not in agreed else call.devices


def _replicated(given: Given, call: Call, found: RecognisedError) -> str:
    """How to give each device a copy of an argument, or to leave it out of what is mapped."""
    name = _name(given)
    number = [one for one in call.arguments if not one.keyword]
    whole = [one is given or (one.leaves and all(leaf.axis is None for leaf in one.leaves)) for one in number]
    axes = ", ".join("None" if each else "0" for each in whole)
    instead = f"write in_axes=({axes}) to map only the other arguments" if not given.keyword and len(number) > 1 else ""
    if call.type == "_PmapWrapper":
        return instead or "add a first dimension with one row per device"
    if "flax" in found.releases:
        copied = f"flax.jax_utils.replicate({name})"
    else:
        copied = f"jax.tree.map(lambda x: jnp.stack([x] * {call.devices}), {name})"
    return f"write {name} = {copied}" + (f", or {instead}" if instead else "")


def _split(size: int, devices: int, axis: int | None) -> str:
    """How to give each device its rows of an argument."""
    if axis != 0 or size % devices or size < devices:
        return f"pass {devices} rows along axis {axis}, one per device"
    return f"write x.reshape({devices}, {size // devices}, *x.shape[1:])"
