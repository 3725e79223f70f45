"""Equinox Modules: which values are instances of one, and what the leaves of such an instance are.

A Module is a pytree, so what is a leaf decides what jax makes of it: arrays can be placed and traced, numbers become
arrays, and functions and strings are refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from shardlint.facts.library_modules import ARRAYS_ONLY, FUNCTION_PARAMETERS, LEAVES, WRAPPING, Kind
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    ClassValue,
    Constant,
    Environment,
    Function,
    Items,
    Parameter,
    Place,
    Table,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import Binding

_MODULE = ("equinox.Module", "equinox._module.Module", "equinox.nn.StatefulLayer")
# Functions that return a tree of the same type as one of their arguments: its position and its name.
_SAME_TYPE = {
    "equinox.tree_at": (1, "pytree"),
    "equinox.apply_updates": (0, "model"),
    "equinox.filter_shard": (0, "x"),
    "equinox.nn.inference_mode": (0, "pytree"),
    "equinox.tree_inference": (0, "pytree"),
    "equinox.tree_deserialise_leaves": (1, "like"),
    "jax.lax.with_sharding_constraint": (0, "x"),
    "jax.device_put": (0, "x"),
}
_ARRAY_TYPES = ("jax.Array", "jax.numpy.ndarray", "jaxtyping.Array")
_ARRAY_MAKERS = ("jax.numpy.", "jax.random.", "numpy.")
_PLAIN_TYPES: Mapping[str, Kind] = {
    "builtins.int": "number",
    "builtins.bool": "number",
    "builtins.str": "text",
}
_DEPTH = 6


@dataclass(frozen=True)
class Leaf:
    """A leaf of an instance: the fields that lead to it, what it is, and whether the text is sure of it."""

    path: str
    kind: Kind
    sure: bool = True


@dataclass(frozen=True)
class Instance:
    """An instance of a Module class.

    `call` is what it was built by; None for what is only annotated so, or for `self`. `surely` is False where an
    annotation alone says so: half of a partitioned Module is annotated as the Module too.
    """

    cls: ClassValue | Api
    call: CallArguments | None
    surely: bool = True

    @property
    def class_name(self) -> str:
        """The name of its class."""
        return self.cls.node.name if isinstance(self.cls, ClassValue) else self.cls.name.rpartition(".")[2]


class Modules:
    """Answers about Modules, from what the evaluator knows of their classes."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def is_class(self, value: Value) -> bool:
        """Return whether a value is a Module class, of the library or of the project."""
        if isinstance(value, Api):
            last = value.name.rpartition(".")[2]
            return value.name in _MODULE or (value.name.startswith("equinox.nn.") and last in LEAVES)
        if not isinstance(value, ClassValue):
            return False
        return any(self.is_class(base) for base in self._library_bases(value))

    def module_instance(self, value: Value, depth: int = 0) -> Instance | None:
        """The instance a value surely is, whichever way was taken."""
        found = [self._instance_of_option(option, depth) for option in options(value)]
        first = found[0]
        if first is None or any(other is None or other.cls != first.cls for other in found):
            return None
        return first if len(found) == 1 else Instance(first.cls, None, first.surely)

    def _instance_of_option(self, value: Value, depth: int) -> Instance | None:
        if depth > _DEPTH:
            return None
        if isinstance(value, Parameter):
            return self._instance_of_annotation(value)
        if not isinstance(value, CallResult):
            return None
        if isinstance(value.by, ClassValue | Api) and self.is_class(value.by):
            return Instance(value.by, value.call, value.call is not None)
        if value.api in _SAME_TYPE and value.call is not None:
            index, name = _SAME_TYPE[value.api]
            signature = ("",) * index + (name,)
            place = value.call.argument_for(name, signature)
            if place is not None:
                return self.module_instance(self.evaluator.value(place, value.call.environment), depth + 1)
        return None

    def _instance_of_annotation(self, value: Parameter) -> Instance | None:
        annotation = getattr(value.place.node, "annotation", None)
        if annotation is None:
            return None
        cls = self.evaluator.value(Place(value.place.file, annotation))
        return Instance(cls, None, False) if isinstance(cls, Api) and self.is_class(cls) else None

    def modules_within(self, value: Value, path: str = "") -> Iterator[tuple[str, Instance]]:
        """The Modules a value is or holds in tuples, lists and dicts, each with the way to it."""
        found = self.module_instance(value)
        if found is not None:
            yield path, found
        elif isinstance(value, Items):
            for index, item in enumerate(value.items):
                yield from self.modules_within(item, f"{path}[{index}]")
        elif isinstance(value, Table):
            for key, item in value.entries:
                yield from self.modules_within(item, f"{path}[{key!r}]")

    # leaves

    def list_leaves(self, instance: Instance, depth: int = 0) -> list[Leaf]:
        """The leaves the text tells of, static fields aside."""
        if depth > _DEPTH:
            return []
        if isinstance(instance.cls, Api):
            return list(self._library_leaves(instance.cls.name.rpartition(".")[2], instance, depth))
        found: list[Leaf] = []
        for binding, owner in self.evaluator.classes.objects.list_fields(instance.cls).values():
            place = Place(owner.place.file, binding.node)
            if not self._is_static_field(binding, place):
                found += self._leaves_of_field(instance, binding, place, depth)
        return found

    def _library_leaves(self, name: str, instance: Instance, depth: int) -> Iterator[Leaf]:
        yield from (Leaf(path, kind) for path, kind in LEAVES.get(name, ()))  # none of `eqx.Module` itself
        if name in ARRAYS_ONLY:
            return
        for parameter, index in FUNCTION_PARAMETERS.get(name, {}).items():
            value = self._argument_value(instance, parameter, index)
            if value is None:
                hidden = instance.call is None or instance.call.open_keywords or instance.call.open_positional
                yield Leaf(parameter, "function", not hidden)
            else:
                yield from self._leaves_of_value(value, parameter, depth)
        if name in WRAPPING:
            value = self._argument_value(instance, WRAPPING[name], 0)
            if value is not None:
                yield from self._leaves_of_value(value, WRAPPING[name], depth)

    def _argument_value(self, instance: Instance, name: str, index: int) -> Value | None:
        if instance.call is None:
            return None
        place = instance.call.argument_for(name, ("",) * index + (name,))
        return self.evaluator.value(place, instance.call.environment) if place is not None else None

    def _leaves_of_field(
        self, instance: Instance, binding: Binding, place: Place, depth: int
    ) -> Iterator[Leaf]:
        value = self._value_of_field(instance, binding, place)
        found = list(self._leaves_of_value(value, binding.name, depth)) if value is not None else []
        if found or (value is not None and not isinstance(value, Unknown | Parameter)):
            yield from found
            return
        if binding.annotation is None:
            return
        node = (
            binding.annotation.value if isinstance(binding.annotation, ast.Subscript) else binding.annotation
        )
        annotation = self.evaluator.value(Place(place.file, node))
        whole = node is binding.annotation
        if whole and isinstance(annotation, Api) and annotation.name in _PLAIN_TYPES:
            yield Leaf(binding.name, _PLAIN_TYPES[annotation.name])
        elif isinstance(annotation, Api) and annotation.name.rpartition(".")[2] == "Callable":
            yield Leaf(binding.name, "function", False)  # a Module is callable too
        elif isinstance(annotation, Api) and annotation.name in _ARRAY_TYPES:
            yield Leaf(binding.name, "array")
        elif not whole and isinstance(annotation, Api) and annotation.name.startswith("jaxtyping."):
            if "PyTree" not in annotation.name:
                yield Leaf(binding.name, "array")
        elif whole and isinstance(annotation, Api | ClassValue) and self.is_class(annotation):
            inner = Instance(annotation, None)
            yield from self._leaves_below(binding.name, inner, depth)

    def _leaves_of_value(self, value: Value, path: str, depth: int) -> Iterator[Leaf]:
        """The leaves of what a field holds. A choice tells where all its ways agree."""
        found = options(value)
        if len(found) > 1:
            kinds = [[leaf.kind for leaf in self._leaves_of_value(option, path, depth + 1)] for option in found]
            if all(one and one == kinds[0] for one in kinds):
                yield from self._leaves_of_value(found[0], path, depth + 1)
            return
        kind = leaf_kind(value)
        if kind is not None:
            yield Leaf(path, kind)
            return
        inner = self.module_instance(value) if depth < _DEPTH else None
        if inner is not None:
            yield from self._leaves_below(path, inner, depth)
        elif isinstance(value, Items):
            for index, item in enumerate(value.items):
                yield from self._leaves_of_value(item, f"{path}[{index}]", depth + 1)

    def _leaves_below(self, path: str, inner: Instance, depth: int) -> Iterator[Leaf]:
        for leaf in self.list_leaves(inner, depth + 1):
            yield Leaf(f"{path}.{leaf.path}", leaf.kind, leaf.sure)

    # fields

    def _library_bases(self, cls: ClassValue) -> Iterator[Api]:
        for candidate in self.evaluator.project_ancestors(cls):
            for base in candidate.node.bases:
                node = base.value if isinstance(base, ast.Subscript) else base
                value = self.evaluator.value(Place(candidate.place.file, node))
                if isinstance(value, Api):
                    yield value

    def _is_static_field(self, binding: Binding, place: Place) -> bool:
        """Return whether a field is not a leaf: `eqx.field(static=True)`, or with an unknown setting."""
        if binding.value is None:
            return False
        value = self.evaluator.value(Place(place.file, binding.value))
        if not isinstance(value, CallResult) or not isinstance(value.by, Api):
            return False
        if value.api.rpartition(".")[2] == "static_field":
            return True
        if value.api.rpartition(".")[2] != "field" or value.call is None:
            return False
        static = value.call.keywords.get("static")
        if static is None:
            return value.call.open_keywords or "metadata" in value.call.keywords
        return self.evaluator.value(static, value.call.environment) != Constant(False)

    def _value_of_field(self, instance: Instance, binding: Binding, place: Place) -> Value | None:
        """The value of a field: what `__init__` assigns, what the call gives, or its default."""
        assert isinstance(instance.cls, ClassValue)
        init = self.evaluator.classes.objects.find_init(instance.cls)
        if init is not None:
            return self._value_set_by_init(instance, init, binding.name)
        if instance.call is not None:
            names = self.evaluator.classes.objects.list_fields(instance.cls)
            given = instance.call.argument_for(binding.name, tuple(names))
            if given is not None:
                return self.evaluator.value(given, instance.call.environment)
            if instance.call.may_have_argument(binding.name, tuple(names)):
                return None
            return self._default_of_field(binding, place)
        return None

    def _default_of_field(self, binding: Binding, place: Place) -> Value | None:
        if binding.value is None:
            return None
        value = self.evaluator.value(Place(place.file, binding.value))
        if isinstance(value, CallResult) and value.api.rpartition(".")[2] == "field" and value.call is not None:
            default = value.call.keywords.get("default")
            return self.evaluator.value(default, value.call.environment) if default is not None else None
        return value

    def _value_set_by_init(self, instance: Instance, init: Function, name: str) -> Value | None:
        """Return the value that `__init__` gives a field, if every path through it visibly does."""
        file = init.place.file
        environment: Environment | None = None
        if instance.call is not None:
            environment = self.evaluator.bind_parameters(init, instance.call)
        values: list[Value] = []
        for node in file.find_mentions(name):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            if file.evaluation_scope(node).node is not init.node:
                continue
            parent = file.parent(node)
            if not isinstance(parent, ast.Assign | ast.AnnAssign) or parent.value is None:
                return None
            values.append(self.evaluator.value(Place(file, parent.value), environment))
        return values[0] if len(values) == 1 else None


def leaf_kind(value: Value) -> Kind | None:
    """Return the kind of a value as a leaf of a pytree; None if it is a tree itself, no leaf, or not known."""
    match value:
        case Constant(value=None):
            return None
        case Constant(value=bool() | int() | float() | complex()):
            return "number"
        case Constant():
            return "text"
        case Function():
            return "function"
        case Transformed(api=Api(name=name)) if name.startswith("jax.") and name != "jax.tree_util.Partial":
            return "function"
        case Transformed(api=Api(name="functools.partial")):
            return "function"
        case Api(name=name) if name.startswith("jax.nn."):
            return "function"
        case Api(name=name) if (
            name.startswith(("jax.numpy.", "jax.lax.")) and name.rpartition(".")[2] in _FUNCTIONS
        ):
            return "function"
        case CallResult(by=Api(name=name)) if name.startswith(_ARRAY_MAKERS):
            return "array"
    return None


# Functions of jax.numpy and jax.lax that people use as activations and reductions.
_FUNCTIONS = frozenset(
    "tanh sin cos exp log abs sqrt square sign maximum minimum sinh cosh arctan floor rsqrt erf add mul".split()
)
