"""Mesh axes by name, from the device groups and shardings of a compiled program.

Devices are numbered by their position in the mesh. Groups come in three spellings, all of them in one
module: `{{0,2},{1,3}}`, `[2,4]<=[4,2]T(1,0)` and `mesh['axis_0'=4,'axis_1'=2] {'axis_0'}`, whose names are
the compiler's own unless they happen to be the user's.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\]")
_AXIS = re.compile(r"'?([^'={},\s:]+)'?=(\d+)")
_REFERENCE = re.compile(r"'?([^'={},\s:?]+)'?(?::\((\d+)\)(\d+))?")


class Axes:
    """Names the axes of one mesh (sizes in order)."""

    def __init__(self, mesh: Mapping[str, int]) -> None:
        self.mesh = dict(mesh)
        self.devices = math.prod(mesh.values())
        self._known: dict[str, tuple[tuple[str, ...], int]] = {}
        self._splits: dict[str, tuple[tuple[str, ...], ...] | None] = {}

    def varying_axes(self, groups: Iterable[Sequence[int]]) -> tuple[str, ...]:
        """The axes along which the devices of a group differ, in any of the groups."""
        seen: set[str] = set()
        for group in groups:
            if any(not 0 <= device < self.devices for device in group):
                return ()
            stride = self.devices
            for name, size in self.mesh.items():
                stride //= size
                if name not in seen and size > 1:
                    first = group[0] // stride % size
                    if any(device // stride % size != first for device in group):
                        seen.add(name)
        return tuple(name for name in self.mesh if name in seen)

    def _slowest_first(self, names: tuple[str, ...], line: Sequence[int]) -> tuple[str, ...]:
        """Axes that split one dimension in the order of a spec: along its parts the last changes with each."""
        strides, stride = {}, self.devices
        for name, size in self.mesh.items():
            stride //= size
            strides[name] = stride

        def first_position(name: str) -> int:
            places = [device // strides[name] % self.mesh[name] for device in line]
            return next((at for at, place in enumerate(places) if place != places[0]), len(line))

        return tuple(sorted(names, key=first_position, reverse=True)) if len(names) > 1 else names

    def axes_of_groups(self, text: str) -> tuple[tuple[str, ...], int]:
        """The axes of `replica_groups`, and how many devices are in one group. No groups: all devices."""
        if text not in self._known:
            groups = expand_groups(text) or [list(range(self.devices))]
            self._known[text] = self.varying_axes(groups), max(map(len, groups))
        return self._known[text]

    def axes_of_pairs(self, text: str) -> tuple[tuple[str, ...], int]:
        """The axes of `source_target_pairs`, and how many devices are in the largest ring or chain."""
        if text not in self._known:
            pairs = [(int(left), int(right)) for left, right in re.findall(r"\{(\d+),(\d+)\}", text)]
            self._known[text] = self.varying_axes(pairs), _largest_group(pairs)
        return self._known[text]

    def axes_of_sharding(self, text: str, rank: int) -> tuple[tuple[str, ...], ...] | None:
        """The axes each dimension of an array is split over, from a `sharding=`; None where they cannot be
        told (a manual one, one device, or a tuple of them).
        """
        key = f"{rank} {text}"
        if key not in self._splits:
            self._splits[key] = self._split_axes(text, rank)
        return self._splits[key]

    def _split_axes(self, text: str, rank: int) -> tuple[tuple[str, ...], ...] | None:
        body = text.strip("{}")
        if text.startswith("{{") or any(word in text for word in ("manual", "maximal", "unreduced")):
            return None
        if body.startswith("replicated") or body.endswith("replicated"):
            return ((),) * rank
        tiles = parse_tiling(text)
        if tiles is None or math.prod(tiles[0]) != self.devices or len(tiles[0]) < rank:
            return None
        sizes, order = tiles
        splits = []
        for dim in range(rank):
            stride = math.prod(sizes[dim + 1 :])
            block = stride * sizes[dim]
            lines = [
                order[at : start + block : stride]
                for start in range(0, self.devices, block)
                for at in range(start, start + stride)
            ]
            splits.append(self._slowest_first(self.varying_axes(lines), lines[0]))
        return tuple(splits)


def _permuted_order(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """0, 1, 2, ... laid out in `dims`, then transposed to `order`, flattened."""
    strides = [math.prod(dims[at + 1 :]) for at in range(len(dims))]
    ranges = [range(0, dims[at] * strides[at], strides[at]) for at in order]
    return [sum(steps) for steps in itertools.product(*ranges)]


def _parse_numbers(text: str | None) -> list[int]:
    return [int(number) for number in (text or "").split(",") if number]


def _parse_iota(match: re.Match[str]) -> tuple[list[int], list[int]]:
    shape, source = _parse_numbers(match[1]), _parse_numbers(match[2])
    order = _parse_numbers(match[3]) or list(range(len(source)))
    return shape, _permuted_order(source, order)


def _parse_mesh(text: str) -> tuple[dict[str, int], list[int], str] | None:
    """The mesh a text begins with: its axes, its devices in order, and what follows it."""
    match = _MESH.search(text)
    if match is None:
        return None
    sizes = {name: int(size) for name, size in _AXIS.findall(match[1])}
    rest = text[match.end() :]
    devices = list(range(math.prod(sizes.values())))
    if (listed := re.match(r", device_ids=\(([^)]*(?:T\([\d,]*\))?)\)", rest)) is not None:
        iota = _IOTA.search(listed[1])
        devices = _parse_iota(iota)[1] if iota else [int(number) for number in re.findall(r"\d+", listed[1])]
        # jax 0.10 leaves out what it counts to: `([4,2]T(1,0))`.
        if iota is None and (turned := re.match(r"\[([\d,]+)\]T\(([\d,]+)", listed[1])) is not None:
            devices = _permuted_order(_parse_numbers(turned[1]), _parse_numbers(turned[2]))
        rest = rest[listed.end() :]
    return sizes, devices, rest


def _axis_digits(sizes: Mapping[str, int], names: str) -> list[tuple[int, int]]:
    """Stride and size of each axis, or part of one, that `names` refers to."""
    strides, stride = {}, math.prod(sizes.values())
    for name, size in sizes.items():
        stride //= size
        strides[name] = stride
    found = []
    for name, before, part in _REFERENCE.findall(names):
        if name in sizes:
            size = int(part) if part else sizes[name]
            found.append((strides[name] * (sizes[name] // (int(before or 1) * size)), size))
    return found


def expand_groups(text: str) -> list[list[int]]:
    """The device groups of a `replica_groups`, however it is spelled; empty for none."""
    mesh = _parse_mesh(text)
    if mesh is not None:
        sizes, devices, rest = mesh
        digits = _axis_digits(sizes, rest)
        members = [sum(steps) for steps in itertools.product(*(range(0, s * n, s) for s, n in digits))]
        inside = set(members)
        starts = [
            at for at in range(len(devices)) if all(at // stride % size == 0 for stride, size in digits)
        ]
        return [[devices[start + member] for member in sorted(inside)] for start in starts]
    iota = _IOTA.search(text)
    if iota is not None:
        (count, size), devices = _parse_iota(iota)
        return [devices[at * size : (at + 1) * size] for at in range(count)]
    groups = re.findall(r"\{([\d,]+)\}", text)
    return [[int(device) for device in group.split(",")] for group in groups]


def parse_tiling(text: str) -> tuple[list[int], list[int]] | None:
    """How a `sharding=` cuts an array: pieces along each dimension (further ones are copies), and the
    devices in that order. None for one that names no tiles.
    """
    mesh = _parse_mesh(text)
    if mesh is not None:
        sizes, devices, rest = mesh
        opened = rest.find("[")
        if opened < 0:
            return None
        dims = [
            _axis_digits(sizes, part)
            for part in re.findall(r"\{([^}]*)\}", rest[opened : rest.find("]", opened)])
        ]
        used = [digit for dim in dims for digit in dim]
        members = list(itertools.product(*(range(0, s * n, s) for s, n in used)))
        left = [at for at in range(len(devices)) if all(at // stride % size == 0 for stride, size in used)]
        order = [devices[sum(steps) + start] for steps in members for start in left]
        pieces = [math.prod(size for _, size in dim) for dim in dims]
        return [*pieces, len(left)], order
    match = re.search(r"devices=\[([\d,]+)\]", text)
    if match is None:
        return None
    iota = _IOTA.search(text)
    if iota is not None:
        return _parse_iota(iota)
    listed = re.match(r"[\d,]+", text[match.end() :])
    return (_parse_numbers(match[1]), _parse_numbers(listed[0])) if listed else None


def _largest_group(pairs: Sequence[tuple[int, int]]) -> int:
    """The most devices that pairs connect."""
    group: dict[int, int] = {}

    def find_group(device: int) -> int:
        while group.setdefault(device, device) != device:
            device = group[device]
        return device

    for left, right in pairs:
        group[find_group(left)] = find_group(right)
    counts: dict[int, int] = {}
    for device in list(group):
        counts[find_group(device)] = counts.get(find_group(device), 0) + 1
    return max(counts.values(), default=0)
