"""The text of a fixture file: what a person would have written of these calls, to be reviewed and kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from shardlint.run.init.globs import specs_as_globs
from shardlint.run.init.recorded_calls import Argument, Function, Program
from shardlint.run.init.skeleton import format_mesh
from shardlint.verify.spec import P

_WIDTH = 110

_MAKERS = {
    "array": '''\
def array(shape, dtype):
    """An array of this form: its numbers are made where they are needed."""
    import jax

    return jax.ShapeDtypeStruct(shape, jax.numpy.dtype(dtype))
''',
    "positive": '''\
def positive(shape, dtype):
    """Numbers that are never negative, as they were in the run."""
    import jax
    import numpy as np

    return np.abs(np.random.default_rng(0).standard_normal(shape)).astype(jax.numpy.dtype(dtype))
''',
    "not_negative": '''\
def not_negative(tree):
    """A tree whose numbers are never negative, as they were in the run."""
    import jax

    floats = lambda one: hasattr(one, "dtype") and jax.numpy.issubdtype(one.dtype, jax.numpy.floating)
    return jax.tree_util.tree_map(lambda one: abs(one) if floats(one) else one, tree)
''',
    "number": '''\
def number(value, dtype):
    """A counter as it was in the run."""
    import jax

    return jax.numpy.asarray(value, dtype)
''',
    "under": '''\
def under(context, make):
    """What the program made under its mesh."""
    with context:
        return make()
''',
    "drawn": '''\
def drawn(shape, dtype):
    """Numbers of this form, which a function closes over."""
    import jax
    import numpy as np

    return jax.numpy.asarray(np.random.default_rng(0).standard_normal(shape), dtype)
''',
    "found": '''\
def found(made, name):
    """The function of this name in what another one gave, or in what that closes over."""
    waiting, done = [made], []
    while waiting and len(done) < 10_000:
        one = waiting.pop(0)
        if any(one is each for each in done):
            continue
        done.append(one)
        for each in (one, getattr(one, "__wrapped__", None)):
            if callable(each) and getattr(each, "__qualname__", "") == name:
                return one
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, (list, tuple)) else ()
        waiting += [cell.cell_contents for cell in getattr(one, "__closure__", None) or ()]
        waiting += [each for each in getattr(one, "__dict__", {}).values() if callable(each)]
    raise LookupError(f"{name} is not in what made it")
''',
    "jitted": '''\
def jitted(made, name):
    """The jit of the function of this name in what another one gave."""
    waiting, done = [made], []
    while waiting and len(done) < 10_000:
        one = waiting.pop(0)
        if any(one is each for each in done):
            continue
        done.append(one)
        of = getattr(one, "__wrapped__", None)
        while hasattr(of, "func"):
            of = of.func
        if hasattr(one, "lower") and getattr(of, "__qualname__", "") == name:
            return one
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, (list, tuple)) else ()
        waiting += [cell.cell_contents for cell in getattr(one, "__closure__", None) or ()]
        waiting += [each for each in getattr(one, "__dict__", {}).values() if callable(each)]
    raise LookupError(f"no jit of {name} is in what made it")
''',
    "inner": '''\
def inner(of, name, defaults=None, named=None, /, **free):
    """A function inside of another one, of its code, its defaults and what it closes over."""
    import types

    waiting = [of.__code__]
    while waiting:
        code = waiting.pop(0)
        inside = [one for one in code.co_consts if isinstance(one, types.CodeType)]
        for one in inside:
            if one.co_qualname == name:
                cells = tuple(types.CellType(free[key]) for key in one.co_freevars)
                made = types.FunctionType(one, of.__globals__, one.co_name, defaults, cells)
                made.__kwdefaults__ = named
                return made
        waiting += inside
    raise LookupError(f"{name} is not there any more")
''',
    "arrays_of": '''\
def arrays_of(function, names, **given):
    """A function that gives the arrays of what another one gives; shardings beside them are none."""
    import jax

    def arrays(*args):
        named = {name: one for name, one in zip(names, args) if not name.isdigit()}
        result = function(*(one for name, one in zip(names, args) if name.isdigit()), **named, **given)
        return jax.tree_util.tree_map(lambda one: one if hasattr(one, "dtype") else None, result)

    return arrays
''',
    "once": '''\
def once(name, make, made={}):
    """What is told apart by which object it is, as a function is: one for all that need it."""
    if name not in made:
        made[name] = make()
    return made[name]
''',
    "keys": '''\
def keys(shape):
    """Random keys."""
    import jax

    return jax.random.split(jax.random.key(0), shape) if shape else jax.random.key(0)
''',
}


def fixture_file(functions: Sequence[Function], command: str) -> str:
    """The whole file. Functions of which no fixture passes are left out but for a comment that says why."""
    bodies = [part for one in functions for part in _function_lines(one)]
    used = [
        maker for name, maker in _MAKERS.items() if any(re.search(rf"\b{name}\(\(?", body) for body in bodies)
    ]
    more = ", first_calls" if any("first_calls(" in body for body in bodies) else ""
    head = (
        f'"""Fixtures that `shardlint verify --init` wrote from a run of `{command}`.\n\n'
        "They say what the program did then, not what it should do: review them, and their goldens, like code.\n"
        '"""\n\nfrom shardlint.verify import Fixture, P, arg' + f"{more}\n"
    )
    return "\n\n".join([head, *used, *bodies])


