"""Pictures of how an array lies over a mesh: the array cut in parts, and each device coloured by the part it holds.

Devices of one colour hold the same part. Arrays of one spec share a picture, so a report has few of them. Meshes of
one to three axes are drawn; of a long axis the first devices and the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from shardlint.verify.facts import Array
from shardlint.verify.html.page import Child, Html, join_html, render_code, render_element
from shardlint.verify.spec import P
from shardlint.verify.texts import size_text

Axes = tuple[tuple[str, ...], ...]
Part = tuple[int, ...]

_HEIGHT = 24
_MOST = {1: 12, 2: 8, 3: 4}
ONE_DEVICE = "one device"


class Layouts:
    """The pictures of one mesh. `prefix` makes their ids unlike those of other meshes on the page.

    `small` says whether every array has a small picture too; of many arrays they would make the page slow.
    """

    def __init__(self, mesh: Mapping[str, int], prefix: str, small: bool = True) -> None:
        self.mesh = dict(mesh)
        self.prefix = prefix
        self.small = small
        self._seen: dict[Axes | None, list[Array]] = {}
        self._ids: dict[Axes | None, str] = {}

    def add_array(self, array: Array) -> Html:
        """Count an array in, and give the link to its picture; words where nothing can be drawn."""
        key = self._layout_key(array)
        if key is None and array.spec != ONE_DEVICE:
            return render_element(
                "span", "not drawn", class_="quiet", title="its sharding is not a spec over this mesh"
            )
        self._seen.setdefault(key, []).append(array)
        name = self._ids.setdefault(key, f"{self.prefix}-lay{len(self._ids)}")
        letter = self._letter_of_layout(key)
        if not self.small:
            return render_element("a", letter, href=f"#{name}")
        width, height = Grid(self.mesh, key).picture_size()
        picture = render_element("use", href=f"#{name}-cells")
        drawn = render_element("svg", picture, class_="thumb", viewbox=f"0 0 {width} {height}", aria_hidden="true")
        return render_element("a", render_element("span", letter), drawn, href=f"#{name}", class_="to-layout")

    def _letter_of_layout(self, key: Axes | None) -> str:
        index = list(self._ids).index(key)
        return chr(ord("A") + index % 26) + (str(index // 26) if index >= 26 else "")

    def render_figures(self) -> Html:
        """Every picture, those of the most bytes first."""
        found = sorted(self._seen.items(), key=lambda item: -sum(array.bytes for array in item[1]))
        return render_element("div", [self._draw_figure(key, arrays) for key, arrays in found], class_="layouts")

    def _layout_key(self, array: Array) -> Axes | None:
        """The axes that cut each dimension, without those of size 1 and trailing empty ones."""
        if array.axes is None or any(name not in self.mesh for names in array.axes for name in names):
            return None
        axes = [tuple(name for name in names if self.mesh[name] > 1) for names in array.axes]
        while axes and not axes[-1]:
            axes.pop()
        return tuple(axes)

    def _draw_figure(self, key: Axes | None, arrays: Sequence[Array]) -> Html:
        grid = Grid(self.mesh, key)
        spec = ONE_DEVICE if key is None else _spec_text(key)
        width, height = grid.picture_size()
        name = self._ids[key]
        drawn = render_element(
            "svg",
            render_element("g", list(grid.render_devices()), id=f"{name}-cells"),
            list(grid.render_numbers()),
            list(grid.render_labels()),
            role="img",
            aria_label=f"{spec} on this mesh: {grid.describe_picture()}",
            viewbox=f"-{_LEFT} -{_TOP} {width + _LEFT} {height + _TOP}",
            width=width + _LEFT,
            height=height + _TOP,
        )
        largest = max(arrays, key=lambda array: array.bytes_whole)
        example = join_html([render_code(largest.where), f" {largest.array}: {size_text(largest.bytes)} per device"])
        others: Child = None
        if len(arrays) > 1:
            others = f", and {len(arrays) - 1} other array{'s' if len(arrays) > 2 else ''}"
        return render_element(
            "figure",
            render_element(
                "figcaption",
                render_element("strong", f"{self._letter_of_layout(key)} ", render_code(spec)),
                f" {grid.describe_picture()}",
            ),
            grid.render_array(),
            drawn,
            render_element("div", example, others, class_="quiet"),
            class_="layout",
            id=name,
        )


_LEFT, _TOP = 74, 32


class Grid:
    """A mesh as rows and columns of devices, and side by side where it has a third axis."""

    def __init__(self, mesh: Mapping[str, int], axes: Axes | None) -> None:
        self.mesh, self.axes = mesh, axes
        used = [name for names in axes or () for name in names]
        real = [name for name, size in mesh.items() if size > 1]
        # More than three axes cannot be drawn: those that cut the array are, in the mesh's order.
        kept = set(sorted(real, key=lambda name: name not in used)[:3])
        self.drawn = [name for name in real if name in kept] or list(mesh)[:1]
        self.left_out = [name for name in real if name not in kept]
        most = _MOST[len(self.drawn)]
        shown = [_sample_indexes(mesh[name], most) for name in self.drawn]
        one: list[int | None] = [0]
        # One axis lies along a row; of two the first goes down; of three the first goes from panel to panel.
        self.panels, self.rows, self.columns = [one] * (3 - len(shown)) + shown
        self.counts = [math.prod(mesh[name] for name in names) for names in axes or ()]
        self.split = [index for index, count in enumerate(self.counts) if count > 1]
        longest = max((len(",".join(str(self.counts[index] - 1) for index in self.split)), 1))
        self.width = max(26, 7 * longest + 8)

    def picture_size(self) -> tuple[int, int]:
        """Width and height of the devices."""
        panel = len(self.columns) * self.width
        return len(self.panels) * (panel + 14) - 14, len(self.rows) * _HEIGHT

    def render_devices(self) -> Iterator[Html]:
        """A rectangle a device, in the colour of its part."""
        for place, left, top in self._device_places():
            if place is None:
                continue
            part = self._part_of_device(place)
            where = ", ".join(f"{name}={place[name]}" for name in self.drawn)
            holds = "nothing" if part is None else "all of it" if not part else f"part {_part_text(part)}"
            yield render_element(
                "rect",
                render_element("title", f"{where}: {holds}"),
                x=left,
                y=top,
                width=self.width,
                height=_HEIGHT,
                class_="cell empty" if part is None else "cell",
                fill=None if part is None else self._colour_of_part(part),
            )

    def render_numbers(self) -> Iterator[Html]:
        """The number of its part on each device, and dots for devices not drawn."""
        for place, left, top in self._device_places():
            middle = left + self.width / 2
            if place is None:
                yield _draw_label(middle, top + 16, "⋯", "by-cell middle")
            elif part := self._part_of_device(place):
                yield _draw_label(middle, top + 16, _part_text(part), "in-cell")

    def render_labels(self) -> Iterator[Html]:
        """Names of the axes and numbers along them."""
        names = [*[""] * (3 - len(self.drawn)), *self.drawn]
        width, _ = self.picture_size()
        if names[1]:
            yield _draw_label(-_LEFT, -6, names[1], "by-cell name")
            for index, row in enumerate(self.rows):
                yield _draw_label(-6, index * _HEIGHT + 16, "⋮" if row is None else str(row), "by-cell end")
        yield _draw_label(
            width / 2 if not names[0] else -_LEFT,
            -20,
            names[2],
            "by-cell name" + (" middle" if not names[0] else ""),
        )
        for left, panel in self._panel_offsets():
            if names[0]:
                said = "⋯" if panel is None else f"{names[0]} {panel}"
                yield _draw_label(left + len(self.columns) * self.width / 2, -20, said, "by-cell name middle")
            for index, column in enumerate(self.columns):
                said = "⋯" if column is None else str(column)
                yield _draw_label(left + (index + 0.5) * self.width, -6, said, "by-cell middle")

    def render_array(self) -> Html | None:
        """The array itself, cut in its parts; None where it is whole or cut in more than three dimensions."""
        if self.axes is None or not 1 <= len(self.split) <= 3:
            return None
        shown = [_sample_indexes(self.counts[index], _MOST[len(self.split)]) for index in self.split]
        one: list[int | None] = [0]
        if len(shown) == 1:
            # A first dimension goes down in a matrix, but as a row its parts take less room.
            panels, rows, columns = one, one, shown[0]
        else:
            panels, rows, columns = [one] * (3 - len(shown)) + shown
        step = len(columns) * self.width + 10
        drawn = []
        for p, panel in enumerate(panels):
            for r, row in enumerate(rows):
                for c, column in enumerate(columns):
                    left, top = p * step + c * self.width, r * _HEIGHT
                    if None in (panel, row, column):
                        drawn.append(
                            render_element("text", "⋯", x=left + self.width / 2, y=top + 16, class_="by-cell middle")
                        )
                        continue
                    part = tuple(index or 0 for index in (panel, row, column))[3 - len(shown) :]
                    drawn.append(
                        render_element(
                            "rect",
                            x=left,
                            y=top,
                            width=self.width,
                            height=_HEIGHT,
                            class_="cell",
                            fill=self._colour_of_part(part),
                        )
                    )
                    drawn.append(
                        render_element(
                            "text", _part_text(part), x=left + self.width / 2, y=top + 16, class_="in-cell"
                        )
                    )
        width, height = len(panels) * step - 10, len(rows) * _HEIGHT
        title = _draw_label(-_LEFT, 16, "the array", "by-cell name")
        return render_element(
            "svg",
            title,
            drawn,
            aria_hidden="true",
            viewbox=f"-{_LEFT} 0 {width + _LEFT} {height}",
            width=width + _LEFT,
            height=height,
        )

    def describe_picture(self) -> str:
        """The picture in words."""
        if self.axes is None:
            return "the others hold none of it"
        copies = math.prod(self.mesh.values()) // math.prod(self.counts)
        if not self.split:
            return f"replicated on {copies} devices" if copies > 1 else "on one device"
        cut = [
            f"dimension {index} in {self.counts[index]} shards over {' and '.join(self.axes[index])}"
            for index in self.split
        ]
        each = "each shard on one device" if copies == 1 else f"each shard on {copies} devices"
        return f"{'; '.join(cut)}; {each}{self._describe_undrawn()}"

    def _describe_undrawn(self) -> str:
        used = {name for names in self.axes or () for name in names}
        said = [
            f"drawn at {name}=0" if name in used else f"the same at every {name}" for name in self.left_out
        ]
        return "".join(f"; {one}" for one in said)

    def _panel_offsets(self) -> Iterator[tuple[int, int | None]]:
        for index, panel in enumerate(self.panels):
            yield index * (len(self.columns) * self.width + 14), panel

    def _device_places(self) -> Iterator[tuple[dict[str, int] | None, int, int]]:
        """Each device as its index on every drawn axis (None: dots), and where it is drawn."""
        for left, panel in self._panel_offsets():
            for r, row in enumerate(self.rows):
                for c, column in enumerate(self.columns):
                    indexes = [index for index in (panel, row, column) if index is not None]
                    # One or two axes leave the first indexes at 0.
                    place = dict(zip(reversed(self.drawn), reversed(indexes), strict=False))
                    yield place if len(indexes) == 3 else None, left + c * self.width, r * _HEIGHT

    def _part_of_device(self, place: Mapping[str, int]) -> Part | None:
        """Which part a device holds: an index for each dimension that is cut; None: nothing."""
        if self.axes is None:
            return () if not any(place.values()) else None
        part = []
        for index in self.split:
            number = 0
            for name in self.axes[index]:  # the first axis of several is the slowest
                number = number * self.mesh[name] + place.get(name, 0)
            part.append(number)
        return tuple(part)

    def _colour_of_part(self, part: Part) -> str:
        """Hue by the first dimension that is cut, lightness by the second, saturation by the third."""
        counts = [self.counts[index] for index in self.split]
        if not part:
            return "hsl(215 35% 72%)"
        # Of many parts neighbours must still differ: steps of the golden angle.
        step = 330 / counts[0] if counts[0] <= 6 else 137.5
        hue = (205 + step * part[0]) % 360
        light = 74.0 if len(part) == 1 else 60 + 26 * part[1] / max(counts[1] - 1, 1)
        strong = 62.0 if len(part) < 3 else 85 - 55 * part[2] / max(counts[2] - 1, 1)
        return f"hsl({hue:.0f} {strong:.0f}% {light:.0f}%)"


def _draw_label(x: float, y: float, text: str, class_: str) -> Html:
    return render_element("text", text, x=f"{x:g}", y=f"{y:g}", class_=class_)


def _sample_indexes(size: int, most: int) -> list[int | None]:
    """Indexes to draw of an axis: all, or the first, a gap (None) and the last."""
    if size <= most:
        return list(range(size))
    return [*range(most - 2), None, size - 1]


def _part_text(part: Part | None) -> str:
    return ",".join(map(str, part or ()))


def _spec_text(axes: Axes) -> str:
    return str(P(*(None if not names else names[0] if len(names) == 1 else names for names in axes)))
