"""Values of expressions. They are small, immutable, and remember where they were written."""

from __future__ import annotations

import ast
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shardlint.config.own_names import OwnNames
from shardlint.source.lazy import dataclass
from shardlint.syntax import Binding, FileFacts, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 2**64
"""No size, index or count of jax's is larger; Python refuses to write out one of some thousand digits."""


class Place(NamedTuple):
    """A node in a file. Made for every question, so it is a tuple: that takes a third of the time."""

    file: FileFacts
    node: ast.AST

    @property
    def line(self) -> int:
        """Line, counted from 1."""
        return int(getattr(self.node, "lineno", 1))

    @property
    def scope(self) -> Scope:
        """The scope in which the node is evaluated."""
        return self.file.evaluation_scope(self.node)

    def source_text(self) -> str:
        """The source text of the node."""
        return self.file.source_text(self.node)


class Value:
    """Base of all values."""

    __slots__ = ()


@dataclass(frozen=True)
class Unknown(Value):
    """Not told by the program text; `why` says what stopped us."""

    why: str = ""


@dataclass(frozen=True)
class Computed(Unknown):
    """An expression that values do not tell of: arithmetic, or a method of an array. Its shape may still be known."""

    place: Place | None = None
    environment: Environment | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Constant(Value):
    """A literal or a name bound to one: str, int, float, bool, None, bytes, Ellipsis."""

    value: object


@dataclass(frozen=True)
class Items(Value):
    """A tuple, list or set display. `open` means it may hold more than `items` (a starred or computed part).

    `repeated` are items that come a number of times that is not known: `(AxisType.Auto,) * len(names)`.
    `names_of`, where it is open, is what it holds all of, but for names that some mesh lacks.
    """

    kind: str
    items: tuple[Value, ...]
    open: bool = False
    repeated: tuple[Value, ...] = ()
    names_of: Value | None = None


@dataclass(frozen=True)
class Table(Value):
    """A dict display with constant keys."""

    entries: tuple[tuple[object, Value], ...]
    open: bool = False

    def value_under(self, key: object) -> Value | None:
        """The value under a key."""
        return next((value for name, value in reversed(self.entries) if name == key), None)


@dataclass(frozen=True)
class TableMethod(Value):
    """`table.items`, `table.keys`, `table.values` or `table.get`."""

    table: Value
    name: str


@dataclass(frozen=True)
class Api(Value):
    """Something of a library: `name` is canonical, `written` is the dotted name that was imported."""

    name: str
    written: str


@dataclass(frozen=True)
class ModuleValue(Value):
    """A module of the checked project."""

    file: FileFacts