def _function_lines(function: Function) -> Iterator[str]:
    if function.broken:
        yield f"# {function.reference_to} has no fixture: {function.broken}\n"
        return
    given = []
    for at, argument in enumerate(function.arguments):
        maker = f"{function.name}_{at}"
        given.append(_argument_code(argument, maker))
        if maker in given[-1]:
            imports = "".join(f"    import {name}\n" for name in argument.imports)
            mesh = "mesh" if _takes_mesh(argument.code) else ""
            body = _wrap_expression(argument.code, 4)
            yield f"def {maker}({mesh}):\n{imports}{chr(10) if imports else ''}    return {body}\n"
    if function.runs:
        yield _program_caller_code(function, function.runs)
    elif function.jit is not None or (function.made and not function.after):
        yield _jit_maker_code(function)
    elif function.after:
        yield _nnx_caller_code(function)
    called = function.jit is not None or function.after or function.made or function.runs
    fields = [
        f"fn=call_{function.name}," if called else f'fn="{function.reference_to}",',
        f"meshes=[{format_mesh(function.mesh)}],",
        *(["args=[", *(f"    {line}" for text in given for line in text.splitlines()), "],"] if given else []),
        *(_specs_code("out=", specs_as_globs(function.out, function.unplaced)).splitlines()),
    ]
    if function.donate:
        fields.append(f"donate=({', '.join(map(str, function.donate))}{',' if len(function.donate) == 1 else ''}),")
    if function.context != "set_mesh":
        fields.append(f'context="{function.context}",')
    if function.explicit:
        fields.append('axis_types="explicit",')
    if function.reference:
        fields.append('reference="single_device",')
    fields += [f"# not declared: {text}" for text in function.dropped]
    yield f"{function.name} = Fixture(\n" + "".join(f"    {line}\n" for line in fields) + ")\n"


def _jit_maker_code(function: Function) -> str:
    """A function that makes the jit as the program does, and calls it."""
    module, _, name = function.reference_to.partition(":")
    taken = ", ".join(f"arg_{at}" for at in range(len(function.arguments)))
    needs = "NamedSharding" in (function.jit or "")
    name = function.made or name
    of = f"functools.partial({', '.join((name, *function.partial))})" if function.partial else name
    takes_mesh = needs or _takes_mesh(of)
    called = of if function.jit is None else f"jax.jit({of}, {function.jit})" if function.jit else f"jax.jit({of})"
    lines = [
        f"def call_{function.name}({taken}{', mesh' if takes_mesh else ''}):",
        "    import jax",
        *(["    from jax.sharding import NamedSharding, PartitionSpec"] if needs else []),
        *(f"    import {each}" for each in function.imports),
        *([] if function.made else [f"    from {module} import {name}"]),
        "",
        f"    return {_wrap_expression(called, 4)}({taken})",
    ]
    return "\n".join(lines) + "\n"


def _nnx_caller_code(function: Function) -> str:
    """A function that calls one of flax.nnx, and gives what its arguments hold afterwards too."""
    module, _, name = function.reference_to.partition(":")
    taken = ", ".join(f"arg_{at}" for at in range(len(function.arguments)))
    states = ", ".join(f"flax.nnx.state(arg_{at})" for at in function.after)
    callee = function.made or f"{module}.{name}"
    mesh = ", mesh" if _takes_mesh(callee) else ""
    lines = [
        f"def call_{function.name}({taken}{mesh}):",
        '    """The function, and what its arguments hold when it is done."""',
        *(f"    import {each}" for each in sorted({"flax.nnx", *(function.imports if function.made else (module,))})),
        "",
        f"    result = {callee}({taken})",
        f"    return result, {states}",
    ]
    return "\n".join(lines) + "\n"


