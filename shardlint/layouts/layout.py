"""The layout of an array: its shape, and where its parts lie, as far as the text tells.

A part that is not known is None. Layouts are immutable and compare by value.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field, replace
from math import prod
from typing import Literal

from shardlint.model.values import Place
from shardlint.source.lazy import dataclass

Axes = tuple[str, ...]
"""The mesh axes that split one dimension, the outermost first; empty where it is whole."""
Spec = tuple[Axes | None, ...]
"""The axes of each dimension; None for a dimension of which nothing is known."""


@dataclass(frozen=True)
class Symbol:
    """A multiple of a size that is not known, and is the same wherever it has this name: `4*jax.device_count()`."""

    name: str
    factor: int = 1

    def __str__(self) -> str:
        return self.name if self.factor == 1 else f"{self.factor}*{self.name}"


Size = int | Symbol | None
Shape = tuple[Size, ...]
AxisType = Literal["auto", "explicit", "manual"]
Order = tuple[int, ...] | Literal["all", "arranged"]
Pieces = tuple[Axes, ...]
"""The manual axes that surely split each dimension, counted from the first one."""
NO_PIECES: Pieces = ()

__all__ = [
    "NO_PIECES",
    "RAW_KEY",
    "AutoConstraint",
    "Axes",
    "AxisType",
    "Draw",
    "Figure",
    "Layout",
    "Mesh",
    "Pieces",
    "Rows",
    "Shape",
    "Size",
    "Spec",
    "Statistic",
    "Symbol",
    "are_surely_different",
    "count_entries",
    "divide_size",
    "multiply_size",
]  # fmt: skip


def count_entries(shape: Shape | None) -> Size:
    """How many entries an array of a shape has; None where a size is not known, or two of them are symbols."""
    symbols = [size for size in shape or () if isinstance(size, Symbol)]
    if shape is None or None in shape or len(symbols) > 1:
        return None
    count = prod(size for size in shape if isinstance(size, int))
    return multiply_size(symbols[0], count) if symbols else count


def multiply_size(one: Size, two: Size) -> Size:
    """The product of two sizes."""
    if isinstance(one, Symbol) and isinstance(two, int):
        return replace(one, factor=one.factor * two) if two else 0
    if isinstance(one, int) and isinstance(two, Symbol):
        return multiply_size(two, one)
    return one * two if isinstance(one, int) and isinstance(two, int) else None


def divide_size(one: Size, two: Size) -> Size:
    """How often a size goes into another one; None where that is not known, or it leaves a rest."""
    if isinstance(one, Symbol) and isinstance(two, Symbol) and one.name == two.name:
        one, two = one.factor, two.factor
    if isinstance(one, Symbol) and isinstance(two, int):
        return replace(one, factor=one.factor // two) if two and one.factor % two == 0 else None
    return one // two if isinstance(one, int) and isinstance(two, int) and two and one % two == 0 else None


def are_surely_different(one: Size, two: Size) -> bool:
    """Return whether two nonzero sizes cannot be equal."""
    if isinstance(one, Symbol) and isinstance(two, Symbol):
        return one.name == two.name and one.factor != two.factor
    return isinstance(one, int) and isinstance(two, int) and one != two


@dataclass(frozen=True)
class Mesh:
    """A mesh. `sizes` and `types` have one entry for each axis; None where it is not known.

    `devices` are its devices by their numbers in `jax.devices()`, in the order of the mesh: "all" where it has all of
    them as they are listed, "arranged" where jax orders them, None where that is not known.
    """

    names: tuple[str, ...]
    sizes: Shape
    types: tuple[AxisType | None, ...]
    devices: Order | None = None
    line: int = 0
    partial: bool = False
    """Whether it is the Explicit part of a mesh that has other axes too."""
    by_default: bool = field(default=False, compare=False)
    """Whether its types are those that jax gives a mesh for which none are written."""

    def size_of_axes(self, axes: Iterable[str]) -> Size:
        """How many parts the axes make together; None where a size is not known, or an axis is not of the mesh."""
        sizes = [self.sizes[self.names.index(axis)] if axis in self.names else None for axis in axes]
        if len(sizes) == 1:
            return sizes[0]
        return count_entries(tuple(sizes))

    def type_of(self, axis: str) -> AxisType | None:
        """The type of an axis; None where it is not known."""
        return self.types[self.names.index(axis)] if axis in self.names else None

    @property
    def is_explicit(self) -> bool:
        """True if all its axes are Explicit."""
        return bool(self.types) and all(one == "explicit" for one in self.types)

    @property
    def is_automatic(self) -> bool:
        """True if all its axes are Auto."""
        return all(one == "auto" for one in self.types)

    @property
    def is_mixed(self) -> bool:
        """True if only some of its axes are Explicit."""
        return "explicit" in self.types and not self.is_explicit

    @property
    def explicit_part(self) -> Mesh:
        """The mesh of its Explicit axes: those that a traced function sees."""
        kept = [place for place, one in enumerate(self.types) if one == "explicit"]
        types = tuple(self.types[place] for place in kept)
        names = tuple(self.names[place] for place in kept)
        return Mesh(names, tuple(self.sizes[place] for place in kept), types, None, self.line, partial=True)

    @property
    def device_count(self) -> Size:
        """The number of its devices."""
        return self.size_of_axes(self.names)

    def __str__(self) -> str:
        named = zip(self.names, self.sizes, strict=True)
        return ", ".join(f"{name}={size}" if isinstance(size, int) else name for name, size in named)


@dataclass(frozen=True)
class Figure:
    """Kind of per-device quantity that an array of a mapped body holds, by which contracts decide what is allowed.

    kind: "copies" of a sum over devices that had equal values; "sum" of a sum or mean over devices; "gradient" of one
        that each device took of its own data; "term" of parts that differ to which each device added the same array,
        and "counted" of a sum over devices of these; "unseen" of what code that is not in sight made of data that
        differ; "repeated" of an array of equal rows, one for each device.
    axes: the manual axes of which it is.
    place: where it was taken.
    """

    kind: Literal["copies", "sum", "gradient", "term", "counted", "unseen", "repeated"]
    axes: frozenset[str]
    place: Hashable


RAW_KEY = "raw key"
"""The dtype of keys of random numbers with a last dimension for their bits, as `jax.random.PRNGKey` makes them."""
_WRONG = frozenset(("means", "gradients", "by-all", "by-local", "own-sum", "own-count"))


@dataclass(frozen=True)
class Statistic:
    """Statistic that an array of a mapped body holds, computed by each device from its own data.

    kind: "mean", "sum", "spread", "extreme" or "norm" of data that differ; "masked" for a quotient of two sums,
        "curved" for what is no longer linear in a mean; "part" of what may be one term of a sum over devices,
        "scattered" of what psum_scatter left; "moved" of data minus their own extreme, "exponential" of the
        exponentials of these and their sums. Of what devices made together: "total" of their sums, "added" of
        anything else, "count" of such a sum with a number added to it.
        Of what is wrong unless it is divided or added up again: "means" and "gradients" that were added, "by-all" and
        "by-local" for a sum divided by the number of other devices, "own-sum" and "own-count".
    axes: the manual axes along which the data differ, or over which they were added.
    place: where it was taken, or where it came to be wrong; calls: those that lead there.
    of: the function that took it.
    along: the axes that split the dimension along which it was taken.
    last: whether that is the last dimension.
    is_root: whether a root was taken of it.
    """

    kind: str
    axes: frozenset[str]
    place: Hashable
    of: str = ""
    along: frozenset[str] = frozenset()
    last: bool = False
    is_root: bool = False
    calls: tuple[Hashable, ...] = field(default=(), compare=False)

    @property
    def is_wrong(self) -> bool:
        """True if it is wrong unless it is divided or added up again."""
        return self.kind in _WRONG

    @property
    def is_carried(self) -> bool:
        """True if all that is computed of it has this mark."""
        return self.kind in _WRONG or self.kind == "part"


@dataclass(frozen=True)
class Rows:
    """The entries of an array along its first dimension, one for each device, as pmap and replicate make them.

    kind: "equal" of copies; "reduced" of copies that a collective made equal; "differ" of what each device computed of
        its own data; "any" where that is not known; "taken" of one entry that was taken out of them, so that the array
        has no such dimension any more.
    place: the call that made them, or took one.
    """

    kind: Literal["equal", "reduced", "differ", "any", "taken"]
    place: Hashable


@dataclass(frozen=True)
class Draw:
    """Random numbers that were drawn in a mapped body.

    place: where they were drawn, or where the key of all devices was copied to them.
    shaped: the axes of the shards whose shape they were given.
    is_direct: whether they still have the shape in which they were drawn.
    """

    place: Place
    shaped: frozenset[str] = frozenset()
    is_direct: bool = True


@dataclass(frozen=True)
class AutoConstraint:
    """The sharding over Auto axes that a constraint gave an array, and how many jits and scans were around."""

    mesh: Mesh
    spec: Spec
    depth: int


@dataclass(frozen=True)
class Layout:
    """Properties of an array: shape, type, placement, and history where contracts need it.

    shape: the size of each dimension.
    spec: which axes of `mesh` split each dimension. Within jit it is known of Explicit axes alone.
    device: the one device to which the array is committed, in words.
    committed: whether the array must stay where it is.
    memory: the memory kind.
    host: whether it is an array of numpy.
    varying: the manual axes along which its values may differ, as jax types them.
    equal: the axes of `varying` along which its values are equal in fact, as those of a gather are.
    differs: the manual axes along which its values surely differ, as the parts of one array do.
    exchanged: the manual axes along which devices handed each other what it is made of, and may have come to be equal.
    reduced: the manual axes over which a collective reduced or gathered what it is made of.
    figure: of an array of a mapped body, what it is a figure of.
    rows: of an array with one entry for each device, what these are.
    stacked: of shards that were gathered along a new dimension, where.
    statistic: of an array of a mapped body, what it is a statistic of.
    pieces: of an array of a mapped body, the manual axes that split its dimensions.
    literal: whether it is a number of Python, which takes any memory, device and type.
    weak: whether its type is that of such a number, as of `jnp.full(shape, 2.0)`.
    made: the line that placed it.
    summed: of a gradient, the manual axes over which jax summed it, and where it was taken.
    built: of an array that depends on no other one, True where a jit makes it, "filled" if all entries are equal; and
        behind a jit without arguments the call of that.
    drawn: of random numbers made in a mapped body, how they were drawn.
    unplaced: of a parameter that lies whole, where it was taken from a box that names axes for it.
    sources: the arguments of jits on whose numbers it depends, as far as that is followed; negative where it may.
    asked: of an array of traced code that nothing has changed since, the constraint that gave it.
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
    weak: bool | None = False
    made: int = 0
    summed: tuple[frozenset[str], Hashable] | None = None
    built: Hashable = None
    drawn: Draw | None = None
    unplaced: Hashable = None
    sources: frozenset[int] = frozenset()
    asked: AutoConstraint | None = None
    equal: frozenset[str] = frozenset()
    differs: frozenset[str] = frozenset()
    exchanged: frozenset[str] = frozenset()
    reduced: frozenset[str] = frozenset()
    figure: Figure | None = None
    rows: Rows | None = None
    stacked: Hashable = None
    statistic: Statistic | None = None
    pieces: Pieces = NO_PIECES

    @property
    def differing_axes(self) -> frozenset[str] | None:
        """The manual axes along which its values may differ in fact; None where that is not known."""
        return None if self.varying is None else self.varying - self.equal

    @property
    def has_rows(self) -> bool:
        """True if its first dimension has one entry for each device."""
        return self.rows is not None and self.rows.kind != "taken"

    @property
    def is_key(self) -> bool:
        """True if it holds keys of random numbers."""
        return self.dtype in ("key", RAW_KEY)

    @property
    def rank(self) -> int | None:
        """The number of dimensions."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_new(self) -> bool:
        """True if a jit that still runs makes it of nothing."""
        return self.built in (True, "filled")

    @property
    def is_explicit(self) -> bool:
        """True if it is on a mesh with Explicit axes, so that its spec is part of its type."""
        return self.mesh is not None and self.mesh.is_explicit

    @property
    def typed_spec(self) -> Spec | None:
        """The spec that is part of its type; None where it has none, or it is not known."""
        return self.spec if self.is_explicit else None

    def varying_like(self, other: Layout) -> Layout:
        """The same array, equal and differing along manual axes as another one does."""
        return replace(
            self, varying=other.varying, equal=other.equal, differs=other.differs, exchanged=other.exchanged,
            reduced=other.reduced, statistic=other.statistic,
        )  # fmt: skip

    def with_shape(self, shape: Shape | None, spec: Spec | None = None) -> Layout:
        """The same array with another shape and spec."""
        return replace(self, shape=shape, spec=spec, literal=False, rows=None, pieces=NO_PIECES, asked=None)

    def __str__(self) -> str:
        """In the words of jax: `float32[64@data, 128]`."""
        return self.format_layout()

    def format_layout(self, names: Sequence[str] = ()) -> str:
        """The same, with a name for each dimension if there are some: `float32[batch=64@data, embed=128]`."""
        if self.shape is None:
            return "an array of unknown shape"
        parts = []
        for place, size in enumerate(self.shape):
            axes = self.spec[place] if self.spec is not None and place < len(self.spec) else ()
            shown = f"{names[place]}=" if names else ""
            shown += "?" if size is None else str(size)
            if axes:
                shown += f"@{axes[0]}" if len(axes) == 1 else f"@({', '.join(axes)})"
            parts.append(shown)
        return f"{self.dtype or 'array'}[{', '.join(parts)}]"
