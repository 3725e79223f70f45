"""Arguments of `eqx.filter_jit` and `nnx.jit` calls, by the names of the user's function.

Both hand `jax.jit` arguments of their own making, so that jax calls an array `dynamic['rest'][3]` or
`model.states[0][3]`. The arrays in them are those of the user: each is known again when its program first runs.
"""

from __future__ import annotations

import functools
import inspect
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .event_sink import silence_errors, write_event

_WRAPPED = ("dynamic_donate", "dynamic_nodonate", "dynamic")
_STATES = re.compile(r"^(\w+)(\.states\[.*)$")
_calls = threading.local()


def root_of_name(name: str) -> str:
    """The argument that an array is part of, by its name."""
    return name.partition("[")[0].partition(".")[0]


def split_name(name: str) -> tuple[str, str]:
    """The path of the tree that an array is in, and its key there, by its name."""
    cut = max(name.rfind("["), name.rfind("."))
    return (name[:cut], name[cut:]) if cut > 0 else ("", name)


def watch_calls(kind: Any) -> None:
    """Remember the arguments of each call of a wrapper while it lasts."""
    call = kind.__call__

    @functools.wraps(call)
    def call_and_remember(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        calls = _calls.__dict__.setdefault("now", [])
        waiting: list[Callable[[Any], None]] = []
        calls.append((self, args, kwargs, waiting))
        try:
            given = call(self, *args, **kwargs)
        finally:
            calls.pop()
        for one in waiting:
            one(given)
        return given

    kind.__call__ = call_and_remember


def is_call_remembered(given: Callable[[Any], None]) -> bool:
    """Have a function called with what the call of a wrapper gives to the user; False where none is being called."""
    calls = getattr(_calls, "now", None)
    if calls:
        calls[-1][3].append(given)
    return bool(calls)


def is_user_function(known: dict[str, Any]) -> bool:
    """Return whether a program is a function of the user's. `eqx.filter_jit` passes jax one of its own."""
    return bool(known["defined"] or getattr(_calls, "now", None))


@silence_errors
def note_names(known: dict[str, Any], args: Sequence[Any], lines: list[Any]) -> None:
    """Write down what a program's arguments and results are called, where its names are none of the user's."""
    calls, names = getattr(_calls, "now", None), known["arguments"]
    if not calls or not any(_is_generated_name(name) for name in names):
        return
    theirs = _paths_by_identity(*calls[-1][:3])
    found = {
        name: theirs[id(one)]
        for name, one in zip(names, args, strict=False)
        if id(one) in theirs and _is_generated_name(name)
    }
    # What goes in by a parameter comes out again in the same form, after the parameters that nnx returns first.
    order = list(dict.fromkeys(match[1] for name in names if (match := _STATES.match(name))))
    given = {}
    for result in known["results"]:
        match = re.match(r"^\[0\]\[(\d+)\](\.states\[.*)$", result)
        if match and (parameters := _parameter_names(calls[-1][0])) and int(match[1]) < len(parameters):
            name = parameters[int(match[1])]
            if name in order and f"{name}{match[2]}" in found:
                given[f"out{result}"] = found[f"{name}{match[2]}"]
    if found:
        write_event("named", name=known["name"], defined=known["defined"], lines=lines[:1], names={**found, **given})


def _is_generated_name(name: str) -> bool:
    return name.startswith(_WRAPPED) or bool(_STATES.match(name))


def _parameter_names(wrapper: Any) -> list[str]:
    return list(inspect.signature(getattr(wrapper, "__wrapped__", wrapper)).parameters)


def _paths_by_identity(wrapper: Any, args: Any, kwargs: Any) -> dict[int, str]:
    """The path of each array by its identity; of one that comes by several the first."""
    import jax

    function = getattr(wrapper, "__wrapped__", wrapper)
    signature = inspect.signature(function)
    found: dict[int, str] = {}
    for name, value in signature.bind_partial(*args, **kwargs).arguments.items():
        for path, one in jax.tree_util.tree_flatten_with_path(value)[0]:
            # The one array of a NamedArray has no name.
            found.setdefault(id(one), name + jax.tree_util.keystr(path).removesuffix("[<flat index 0>]"))
    # What a method belongs to, or a closure of equinox's, comes with the function.
    for path, one in jax.tree_util.tree_flatten_with_path(function)[0]:
        if hasattr(one, "shape"):
            found.setdefault(id(one), f"self{jax.tree_util.keystr(path)}")
    return found
