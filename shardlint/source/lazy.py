"""Dataclasses whose methods are made when the first instance is: what `dataclasses.dataclass` gives, later.

`dataclasses` writes the source of each method and compiles it, half a millisecond a class. A run over one file loads
some 240 such classes and makes instances of a quarter of them: a third of its time went there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type)
_LATER: dict[type, tuple[dict[str, bool], Any]] = {}
"""Classes without their methods yet: how they are to be made, and the `__init__` that the class itself has."""


@overload
def dataclass(cls: _Class, /) -> _Class: ...


@overload
def dataclass(*, frozen: bool = False, eq: bool = True) -> Callable[[_Class], _Class]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True) -> Any:
    """As `dataclasses.dataclass` with these options; an error in the fields shows at the first instance.

    `frozen` gives a hash and is for the type checker to hold: a guard at run time makes each instance twice as slow.
    Until then the class has no `__dataclass_fields__`: where those are asked of a class, take the standard one.
    """

    def made(cls: type) -> type:
        _LATER[cls] = {"frozen": frozen, "eq": eq}, vars(cls).get("__init__")

        def __init__(self: Any, *args: Any, **named: Any) -> None:
            _complete_class(cls)
            cls.__init__(self, *args, **named)  # type: ignore[misc]

        def __setstate__(self: Any, state: dict[str, Any]) -> None:  # an instance that another process made
            _complete_class(cls)
            self.__dict__.update(state)

        cls.__init__, cls.__setstate__ = __init__, __setstate__  # type: ignore[misc, attr-defined]
        return cls

    return made if cls is None else made(cls)


def _complete_class(cls: type) -> None:
    """Give a class its methods, and before it those it inherits from."""
    for one in reversed(cls.__mro__):
        if (later := _LATER.pop(one, None)) is not None:
            options, init = later
            del one.__init__, one.__setstate__  # type: ignore[misc, attr-defined]
            if init is not None:
                one.__init__ = init  # type: ignore[misc]
            dataclasses.dataclass(repr=False, eq=False)(one)
            _add_methods(one, **options)


def _add_methods(cls: Any, frozen: bool, eq: bool) -> None:
    """Give a class what a dataclass has besides its `__init__`: by closures, as compiling takes as long again."""
    own, fields = vars(cls), dataclasses.fields(cls)
    if "__repr__" not in own:
        cls.__repr__ = _make_repr
    if eq:
        hashes = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
        if "__eq__" not in own:
            cls.__eq__ = _make_equals(_field_values([one.name for one in fields if one.compare]))
        if not hashes:
            values = _field_values(
                [one.name for one in fields if (one.compare if one.hash is None else one.hash)]
            )
            cls.__hash__ = (lambda self: hash(values(self))) if frozen else None


def _field_values(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _make_equals(values: Callable[[Any], Any]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        if self is other:
            return True
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


@recursive_repr()
def _make_repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def complete_classes() -> None:
    """Give all classes so far their methods. To be called before a second thread starts: the above is for one."""
    for cls in list(_LATER):
        _complete_class(cls)
