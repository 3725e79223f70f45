"""Attributes of values."""

from __future__ import annotations

from dataclasses import replace
from math import inf, pi
from typing import TYPE_CHECKING

from shardlint.layouts.device_arrays import attribute_of_devices
from shardlint.layouts.layout import (
    Layout,
    Mesh,
    Symbol,
    count_entries,
)
from shardlint.layouts.methods import METHODS, call_text_method
from shardlint.layouts.operators import call_library
from shardlint.layouts.pieces import all_axes, local_size_with_axes, shape_of
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    AxisTypeValue,
    Call,
    ClassValue,
    Devices,
    DictValue,
    Field,
    FunctionValue,
    Instance,
    Lazy,
    Library,
    ListValue,
    Method,
    ModuleValue,
    Native,
    Partial,
    PartitionSpec,
    Sharding,
    State,
    Unknown,
    Value,
)
from shardlint.model import api
from shardlint.model.values import Place
from shardlint.source.searches import WORD

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

def read_member(module: ModuleValue, name: str) -> Value:
    """Return the value of a name in a module of the project."""
    if name not in module.frame.names:
        module.frame.file.looked.note_access(WORD, name)  # it may come to bind it
        return Unknown(f"`{name}` is not there")
    found = module.frame.names[name]
    return found.load_value() if isinstance(found, Lazy) else found


def attribute_of_value(run: RunState, value: Value, name: str, place: Place) -> Value:
    """An attribute of a value."""
    match value:
        case Library(name=module):
            return _library_attribute(run, module, name)
        case ModuleValue():
            return read_member(value, name)
        case Layout():
            return _array_attribute(run, value, name, place)
        case Mesh():
            return _mesh_attribute(value, name)
        case Instance():
            return _instance_attribute(run, value, name, place)
        case ClassValue():
            found = value.find_attribute(name)
            if found is MISSING:
                hook = find_hook(run, value, name)
                return Unknown(f"the class has no `{name}`") if hook is None else Method(hook, value)
            if isinstance(found, Native) and found.name == "classmethod":
                return Method(found.run(Call(run, (), {}, place)), value)
            return getattr(found, "inner", found)
        case Sharding(mesh=mesh, spec=spec, memory=memory):
            if name == "with_memory_kind":
                return Native(name, lambda call: replace(value, memory=_text_or_none(call.argument_at(0, "kind"))))
            return {"mesh": mesh, "spec": spec, "memory_kind": memory}.get(name, Unknown("of a sharding"))
        case Devices(shape=shape):
            return attribute_of_devices(value, shape, name)
        case str():
            return Native(name, lambda call: call_text_method(value, name, call))
        case State(entries=entries) if name in entries:
            return entries[name]
        case DictValue() | ListValue() | tuple():
            found_method = METHODS.get((DictValue if isinstance(value, State) else type(value), name))
            return (
                Native(name, lambda call: found_method(value, call)) if found_method else Unknown("a method")
            )
        case AnyTree(leaf=leaf):
            if isinstance(leaf, Layout) and name in _OF_ARRAYS:
                return _array_attribute(run, leaf, name, place)
            return Field(leaf, name)
        case FunctionValue() if name == "__name__":
            return value.name
    if isinstance(value, slice) and name in ("start", "stop", "step"):
        return getattr(value, name)
    attributes = getattr(value, "attributes", None)
    if isinstance(attributes, dict) and name in attributes:
        return attributes[name]
    return Unknown("an attribute of something that is not known")


