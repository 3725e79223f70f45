"""How objects of equinox's and flax's Modules were made, as code: their class called with what it was called with.

A Module that has been placed or updated is another object of the same class and form; it is known by these.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

_MOST = 200


class MadeModules:
    """The Modules that the program made, the outermost of each: by class, their forms and code."""

    def __init__(self) -> None:
        self.known: dict[type, list[tuple[Any, Any, str, str, set[str]]]] = {}
        self.results: dict[int, tuple[Any, str, str, set[str]]] = {}
        self.depth = threading.local()
        self.code: Any = None
        """Makes code of values; set by who writes."""
        self.context: Any = None
        """Says which kind of mesh context is entered; set by who writes."""

    def watch(self, kind: type) -> None:
        """Look on while a metaclass makes objects."""
        call = kind.__call__
        made = self

        def make_and_note(cls: Any, *args: Any, **kwargs: Any) -> Any:
            deep = getattr(made.depth, "now", 0)
            made.depth.now = deep + 1
            try:
                if deep or len(made.known.get(cls, ())) >= _MOST:
                    return call(cls, *args, **kwargs)
                written = made.before(cls, args, kwargs)
                one = call(cls, *args, **kwargs)
                made.after(cls, one, written)
                return one
            finally:
                made.depth.now = deep

        kind.__call__ = make_and_note  # type: ignore[method-assign]

    def watch_functions(self, module: Any, own: Any) -> None:
        """Keep how what a library's functions give was made, where the program's own code calls them: a transformation
        of optax is a pair of functions without names, and so is a schedule.
        """
        for name, function in list(vars(module).items()):
            if name.startswith("_"):
                continue
            if isinstance(function, types.FunctionType):
                setattr(module, name, self._watch_function(f"{module.__name__}.{name}", function, own))
            elif isinstance(function, type) and isinstance(vars(function).get("__init__"), types.FunctionType):
                self._watch_objects(f"{module.__name__}.{name}", function, own)

    def _watch_function(self, name: str, function: Any, own: Any) -> Any:
        @functools.wraps(function)
        def call_and_note(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if own(sys._getframe(1).f_code.co_filename) and len(self.results) < _MOST:
                self._note_object(name, args, kwargs, result)
            return result

        return call_and_note

    def _watch_objects(self, name: str, kind: Any, own: Any) -> None:
        """The same of a class of which there are transformations, as `optax.MultiSteps` is."""
        begin = kind.__init__

        @functools.wraps(begin)
        def begin_object(one: Any, *args: Any, **kwargs: Any) -> None:
            begin(one, *args, **kwargs)
            if own(sys._getframe(1).f_code.co_filename) and len(self.results) < _MOST and hasattr(one, "update"):
                self._note_object(name, args, kwargs, one, any_object=True)

        kind.__init__ = begin_object

    def _note_object(self, name: str, args: Any, kwargs: Any, result: Any, any_object: bool = False) -> None:
        try:
            if not any_object and not (callable(result) or (all(map(callable, result)) and result)):
                return
            written = self.code()
            given = [written.given("", one) for one in args]
            given += [f"{key}={written.given(key, one)}" for key, one in kwargs.items()]
            imports = {*written.imports, name.partition(".")[0]}
            # A tuple has no weak reference; as long as it is kept here its id is its own.
            self.results[id(result)] = (lambda: result, "none", f"{name}({', '.join(given)})", imports)
        except Exception:  # what cannot be written is left out, with what holds it
            return

    def before(self, cls: type, args: Any, kwargs: Any) -> tuple[str, set[str]] | None:
        """The code of a call before it is made; None where it cannot be written."""
        try:
            written = self.code()
            given = [written.given("", one) for one in args]
            given += [f"{name}={written.given(name, one)}" for name, one in kwargs.items()]
            return f"{written.known(cls)}({', '.join(given)})", written.imports
        except Exception:
            return None

    def after(self, cls: type, one: Any, written: tuple[str, set[str]] | None) -> None:
        """Keep it with the form of what was made."""
        try:
            if written is not None:
                known, context = self.known.setdefault(cls, []), self.context()
                for each, code, imports in (*_filtered_module(one, *written), (one, *written)):
                    known.append((form(each), _tree_structure(each), context, code, imports))
        except Exception:  # what has no form is not found again
            return

    def given_by(self, code: str, imports: set[str], outs: Any) -> None:
        """Keep how to get what a function gave: by calling it again. Of trees, what has a class of its own."""
        parts = [(outs, code)]
        if isinstance(outs, tuple):
            parts += [(one, f"{code}[{at}]") for at, one in enumerate(outs)]
        for one, how in parts:
            if not hasattr(one, "dtype") and len(self.results) < _MOST:
                try:
                    self.results[id(one)] = (weakref.ref(one), self.context(), how, imports)
                except TypeError:  # tuples, lists and dictionaries
                    continue

    def of(self, value: Any) -> tuple[str, set[str]] | None:
        """The code that makes a Module of this class and form, and what it imports."""
        if (known := self.results.get(id(value))) is not None and known[0]() is value:
            _, context, code, imports = known
            return self.under(context, code, imports)
        shape, structure = form(value), _tree_structure(value)
        alike = [one for one in reversed(self.known.get(type(value), [])) if one[0] == shape]
        # That of another structure may have other fields that do not count.
        for known in ([one for one in alike if one[1] == structure] or alike)[:1]:
            return self.under(*known[2:])
        return None

    def under(self, context: str, code: str, imports: set[str]) -> tuple[str, set[str]]:
        """Code that ran under a mesh, for where there is none."""
        if context == "none" or self.context() != "none":
            return code, imports
        around = "mesh" if context == "with" else "jax.set_mesh(mesh)"
        return f"under({around}, lambda: {code})", imports | {"jax"}


def _tree_structure(one: Any) -> Any:
    import jax

    return jax.tree_util.tree_structure(one)


def _filtered_module(one: Any, code: str, imports: set[str]) -> Iterator[tuple[Any, str, set[str]]]:
    """A Module of equinox without what is no array, as optimizers keep their state."""
    equinox = sys.modules.get("equinox")
    if equinox is not None and isinstance(one, equinox.Module):
        for name in ("is_array", "is_inexact_array"):
            kept = equinox.filter(one, getattr(equinox, name))
            yield kept, f"equinox.filter({code}, equinox.{name})", imports | {"equinox"}


def form(one: Any) -> Any:
    """Where the arrays of a tree are, and of what shape and type."""
    import jax

    return [
        (jax.tree_util.keystr(keys), tuple(leaf.shape), str(leaf.dtype))
        for keys, leaf in jax.tree_util.tree_flatten_with_path(one)[0]
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    ]


def named(value: Any, own: Any) -> tuple[str, str] | None:
    """The module and name that a value is kept under: its own, or one of the program's."""
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    public = [module for module in ("jax.nn", "jax.numpy", "jax.lax", "jax") if module in sys.modules]
    parts = str(home or "").split(".")
    for module in [*public, *(".".join(parts[:count]) for count in range(1, len(parts))), home]:
        last = name.rpartition(".")[2]
        if module and last.isidentifier() and getattr(sys.modules.get(module), last, None) is value:
            return module, last
    for module, there in list(sys.modules.items()):
        file = getattr(there, "__file__", None)
        if isinstance(file, str) and own(file):
            for key, each in list(vars(there).items()):
                if each is value and not key.startswith("__"):
                    return module, key
    return None