@dataclass(frozen=True)
class Function(Value):
    """A def or lambda of the checked project; `bound` once its self has been supplied.

    `receiver` is that self, where it is more than some instance of `owner`.
    """

    place: Place
    bound: bool = False
    owner: ClassValue | None = None
    receiver: Value | None = field(default=None, compare=False)

    @property
    def node(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda:
        """The definition."""
        assert isinstance(self.place.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        return self.place.node

    @property
    def positional_parameters(self) -> list[str]:
        """The parameters that positions of a call fill: of a bound method without the receiver."""
        args = self.node.args
        return [one.arg for one in (*args.posonlyargs, *args.args)][1 if self.bound else 0 :]


@dataclass(frozen=True)
class ClassValue(Value):
    """A class of the checked project."""

    place: Place

    @property
    def node(self) -> ast.ClassDef:
        """The definition."""
        assert isinstance(self.place.node, ast.ClassDef)
        return self.place.node


@dataclass(frozen=True)
class CallResult(Value):
    """The result of calling a class or a library function: `by` says which, `call` where and with what."""

    by: Value
    call: CallArguments | None

    @property
    def api(self) -> str:
        """Canonical name of the library function, or an empty string."""
        return self.by.name if isinstance(self.by, Api) else ""


@dataclass(frozen=True)
class Transformed(Value):
    """A function through a transform (`jax.jit(f)`, `functools.partial(f, 1)`, `jax.grad(f)`)."""

    api: Api
    inner: Value
    call: CallArguments | None


@dataclass(frozen=True)
class Parameter(Value):
    """A parameter whose argument is not known."""

    place: Place
    name: str


@dataclass(frozen=True)
class AxisOf(Unknown):
    """One of the axis names of a mesh that is a parameter: `mesh.axis_names[0]`; all of them without an `index`."""

    of: Parameter | None = None
    index: int | None = None


@dataclass(frozen=True)
class Assumed(Value):
    """A value that holds unless code out of sight overrides it, such as a default. `why` is the evidence in words.

    Code that asks for what the text proves takes it for unknown; `program.assume.Assuming` looks inside.
    """

    value: Value
    why: str


@dataclass(frozen=True)
class Leaves(Value):
    """A tree whose structure is not known, and what each of its leaves is. `kind` is "dict" where it is one."""

    of: Value
    kind: str = "tree"


@dataclass(frozen=True)
class Choice(Value):
    """One of several values, depending on the way taken."""

    options: tuple[Value, ...]


@dataclass(eq=False)
class Environment:
    """Values of the parameters of a function in one call of it."""

    values: Mapping[str, Value]
    asked: int = 0
    """How often it told something: what asks nothing of it is the same in every call."""
    elements: Mapping[ast.AST, Value] = field(default_factory=dict)
    """What the targets of the loops around are in one turn, by the nodes that bind them."""
    known: dict[ast.AST, tuple[Value, int]] = field(default_factory=dict, repr=False)
    """What expressions are in this call that asks something of it, and what that needed."""

    def clear_values(self) -> None:
        """Forget all of it."""
        self.values, self.elements = {}, {}
        self.known.clear()

    def parameter_value(self, name: str) -> Value | None:
        """Return the value of a parameter; None for any other name."""
        found = self.values.get(name)
        if found is not None:
            self.asked += 1
        return found

    def bound_value(self, name: str, kind: str, node: ast.AST) -> Value | None:
        """Return the value of a binding that is a parameter, or the target of a loop or comprehension."""
        found = self.elements.get(node)
        if found is not None:
            self.asked += 1
            return found
        return self.parameter_value(name) if kind in ("param", "comprehension") else None


# Parameters that later releases call otherwise: that of `jax.make_mesh` from jax 0.12.
_LATER_NAMES = {"axis_shapes": "axis_sizes"}


@dataclass(frozen=True, eq=False)
class CallArguments:
    """The arguments of a call, with those supplied earlier through `functools.partial` in front.

    Each argument is the expression and the file it stands in. `open` means `*args` or `**kwargs` hides some.
    `starred`: what `open_positional` hides is what stands in the call at `place`, from its first `*args` on.
    """

    place: Place
    positional: tuple[Place, ...]
    keywords: Mapping[str, Place]
    open_positional: bool = False
    open_keywords: bool = False
    environment: Environment | None = None
    starred: bool = False

    def argument_for(self, name: str, signature: tuple[str, ...]) -> Place | None:
        """The argument for a parameter, by keyword or position."""
        for keyword in (name, _LATER_NAMES.get(name, name)):
            if keyword in self.keywords:
                return self.keywords[keyword]
        if name in signature:
            index = signature.index(name)
            if index < len(self.positional):
                return self.positional[index]
        return None

    def may_have_argument(self, name: str, signature: tuple[str, ...]) -> bool:
        """Return whether the argument is given, or may be in a star argument."""
        hidden = self.open_keywords or (self.open_positional and name in signature)
        return hidden or self.argument_for(name, signature) is not None


class Values(Protocol):
    """Interface for evaluating expressions: the evaluator, or a view of it that assumes the most likely values."""

    own: OwnNames

    def rests_on_call(self) -> None:
        """Say that the answer being made may be another where a call in sight is looked at."""

    def value(self, place: Place, environment: Environment | None = None) -> Value:
        """Return the value of an expression."""

    def read_arguments(self, place: Place, env: Environment | None = None) -> CallArguments:
        """The arguments of a call as written."""

    def evaluate_binding(self, file: FileFacts, binding: Binding, env: Environment | None = None) -> Value:
        """Return the value of a binding."""

    def environment(self, place: Place) -> Environment | None:
        """Return the values of the parameters around an expression."""


def mark_assumed(value: Value, *reasons: Value) -> Value:
    """A value that rests on others: only assumed where one of them is."""
    why = next((reason.why for reason in reasons if isinstance(reason, Assumed)), None)
    return value if why is None or isinstance(value, Unknown | Assumed) else Assumed(value, why)


def accept_assumed(value: Value) -> Value:
    """A value with what is only assumed taken for what it is."""
    return value.value if isinstance(value, Assumed) else value


def options(value: Value) -> tuple[Value, ...]:
    """The value as its possibilities."""
    if isinstance(value, Choice):
        return tuple(option for choice in value.options for option in options(choice))
    return (value,)


def choose_value(values: list[Value]) -> Value:
    """One value for several possibilities: itself when they agree."""
    if len(values) == 1 and not isinstance(values[0], Choice):
        return values[0]
    flat = tuple(dict.fromkeys(option for value in values for option in options(value)))
    if not flat:
        return Unknown("nothing binds it")
    return flat[0] if len(flat) == 1 else Choice(flat)
