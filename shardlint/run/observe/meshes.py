"""Meshes of several devices, and the line that built each."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from typing import Any

from . import environment_writes
from .event_sink import silence_errors, write_event
from .frames import line_of, user_frame, user_stack

_plain: list[bool] = []
"""Not empty within a `make_mesh` that is given no devices."""
_INTERNAL = f"{os.sep}jax{os.sep}_src{os.sep}"
_MOST = 100
_orders: dict[tuple[int, ...], list[Any]] = {}
built: dict[tuple[tuple[str, int], ...], list[Any]] = {}
used: set[int] = set()
"""The devices of all meshes, and those that arrays were given by programs on."""


def install(jax: Any) -> None:
    """Watch `Mesh.__new__`, through which `jax.make_mesh` goes too."""
    mesh = jax.sharding.Mesh
    new = mesh.__new__

    @functools.wraps(new)
    def make_and_note(cls: Any, *args: Any, **kwargs: Any) -> Any:
        one = new(cls, *args, **kwargs)
        _note_mesh(one, sys._getframe(1))
        return one

    mesh.__new__ = make_and_note
    if hasattr(jax, "make_mesh"):
        jax.make_mesh = _wrap_maker(jax.make_mesh)
    atexit.register(_write_meshes)


@silence_errors
def _write_meshes() -> None:
    if len(used) > 1:
        write_event("devices-used", count=len(used))


def _wrap_maker(function: Any) -> Any:
    @functools.wraps(function)
    def make_with_caller(*args: Any, **kwargs: Any) -> Any:
        _plain[:] = [True] if kwargs.get("devices") is None else []
        try:
            return function(*args, **kwargs)
        finally:
            _plain.clear()

    return make_with_caller


@silence_errors
def _note_mesh(mesh: Any, caller: Any) -> None:
    if caller.f_code.co_name != "make_mesh" and _INTERNAL in caller.f_code.co_filename:
        return
    if mesh.size < 2:
        return
    key = tuple((str(name), int(size)) for name, size in mesh.shape.items())
    frame = user_frame()
    order = _device_order(mesh)
    used.update(order)
    if frame is not None and list(order) != sorted(order) and len(_orders) < _MOST:
        _orders.setdefault(order, line_of(frame))
    if frame is not None and key not in built:
        built[key] = line_of(frame)
        of = mesh.devices.flat[0].client.device_count()
        plain = bool(_plain) and caller.f_code.co_name == "make_mesh"
        write_event(
            "mesh", axes=[list(one) for one in key], line=built[key], of=of, told=_other_axis_sizes(frame, dict(key)),
            short=plain and environment_writes.is_device_count_chosen() and mesh.size < of, lines=user_stack(3),
        )  # fmt: skip


def _device_order(mesh: Any) -> tuple[int, ...]:
    return tuple(int(one.id) for one in mesh.devices.flat)


def line_of_unusual_order(*shardings: Any) -> list[Any]:
    """The line that built the mesh of one of some shardings, whose devices are not in the order of their numbers."""
    meshes = [one.mesh for one in shardings if hasattr(getattr(one, "mesh", None), "devices")]
    found = [_orders[order] for order in map(_device_order, meshes) if order in _orders]
    return found[0] if len(found) == 1 else []


def _other_axis_sizes(frame: Any, sizes: dict[str, int]) -> list[Any] | None:
    """Return other visible settings of these axes with different sizes."""
    for name, value in [*frame.f_locals.items(), *(frame.f_back.f_locals.items() if frame.f_back else ())]:
        known = value if isinstance(value, dict) else getattr(value, "__dict__", None)
        if not isinstance(known, dict) or not all(type(known.get(axis)) is int for axis in sizes):
            continue
        told = {axis: int(known[axis]) for axis in sizes}
        if told != sizes and sorted(told.values()) == sorted(sizes.values()):
            return [name, [list(one) for one in told.items()]]
    return None
