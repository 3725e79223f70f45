"""`P`, a partition spec that needs no jax: what a user writes, a proof.toml holds and a report shows."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping

Entry = str | None | tuple[str, ...]


class P:
    """How the dimensions of an array lie on the axes of a mesh, one entry a dimension.

    An entry is a mesh axis, a tuple of axes, or None (not sharded); missing trailing entries are
    None, so `P()` is replicated. Wherever shardlint takes a `P` it takes a
    `jax.sharding.PartitionSpec` too.

    Raises `TypeError` for any other entry and `ValueError` for an axis used twice.
    """

    __slots__ = ("entries",)

    def __init__(self, *entries: Entry) -> None:
        seen: set[str] = set()
        for entry in entries:
            names = (entry,) if isinstance(entry, str) else entry
            if names is not None and not (
                isinstance(names, tuple) and all(isinstance(name, str) for name in names)
            ):
                raise TypeError(
                    f"an entry of P must be an axis name, a tuple of axis names or None, not {entry!r}"
                )
            for name in names or ():
                if name in seen:
                    raise ValueError(f"axis {name!r} is used twice in P{entries!r}")
                seen.add(name)
        self.entries: tuple[Entry, ...] = entries

    @classmethod
    def make_spec(cls, value: object) -> P:
        """A `P` from a P, a jax PartitionSpec, a NamedSharding (its spec) or None (replicated)."""
        if isinstance(value, P):
            return value
        if value is None:
            return cls()
        if type(value).__name__ == "NamedSharding":
            value = value.spec  # type: ignore[attr-defined]  # duck-typed: this module never imports jax
        # jax has called its class PartitionSpec (in jax._src, then jax.sharding) and, since 0.9, P.
        kind = type(value)
        if kind.__name__ not in ("PartitionSpec", "P") or not kind.__module__.startswith("jax"):
            raise TypeError(f"expected a spec such as P('data', None), not {value!r}")
        entries = [tuple(entry) if isinstance(entry, list) else entry for entry in value]  # type: ignore[attr-defined]
        return cls(*entries)

    @classmethod
    def parse_spec(cls, text: str) -> P:
        """A `P` from its text, `P('data', ('x', 'y'), None)`; the text is read, never evaluated.

        Raises `ValueError` for anything else.
        """
        wrong = ValueError(f"{text!r} is not a spec such as P('data', None)")
        try:
            call = ast.parse(text.strip(), mode="eval").body
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.keywords):
                raise wrong
            if call.func.id not in ("P", "PartitionSpec"):
                raise wrong
            return cls(*(ast.literal_eval(entry) for entry in call.args))
        except (SyntaxError, TypeError):
            raise wrong from None

    def axis_names(self) -> list[str]:
        """The mesh axes it names, in order."""
        return [name for names in self.axes_by_dimension() for name in names]

    def axes_by_dimension(self) -> Iterator[tuple[str, ...]]:
        """The axes of each entry; an empty tuple where a dimension is not sharded."""
        for entry in self.entries:
            yield () if entry is None else (entry,) if isinstance(entry, str) else entry

    def explain_misfit(self, shape: tuple[int, ...], mesh: Mapping[str, int]) -> str | None:
        """Why an array of `shape` cannot be split evenly this way over `mesh`, or None where it can.

        Raises `ValueError` where no size would help: an axis the mesh lacks, or more entries than dimensions.
        """
        unknown = [axis for axis in self.axis_names() if axis not in mesh]
        if unknown:
            raise ValueError(f"mesh {sizes_text(mesh)} has no axis {unknown[0]!r}, which {self} names")
        if len(self.entries) > len(shape):
            raise ValueError(
                f"{self} has {len(self.entries)} entries, but the array has {len(shape)} dimensions"
            )
        for index, names in enumerate(self.axes_by_dimension()):
            ways = math.prod(mesh[name] for name in names)
            if shape[index] % ways:
                return (
                    f"dimension {index} of size {shape[index]} is not divisible by {'*'.join(names)} = {ways}"
                )
        return None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, P) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"P({', '.join(repr(entry) for entry in self.entries)})"


def sizes_text(mesh: Mapping[str, int]) -> str:
    """A mesh as a person and the command line write it: `data=4,model=2`."""
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())
