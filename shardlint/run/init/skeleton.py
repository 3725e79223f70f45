"""`shardlint verify --init module:function`: a fixture to be filled in, from the text of a function. Nothing is run.

What the text says is written: the arguments with the shapes that jaxtyping annotations give, the options of the jit,
the axes of the mesh. What it does not is marked, and the fixture fails until it is there.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.verify.cannot_run import CannotRun

REFERENCE = compile_lazily(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
FILL = "FILL_IN"
_DEVICES = 8
_ARRAYS = frozenset(("Array", "ndarray", "ArrayLike", "ArrayImpl"))
_DTYPES = {
    "Float": "float32", "Inexact": "float32", "Real": "float32", "Num": "float32", "Shaped": "float32",
    "Int": "int32", "Integer": "int32", "UInt": "uint32", "Bool": "bool", "Complex": "complex64",
    "BFloat16": "bfloat16", "Float16": "float16", "Float32": "float32", "Float64": "float64", "Int8": "int8",
    "Int16": "int16", "Int32": "int32", "Int64": "int64", "UInt8": "uint8", "UInt16": "uint16", "UInt32": "uint32",
}  # fmt: skip
_PLAIN = {"int": "0", "float": "0.0", "bool": "False", "str": '""', "None": "None"}
_JITS = ("jit", "filter_jit", "pjit")


@dataclass
class _JittedFunction:
    """A function, the jit around it if there is one, and what its module says of meshes."""

    function: ast.FunctionDef | ast.AsyncFunctionDef | None
    jit: ast.Call | None
    module: ast.Module


@dataclass
class _Text:
    """The parts of the file while they are written."""

    sizes: dict[str, None] = field(default_factory=dict)
    makers: list[str] = field(default_factory=list)


def write_skeleton(reference: str, root: Path) -> str:
    """The file. Raises `CannotRun` for a module or function that is not there."""
    module, _, attribute = reference.partition(":")
    path = _file_of(module, root)
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise CannotRun(f"{path}: cannot be read: {error}") from None
    found = _find_function(tree, attribute.split("."))
    if found is None:
        raise CannotRun(f"{os.path.relpath(path, root)} defines no {attribute}")
    return _write_fixture(reference, found)


def _file_of(module: str, root: Path) -> Path:
    relative = module.replace(".", "/")
    for base in (root, root / "src", root / "lib", root / "python"):
        for path in (base / f"{relative}.py", base / relative / "__init__.py"):
            if path.is_file():
                return path
    raise CannotRun(f"--init {module}: {relative}.py does not exist here; run it from the project's root")


def _find_function(tree: ast.Module, names: Sequence[str]) -> _JittedFunction | None:
    """The function of a name: defined so, decorated, or assigned what a jit makes of another."""
    body: Sequence[ast.stmt] = tree.body
    for name in names[:-1]:
        inside = next((one for one in body if isinstance(one, ast.ClassDef) and one.name == name), None)
        if inside is None:
            return None
        body = inside.body
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == names[-1]:
            jit = next((jit for each in one.decorator_list if (jit := _find_jit_call(each)) is not None), None)
            return _JittedFunction(one, jit, tree)
        if isinstance(one, ast.Assign) and [last_name(target) for target in one.targets] == [names[-1]]:
            jit = _find_jit_call(one.value)
            inner = jit.args[0] if jit is not None and jit.args else one.value
            named = _find_function(tree, [inner.id]) if isinstance(inner, ast.Name) and inner.id != names[-1] else None
            return _JittedFunction(named.function if named else None, jit, tree)
    return None


def _find_jit_call(node: ast.expr) -> ast.Call | None:
    """The call that has a jit's options, of `jax.jit(...)` or `partial(jax.jit, ...)`."""
    if not isinstance(node, ast.Call):
        return None
    if last_name(node.func) in _JITS:
        return node
    if last_name(node.func) == "partial" and node.args and last_name(node.args[0]) in _JITS:
        return ast.Call(node.args[0], node.args[1:], node.keywords)
    return None