def _program_caller_code(function: Function, program: Program) -> str:
    """A function that runs the program."""
    given = [repr(program.script), repr(program.arguments), repr(program.functions)]
    code = f"first_calls({', '.join([*given, *([f'gone={program.gone!r}'] if program.gone else [])])})"
    lines = [
        f"def call_{function.name}():",
        '    """The program up to the first calls of these: what they were given, and what they gave."""',
        f"    return {_wrap_expression(code, 4)}",
    ]
    return "\n".join(lines) + "\n"


def _takes_mesh(code: str) -> bool:
    """Return whether an argument holds the mesh, as a config may."""
    return any(isinstance(node, ast.Name) and node.id == "mesh" for node in ast.walk(ast.parse(code, mode="eval")))


def _argument_code(argument: Argument, maker: str) -> str:
    """`arg(...)` and a comma."""
    below = f", below={argument.below}" if argument.below > 2 else ""
    single = re.fullmatch(r"array\((\(.*\)), '(\w+)'\)", argument.code)
    if single is not None:
        spec = argument.specs.get("")
        said = f", spec={_spec_code(spec)}" if spec is not None and spec.entries else ""
        return f'arg(shape={single[1]}, dtype="{single[2]}"{said}{below}),'
    if not argument.specs:
        code = _normalize_quotes(argument.code)
        simple = len(code) < 60 and not argument.imports and "(" not in argument.code and code != "mesh"
        return f"arg(lambda: {code}{below})," if simple else f"arg({maker}{below}),"
    placed = {path: spec for path, spec in argument.specs.items() if spec.entries}
    if not placed:
        return f"arg({maker}{below}),"
    if "" in placed:
        return f"arg({maker}, spec={_spec_code(placed[''])}{below}),"
    replicated = [path for path in argument.specs if path not in placed]
    specs = _specs_code("specs=", specs_as_globs(placed, [*replicated, *argument.unplaced]))
    line = f"arg({maker}, {specs[:-1]}{below}),"
    if "\n" not in specs and len(line) < _WIDTH - 8:
        return line
    return f"arg(\n    {maker},\n{_indent_text(specs, 4)}\n{'    ' + below[2:] + ',' + chr(10) if below else ''}),"


def _specs_code(name: str, specs: Mapping[str, P]) -> str:
    """`out={...},` of specs by globs, an entry a line where it is long."""
    entries = [f'"{_escape_text(glob)}": {_spec_code(spec)}' for glob, spec in specs.items()]
    line = f"{name}{{{', '.join(entries)}}},"
    if len(line) < _WIDTH - 8:
        return line
    return f"{name}{{\n" + "".join(f"    {entry},\n" for entry in entries) + "},"


def _escape_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _spec_code(spec: P) -> str:
    return "P(" + ", ".join(_entry_code(entry) for entry in spec.entries) + ")"


def _entry_code(entry: str | tuple[str, ...] | None) -> str:
    if isinstance(entry, tuple):
        return "(" + ", ".join(f'"{name}"' for name in entry) + ("," if len(entry) == 1 else "") + ")"
    return "None" if entry is None else f'"{entry}"'


def _indent_text(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def _wrap_expression(code: str, indent: int) -> str:
    """An expression after `return`, over as many lines as its length takes."""
    return _format_node(ast.parse(code, mode="eval").body, indent, len("return"))


def _format_node(node: ast.expr, indent: int, before: int = 0) -> str:
    """An expression in a line of its own, with a comma, after so many other characters."""
    text = _normalize_quotes(ast.unparse(node))
    if len(text) + indent + before < _WIDTH:
        return text
    inside = indent + 4
    pad, close = " " * inside, " " * indent
    if isinstance(node, ast.Dict):
        pairs = [
            (_normalize_quotes(ast.unparse(key)) if key else "**", value)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        parts = [f"{pad}{key}: {_format_node(value, inside, len(key) + 2)},\n" for key, value in pairs]
        return "{\n" + "".join(parts) + close + "}"
    if isinstance(node, ast.List | ast.Tuple):
        first, last = "[]" if isinstance(node, ast.List) else "()"
        return f"{first}\n" + "".join(f"{pad}{_format_node(one, inside)},\n" for one in node.elts) + close + last
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        parts = [f"{pad}{_format_node(one, inside)},\n" for one in node.args]
        for one in node.keywords:
            name = f"{one.arg}="
            parts.append(f"{pad}{name}{_format_node(one.value, inside, len(name))},\n")
        return f"{ast.unparse(node.func)}(\n" + "".join(parts) + close + ")"
    return text


def _normalize_quotes(code: str) -> str:
    """Code with the quotes most people use."""
    return code if '"' in code else code.replace("'", '"')
