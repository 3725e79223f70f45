"""Arguments of a pmapped function whose leaves do not have one row for each device along the axis that is mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.run.raised.explanation import Explanation, callee_text, first_of_many
from shardlint.run.raised.recognition import RecognisedError
from shardlint.run.raised.record import Call, CallArgument, Leaf
from shardlint.source.patterns import compile_lazily


def explain_leading_axis(error: RecognisedError) -> Explanation | None:
    """The first argument that has no axis of devices, or another number of rows along it, and what to write."""
    call = error.error.failing_call
    if call is None:
        return None
    mapped = [[leaf for leaf in given.leaves if leaf.axis is not None] for given in call.arguments]
    devices = _expected_rows(call, mapped)
    wrong = [[leaf for leaf in leaves if _mapped_size(leaf) != devices] for leaves in mapped]
    at = next((at for at, leaves in enumerate(wrong) if leaves), None)
    if at is None:
        return None
    given, leaves = call.arguments[at], mapped[at]
    name, shown = _argument_name(given), [_describe_leaf(leaf, given) for leaf in wrong[at]]
    what = f"every leaf of `{name}`" if len(leaves) > 1 else shown[0]
    rows = {_mapped_size(leaf) for leaf in leaves}
    size = rows.pop() if len(rows) == 1 else None
    axis = leaves[0].axis
    return Explanation(
        f"{callee_text(call)} maps axis {axis} of {what}, which has no such axis: it needs one row for each of "
        f"{devices} "
        "devices"
        if size is None
        else (
            f"{callee_text(call)} maps axis {axis} of {what}: it has {size} rows, and needs {devices}, one per "
            "device"
        ),
        first_of_many(shown) if len(leaves) > 1 else (),
        _advise_replication(given, call, error) if size is None else _advise_split(size, devices, axis),
        live=True,
    )


def _argument_name(argument: CallArgument) -> str:
    """How an argument is called: as it is written, or by its parameter where that is an expression."""
    return argument.text if _PLAIN.fullmatch(argument.text) or not argument.parameter else argument.parameter


def _describe_leaf(leaf: Leaf, argument: CallArgument) -> str:
    return replace(leaf, where=_argument_name(argument) + leaf.where.removeprefix(argument.text)).describe_leaf()


_PLAIN = compile_lazily(r"[\w.]+(?:\[[^\]]*\])*")


def _mapped_size(leaf: Leaf) -> int | None:
    """The size of a leaf along the axis that is mapped; None where it has no such axis."""
    axis, shape = leaf.axis, leaf.shape or ()
    return shape[axis] if axis is not None and -len(shape) <= axis < len(shape) else None


def _expected_rows(call: Call, arguments: Sequence[Sequence[Leaf]]) -> int:
    """How many rows there should be: one for each device, or fewer where all leaves of an argument agree on that."""
    rows = [{_mapped_size(leaf) for leaf in leaves} for leaves in arguments]
    agreed = [size for sizes in rows if len(sizes) == 1 for size in sizes if size is not None]
    fewer = [size for size in agreed if size < call.devices]
    several = len(set(agreed)) > 1 or any(len(sizes) > 1 or None in sizes for sizes in rows)
    return fewer[-1] if fewer and several and call.devices not in agreed else call.devices


def _advise_replication(argument: CallArgument, call: Call, error: RecognisedError) -> str:
    """How to give each device a copy of an argument, or to leave it out of what is mapped."""
    name = _argument_name(argument)
    number = [one for one in call.arguments if not one.keyword]
    whole = [one is argument or (one.leaves and all(leaf.axis is None for leaf in one.leaves)) for one in number]
    axes = ", ".join("None" if each else "0" for each in whole)
    instead = (
        f"write in_axes=({axes}) to map only the other arguments" if not argument.keyword and len(number) > 1 else ""
    )
    if call.type == "_PmapWrapper":
        return instead or "add a first dimension with one row per device"
    if "flax" in error.releases:
        copied = f"flax.jax_utils.replicate({name})"
    else:
        copied = f"jax.tree.map(lambda x: jnp.stack([x] * {call.devices}), {name})"
    return f"write {name} = {copied}" + (f", or {instead}" if instead else "")


def _advise_split(size: int, devices: int, axis: int | None) -> str:
    """How to give each device its rows of an argument."""
    if axis != 0 or size % devices or size < devices:
        return f"pass {devices} rows along axis {axis}, one per device"
    return f"write x.reshape({devices}, {size // devices}, *x.shape[1:])"
