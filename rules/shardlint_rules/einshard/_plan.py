"""One mesh for all expressions of a file, and the PartitionSpec that each becomes on it."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.libraries.einshard import Expression
from shardlint.source.lazy import dataclass

_REST = 0  # the size of the one element that takes what the counts leave over


@dataclass(frozen=True)
class SharedMesh:
    """Sizes of the mesh's axes in order; 0 is what the others leave of all devices."""

    sizes: tuple[int, ...]

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Their names."""
        return (
            ("devices",) if len(self.sizes) == 1 else tuple(f"d{index}" for index in range(len(self.sizes)))
        )

    def shape_code(self, count: str) -> str:
        """Its sizes as code; `count` is the code for the number of devices."""
        fixed = 1
        for size in self.sizes:
            fixed *= size or 1
        rest = count if fixed == 1 else f"{count} // {fixed}"
        return _format_tuple([str(size) if size else rest for size in self.sizes])

    def names_code(self) -> str:
        """Its axis names as code."""
        return _format_tuple([f'"{name}"' for name in self.axis_names])

    def entries_code(self, expression: Expression) -> list[str | None]:
        """Return the axes of each dimension as code; None for the ellipsis. Unsharded dimensions at the end are left
        out.
        """
        taken = [element for element in expression.right if element.is_splitting]
        whole = len(_split_sizes(expression)) == 1
        found: list[str | None] = []
        for element in expression.left:
            if element.name is None:
                found.append(None)
                continue
            at = expression.right_element_of(element.name)
            if at is None or at not in taken:
                found.append("None")
            elif whole:
                found.append(_format_spec_entry(self.axis_names))
            else:
                found.append(_format_spec_entry(self.axis_names[taken.index(at) : taken.index(at) + 1]))
        while found and found[-1] in ("None", None):
            found.pop()
        return found


def shared_mesh(expressions: Iterable[Expression]) -> SharedMesh | str:
    """The mesh that serves all expressions, or why there is none."""
    several: list[tuple[int, ...]] = []
    for given in expressions:
        if given.star_count > 1:
            return (
                "with two stars the mesh sizes are a root of the device count, known only at run time"
            )
        sizes = _split_sizes(given)
        if sizes != (_REST,) and sizes not in several:
            several.append(sizes)
    if len(several) > 1:
        return "the expressions of this file need meshes of different shapes"
    return SharedMesh(several[0] if several else (_REST,))


def _split_sizes(expression: Expression) -> tuple[int, ...]:
    return tuple(_REST if element.starred else element.count for element in expression.right if element.is_splitting)


def _format_spec_entry(axes: tuple[str, ...]) -> str:
    names = [f'"{axis}"' for axis in axes]
    return names[0] if len(names) == 1 else _format_tuple(names)


def _format_tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
