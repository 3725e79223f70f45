"""The layout of an array: its shape, and where its parts lie, as far as the text tells.

A part that is not known is None. Layouts are immutable and compare by value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Literal

from shardlint.source.lazy import dataclass

Axes = tuple[str, ...]
"""The mesh axes that split one dimension, the outermost first; empty where it is whole."""
Spec = tuple[Axes | None, ...]
"""The axes of each dimension; None for a dimension of which nothing is known."""


@dataclass(frozen=True)
class Symbol:
    """A size that is not known, and is the same wherever it has this name: `jax.device_count()`."""

    name: str


Size = int | Symbol | None
Shape = tuple[Size, ...]
AxisType = Literal["auto", "explicit", "manual"]

__all__ = ["Axes", "AxisType", "Layout", "Mesh", "Shape", "Size", "Spec", "Symbol", "count_entries"]


def count_entries(shape: Shape | None) -> int | None:
    """How many entries an array of a shape has; None where a size is not known."""
    sizes = [size for size in shape or () if isinstance(size, int)]
    return prod(sizes) if shape is not None and len(sizes) == len(shape) else None


@dataclass(frozen=True)
class Mesh:
    """A mesh. `sizes` and `types` have one entry for each axis; None where it is not known.

    `devices` says which devices it has, and in which order, in a form that compares: None where it is not known.
    """

    names: tuple[str, ...]
    sizes: Shape
    types: tuple[AxisType | None, ...]
    devices: tuple[int, ...] | str | None = None
    line: int = 0

    def size(self, axes: Iterable[str]) -> Size:
        """How many parts the axes make together; None where a size is not known, or an axis is not of the mesh."""
        sizes = [self.sizes[self.names.index(axis)] if axis in self.names else None for axis in axes]
        if len(sizes) == 1:
            return sizes[0]
        return count_entries(tuple(sizes))

    def type_of(self, axis: str) -> AxisType | None:
        """The type of an axis; None where it is not known."""
        return self.types[self.names.index(axis)] if axis in self.names else None

    @property
    def explicit(self) -> bool:
        """Whether all its axes are Explicit."""
        return bool(self.types) and all(one == "explicit" for one in self.types)

    @property
    def automatic(self) -> bool:
        """Whether all its axes are Auto."""
        return all(one == "auto" for one in self.types)

    @property
    def count(self) -> Size:
        """The number of its devices."""
        return self.size(self.names)

    def __str__(self) -> str:
        named = zip(self.names, self.sizes, strict=True)
        return ", ".join(f"{name}={size}" if isinstance(size, int) else name for name, size in named)


@dataclass(frozen=True)
class Layout:
    """What is known of an array.

    shape: the size of each dimension.
    spec: which axes of `mesh` split each dimension. Within jit it is known of Explicit axes alone.
    device: the one device to which the array is committed, in words.
    committed: whether the array must stay where it is.
    memory: the memory kind.
    host: whether it is an array of numpy.
    varying: the manual axes along which its values differ.
    literal: whether it is a number of Python, which takes any memory, device and type.
    made: the line that placed it.
    """

    shape: Shape | None = None
    dtype: str | None = None
    mesh: Mesh | None = None
    spec: Spec | None = None
    device: str | None = None
    committed: bool | None = None
    memory: str | None = None
    host: bool | None = None
    varying: frozenset[str] | None = None
    literal: bool = False
    made: int = 0

    @property
    def rank(self) -> int | None:
        """The number of dimensions."""
        return None if self.shape is None else len(self.shape)

    @property
    def explicit(self) -> bool:
        """Whether it is on a mesh with Explicit axes, so that its spec is part of its type."""
        return self.mesh is not None and self.mesh.explicit

    @property
    def typed_spec(self) -> Spec | None:
        """The spec that is part of its type; None where it has none, or it is not known."""
        return self.spec if self.explicit else None

    def shaped(self, shape: Shape | None, spec: Spec | None = None) -> Layout:
        """The same array with another shape and spec."""
        return replace(self, shape=shape, spec=spec, literal=False)

    def __str__(self) -> str:
        """In the words of jax: `float32[64@data, 128]`."""
        if self.shape is None:
            return "an array of unknown shape"
        parts = []
        for place, size in enumerate(self.shape):
            axes = self.spec[place] if self.spec is not None and place < len(self.spec) else ()
            shown = "?" if size is None else size.name if isinstance(size, Symbol) else str(size)
            if axes:
                shown += f"@{axes[0]}" if len(axes) == 1 else f"@({', '.join(axes)})"
            parts.append(shown)
        return f"{self.dtype or 'array'}[{', '.join(parts)}]"
