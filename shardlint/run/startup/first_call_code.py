"""Recording of the arguments of each jitted function's first call, as code, for `shardlint verify --init`.

Loaded by its file at the start of a process. Once jax is there it looks on where a jitted function is called with
arguments it has not seen: before donated buffers are gone, once for each function. It never fails a program.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import inspect
import json
import os
import sys
import threading
import types
from typing import Any

_LEAVES = 4000
made: Any = None
"""How Modules were made (`made.py`)."""
writes: Any = None
"""What `written.py` defines."""
factories: Any = None
"""How functions were made in others (`factories.py`)."""
arrivals: Any = None
"""Where the arrays of a call lay (`arrivals.py`)."""


def begin(folder: str, *beside: dict[str, Any]) -> None:
    """Look on from when jax, equinox and flax are imported. The others are what the files beside define."""
    global made, writes, factories, arrivals
    makes, written, makers, returns, arrived = beside
    arrivals = types.SimpleNamespace(**{name: arrived[name] for name in ("before", "after", "path")})
    factories = makers["Factories"]()
    made = makes["MadeModules"]()
    names = ("Code", "Unwritten", "own", "guarded", "main_module")
    writes = types.SimpleNamespace(**{name: written[name] for name in names})
    made.code, made.named, made.context = writes.Code, makes["named"], lambda: _mesh_context_of_call()[0]
    written["made"], makers["writes"] = made, writes
    recorder = _Recorder(folder)
    factories.running = returns["Returned"](recorder.returned, lambda: len(recorder.seen))
    sys.meta_path.insert(
        0,
        _Finder(
            {
                "jax._src.pjit": recorder.watch,
                "jax._src.stages": recorder.watch_ahead,
                "equinox._jit": lambda module: recorder.watch_calls(
                    module, "_JitWrapper", _equinox_donations
                ),
                "equinox._module._module": lambda module: made.watch(type(module.Module)),
                "flax.nnx.transforms.compilation": lambda module: recorder.watch_calls(
                    module, "JitWrapped", _nnx_jit_settings
                ),
                "flax.nnx.pytreelib": lambda module: made.watch(module.PytreeMeta),
                "optax": lambda module: made.watch_functions(module, writes.own),
            }
        ),
    )


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wanted: dict[str, Any]) -> None:
        self.wanted = wanted

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        watch = self.wanted.pop(name, None)
        if watch is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            with contextlib.suppress(Exception):  # of a release that has it otherwise nothing is written
                watch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _equinox_donations(wrapper: Any) -> Any:
    """Return the donated arguments of an `eqx.filter_jit`."""
    first, rest = wrapper.donate_first, wrapper.donate_rest
    return types.SimpleNamespace(donate_argnums=[at for at in range(64) if (first if at == 0 else rest)])


def _nnx_jit_settings(wrapper: Any) -> Any:
    """Return the settings that `nnx.jit` passed to `jax.jit`."""
    return wrapper.jitted_fn._jit_info


class _Recorder:
    """`seen` holds the functions that were told, or of which it was said why not, by their ids: it keeps them alive."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.seen: dict[int, Any] = {}
        self.given: dict[int, Any] = {}
        self.busy = threading.local()
        self.ahead: dict[int, tuple[Any, Any, Any]] = {}
        """What was lowered or compiled by name, with the function and what `jax.jit` was given, by its id."""

    def remember(self, fun: Any, info: Any, args: Any) -> None:
        """Which function is about to be lowered; not one that is called while jax traces or lowers another."""
        import jax

        if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(args)):
            self.busy.last = fun, info

    def watch_ahead(self, stages: Any) -> None:
        """Record calls after `step.lower(...).compile()` as calls of the function itself."""
        begin, make, call = stages.Lowered.__init__, stages.Lowered.compile, stages.Compiled.__call__

        @functools.wraps(begin)
        def lower_and_record(one: Any, *args: Any, **kwargs: Any) -> None:
            begin(one, *args, **kwargs)
            last = self.busy.__dict__.pop("last", None)
            if last is not None:
                self.ahead[id(one)] = (one, *last)
                self.note_lowered(last[0])

        @functools.wraps(make)
        def compile_and_record(one: Any, *args: Any, **kwargs: Any) -> Any:
            result = make(one, *args, **kwargs)
            if id(one) in self.ahead:
                self.ahead[id(result)] = (result, *self.ahead[id(one)][1:])
            return result

        @functools.wraps(call)
        def call_and_record(one: Any, /, *args: Any, **kwargs: Any) -> Any:
            _, fun, info = self.ahead.get(id(one), (None, None, None))
            told = None if fun is None else self.before(fun, args, kwargs, info)
            if told is not None and info is not None and info.static_argnums and "skip" not in told:
                told = {**told, "skip": "it was compiled ahead of time, without its static arguments"}
            outs = call(one, *args, **kwargs)
            self.after(told, outs)
            return outs

        stages.Lowered.__init__, stages.Lowered.compile, stages.Compiled.__call__ = (
            lower_and_record,
            compile_and_record,
            call_and_record,
        )

    def note_lowered(self, fun: Any) -> None:
        """Record that a function was lowered, for when it is never called. A call of it replaces this."""
        inner = _function_of_partial(fun)
        code = getattr(inner, "__code__", None)
        if code is None or not writes.own(code.co_filename) or id(fun) in self.seen:
            return
        why = "it was lowered or compiled ahead of time and never called, so its results are not known"
        with contextlib.suppress(Exception):  # the program goes on without
            self.write_record({"name": inner.__qualname__, **_place_of_code(code), "skip": why, "lowered": True})

    def write_record(self, told: dict[str, Any]) -> None:
        """Write what is known of a function to a file of its own."""
        path = os.path.join(self.folder, f"{os.getpid()}-{len(os.listdir(self.folder))}.json")  # noqa: PTH118, PTH208
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(told, file, default=str)

    def watch(self, pjit: Any) -> None:
        """Both ways, as releases have it, in which a call that is new goes; and where jits are made."""
        if hasattr(pjit, "make_jit"):
            factories.watch(pjit)
        if hasattr(pjit, "_run_python_pjit"):  # jax 0.9 on
            run, infer = pjit._run_python_pjit, pjit._infer_params

            def infer_and_record(fun: Any, info: Any, args: Any, kwargs: Any) -> Any:
                p = infer(fun, info, args, kwargs)
                self.given[id(p[0])] = info
                self.remember(fun, info, args)
                return p

            def call_in_newer_release(p: Any, flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
                told = self.before(fun, args, kwargs, self.given.pop(id(p), None))
                outs = run(p, flat, fun, args, kwargs)
                self.after(told, outs[0])
                return outs

            pjit._run_python_pjit, pjit._infer_params = call_in_newer_release, infer_and_record
        elif hasattr(pjit, "_python_pjit_helper"):
            helper, infer_older = pjit._python_pjit_helper, getattr(pjit, "_infer_params", None)

            def inferred_older(fun: Any, info: Any, *args: Any) -> Any:
                found = infer_older(fun, info, *args)  # type: ignore[misc]
                self.remember(fun, info, args[0])
                return found

            def call_in_older_release(fun: Any, info: Any, *args: Any, **kwargs: Any) -> Any:
                told = self.before(fun, args, kwargs, info)
                outs = helper(fun, info, *args, **kwargs)
                self.after(told, outs[0])
                return outs

            pjit._python_pjit_helper = call_in_older_release
            if infer_older is not None:
                pjit._infer_params = inferred_older

    def watch_calls(self, module: Any, name: str, info: Any) -> None:
        """Record the arguments of a library's jit, rather than those that it passes to `jax.jit`."""
        for maker in ("filter_jit", "jit"):
            if maker in vars(module):
                setattr(module, maker, factories.note_maker(vars(module)[maker]))
        kind = getattr(module, name)
        call = kind.__call__

        @functools.wraps(call)
        def call_and_record(wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
            if getattr(self.busy, "inside", False):
                return call(wrapper, *args, **kwargs)
            fun = getattr(wrapper, "__wrapped__", None)
            told = self.before(fun, args, kwargs, info(wrapper), name)
            self.busy.inside = True
            try:
                outs = call(wrapper, *args, **kwargs)
            finally:
                self.busy.inside = False
            self.after(told, outs)
            return outs

        kind.__call__ = call_and_record

    def before(
        self, fun: Any, args: Any, kwargs: Any, info: Any = None, library: str = ""
    ) -> dict[str, Any] | None:
        busy = getattr(self.busy, "now", False) or getattr(self.busy, "inside", False)
        if id(fun) in self.seen or busy:
            return None
        self.busy.now = True
        try:
            told = self._record_before(fun, args, kwargs, info, library)
            found: dict[str, Any] | None = arrivals.before(fun, told, args, kwargs, writes.own)
            return found
        finally:
            self.busy.now = False

    def _record_before(self, fun: Any, args: Any, kwargs: Any, info: Any, library: str) -> dict[str, Any] | None:
        try:
            return _facts_of_call(fun, args, kwargs, info, library)
        except Exception as error:
            code = getattr(_function_of_partial(fun), "__code__", None)
            why = str(error) if isinstance(error, writes.Unwritten) else f"{type(error).__name__}: {error}"[:200]
            told = {"fun": fun, "name": getattr(_function_of_partial(fun), "__qualname__", "?"), "skip": why}
            return told if code is None else {**told, "file": code.co_filename, "line": code.co_firstlineno}

    def returned(self, of: Any, given: dict[str, Any], outs: Any) -> None:
        """Record the results of a function that jits and places arrays inside. Ignore a function that returns no
        arrays on a mesh.
        """
        if getattr(self.busy, "now", False):
            return
        self.busy.now = True
        try:
            told = _facts_of_return(of, given, outs)
        except Exception:  # its arguments cannot be written
            return
        finally:
            self.busy.now = False
        self.after(told, outs)

    def after(self, told: dict[str, Any] | None, outs: Any) -> None:
        if told is None or self.busy.__dict__.get("now"):
            return
        self.busy.now = True
        try:
            fun = told.pop("fun", None)
            if fun is not None:
                self.seen[id(fun)] = fun
            changed = told.pop("changed", {})
            arrivals.after(told, outs)
            if "skip" not in told:
                told["out"] = _placed_arrays((outs, *map(_state_of_object, changed.values())) if changed else outs)
                told["after"] = list(changed)
                _note_results(told, outs)
            self.write_record(told)
        except Exception:  # the program goes on without
            return
        finally:
            self.busy.now = False


def _place_of_code(code: Any) -> dict[str, Any]:
    return {"file": os.path.abspath(code.co_filename), "line": code.co_firstlineno}  # noqa: PTH100


def _own_function_inside(fun: Any) -> Any:
    """The program's own function that a library's closes over; None where there is none."""
    waiting: list[Any] = [fun]
    done: list[Any] = []
    while waiting and len(done) < 200:
        one = waiting.pop(0)
        if one is None or any(one is each for each in done):
            continue
        done.append(one)
        code = getattr(one, "__code__", None)
        if code is not None and writes.own(code.co_filename):
            return one
        waiting += [getattr(one, name, None) for name in ("__wrapped__", "func", "f", "fun")]
        for cell in getattr(one, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # an empty one
                waiting.append(cell.cell_contents)
    return None


def _note_results(told: dict[str, Any], outs: Any) -> None:
    """Note that the results of a function can be made by calling it again, if its arguments are short."""
    codes = [one["code"] for one in told["args"]]
    module = writes.Code().module(told["module"])
    if made is not None and module and told["jit"] is None and told["made"] is None and sum(map(len, codes)) < 200:
        imports = {module, *(name for one in told["args"] for name in one["imports"])}
        made.given_by(f"{module}.{told['attribute']}({', '.join(codes)})", imports, outs)


def _facts_of_call(fun: Any, args: Any, kwargs: Any, info: Any, library: str = "") -> dict[str, Any] | None:
    """Return the facts about a call before it is made; None for one that is not the user's."""
    import jax

    whole, fun = fun, _function_of_partial(fun)
    code = getattr(fun, "__code__", None)
    leaves = jax.tree_util.tree_leaves((args, kwargs))
    if code is None or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    if fun.__qualname__.startswith("_cached_shard_map."):  # of jax.pmap, since 0.8
        why = "calls through jax.pmap cannot be recorded"
        mapped = _own_function_inside(fun)
        if mapped is None:
            return {"fun": whole, "name": "a mapped function", "skip": why}
        return {"fun": whole, "name": mapped.__qualname__, **_place_of_code(mapped.__code__), "skip": why}
    for part, how in ((f"{os.sep}equinox{os.sep}", "eqx.filter_jit"), (f"flax{os.sep}nnx", "nnx.jit")):
        if part in code.co_filename:
            name = getattr(fun, "__name__", how)
            return {"fun": whole, "name": name, "skip": f"calls through {how} cannot be recorded"}
    if not writes.own(code.co_filename):
        return None
    told = {
        "fun": whole,
        **_place_of_code(code),
        "name": fun.__qualname__,
    }
    names = vars(sys.modules[fun.__module__])
    found = [(name, one) for name, one in _objects_bound_to(names) if _is_jit_of(one, whole)]
    given: list[str] = []
    around: str | None = None
    made_by: str | None = None
    imports: list[str] = []
    if found:
        info = info or getattr(found[0][1], "_jit_info", None)
    else:
        found = [] if library else [(name, one) for name, one in names.items() if one is fun]
        inside = factories.of(fun) if not found and fun.__name__.isidentifier() else None
        inline = _inline_jit_as_code(fun, names, info, library) if inside is None else None
        if inline is not None:
            found, made_by, imports = [(fun.__name__, whole)], *inline
        elif not found and inside is None:
            factories.watch_around()
            return {
                **told,
                "skip": "it has no name in its module, so a fixture cannot refer to it",
            }
        if info is None or (library and inside is not None and not inside[0].startswith("found(")):
            return {**told, "skip": "its arguments to jax.jit are not known"}
        if inline is None and (inside is None or not (library or inside[2])):
            around, imports = _jit_options_as_code(info)
        if inside is not None:
            found = [(fun.__name__, whole)]
            made_by, imports = inside[0], sorted({*imports, *inside[1]})
        elif not library and (again := factories.jitted(whole)) is not None:
            # Made there, so that a change of its options is seen.
            around, (made_by, imports) = None, (again[0], sorted(again[1]))
        if whole is not fun and (made_by is None or inside is not None):
            given, more = _bound_arguments_as_code(whole)
            imports = sorted({*imports, *more, "functools"})
    name = found[0][0]
    if kwargs:
        bound = inspect.signature(whole).bind(*args, **kwargs)
        if bound.kwargs:
            return {**told, "skip": "it takes arguments by keyword only, and a fixture passes them by position"}
        args = bound.args
    if len(leaves) > _LEAVES:
        return {**told, "attribute": name, "skip": f"it has more than {_LEAVES} arrays as arguments"}
    static = getattr(info, "static_argnums", ())
    asked = _shardings_asked_for(info, [one for at, one in enumerate(args) if at not in static])
    leaves += [one for tree in asked for one in jax.tree_util.tree_leaves(tree)]
    leaves += list(getattr(info, "out_shardings_leaves", ()))
    meshes = [mesh for leaf in leaves if (mesh := _mesh_of_leaf(leaf)) is not None]
    context, now = _mesh_context_of_call()
    return {
        **told,
        "attribute": name,
        "module": _importable_module(fun),
        "guarded": fun.__module__ != "__main__" or writes.guarded(code.co_filename),
        "context": context,
        "mesh": _axis_sizes(meshes[0] if meshes else now),
        "explicit": _is_explicit(meshes[0] if meshes else now),
        "jit": around,
        "made": made_by,
        "qualname": fun.__qualname__,
        "partial": given,
        "changed": {at: one for at, one in enumerate(args) if _is_graph(one)} if library == "JitWrapped" else {},
        "imports": imports,
        "donate": [at for at in getattr(info, "donate_argnums", ()) if at < len(args)],
        "args": [_describe_argument(one, None if at in static else asked.pop(0)) for at, one in enumerate(args)],
    }


def _facts_of_return(of: Any, given: dict[str, Any], outs: Any) -> dict[str, Any] | None:
    """Return the facts about a function without a jit that returned arrays on a mesh; None for any other."""
    import jax

    leaves = jax.tree_util.tree_leaves((outs, list(given.values())))
    meshes = [mesh for leaf in leaves if (mesh := _mesh_of_leaf(leaf)) is not None]
    meshes += [one for one in given.values() if isinstance(one, jax.sharding.Mesh)]
    results = _placed_arrays(outs)
    if not meshes or sum(spec is not None for _, _, spec in results) < 2 or len(leaves) > _LEAVES:
        return None
    written, file = writes.Code(), of.__code__.co_filename
    names = [name for name in given if not isinstance(given[name], jax.sharding.Mesh) or name != "mesh"]
    context, _ = _mesh_context_of_call()
    bound = isinstance(of, types.MethodType)
    name = f"{written.known(of.__self__)}.{of.__name__}" if bound else written.by_name(of)
    return {
        "fun": of,
        "file": os.path.abspath(file),  # noqa: PTH100
        "line": of.__code__.co_firstlineno,
        "name": of.__qualname__,
        "attribute": f"{of.__self__.__name__}.{of.__name__}" if bound else of.__name__,
        "module": _importable_module(of),
        "guarded": of.__module__ != "__main__" or writes.guarded(file),
        "context": context,
        "mesh": _axis_sizes(meshes[0]),
        "explicit": _is_explicit(meshes[0]),
        "jit": None,
        "made": f"arrays_of({name}, {names!r}{', mesh=mesh' if len(names) < len(given) else ''})",
        "qualname": of.__qualname__,
        "places": True,
        "partial": [],
        "imports": sorted(written.imports),
        "donate": [],
        "args": [_describe_argument(given[each], {}) for each in names],
    }


def _is_graph(one: Any) -> bool:
    """Return whether an argument is an object of flax.nnx, which a function changes in place."""
    nnx = sys.modules["flax.nnx"]
    return isinstance(one, nnx.Variable) or bool(nnx.graph.is_graph_node(one) and _leaves_of_tree(one))


def _state_of_object(one: Any) -> Any:
    return sys.modules["flax.nnx"].state(one)


def _leaves_of_tree(one: Any) -> list[Any]:
    import jax

    return [leaf for leaf in jax.tree_util.tree_leaves(one) if hasattr(leaf, "dtype")]


def _importable_module(fun: Any) -> str:
    """The module of a function, as another file imports it."""
    return str(writes.main_module() if fun.__module__ == "__main__" else fun.__module__)


def _function_of_partial(fun: Any) -> Any:
    """The function that a partial is of."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return fun


def _bound_arguments_as_code(fun: Any) -> tuple[list[str], set[str]]:
    """Return the bound arguments of a partial as code, and the imports of the code."""
    written = writes.Code()
    given: list[str] = []
    while isinstance(fun, functools.partial):
        given = [*map(written.of, fun.args), *given]
        given += [f"{name}={written.of(one)}" for name, one in fun.keywords.items()]
        fun = fun.func
    return given, written.imports


def _objects_bound_to(names: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the objects bound to names in a module and its classes."""
    found = list(names.items())
    for name, one in names.items():
        if isinstance(one, type) and one.__module__ == names.get("__name__"):
            found += [(f"{name}.{key}", each) for key, each in vars(one).items()]
    return found


def _is_jit_of(one: Any, fun: Any) -> bool:
    """Return whether a value is a jit of a function, also as a method of a class."""
    for _ in range(3):
        if isinstance(one, staticmethod):
            one = one.__func__
        elif type(one).__name__ == "_wrap_method":  # equinox's
            one = one.method
        else:
            break
    try:
        return getattr(one, "__wrapped__", None) is fun
    except Exception:
        return False


def _jit_options_as_code(info: Any) -> tuple[str, list[str]]:
    """The options of a jit as code, with `mesh` in its shardings, and what that imports."""
    import jax

    said = [
        f"{name}={getattr(info, name)!r}"
        for name in ("static_argnums", "donate_argnums")
        if getattr(info, name)
    ]
    written = writes.Code(short=True)
    for name in ("in_shardings", "out_shardings"):
        leaves, tree = getattr(info, f"{name}_leaves"), getattr(info, f"{name}_treedef")
        if all(type(leaf).__name__ == "UnspecifiedValue" for leaf in leaves):
            continue
        said.append(f"{name}={written.of(jax.tree_util.tree_unflatten(tree, leaves))}")
    return ", ".join(said), sorted(written.imports - {"jax"})


def _inline_jit_as_code(
    fun: Any, names: dict[str, Any], info: Any, library: str
) -> tuple[str, list[str]] | None:
    """The code of a library's jit around a function that has a name in its module, and what it imports.

    None if the function has none, or if the options of the jit cannot be written.
    """
    name = f"{_importable_module(fun)}.{fun.__name__}"
    if not library or info is None or names.get(fun.__name__) is not fun:
        return None
    module, given = name.rpartition(".")[0], list(info.donate_argnums)
    if library == "_JitWrapper":
        donated = f', donate="{"all" if 0 in given else "all-except-first"}"' if given else ""
        return f"equinox.filter_jit({name}{donated})", ["equinox", module]
    shardings = (*info.in_shardings_leaves, *info.out_shardings_leaves)
    if any(leaf is not None and type(leaf).__name__ != "UnspecifiedValue" for leaf in shardings):
        return None
    numbers = {one: getattr(info, one) for one in ("static_argnums", "donate_argnums")}
    options = "".join(f", {one}={value!r}" for one, value in numbers.items() if value)
    return f"flax.nnx.jit({name}{options})", ["flax.nnx", module]


def _mesh_context_of_call() -> tuple[str, Any]:
    """The mesh context around the call, as a fixture names it."""
    import jax
    from jax._src import mesh as meshes

    legacy = meshes.thread_resources.env.physical_mesh
    if not legacy.empty:
        return "with", legacy
    now = getattr(meshes, "get_concrete_mesh", lambda: None)()
    if now is not None and not getattr(now, "empty", False):
        return "set_mesh", now
    abstract = getattr(jax.sharding, "get_abstract_mesh", lambda: None)()
    return ("none", None) if abstract is None or abstract.empty else ("set_mesh", abstract)


def _shardings_asked_for(info: Any, args: list[Any]) -> list[Any]:
    """The in_shardings of each argument that is not static, one for each of its arrays; None where it has none."""
    import jax

    leaves = getattr(info, "in_shardings_leaves", ())
    if not any(hasattr(leaf, "spec") for leaf in leaves):
        return [{} for _ in args]
    prefix = jax.tree_util.tree_unflatten(info.in_shardings_treedef, leaves)
    if not isinstance(prefix, tuple):
        prefix = (prefix,) * len(args)
    found = []
    for one, value in zip(prefix, args, strict=True):
        spread = jax.tree_util.tree_map(
            lambda sharding, part: jax.tree_util.tree_map(lambda _: sharding, part),
            one,
            value,
            is_leaf=lambda part: part is None,
        )
        pairs = jax.tree_util.tree_flatten_with_path(spread)[0]
        found.append({arrivals.path(keys): sharding for keys, sharding in pairs})
    return found


def _mesh_of_leaf(leaf: Any) -> Any:
    sharding = leaf if hasattr(leaf, "spec") else getattr(leaf, "sharding", None)
    return getattr(sharding, "mesh", None) if hasattr(sharding, "spec") else None


def _axis_sizes(mesh: Any) -> dict[str, int]:
    return {} if mesh is None else {str(name): int(size) for name, size in dict(mesh.shape).items()}


def _is_explicit(mesh: Any) -> bool:
    return any(str(kind).endswith("Explicit") for kind in getattr(mesh, "axis_types", None) or ())


def _describe_argument(value: Any, asked: Any) -> dict[str, Any]:
    """An argument as the code that makes it, and the specs of its arrays; `asked` None: it is static."""
    written = writes.Code()
    return {
        "code": written.of(value),
        "imports": sorted(written.imports),
        "below": written.below,
        "specs": [] if asked is None else _placed_arrays(value, asked),
    }


def _placed_arrays(tree: Any, asked: Any = None) -> list[list[Any]]:
    """Path, array and spec (None: on no mesh) of each array; where it was placed nowhere, that of `asked`."""
    import jax

    found = []
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            continue
        path = arrivals.path(keys)
        spec = getattr(getattr(leaf, "sharding", None), "spec", None)
        spec = getattr((asked or {}).get(path), "spec", None) if spec is None else spec
        parts = None if spec is None else [list(part) if isinstance(part, tuple) else part for part in spec]
        found.append([path, f"{leaf.dtype}{list(leaf.shape)}", parts])
    return found
