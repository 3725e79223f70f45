"""PositionalSharding as NamedSharding: its grid becomes a mesh with an axis for each dimension."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from shardlint.facts.name_uses import is_used_elsewhere
from shardlint.model.values import Api, CallResult, Constant, Function, Place, options
from shardlint.rules_api.imports import spell_bare_names
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.bindings import lookup_bindings

NAME = "jax.sharding.PositionalSharding"
NEW = {
    "jax.sharding.Mesh": "Mesh",
    "jax.sharding.NamedSharding": "NamedSharding",
    "jax.sharding.PartitionSpec": "P",
}
"""What takes its place, with the names people give it."""
_AXES = {1: ("devices",), 2: ("x", "y"), 3: ("x", "y", "z")}
"""What the axes of a grid are called, by its rank."""
_MAKE_ARRAYS = ("jax.experimental.mesh_utils.create_device_mesh", "numpy.array", "numpy.asarray")
# Methods and properties that only a PositionalSharding has.
_ITS_OWN = frozenset({"reshape", "replicate", "transpose", "T", "shape", "ndim", "_ids", "_devices"})


class _Refused(Exception):
    """Why it is not rewritten."""


@dataclass(frozen=True)
class _Grid:
    """A grid of devices: `devices`, the text of an array of devices in the shape of the grid; for each dimension of
    the array the dimension of the grid that shards it, or None; and whether the grid is unchanged since it was made.
    """

    devices: str
    rank: int
    entries: tuple[int | None, ...]
    fresh: bool = True


class Rewriter:
    """Rewrites all that one file does with PositionalSharding, or says why not."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.edits: list[Edit] = []
        self.axes: dict[str, tuple[str, ...]] = {}
        self.drops: set[str] = set()
        self.names: dict[str, str] = {}

    def collect_edits(self) -> str:
        """Collect the edits; why there are none."""
        try:
            for node in self._class_mentions():
                if not self.names:
                    self.names, imports = spell_bare_names(self.site.program, self.site.file, node, NEW)
                    self.edits += imports
                self._rewrite_class_call(node)
        except _Refused as refused:
            return str(refused)
        return "" if self.edits else "the file does not call it"

    def _class_mentions(self) -> Iterator[ast.expr]:
        file = self.site.file
        words = ["PositionalSharding"]
        for node in file.find_mentions(words[0]):
            if isinstance(node, ast.alias):
                words.append(node.asname or node.name)
                self.drops.add(node.asname or node.name)
        for word in dict.fromkeys(words):
            for node in file.find_mentions(word):
                if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                    if any(
                        isinstance(one, Api) and one.written == NAME for one in options(self.site.value(node))
                    ):
                        yield node
        if self.drops and any(is_used_elsewhere(self.site, name) for name in self.drops):
            raise _Refused("another file imports the name from here")

    def _rewrite_class_call(self, node: ast.expr) -> None:
        call = self.site.file.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            raise _Refused(f"`{self.site.text(node)}` is not called at line {node.lineno}")
        given = {one.arg: one.value for one in call.keywords}
        if len(call.args) + len(given) != 1 or (given and "devices" not in given):
            raise _Refused(f"line {node.lineno} passes more than devices")
        devices = call.args[0] if call.args else given["devices"]
        rank = self._device_rank(devices)
        text = self.site.text(devices)
        array = text if self._is_array(devices) else f"{self._spell_api('numpy.array')}({text})"
        self._follow_expression(call, _Grid(array, rank, tuple(range(rank))))

    def _device_rank(self, devices: ast.expr) -> int:
        shape = self.site.shape_of(Place(self.site.file, devices))
        if shape is None:
            raise _Refused(f"the rank of `{self.site.text(devices)}` at line {devices.lineno} is not known")
        return len(shape)

    def _is_array(self, devices: ast.expr) -> bool:
        return all(
            isinstance(one, CallResult) and one.api in _MAKE_ARRAYS for one in options(self.site.value(devices))
        )

    # what is done with one

    def _follow_expression(self, node: ast.expr, grid: _Grid, base: str = "") -> None:
        """Go on from an expression that is one: through its methods to where it is used. `base` is the name of the
        rewritten one that it was taken from."""
        parent = self.site.file.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr in _ITS_OWN:
            outer = self.site.file.parent(parent)
            if parent.attr in ("T", "transpose"):
                call = parent.attr == "transpose" and isinstance(outer, ast.Call)
                if call and isinstance(outer, ast.Call) and (outer.args or outer.keywords):
                    raise _Refused(f"line {node.lineno} transposes it by axes")
                turned = replace(grid, entries=grid.entries[::-1], fresh=False)
                self._follow_expression(
                    outer if isinstance(outer, ast.Call) and call else parent, turned, base
                )
                return
            if isinstance(outer, ast.Call) and outer.func is parent and parent.attr == "reshape":
                self._follow_expression(outer, self._reshape_grid(outer, grid, base))
                return
            if isinstance(outer, ast.Call) and outer.func is parent and parent.attr == "replicate":
                self._follow_expression(outer, self._replicate_grid(outer, grid), base)
                return
            raise _Refused(f"line {node.lineno} reads its `{parent.attr}`")
        self._refuse_other_uses(node, parent)
        new_mesh, named, spec = self.names.values()
        mesh = f"{base}.mesh" if base else f"{new_mesh}({grid.devices}, {self._axes_shown(grid)})"
        self.edits.append(
            self.site.replace(node, f"{named}({mesh}, {spec}({', '.join(self._spec_entries(grid))}))")
        )
        if isinstance(parent, ast.Assign):
            self._follow_assigned_name(parent, grid)

    def _reshape_grid(self, call: ast.Call, grid: _Grid, base: str) -> _Grid:
        if not grid.fresh or call.keywords or any(isinstance(one, ast.Starred) for one in call.args):
            raise _Refused(f"the shape that line {call.lineno} gives it is not known")
        args = call.args
        if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List):
            args = args[0].elts
        elif len(args) == 1:
            value = self.site.value(args[0])
            if not isinstance(value, Constant) or not isinstance(value.value, int):
                raise _Refused(f"the shape that line {call.lineno} gives it is not known")
        if any(isinstance(one, ast.Starred) for one in args):
            raise _Refused(f"the shape that line {call.lineno} gives it is not known")
        shape = ", ".join(self.site.text(one) for one in args)
        devices = f"{base}.mesh.devices" if base else grid.devices
        return _Grid(f"{devices}.reshape({shape})", len(args), tuple(range(len(args))))

    def _replicate_grid(self, call: ast.Call, grid: _Grid) -> _Grid:
        given = dict(zip(("axis", "keepdims"), call.args, strict=False))
        given |= {one.arg or "": one.value for one in call.keywords}
        keep = self._literal_value(given.pop("keepdims", None), True)
        axis = self._literal_value(given.pop("axis", None), None)
        if given or not isinstance(keep, bool) or not (axis is None or isinstance(axis, int)):
            raise _Refused(f"the axis that line {call.lineno} replicates is not known")
        if axis is None:
            return replace(grid, entries=(), fresh=False)
        entries: list[int | None] = list(grid.entries)
        if not -len(entries) <= axis < len(entries):
            raise _Refused(f"it has no axis {axis} at line {call.lineno}")
        if keep:
            entries[axis] = None
        else:
            del entries[axis]
        return replace(grid, entries=tuple(entries), fresh=False)

    def _literal_value(self, node: ast.expr | None, default: object) -> object:
        if node is None:
            return default
        value = self.site.value(node)
        return value.value if isinstance(value, Constant) else node

    def _refuse_other_uses(self, node: ast.expr, parent: ast.AST | None) -> None:
        """Refuse where what is done with it may need what only a PositionalSharding has."""
        call = self.site.file.parent(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or call.func is node:
            if isinstance(parent, ast.Attribute | ast.Subscript):
                return  # what every sharding has
            if not isinstance(parent, ast.Assign | ast.Return | ast.Tuple | ast.List | ast.Dict | ast.Call):
                raise _Refused(f"line {node.lineno} uses it where shardlint does not follow")
            return
        for callee in options(self.site.value(call.func)):
            if isinstance(callee, Function):
                if self._uses_its_own(callee, call, node, parent):
                    raise _Refused(
                        f"`{self.site.text(call.func)}` at line {call.lineno} uses methods of PositionalSharding"
                    )
            elif not isinstance(callee, Api):
                raise _Refused(
                    f"line {call.lineno} passes it to `{self.site.text(call.func)}`, which is not known"
                )

    def _uses_its_own(self, callee: Function, call: ast.Call, node: ast.expr, parent: ast.AST | None) -> bool:
        arguments = callee.node.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        if callee.bound or callee.owner is not None:
            names = names[1:]
        if isinstance(parent, ast.keyword):
            name = parent.arg
        else:
            index = call.args.index(node)
            name = names[index] if index < len(names) else None
        if name is None:
            return True
        file = callee.place.file
        for one in file.find_mentions(name):
            use = file.parent(one)
            if isinstance(use, ast.Attribute) and use.attr in _ITS_OWN and callee.node in file.ancestors(one):
                return True
        return False

    def _follow_assigned_name(self, statement: ast.Assign, grid: _Grid) -> None:
        """Follow the name it is given."""
        target = statement.targets[0]
        file = self.site.file
        if len(statement.targets) != 1 or not isinstance(target, ast.Name):
            raise _Refused(f"line {statement.lineno} stores it where shardlint does not follow")
        if file.evaluation_scope(target).kind == "module" and is_used_elsewhere(self.site, target.id):
            raise _Refused(f"another file imports `{target.id}` from here")
        for node in file.find_mentions(target.id):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            bindings, _ = lookup_bindings(file, node, target.id)
            if not any(binding.node is target for binding in bindings):
                continue
            if len(bindings) > 1:
                raise _Refused(f"`{target.id}` may have another value at line {node.lineno}")
            parent = file.parent(node)
            if isinstance(parent, ast.Attribute) and parent.attr in _ITS_OWN:
                self._follow_expression(node, grid, target.id)
            else:
                self._refuse_other_uses(node, parent)
                if isinstance(parent, ast.Assign):
                    raise _Refused(f"line {node.lineno} gives `{target.id}` another name")

    # text

    def _spell_api(self, name: str) -> str:
        text, imports = self.site.spell(name)
        self.edits += imports
        return text

    def _grid_axis_names(self, grid: _Grid) -> tuple[str, ...]:
        """The names of a grid's axes: other ones for every other grid, as axes of one name are taken for one size."""
        if grid.devices not in self.axes:
            names = _AXES.get(grid.rank) or tuple(f"axis{index}" for index in range(grid.rank))
            number = sum(len(one) == grid.rank for one in self.axes.values()) + 1
            self.axes[grid.devices] = tuple(f"{name}{number}" for name in names) if number > 1 else names
        return self.axes[grid.devices]

    def _axes_shown(self, grid: _Grid) -> str:
        axes = self._grid_axis_names(grid)
        return "(" + ", ".join(f'"{axis}"' for axis in axes) + (",)" if len(axes) == 1 else ")")

    def _spec_entries(self, grid: _Grid) -> list[str]:
        axes = self._grid_axis_names(grid)
        return ["None" if entry is None else f'"{axes[entry]}"' for entry in grid.entries]


def fix_positional_sharding(site: Site) -> Fix | str:
    """The fix of all that the file does with PositionalSharding; or why there is none."""
    rewriter = Rewriter(site)
    why = rewriter.collect_edits()
    if why:
        return why
    edits = list(dict.fromkeys(rewriter.edits))
    return site.fix(
        Safety.UNSAFE,
        "write NamedSharding over a mesh of the same devices",
        edits,
        "code that compares or prints shardings sees a NamedSharding",
        sorted(rewriter.drops),
    )