def _write_fixture(reference: str, jitted_function: _JittedFunction) -> str:
    text = _Text()
    name = reference.rpartition(":")[2].replace(".", "_")
    static = _option_numbers(jitted_function.jit, "static_argnums")
    names = set(_option_strings(jitted_function.jit, "static_argnames"))
    specs = _option_specs(jitted_function.jit, "in_shardings")
    args: list[str] = []
    for at, (parameter, default) in enumerate(_parameters_with_defaults(jitted_function)):
        is_static = at in static or parameter.arg in names
        spec = specs[at] if at < len(specs) else specs[0] if len(specs) == 1 else ""
        args += _argument_lines(parameter, default, spec, is_static, reference, text)
    mesh, why = _find_mesh(jitted_function.module)
    out = _option_specs(jitted_function.jit, "out_shardings")
    outs = {"**": out[0]} if len(out) == 1 else {f"{at}/**": spec for at, spec in enumerate(out)}
    donate = _option_numbers(jitted_function.jit, "donate_argnums")
    lines = [f'fn="{reference}",', f"meshes=[{mesh}],{why}", "args=[", *(f"    {line}" for line in args), "],"]
    lines += [
        "# The path of each array of the result (its keys joined by /, globs allowed; '' if the result is one "
        "array) and",
        "# its spec. If a path matches nothing, `shardlint verify` lists the paths that exist.",
        "out={",
        *(f'    "{path}": {spec or _placeholder_argument()},' for path, spec in (outs or {"**": ""}).items()),
        "},",
    ]
    if donate:
        lines.append(f"donate=({', '.join(map(str, donate))}{',' if len(donate) == 1 else ''}),")
    lines.append('reference="single_device",')
    head = (
        f'"""An unfinished fixture of {reference}, written by `shardlint verify --init`.\n\n'
        f'Replace each {FILL}; until then it fails.\n"""\n\n'
        "from shardlint.verify import Fixture, P, arg\n"
    )
    sizes = "".join(f"{size} = {_DEVICES * 2}  # {FILL}: a size that the mesh divides\n" for size in text.sizes)
    fixture = f"{name} = Fixture(\n" + "".join(f"    {line}\n" for line in lines) + ")\n"
    return "\n\n".join([head + (f"\n{sizes}" if sizes else ""), *text.makers, fixture])


def _placeholder_argument() -> str:
    return f'P("{FILL}")'


def _parameters_with_defaults(jitted_function: _JittedFunction) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    if jitted_function.function is None:
        return
    given = jitted_function.function.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    yield from zip(positional, defaults, strict=True)


def _argument_lines(
    parameter: ast.arg, default: ast.expr | None, spec: str, static: bool, reference: str, text: _Text
) -> Iterator[str]:
    """The lines of one argument."""
    annotation = parameter.annotation
    said = ast.unparse(annotation) if annotation is not None else ""
    shaped = _shape_and_dtype(annotation, text)
    if parameter.arg == "mesh":
        return  # a fixture fills it by itself
    if default is not None and (static or isinstance(default, ast.Constant)):
        yield f"arg(lambda: {ast.unparse(default)}),  # {parameter.arg}"
    elif shaped is not None and not static:
        shape, dtype = shaped
        yield f'arg(shape={shape}, dtype="{dtype}", spec={spec or _placeholder_argument()}),  # {parameter.arg}: {said}'
    elif said in _PLAIN:
        yield f"arg(lambda: {_PLAIN[said]}),  # {FILL}: {parameter.arg}: {said}"
    elif not static and said.rpartition(".")[2] in _ARRAYS:
        size = f"{parameter.arg.upper()}_SIZE"
        text.sizes[size] = None
        shown = f'shape=({size},), dtype="float32", spec={spec or _placeholder_argument()}'
        yield f"arg({shown}),  # {FILL}: {parameter.arg}: {said}"
    else:
        about = f": {said}" if said else ""
        text.makers.append(
            f"def {parameter.arg.strip('_') or 'first'}():\n"
            f'    """What {reference} takes as `{parameter.arg}{about}`; of arrays, '
            'jax.ShapeDtypeStruct(shape, dtype) is enough."""\n'
            f'    raise NotImplementedError("{FILL}: return {parameter.arg}{about.replace(chr(34), chr(39))}")\n'
        )
        where = f'specs={{"**": {spec or _placeholder_argument()}}}'
        yield f"arg({parameter.arg.strip('_') or 'first'}, {where}),  # path -> spec of each array of {parameter.arg}"