def _text_or_none(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _library_attribute(run: RunState, module: str, name: str) -> Value:
    if module == "jax.sharding.AxisType":
        kind = name.lower()
        return AxisTypeValue(kind) if kind in ("auto", "explicit", "manual") else Unknown("an axis type")  # type: ignore[arg-type]
    dotted = api.canonical_name(f"{module}.{name}")
    if dotted in run.flags:
        return run.flags[dotted]
    return _CONSTANTS[dotted] if dotted in _CONSTANTS else Library(dotted)


_CONSTANTS: dict[str, Value] = {
    "jax.numpy.newaxis": None,
    "numpy.newaxis": None,
    "jax.numpy.pi": pi,
    "numpy.pi": pi,
    "jax.numpy.inf": inf,
    "numpy.inf": inf,
    "flax.linen.PARTITION_NAME": "partition_name",
    "flax.linen.meta.PARTITION_NAME": "partition_name",
    **api.CONSTANTS,
}


# Of a tree of which nothing is known but its leaves, what only an array has.
_OF_ARRAYS = ("shape", "dtype", "T", "astype", "at", "ndim", "size", "addressable_shards")


# What arrays are asked that the library answers.
_ASKED = {"item": "shardlint.scalar", "addressable_data": "shardlint.shard"}


_SAME_SHAPE = ("astype", "block_until_ready", "copy", "view")


_BY_NAME = frozenset(
    "sum mean max min prod any all std var argmax argmin cumsum sort reshape transpose squeeze ravel swapaxes dot "
    "take repeat flatten conj clip round argsort cumprod diagonal trace nonzero searchsorted argpartition "
    "partition".split()
)


def is_array_method(name: str) -> bool:
    """Return whether arrays have a method of this name whose result is modelled."""
    return name in _BY_NAME or name in _SAME_SHAPE or name in _ASKED or name == "tolist"


def _array_attribute(run: RunState, value: Layout, name: str, place: Place) -> Value:
    shape = value.shape
    match name:
        case "shape":
            return shape_of(value)
        case "ndim":
            return Unknown("a rank") if shape is None else len(shape)
        case "size":
            return local_size_with_axes(count_entries(shape), sorted(all_axes(value.pieces)))
        case "dtype":
            return Library(f"jax.numpy.{value.dtype}") if value.dtype else Unknown("a type")
        case "mT" if shape is not None:
            swap = f"{_module_of(value)}.swapaxes"
            return call_library(run, swap, (value, -2, -1), place) if len(shape) > 1 else Unknown("mT")
        case "T":
            return call_library(run, f"{_module_of(value)}.transpose", (value,), place)
        case "sharding":
            if value.mesh is not None and value.spec is not None and not run.traced:
                entries = tuple(axes if axes is None or len(axes) != 1 else axes[0] for axes in value.spec)
                known = all(axes is not None for axes in value.spec)
                spec = PartitionSpec(tuple(one or None for one in entries)) if known else Unknown("a spec")
                return Sharding(value.mesh, spec, value.memory)
            return Unknown("a sharding")
        case "at":
            return Updates(value)
        case "real" | "imag":
            return value
        case "addressable_shards":
            return call_library(run, "shardlint.shard", (value,), place)
    if name in _SAME_SHAPE:

        def keep_layout(call: Call) -> Value:
            kind = call.argument_at(0, "dtype", None) if name == "astype" else None
            dtype = (
                kind.name.rpartition(".")[2].rstrip("_")
                if isinstance(kind, Library)
                else value.dtype
                if name != "astype"
                else None
            )
            early = not run.traced and run.releases.get("jax", (99,)) < _SCATTER_KEEPS_MEMORY
            return replace(value, dtype=dtype, memory=None if early and value.memory != "device" else value.memory)

        return Native(name, keep_layout)
    if name in _BY_NAME:
        target = "ravel" if name == "flatten" else name
        return Method(Library(f"{_module_of(value)}.{target}"), value)
    if name in _ASKED:
        return Method(Library(_ASKED[name]), value)
    if name == "tolist":
        numbers: Value = Unknown("a number")
        return Native(name, lambda call: ListValue([numbers], True) if value.rank else numbers)
    return Unknown("an attribute of an array")


def _module_of(value: Layout) -> str:
    """The module whose functions are the methods of an array."""
    return "numpy" if value.host else "jax.numpy"


# Since then, traced code too keeps the sharding of an updated array in a mesh in context alone.
_SCATTER_NEEDS_MESH = (0, 12)
# Before, the compiler decides where the result of an update or a cast in host memory is.
_SCATTER_KEEPS_MEMORY = (0, 10, 2)


def _forget_sharding(value: Value) -> Value:
    """An array, or each array of an index, whose sharding is not known."""
    if isinstance(value, tuple):
        return tuple(map(_forget_sharding, value))
    return replace(value, mesh=None, spec=None) if isinstance(value, Layout) else value


class Updates:
    """`x.at`, and `x.at[...]`."""

    def __init__(self, array: Layout, index: Value = MISSING) -> None:
        self.array, self.index = array, index

    @property
    def attributes(self) -> dict[str, Value]:
        """The methods that change the array at an index give one of the same layout."""
        names = ("set", "add", "multiply", "mul", "divide", "min", "max", "power", "apply")
        same = {name: Native(name, self._update_at_index) for name in names}
        return {**same, "get": Native("get", self._gather_at_index)}

    def _gather_at_index(self, call: Call) -> Value:
        """Return the result of `x.at[...].get()`. Over Explicit axes an `out_sharding` may place it."""
        array, index = self.array, self.index
        if "out_sharding" in call.keywords:
            array, index = _forget_sharding(array), _forget_sharding(index)
        array = array if array.memory == "device" else replace(array, memory=None)
        return call_library(call.interpreter, "shardlint.index", (array, index), call.place)

    def _update_at_index(self, call: Call) -> Value:
        array = self.array
        run = call.interpreter
        newest = run.releases.get("jax", (99,)) >= _SCATTER_NEEDS_MESH
        axes = self._split_axes(array, (run.traced > 0 and not newest) or run.mesh is not None or not run.mesh_known)
        if axes and "out_sharding" not in call.keywords:
            call.interpreter.record_violation("scatter.split", call.place, array=str(array), axes="/".join(axes))
        if not run.axes:
            early = array.memory != "device" and run.releases.get("jax", (99,)) < _SCATTER_KEEPS_MEMORY
            return replace(array, memory=None if early else array.memory, asked=None)
        keys = self.index if isinstance(self.index, tuple) else (self.index,)
        parts = [one for one in (*keys, *call.args) if isinstance(one, Layout | AnyTree | Unknown)]
        varying = (
            call_library(call.interpreter, "jax.numpy.add", (array, *parts[:1]), call.place)
            if parts
            else array
        )
        for one in parts[1:]:
            varying = call_library(call.interpreter, "jax.numpy.add", (varying, one), call.place)
        return array.varying_like(varying)

    def _split_axes(self, array: Layout, traced: bool) -> list[str]:
        """The Explicit axes that an update cannot keep: of all dimensions; under jit or set_mesh of those indexed."""
        spec = array.typed_spec or ()
        keys = self.index if isinstance(self.index, tuple) else (self.index,)
        if traced and (... in keys or None in keys or any(isinstance(one, Unknown) for one in keys)):
            return []
        indexed = [place for place, one in enumerate(keys) if one != slice(None)] if traced else range(len(spec))
        return [axis for place in indexed if place < len(spec) for axis in spec[place] or ()]


def _mesh_attribute(value: Mesh, name: str) -> Value:
    match name:
        case "axis_names":
            return value.names
        case "shape":
            sizes = [
                Symbol(f"size of {axis}") if size is None else size
                for axis, size in zip(value.names, value.sizes, strict=True)
            ]
            return DictValue(dict(zip(value.names, sizes, strict=True)))
        case "size":
            return Unknown("a size") if value.device_count is None else value.device_count
        case "axis_sizes":
            return tuple(Unknown("a size") if one is None else one for one in value.sizes)
        case "devices":
            return Devices(value.sizes, value.devices)
        case "empty":
            return False
        case "abstract_mesh":
            return value
    return Unknown("an attribute of a mesh")


def _instance_attribute(run: RunState, value: Instance, name: str, place: Place) -> Value:
    if name in value.attributes:
        return value.attributes[name]
    found = value.of.find_attribute(name) if value.of is not None else MISSING
    if found is MISSING:
        hook = find_hook(run, value, name)
        if hook is not None:
            return Method(hook, value)
        other = value.computed_attribute(name)
        if other is not MISSING:
            return other
        if value.as_operand is not value:
            return attribute_of_value(run, value.as_operand, name, place)
        if name == "replace" or name == "_replace":
            return Native(name, lambda call: _replace_fields(value, call))
        return Unknown(f"the object has no `{name}` that is known")
    if isinstance(found, FunctionValue):
        wrapper = find_hook(run, value, "__method__")
        return Method(found, value) if wrapper is None else Partial(wrapper, (found, value), {})
    inner = getattr(found, "inner", None)
    if inner is not None:
        return inner
    if isinstance(found, Native) and found.name == "property":
        return found.run(Call(run, (value,), {}, Place(run.frame.file, run.frame.file.tree)))
    if isinstance(found, Native) and found.name == "classmethod":
        return Method(found.run(Call(run, (), {}, Place(run.frame.file, run.frame.file.tree))), value.of)
    if isinstance(found, Native | Partial):
        return Method(found, value)
    return found


def find_hook(run: RunState, value: Instance | ClassValue, name: str) -> Library | None:
    """Return the library's replacement for a method that the classes of an object inherit from it.

    `__method__` runs each method of the project: it gets the function, the object and the arguments.
    """
    for base in value.library_classes():
        if f"{base}.{name}" in run.libraries:
            return Library(f"{base}.{name}")
    return None


def _replace_fields(value: Instance, call: Call) -> Value:
    made = value.with_parts({**value.attributes, **call.keywords})
    made.open = value.open or call.open
    return made
