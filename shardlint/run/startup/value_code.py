"""Values of a program as code that makes the like of them: trees of arrays, Modules, configs, functions by name.

Loaded by path beside `recorded.py`, in the program's own Python.
"""

from __future__ import annotations

import ast
import enum
import functools
import os
import sys
import types
import zlib
from typing import Any

made: Any = None
"""What is known of the Modules that the program made (`made.py`); set by who records."""


def own(file: str) -> bool:
    """Return whether a file is the user's, and of no installed package."""
    return not file.startswith(("<", _OURS)) and not any(
        part in file for part in ("site-packages", "dist-packages", f"{os.sep}lib{os.sep}python3")
    )


def guarded(file: str) -> bool:
    """Return whether importing a script skips its main program."""
    with open(file, encoding="utf-8") as text:  # noqa: PTH123
        body = ast.parse(text.read()).body
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in body)


def main_module() -> str:
    """The name by which another file imports the program: of `-m` the one given, of a script with its packages."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return str(main.__spec__.name)
    folder, name = os.path.split(os.path.abspath(main.__file__ or ""))  # noqa: PTH100
    parts = [os.path.splitext(name)[0]]  # noqa: PTH122
    while os.path.exists(os.path.join(folder, "__init__.py")):  # noqa: PTH110, PTH118
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return ".".join(parts)


def _dtype_as_code(value: Any) -> str:
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


# Shardlint's own, which looks on where programs call jax, need not be installed as a package.
_OURS = os.path.dirname(os.path.dirname(own.__code__.co_filename)) + os.sep  # noqa: PTH120


class Unwritten(TypeError):
    """There is no code for a value; the message says what it is."""

    def __init__(self, what: Any) -> None:
        super().__init__(
            f"its arguments contain a {what}, which cannot be written as code: name a function that makes "
            "them, arg('module:function')"
        )


def _literal_as_code(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return tuple(_literal_as_code(one) for one in value)
    raise Unwritten(type(value).__name__)


def _attribute_at(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


class Code:
    """Trees of arrays as code."""

    def __init__(self, short: bool = False) -> None:
        self.imports: set[str] = set()
        self.below = 2
        self.short = short
        """Whether what the code stands in imports the names of shardings."""

    def of(self, value: Any) -> str:
        """The code of a value."""
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
        if (kind := _dtype_as_code(value)) or isinstance(value, enum.Enum):
            self.imports |= {"jax"} if kind else set()
            return kind or f"{self.known(type(value))}.{value.name}"
        if isinstance(value, dict):
            inside = "{" + ", ".join(f"{_literal_as_code(key)!r}: {self.of(one)}" for key, one in value.items()) + "}"
            return inside if type(value) is dict else f"{self.known(type(value))}({inside})"
        if isinstance(value, jax.ShapeDtypeStruct):
            return f"array({tuple(value.shape)!r}, {str(value.dtype)!r})"
        if made is not None and (told := made.of(value)) is not None:
            self.imports |= told[1]
            return f"not_negative({told[0]})" if _is_never_negative(value) else str(told[0])
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
            given = ", ".join(filter(None, (self.field(value, field) for field in fields.values())))
            return f"{self.known(type(value))}({given})"
        if isinstance(value, types.MethodType) and not isinstance(value.__self__, type):
            return f"{self.of(value.__self__)}.{value.__name__}"
        if isinstance(value, functools.partial):
            self.imports.add("functools")
            pieces = [self.by_name(value.func), *map(self.of, value.args)]
            pieces += [f"{key}={self.of(one)}" for key, one in value.keywords.items()]
            return f"functools.partial({', '.join(pieces)})"
        if type(value).__module__.startswith("ml_collections"):
            # What a reference in it stands for is resolved, as where it is read.
            self.imports.add("ml_collections")
            return f"ml_collections.ConfigDict({self.plain(value.to_dict())})"
        try:
            return repr(_literal_as_code(value))
        except Unwritten:
            return self.by_name(value)

    def field(self, value: Any, field: Any) -> str:
        """A field of a dataclass, empty where it need not be given. What is no part of the tree that it is has to be
        the same object wherever one is made: trees are compared by it, and functions are equal to none but themselves.
        """
        linen = "flax.linen" in {one.__module__[:10] for one in type(value).__mro__}
        if linen and field.name in ("name", "parent"):
            return ""  # which it sets itself
        now = getattr(value, field.name)
        try:
            code = self.of(now)
        except Unwritten:
            if now is not field.default:
                raise
            return ""  # a default that has no code, as an initializer, need not be said
        if field.metadata.get("pytree_node") is False and "(" in code and not code.startswith("("):
            code = f"once({field.name + format(zlib.crc32(code.encode()), '_x')!r}, lambda: {code})"
        return f"{field.name}={code}"

    def plain(self, value: Any) -> str:
        """The values of a config: dictionaries of what has code."""
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.plain(one)}" for key, one in value.items()) + "}"
        return self.of(value)

    def by_name(self, value: Any) -> str:
        """Return the code of an object that can be written only as its name, such as a function."""
        kept = made.named(value, own) if made is not None else None
        if kept is None or not (module := self.module(kept[0])):
            raise Unwritten(type(value).__name__)
        self.imports.add(module)
        return f"{module}.{kept[1]}"

    def known(self, kind: Any) -> str:
        """A class, by the module that has it for others."""
        if "<" in kind.__qualname__:
            raise Unwritten(kind.__qualname__)
        module = self.module(kind.__module__)
        if not module:
            raise Unwritten(f"{kind.__qualname__} of a script that runs on import")
        if _attribute_at(sys.modules.get(kind.__module__), kind.__qualname__) is not kind:
            try:
                return self.by_name(kind)  # another module made it, and gave it its own name
            except Unwritten:
                raise Unwritten(f"{module}.{kind.__qualname__}, which does not exist") from None
        parts = module.split(".")
        for public in (".".join(parts[:count]) for count in range(1, len(parts))):
            if getattr(sys.modules.get(public), kind.__qualname__, None) is kind:
                module = public
                break
        self.imports.add(module)
        return f"{module}.{kind.__qualname__}"

    def module(self, name: str) -> str:
        """A module as another file imports it; empty for a script that runs when it is imported."""
        if name != "__main__":
            return name
        file = getattr(sys.modules["__main__"], "__file__", None)
        return main_module() if file and guarded(file) else ""

    def given(self, name: str, value: Any) -> str:
        """Return the code of an argument that a class was called with: as another argument, or as its name."""
        import jax

        if type(value).__name__ == "Rngs":
            self.imports.add("flax.nnx")
            return "flax.nnx.Rngs(0)"
        if isinstance(value, jax.Array) and value.shape == (2,) and ("key" in name or str(value.dtype) == "uint32"):
            self.imports.add("jax")
            return "jax.random.PRNGKey(0)"
        typed = isinstance(value, jax.core.Tracer) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        if typed and value.shape == ():
            self.imports.add("jax")
            return "jax.random.key(0)"  # one that is traced has no other code
        if type(value) in (list, tuple) and not hasattr(value, "_fields"):
            inside = ", ".join(self.given("", one) for one in value)
            return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"
        return self.of(value)

    def array(self, value: Any) -> str:
        """An array by its form; a counter by its value."""
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


def _is_never_negative(tree: Any) -> bool:
    """Return whether no number of a tree is below 0, as in the second moments of an optimizer."""
    import jax
    import numpy as np

    leaves = [leaf for leaf in jax.tree_util.tree_leaves(tree) if hasattr(leaf, "dtype") and leaf.size]
    floats = [leaf for leaf in leaves if jax.dtypes.issubdtype(leaf.dtype, np.floating)]
    return bool(floats) and all(float(leaf.min()) >= 0 for leaf in floats)
