"""Additional explanation of an error besides its finding, and names of the arrays in it."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.run.raised.record import Call, Leaf

_MOST = 6
_LONG = 40


@dataclass(frozen=True)
class Explanation:
    """One sentence, the arrays it is about, and what to write instead."""

    message: str
    arrays: tuple[str, ...] = ()
    help: str = ""
    live: bool = False
    """Whether it rests on the values of the call, which no text shows."""


def format_device_numbers(devices: tuple[int, ...]) -> str:
    """`device 0`, `devices 0-7`."""
    if len(devices) == 1:
        return f"device {devices[0]}"
    ordered = sorted(devices)
    if list(devices) == list(range(ordered[0], ordered[-1] + 1)):
        return f"devices {ordered[0]}-{ordered[-1]}"
    return f"devices {', '.join(map(str, devices[:8]))}{', ...' if len(devices) > 8 else ''}"


def describe_placement(leaf: Leaf) -> str:
    """Where an array lies."""
    mesh = " ".join(f"{name}={size}" for name, size in leaf.mesh.items())
    return f"{leaf.describe_leaf()} on {format_device_numbers(leaf.devices)}" + (
        f", {leaf.spec} over {mesh}" if mesh else ""
    )


def first_of_many(texts: list[str]) -> tuple[str, ...]:
    """The first of many."""
    return (*texts[:_MOST], *([f"... and {len(texts) - _MOST} more"] if len(texts) > _MOST else []))


def callee_text(call: Call | None) -> str:
    """Return the callee as it is written."""
    text = call.callee or call.text if call is not None else ""
    if "(" in text and len(text) > _LONG:
        text = f"{text.partition('(')[0]}(...)"
    return f"`{text}`" if text else "this line"
