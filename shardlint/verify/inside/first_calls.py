"""Runs a program until it has called each of some jitted functions once, and gives what these were given and gave.

A program that places its arrays in `main` has no function that could be asked where they lie. So it is run, as a script
is, up to there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import pjit, stages

from shardlint.verify.inside import reads, tree
from shardlint.verify.inside.checks import sharding_text
from shardlint.verify.inside.compiled import NoShardings

_LIBRARIES = (("equinox._jit", "_JitWrapper"), ("flax.nnx.transforms.compilation", "JitWrapped"))


class _Enough(BaseException):
    """All were called."""


def run_script(
    script: str, arguments: Sequence[str], functions: Mapping[str, str], gone: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, Any]]:
    """See `shardlint.verify.first_calls`."""
    if isinstance(jax.numpy.zeros(()), jax.core.Tracer):
        raise NoShardings("fn runs a whole program, which cannot be traced")
    calls = _Calls(functions, gone)
    module = script.startswith("-m ")
    argv, path = list(sys.argv), list(sys.path)
    try:
        sys.argv[:] = [script.removeprefix("-m "), *arguments]
        with reads.whatever_the_time(), calls.watch_calls(), contextlib.suppress(_Enough):
            if module:
                runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(Path(script).resolve().parent))
                runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    finally:
        sys.argv[:], sys.path[:] = argv, path
    if missing := [name for name in functions if name not in calls.found]:
        raise LookupError(f"{script} ended and never called {', '.join(missing)}")
    if calls.kept:
        raise AssertionError("; ".join(calls.kept))
    return calls.found


class _Finder(importlib.abc.MetaPathFinder):
    """Tells of the jits of equinox and flax, where they are imported already or once they are."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self.tell = tell
        self.wanted = {module: name for module, name in _LIBRARIES if module not in sys.modules}
        for module, name in _LIBRARIES:
            if module in sys.modules and hasattr(sys.modules[module], name):
                tell(getattr(sys.modules[module], name))

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The module itself, which is looked at when it has run."""
        name = self.wanted.pop(fullname, None)
        spec = None if name is None else importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            if hasattr(module, str(name)):
                self.tell(getattr(module, str(name)))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _Calls:
    """Recorded first calls. `kept` are failures: arguments whose buffers the function no longer donates."""

    def __init__(self, functions: Mapping[str, str], gone: Mapping[str, Mapping[str, int]]) -> None:
        self.functions, self.gone = functions, gone
        self.found: dict[str, dict[str, Any]] = {}
        self.kept: list[str] = []
        self.busy = threading.local()

    @contextlib.contextmanager
    def watch_calls(self) -> Iterator[None]:
        """Look on where jax, equinox and flax begin a call that is new to them; afterwards they are as before."""
        changed: list[tuple[Any, str, Any]] = []

        def replace_function(owner: Any, name: str, function: Any) -> None:
            changed.append((owner, name, getattr(owner, name)))
            setattr(owner, name, function)

        if hasattr(pjit, "_run_python_pjit"):  # jax 0.9 on
            newer = pjit._run_python_pjit
            replace_function(
                pjit,
                "_run_python_pjit",
                lambda p, flat, fun, args, kwargs: self.make_call(
                    fun, args, kwargs, lambda: newer(p, flat, fun, args, kwargs), lambda outs: outs[0]
                ),
            )
        else:
            older = pjit._python_pjit_helper
            replace_function(
                pjit,
                "_python_pjit_helper",
                lambda fun, info, *args, **kwargs: self.make_call(
                    fun, args, kwargs, lambda: older(fun, info, *args, **kwargs), lambda outs: outs[0]
                ),
            )
        self._watch_lowered(replace_function)
        finder = _Finder(lambda kind: replace_function(kind, "__call__", self._wrap_call(kind.__call__)))
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            for owner, name, function in reversed(changed):
                setattr(owner, name, function)

    def _watch_lowered(self, put: Callable[[Any, str, Any], None]) -> None:
        """Look on where what `step.lower(...).compile()` gave is called: as a call of the function itself."""
        infer: Any = getattr(pjit, "_infer_params", None)
        begin = stages.Lowered.__init__
        make, call = stages.Lowered.compile, stages.Compiled.__call__
        made: dict[int, tuple[Any, Any]] = {}

        def infer_and_note(fun: Any, info: Any, args: Any, kwargs: Any) -> Any:
            found = infer(fun, info, args, kwargs)
            # Not of one that is called while jax traces or lowers another.
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(args)):
                self.busy.last = fun
            return found

        def lower_and_note(one: Any, *args: Any, **kwargs: Any) -> None:
            begin(one, *args, **kwargs)
            fun = self.busy.__dict__.pop("last", None)
            if fun is not None:
                made[id(one)] = one, fun

        def compile_and_note(one: Any, *args: Any, **kwargs: Any) -> Any:
            result = make(one, *args, **kwargs)
            if id(one) in made:
                made[id(result)] = result, made[id(one)][1]
            return result

        def call_and_note(one: Any, /, *args: Any, **kwargs: Any) -> Any:
            fun = made.get(id(one), (None, None))[1]
            return self.make_call(fun, args, kwargs, lambda: call(one, *args, **kwargs), lambda outs: outs)

        for owner, name, function in (
            (pjit, "_infer_params", infer_and_note), (stages.Lowered, "__init__", lower_and_note),
            (stages.Lowered, "compile", compile_and_note), (stages.Compiled, "__call__", call_and_note),
        ):  # fmt: skip
            if hasattr(owner, name):
                put(owner, name, function)

    def _wrap_call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def call_and_note(wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
            fun = getattr(wrapper, "__wrapped__", None)
            return self.make_call(fun, args, kwargs, lambda: call(wrapper, *args, **kwargs), lambda outs: outs)

        return call_and_note

    def make_call(
        self, fun: Any, args: Any, kwargs: Any, go: Callable[[], Any], result: Callable[[Any], Any]
    ) -> Any:
        """Make a call; with a note of it, where it is the first of a function that was asked for."""
        name = None if getattr(self.busy, "now", False) else self._requested_name(fun)
        leaves = [] if name is None else jax.tree_util.tree_leaves((args, kwargs))
        if name is None or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return go()
        self.busy.now = True
        try:
            found = {**paths_of_arrays("args", args), **paths_of_arrays("kwargs", kwargs)}
            arrays = {path: _make_twin(leaf, zero=True) for path, leaf in found.items()}
            before = {f"args/{at}": one for at, one in enumerate(args)}
            before |= {f"kwargs/{key}": one for key, one in kwargs.items()}
            # What changes its arguments in place lets these leaves be.
            before = {path: jax.tree_util.tree_leaves(one) for path, one in before.items()}
            outs = go()
            self._note_given_up(name, before, found)
            arrays |= {
                path: _make_twin(leaf) for path, leaf in paths_of_arrays("result", result(outs)).items()
            }
            self.found[name] = arrays
        finally:
            self.busy.now = False
        if len(self.found) == len(self.functions):
            raise _Enough
        return outs

    def _requested_name(self, fun: Any) -> str | None:
        """Under which name a function was asked for, or the one that it is a partial or a wrapper of."""
        for _ in range(8):
            code: Any = getattr(fun, "__code__", None)
            for name, asked in self.functions.items() if code is not None else ():
                file, _, qualname = asked.rpartition(":")
                if name not in self.found and fun.__qualname__ == qualname and code.co_filename.endswith(file):
                    return name
            fun = getattr(fun, "func", None) or getattr(fun, "__wrapped__", None)
        return None

    def _note_given_up(self, name: str, given: Mapping[str, list[Any]], found: Mapping[str, Any]) -> None:
        for path, count in self.gone.get(name, {}).items():
            now = sum(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in given.get(path, ()))
            if now < count:
                # A buffer that no result lies like is not given up either: where they lie is told too.
                came = [f"{one} {sharding_text(leaf.sharding)}" for one, leaf in found.items()]
                self.kept.append(
                    f"{name} no longer donates all of {path}: {count} of its arrays were donated, now {now}. "
                    f"Its arguments are {', '.join(came[:6])}{' ...' if len(came) > 6 else ''}"
                )


def paths_of_arrays(root: str, value: Any) -> dict[str, Any]:
    """The arrays on devices in a tree by their paths; random keys are left out."""
    return {
        "/".join(part for part in (root, path) if part): leaf
        for path, _, leaf in tree.flatten_tree(value)
        if isinstance(leaf, jax.Array) and not tree.is_key(leaf.dtype)
    }


def _make_twin(leaf: Any, zero: bool = False) -> Any:
    """An array that lies as another one does, in memory of its own; with `zero`, of zeros."""
    if leaf.is_deleted():
        return leaf
    parts = [
        jax.device_put(np.zeros(shard.data.shape, leaf.dtype) if zero else np.array(shard.data), shard.device)
        for shard in leaf.addressable_shards
    ]
    return jax.make_array_from_single_device_arrays(leaf.shape, leaf.sharding, parts)
