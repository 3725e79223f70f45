"""What an expression is known to be. Values are small, immutable, and remember where they were written."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardlint.facts import FileFacts, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Place:
    """A node in a file."""

    file: FileFacts
    node: ast.AST

    @property
    def line(self) -> int:
        """Line, counted from 1."""
        return int(getattr(self.node, "lineno", 1))

    @property
    def scope(self) -> Scope:
        """The scope in which the node is evaluated."""
        return self.file.home(self.node)

    def text(self) -> str:
        """The source text of the node."""
        return self.file.text(self.node)


class Value:
    """Base of all values."""

    __slots__ = ()


@dataclass(frozen=True)
class Unknown(Value):
    """Not told by the program text; `why` says what stopped us."""

    why: str = ""


@dataclass(frozen=True)
class Constant(Value):
    """A literal or a name bound to one: str, int, float, bool, None, bytes, Ellipsis."""

    value: object


@dataclass(frozen=True)
class Items(Value):
    """A tuple, list or set display. `open` means it may hold more than `items` (a starred or computed part).

    `repeated` are items that come a number of times that is not known: `(AxisType.Auto,) * len(names)`.
    """

    kind: str
    items: tuple[Value, ...]
    open: bool = False
    repeated: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Table(Value):
    """A dict display with constant keys."""

    entries: tuple[tuple[object, Value], ...]
    open: bool = False

    def get(self, key: object) -> Value | None:
        """The value under a key."""
        return next((value for name, value in reversed(self.entries) if name == key), None)


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
    """A def or lambda of the checked project; `bound` once its self has been supplied."""

    place: Place
    bound: bool = False
    owner: ClassValue | None = None

    @property
    def node(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda:
        """The definition."""
        assert isinstance(self.place.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        return self.place.node


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
class Made(Value):
    """The result of calling a class or a library function: `by` says which, `call` where and with what."""

    by: Value
    call: CallArguments | None

    @property
    def api(self) -> str:
        """Canonical name of the library function, or an empty string."""
        return self.by.name if isinstance(self.by, Api) else ""


@dataclass(frozen=True)
class Wrapped(Value):
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
class Choice(Value):
    """One of several values, depending on the way taken."""

    options: tuple[Value, ...]


@dataclass(eq=False)
class Environment:
    """What the parameters of a function are in one call of it."""

    values: Mapping[str, Value]
    asked: int = 0
    """How often it told something: what asks nothing of it is the same in every call."""

    def get(self, name: str) -> Value | None:
        """What a parameter is; None for any other name."""
        found = self.values.get(name)
        if found is not None:
            self.asked += 1
        return found


@dataclass(frozen=True, eq=False)
class CallArguments:
    """The arguments of a call, with those supplied earlier through `functools.partial` in front.

    Each argument is the expression and the file it stands in. `open` means `*args` or `**kwargs` hides some.
    """

    place: Place
    positional: tuple[Place, ...]
    keywords: Mapping[str, Place]
    open_positional: bool = False
    open_keywords: bool = False
    environment: Environment | None = None

    def get(self, name: str, signature: tuple[str, ...]) -> Place | None:
        """The argument for a parameter, by keyword or position."""
        if name in self.keywords:
            return self.keywords[name]
        if name in signature:
            index = signature.index(name)
            if index < len(self.positional):
                return self.positional[index]
        return None

    def may_have(self, name: str, signature: tuple[str, ...]) -> bool:
        """Whether the argument is there or could be hidden in a star argument."""
        hidden = self.open_keywords or (self.open_positional and name in signature)
        return hidden or self.get(name, signature) is not None


def options(value: Value) -> tuple[Value, ...]:
    """The value as its possibilities."""
    if isinstance(value, Choice):
        return tuple(option for choice in value.options for option in options(choice))
    return (value,)


def choice(values: list[Value]) -> Value:
    """One value for several possibilities: itself when they agree."""
    flat: list[Value] = []
    for value in values:
        for option in options(value):
            if option not in flat:
                flat.append(option)
    if not flat:
        return Unknown("nothing binds it")
    return flat[0] if len(flat) == 1 else Choice(tuple(flat))
