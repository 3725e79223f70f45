"""Which function of the user's a compiled module is, and from which line it was called."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shardlint.run.stablehlo import operation_stacks
from shardlint.run.syntax import parse_file
from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Line
from shardlint.verify.inside.hlo.lines import Lines, is_own
from shardlint.verify.inside.hlo.module import Module

_MAPPED = "fun"
_PREFIX = compile_lazily(r"^(jit|pmap|pjit|xmap|shard_map)_+")


@dataclass(frozen=True)
class Function:
    """A function that was compiled.

    `name` is its name in the source, `train_step` or `<lambda>`. `line` is where it is defined, `call` the
    user's line that called it. `own` is false for what is not a function of the user's: `jnp.zeros(...)` and
    the like outside of jit, which the library compiles by itself; `line` is then where that stands. `mapped` says
    that `jax.pmap` was given it.
    """

    name: str
    line: Line
    call: Line
    own: bool
    mapped: bool = False


def function_of(module_name: str, module: Module, path: Path | None = None) -> Function:
    """The function a module is, from its name and its stack frames. `path` is its StableHLO, asked where the
    module has none: of constants the compiler keeps none.
    """
    bare = _PREFIX.sub("", module_name).strip("_")
    lines = Lines(module)
    frames = [list(lines.frame_stack(frame)) for frame in module.tables.get("StackFrames", ())]
    leaves = _user_lines(lines, module)
    if not leaves:
        frames = operation_stacks(path)
        leaves = [line for stack in frames for line in stack if is_own(line.file)][:1]
    bodies: list[Line] = []
    calls: list[Line] = []
    for stack in frames:
        # The outermost call of that name: a function may call itself, or one of its own name.
        for at in range(len(stack) - 1, -1, -1):
            if _plain_name(stack[at].function) == bare:
                bodies.append(stack[at])
                calls += [line for line in stack[at + 1 :] if is_own(line.file)][:1]
                break
    call = calls[0] if calls else Line()
    if bare == _MAPPED and not bodies and (called := _call_of_map(lines, module)) is not None:
        call = called
        leaves = _body_of_map(lines, module, call) or leaves
    own_bodies = [line for line in bodies if is_own(line.file)]
    if own_bodies:
        first = min(own_bodies, key=lambda line: line.line)
        defined = next((one for one in _enclosing_functions(first) if _plain_name(one.function) == bare), first)
        return Function(first.function.rpartition(".")[2], defined, call, True)
    deepest = sorted(leaves, key=lambda line: (line.file, line.line))
    # Releases before 0.8 write lines and no functions; the file itself knows which function a line is in.
    for line in deepest:
        for one in _enclosing_functions(line):
            if _plain_name(one.function) == bare:
                return Function(one.function, one, call, True)
    # A function without a name of its own (a partial, a wrapped one) still has a body of several lines, or is mapped.
    if len(deepest) > 1 or (bare == _MAPPED and call.file and deepest != [call]):
        arguments = ", ".join(_argument_names(module))
        return Function(f"{bare}({arguments})", deepest[0], call, True, bare == _MAPPED)
    only = next((line for stack in (deepest, *frames) for line in stack if is_own(line.file)), Line())
    return Function(bare, only, only, False)


def function_of_pmap(function: Function, defined: Iterable[tuple[str, int, str]]) -> Function:
    """A function as `pmap` was given it, where jax compiles it inside one of its own: the innermost of `defined` (file,
    line of its `def`, name) around its lines.
    """
    if function.name.partition("(")[0] != _MAPPED:
        return function
    known = set(defined)
    for one in _enclosing_functions(function.line):
        if (one.file, one.line, one.function) in known:
            return Function(one.function, one, function.call, True, True)
    return function


def _call_of_map(lines: Lines, module: Module) -> Line | None:
    """The user's line that called what `pmap` gave: jax enters its body from there, and no frame has its name."""
    entered = (one for one in module.entry or () if one.opcode == "call" or "GlobalToLocalShape" in one.attributes_text)
    return next((own for own, _ in map(lines.lines_of_instruction, entered) if own is not None), None)


def _body_of_map(lines: Lines, module: Module, call: Line) -> list[Line]:
    """The lines of the function that `pmap` was given: of what runs in it, the outermost frames of the user's own."""
    frames = {one.frame_number for each in module.computations.values() if each is not module.entry for one in each}
    stacks = ([line for line in lines.frame_stack(one) if is_own(line.file)] for one in frames if one is not None)
    outermost = [own[-1] for own in stacks if own and call not in own]
    names = Counter(line.function for line in outermost)
    return [line for line in outermost if line.function == names.most_common(1)[0][0]]


def _user_lines(lines: Lines, module: Module) -> list[Line]:
    """The user's lines that instructions come from."""
    found: dict[Line, None] = {}
    for computation in module.computations.values():
        for one in computation:
            own, _ = lines.lines_of_instruction(one)
            if own is not None:
                found[own] = None
    return list(found)


def _argument_names(module: Module) -> list[str]:
    """The names of a module's arguments, without what is inside of them."""
    parameters = module.entry.parameters_by_number if module.entry is not None else {}
    names = [re.split(r"[.\[]", parameters[number].op_name)[0] for number in sorted(parameters)]
    return [name for name in dict.fromkeys(names) if name]


def _plain_name(function: str) -> str:
    return re.sub(r"\W", "_", function.rpartition(".")[2]).strip("_")


def _enclosing_functions(line: Line) -> list[Line]:
    """The functions a line is in, innermost first, each by the line of its `def`."""
    spans = [one for one in _functions_of_file(line.file) if one[0] <= line.line <= one[1]]
    return [Line(line.file, start, name) for start, _, name in reversed(spans)]


@cache
def _functions_of_file(file: str) -> list[tuple[int, int, str]]:
    """First line, last line and name of each function of a file, outer before inner."""
    found = []
    for node in ast.walk(parse_file(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
            found.append((node.lineno, node.end_lineno or node.lineno, name))
    return sorted(found, key=lambda one: (one[0], -one[1]))
