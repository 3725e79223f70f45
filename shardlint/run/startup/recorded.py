"""What each jitted function of a program was first called with, as code: for `shardlint verify --init`.

Loaded by its file at the start of a process. Once jax is there it looks on where a jitted function is called with
arguments it has not seen: before donated buffers are gone, once for each function. It never fails a program.
"""

from __future__ import annotations

import ast
import contextlib
import enum
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


def begin(folder: str, makes: dict[str, Any]) -> None:
    """Look on from when jax, equinox and flax are imported. `makes` is what `made.py` defines."""
    global made
    made = makes["MadeModules"]()
    made.code, made.named, made.context = _Code, makes["named"], lambda: _context()[0]
    recorder = _Recorder(folder)
    sys.meta_path.insert(
        0,
        _Finder(
            {
                "jax._src.pjit": recorder.watch,
                "equinox._jit": lambda module: recorder.watch_calls(module, "_JitWrapper", _of_equinox),
                "equinox._module._module": lambda module: made.watch(type(module.Module)),
                "flax.nnx.transforms.compilation": lambda module: recorder.watch_calls(module, "JitWrapped", _of_nnx),
                "flax.nnx.pytreelib": lambda module: made.watch(module.PytreeMeta),
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


def _of_equinox(wrapper: Any) -> Any:
    """What `eqx.filter_jit` was given: which arguments it donates."""
    first, rest = wrapper.donate_first, wrapper.donate_rest
    return types.SimpleNamespace(donate_argnums=[at for at in range(64) if (first if at == 0 else rest)])


def _of_nnx(wrapper: Any) -> Any:
    """What `nnx.jit` gave to `jax.jit`."""
    return wrapper.jitted_fn._jit_info


class _Recorder:
    """`seen` holds the functions that were told, or of which it was said why not."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.seen: set[int] = set()
        self.given: dict[int, Any] = {}
        self.busy = threading.local()

    def watch(self, pjit: Any) -> None:
        """Both ways, as releases have it, in which a call that is new goes."""
        if hasattr(pjit, "_run_python_pjit"):  # jax 0.9 on
            run, infer = pjit._run_python_pjit, pjit._infer_params

            def inferred(fun: Any, info: Any, args: Any, kwargs: Any) -> Any:
                p = infer(fun, info, args, kwargs)
                self.given[id(p[0])] = info
                return p

            def newer(p: Any, flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
                told = self.before(fun, args, kwargs, self.given.pop(id(p), None))
                outs = run(p, flat, fun, args, kwargs)
                self.after(told, outs[0])
                return outs

            pjit._run_python_pjit, pjit._infer_params = newer, inferred
        elif hasattr(pjit, "_python_pjit_helper"):
            helper = pjit._python_pjit_helper

            def older(fun: Any, info: Any, *args: Any, **kwargs: Any) -> Any:
                told = self.before(fun, args, kwargs, info)
                outs = helper(fun, info, *args, **kwargs)
                self.after(told, outs[0])
                return outs

            pjit._python_pjit_helper = older

    def watch_calls(self, module: Any, name: str, info: Any) -> None:
        """What a library's jit is called with, rather than what it gives to `jax.jit` then."""
        kind = getattr(module, name)
        call = kind.__call__

        @functools.wraps(call)
        def called(wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
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

        kind.__call__ = called

    def before(
        self, fun: Any, args: Any, kwargs: Any, info: Any = None, library: str = ""
    ) -> dict[str, Any] | None:
        busy = getattr(self.busy, "now", False) or getattr(self.busy, "inside", False)
        if id(fun) in self.seen or busy:
            return None
        self.busy.now = True
        try:
            return _told(fun, args, kwargs, info, library)
        except Exception as error:
            code = getattr(fun, "__code__", None)
            why = str(error) if isinstance(error, _Unwritten) else f"{type(error).__name__}: {error}"[:200]
            told = {"fun": fun, "name": getattr(fun, "__qualname__", "?"), "skip": why}
            return told if code is None else {**told, "file": code.co_filename, "line": code.co_firstlineno}
        finally:
            self.busy.now = False

    def after(self, told: dict[str, Any] | None, outs: Any) -> None:
        if told is None or self.busy.__dict__.get("now"):
            return
        self.busy.now = True
        try:
            fun = told.pop("fun", None)
            if fun is not None:
                self.seen.add(id(fun))
            if "skip" not in told:
                told["out"] = _placed(outs)
                _note_results(told, outs)
            path = os.path.join(self.folder, f"{os.getpid()}-{len(os.listdir(self.folder))}.json")  # noqa: PTH118, PTH208
            with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
                json.dump(told, file, default=str)
        except Exception:  # the program goes on without
            return
        finally:
            self.busy.now = False


def _note_results(told: dict[str, Any], outs: Any) -> None:
    """What a function gave can be had by calling it again, where its arguments are written in a few words."""
    codes = [one["code"] for one in told["args"]]
    module = _Code().module(told["module"])
    if made is not None and module and told["jit"] is None and sum(map(len, codes)) < 200:
        imports = {module, *(name for one in told["args"] for name in one["imports"])}
        made.given_by(f"{module}.{told['attribute']}({', '.join(codes)})", imports, outs)


def _told(fun: Any, args: Any, kwargs: Any, info: Any, library: str = "") -> dict[str, Any] | None:
    """What is known of a call before it is made; None of one that is no business of the user's."""
    import jax

    code = getattr(fun, "__code__", None)
    leaves = jax.tree_util.tree_leaves((args, kwargs))
    if code is None or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    for part, how in ((f"{os.sep}equinox{os.sep}", "eqx.filter_jit"), (f"flax{os.sep}nnx", "nnx.jit")):
        if part in code.co_filename:
            name = getattr(fun, "__name__", how)
            return {"fun": fun, "name": name, "skip": f"what is called through {how} is not written down"}
    if not _own(code.co_filename):
        return None
    told = {
        "fun": fun,
        "file": os.path.abspath(code.co_filename),  # noqa: PTH100
        "line": code.co_firstlineno,
        "name": fun.__qualname__,
    }
    names = vars(sys.modules[fun.__module__])
    found = [(name, one) for name, one in _kept(names) if _wraps(one, fun)]
    around: str | None = None
    imports: list[str] = []
    if found:
        info = info or getattr(found[0][1], "_jit_info", None)
    else:
        found = [] if library else [(name, one) for name, one in names.items() if one is fun]
        if not found:
            return {
                **told,
                "skip": "it is not kept under a name of its module, where a fixture could find it",
            }
        if info is None:
            return {**told, "skip": "what jax.jit was given for it cannot be told"}
        around, imports = _options(info)
    name = found[0][0]
    if kwargs:
        bound = inspect.signature(fun).bind(*args, **kwargs)
        if bound.kwargs:
            return {**told, "skip": "it takes arguments by keyword only, and a fixture gives none so"}
        args = bound.args
    if len(leaves) > _LEAVES:
        return {**told, "attribute": name, "skip": f"its arguments hold more than {_LEAVES} arrays"}
    static = getattr(info, "static_argnums", ())
    asked = _asked(info, [one for at, one in enumerate(args) if at not in static])
    leaves += [one for tree in asked for one in jax.tree_util.tree_leaves(tree)]
    leaves += list(getattr(info, "out_shardings_leaves", ()))
    meshes = [mesh for leaf in leaves if (mesh := _mesh(leaf)) is not None]
    context, now = _context()
    return {
        **told,
        "attribute": name,
        "main": fun.__module__ == "__main__",
        "module": fun.__module__,
        "guarded": fun.__module__ != "__main__" or _guarded(code.co_filename),
        "context": context,
        "mesh": _sizes(meshes[0] if meshes else now),
        "explicit": _explicit(meshes[0] if meshes else now),
        "jit": around,
        "imports": imports,
        "donate": [at for at in getattr(info, "donate_argnums", ()) if at < len(args)],
        "args": [_argument(one, None if at in static else asked.pop(0)) for at, one in enumerate(args)],
    }


def _kept(names: dict[str, Any]) -> list[tuple[str, Any]]:
    """What a module and its classes keep under names."""
    found = list(names.items())
    for name, one in names.items():
        if isinstance(one, type) and one.__module__ == names.get("__name__"):
            found += [(f"{name}.{key}", each) for key, each in vars(one).items()]
    return found


def _wraps(one: Any, fun: Any) -> bool:
    """Whether something is a jit of a function, also one that a class keeps as its method."""
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


def _options(info: Any) -> tuple[str, list[str]]:
    """The options of a jit as code, with `mesh` in its shardings, and what that imports."""
    import jax

    said = [
        f"{name}={getattr(info, name)!r}"
        for name in ("static_argnums", "donate_argnums")
        if getattr(info, name)
    ]
    written = _Code(short=True)
    for name in ("in_shardings", "out_shardings"):
        leaves, tree = getattr(info, f"{name}_leaves"), getattr(info, f"{name}_treedef")
        if all(type(leaf).__name__ == "UnspecifiedValue" for leaf in leaves):
            continue
        said.append(f"{name}={written.of(jax.tree_util.tree_unflatten(tree, leaves))}")
    return ", ".join(said), sorted(written.imports - {"jax"})


def _own(file: str) -> bool:
    return not file.startswith("<") and not any(
        part in file for part in ("site-packages", "dist-packages", f"{os.sep}lib{os.sep}python3")
    )


def _guarded(file: str) -> bool:
    """Whether importing a script leaves out what it does as a program."""
    with open(file, encoding="utf-8") as text:  # noqa: PTH123
        body = ast.parse(text.read()).body
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in body)


def _context() -> tuple[str, Any]:
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


def _asked(info: Any, args: list[Any]) -> list[Any]:
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
        found.append({_path(keys): sharding for keys, sharding in pairs})
    return found


def _mesh(leaf: Any) -> Any:
    sharding = leaf if hasattr(leaf, "spec") else getattr(leaf, "sharding", None)
    return getattr(sharding, "mesh", None) if hasattr(sharding, "spec") else None


def _sizes(mesh: Any) -> dict[str, int]:
    return {} if mesh is None else {str(name): int(size) for name, size in dict(mesh.shape).items()}


def _explicit(mesh: Any) -> bool:
    return any(str(kind).endswith("Explicit") for kind in getattr(mesh, "axis_types", None) or ())


def _argument(value: Any, asked: Any) -> dict[str, Any]:
    """An argument as the code that makes it, and the specs of its arrays; `asked` None: it is static."""
    written = _Code()
    return {
        "code": written.of(value),
        "imports": sorted(written.imports),
        "below": written.below,
        "specs": [] if asked is None else _placed(value, asked),
    }


def _kind(value: Any) -> str:
    """A type of numbers as code; empty for what is none."""
    import jax
    import numpy as np

    if isinstance(value, np.dtype) and not jax.dtypes.issubdtype(value, jax.dtypes.extended):
        return f"jax.numpy.dtype({str(value)!r})"
    # That of jax, `jnp.float32`, is an object; objects of the user's may answer to any name.
    is_type = isinstance(value, type) and issubclass(value, np.generic)
    if is_type or type(value).__name__ == "_ScalarMeta":
        return f"jax.numpy.{value.__name__}"
    return ""


class _Unwritten(TypeError):
    def __init__(self, what: Any) -> None:
        super().__init__(
            f"its arguments hold a {what}, which cannot be written down: name what makes them, arg('module:function')"
        )


def _literal(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return tuple(_literal(one) for one in value)
    raise _Unwritten(type(value).__name__)


class _Code:
    """Trees of arrays as code."""

    def __init__(self, short: bool = False) -> None:
        self.imports: set[str] = set()
        self.below = 2
        self.short = short
        """Whether what the code stands in imports the names of shardings."""

    def of(self, value: Any) -> str:
        import jax

        if isinstance(value, jax.sharding.NamedSharding):
            parts = ", ".join(repr(part) for part in value.spec)
            self.imports.add("jax")
            text = f"NamedSharding(mesh, PartitionSpec({parts}))"
            return text if self.short else text.replace("Nam", "jax.sharding.Nam").replace("Par", "jax.sharding.Par")
        if isinstance(value, jax.sharding.PartitionSpec):
            self.imports.add("jax")
            return f"jax.sharding.PartitionSpec({', '.join(map(repr, value))})"
        if type(value).__name__ == "UnspecifiedValue":
            return "None"
        if isinstance(value, jax.sharding.Mesh):
            return "mesh"  # the fixture's own, which what makes an argument is given
        if (kind := _kind(value)) or isinstance(value, enum.Enum):
            self.imports |= {"jax"} if kind else set()
            return kind or f"{self.known(type(value))}.{value.name}"
        if isinstance(value, dict):
            inside = "{" + ", ".join(f"{_literal(key)!r}: {self.of(one)}" for key, one in value.items()) + "}"
            return inside if type(value) is dict else f"{self.known(type(value))}({inside})"
        if made is not None and (told := made.of(value)) is not None:
            self.imports |= told[1]
            return f"not_negative({told[0]})" if _never_negative(value) else str(told[0])
        if isinstance(value, (jax.Array, jax.numpy.ndarray)) or hasattr(value, "__array__"):
            return self.array(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            name = self.known(type(value))
            return (
                f"{name}(" + ", ".join(f"{key}={self.of(getattr(value, key))}" for key in value._fields) + ")"
            )
        if type(value) in (list, tuple):
            inside = ", ".join(self.of(one) for one in value)
            return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"
        fields = getattr(type(value), "__dataclass_fields__", None)
        if fields is not None and all(field.init for field in fields.values()):
            given = ", ".join(f"{key}={self.of(getattr(value, key))}" for key in fields)
            return f"{self.known(type(value))}({given})"
        try:
            return repr(_literal(value))
        except _Unwritten:
            return self.by_name(value)

    def by_name(self, value: Any) -> str:
        """What is written only as the name it is kept under, as a function is."""
        kept = made.named(value, _own) if made is not None else None
        if kept is None or not (module := self.module(kept[0])):
            raise _Unwritten(type(value).__name__)
        self.imports.add(module)
        return f"{module}.{kept[1]}"

    def known(self, kind: Any) -> str:
        if "<" in kind.__qualname__:
            raise _Unwritten(kind.__qualname__)
        module = self.module(kind.__module__)
        if not module:
            raise _Unwritten(f"{kind.__qualname__} of a script that does its work when it is imported")
        public = module.partition("._")[0]
        if getattr(sys.modules.get(public), kind.__qualname__, None) is kind:
            module = public
        self.imports.add(module)
        return f"{module}.{kind.__qualname__}"

    def module(self, name: str) -> str:
        """A module as another file imports it; empty for a script that runs when it is imported."""
        if name != "__main__":
            return name
        file = getattr(sys.modules["__main__"], "__file__", None)
        if not file or not _guarded(file):
            return ""
        return str(os.path.splitext(os.path.basename(file))[0])  # noqa: PTH119, PTH122

    def given(self, name: str, value: Any) -> str:
        """What a class was called with: as another argument, or by the name it is kept under."""
        import jax

        if type(value).__name__ == "Rngs":
            self.imports.add("flax.nnx")
            return "flax.nnx.Rngs(0)"
        if isinstance(value, jax.Array) and "key" in name and value.shape == (2,):
            self.imports.add("jax")
            return "jax.random.PRNGKey(0)"
        if type(value) in (list, tuple) and not hasattr(value, "_fields"):
            inside = ", ".join(self.given("", one) for one in value)
            return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"
        return self.of(value)

    def array(self, value: Any) -> str:
        import jax
        import numpy as np

        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return f"keys({tuple(value.shape)!r})"
        dtype = str(value.dtype)
        if jax.dtypes.issubdtype(value.dtype, np.integer) and value.size:
            high = int(value.max())
            if tuple(value.shape) == ():
                return f"number({high}, {dtype!r})"
            self.below = max(self.below, high + 1)
        elif jax.dtypes.issubdtype(value.dtype, np.floating) and value.size and float(value.min()) >= 0:
            return f"positive({tuple(value.shape)!r}, {dtype!r})"
        return f"array({tuple(value.shape)!r}, {dtype!r})"


def _never_negative(tree: Any) -> bool:
    """Whether no number of a tree is below 0, as in the second moments of an optimizer."""
    import jax
    import numpy as np

    leaves = [leaf for leaf in jax.tree_util.tree_leaves(tree) if hasattr(leaf, "dtype") and leaf.size]
    floats = [leaf for leaf in leaves if jax.dtypes.issubdtype(leaf.dtype, np.floating)]
    return bool(floats) and all(float(leaf.min()) >= 0 for leaf in floats)


def _placed(tree: Any, asked: Any = None) -> list[list[Any]]:
    """Path, array and spec (None: on no mesh) of each array; where it was placed nowhere, that of `asked`."""
    import jax

    found = []
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            continue
        path = _path(keys)
        spec = getattr(getattr(leaf, "sharding", None), "spec", None)
        spec = getattr((asked or {}).get(path), "spec", None) if spec is None else spec
        parts = None if spec is None else [list(part) if isinstance(part, tuple) else part for part in spec]
        found.append([path, f"{leaf.dtype}{list(leaf.shape)}", parts])
    return found


def _path(keys: Any) -> str:
    return "/".join(str(_key(key)) for key in keys)


def _key(key: Any) -> Any:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return key