def _shape_and_dtype(node: ast.expr | None, text: _Text) -> tuple[str, str] | None:
    """The shape and type that a jaxtyping annotation gives, `Float[Array, "batch 128"]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return None
    dtype = _DTYPES.get(last_name(node.value))
    last = node.slice.elts[-1]
    if dtype is None or not isinstance(last, ast.Constant) or not isinstance(last.value, str):
        return None
    parts = []
    for word in last.value.split():
        part = word.lstrip("#?_").partition("=")[2] or word.lstrip("#?_")
        if part.isdigit():
            parts.append(part)
            continue
        size = re.sub(r"\W+", "_", part).strip("_").upper() or f"SIZE_{len(parts)}"
        if not size.isidentifier():
            size = f"SIZE_{size}"
        text.sizes[size] = None
        parts.append(size)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})", dtype


def _option_numbers(jit: ast.Call | None, key: str) -> list[int]:
    return [one for one in _option_constants(jit, key) if isinstance(one, int)]


def _option_strings(jit: ast.Call | None, key: str) -> list[str]:
    return [one for one in _option_constants(jit, key) if isinstance(one, str)]


def _option_constants(jit: ast.Call | None, key: str) -> list[object]:
    value = _find_option(jit, key)
    nodes = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return [node.value for node in nodes if isinstance(node, ast.Constant)]


def _find_option(jit: ast.Call | None, key: str) -> ast.expr | None:
    return next((one.value for one in jit.keywords if one.arg == key), None) if jit is not None else None


def _option_specs(jit: ast.Call | None, key: str) -> list[str]:
    """The specs that an option states, one for each argument or result; empty text where one is not stated."""
    value = _find_option(jit, key)
    if value is None:
        return []
    nodes = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return [_spec_text(node) for node in nodes]


def _spec_text(node: ast.expr) -> str:
    calls = [
        one for one in ast.walk(node)
        if isinstance(one, ast.Call) and last_name(one.func) in ("P", "PartitionSpec", "PS")
    ]  # fmt: skip
    if len(calls) != 1 or isinstance(node, ast.Dict):
        return ""
    try:
        parts = [ast.literal_eval(part) for part in calls[0].args]
    except (ValueError, TypeError, SyntaxError):
        return ""
    return f"P({', '.join(map(_quote_part, parts))})"


def _quote_part(part: object) -> str:
    if isinstance(part, tuple | list):
        return f"({', '.join(map(_quote_part, part))}{',' if len(part) == 1 else ''})"
    return f'"{part}"' if isinstance(part, str) else repr(part)


def _find_mesh(tree: ast.Module) -> tuple[str, str]:
    """The mesh that a module builds, or one of the axes its specs name; and what is to be said of it."""
    axes: dict[str, None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if last_name(node.func) in ("Mesh", "make_mesh") and len(node.args) > 1:
            names = _literal_value(node.args[1])
            sizes = _literal_value(node.args[0])
            if isinstance(names, tuple) and all(isinstance(name, str) for name in names):
                if isinstance(sizes, tuple) and len(sizes) == len(names) and all(type(one) is int for one in sizes):
                    return format_mesh(dict(zip(names, sizes, strict=True))), ""
                axes = dict.fromkeys(names)
                break
        if last_name(node.func) in ("P", "PartitionSpec"):
            for part in node.args:
                value = _literal_value(part)
                found = value if isinstance(value, tuple) else (value,)
                axes.update(dict.fromkeys(name for name in found if isinstance(name, str)))
    if not axes:
        return f'{{"data": {_DEVICES}}}', f"  # {FILL}: the axes of your mesh and their sizes"
    left, shared = _DEVICES, {}
    for at, name in enumerate(axes):
        last = at == len(axes) - 1
        shared[name] = left if last else 2 if left > 1 else 1
        left = max(1, left // shared[name])
    assert math.prod(shared.values()) <= _DEVICES
    return format_mesh(shared), "  # choose the sizes"


def _literal_value(node: ast.expr) -> object:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return tuple(value) if isinstance(value, list) else value


def format_mesh(mesh: Mapping[str, int]) -> str:
    """A mesh as code: the sizes of its axes by name."""
    return "{" + ", ".join(f'"{name}": {size}' for name, size in mesh.items()) + "}"
