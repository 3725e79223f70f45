"""Spelling a library name where it is needed: reuse an import, extend one, or add one, moving no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from shardlint.facts import Binding, FileFacts
from shardlint.program import Program, api
from shardlint.program.reach import lookup
from shardlint.program.values import Api
from shardlint.rule import Edit

# What stands between two quotes. Every quote may be the first of a pair, and each is looked at once.
_IN_QUOTES = re.compile(r"""(['"])(?=([\w.\[\], |]*)\1)""")
# How people import these.
_CUSTOMARY = {"equinox": "eqx", "jax.numpy": "jnp", "numpy": "np", "haliax": "hax"}


def spell(program: Program, file: FileFacts, node: ast.AST, name: str) -> tuple[str, tuple[Edit, ...]]:
    """The text for a library name at a node, and the edits that make it valid there."""
    best: str | None = None
    for binding in file.imports:
        value = program.evaluator.binding(file, binding)
        if not isinstance(value, Api) or not _visible(file, node, binding):
            continue
        if value.name == name or api.canonical(value.written) == name:
            return binding.name, ()
        if name.startswith(f"{value.written}."):
            text = binding.name + name[len(value.written) :]
            if best is None or len(text) < len(best):
                best = text
    if best is not None:
        return best, ()
    extended = _extend(file, node, name)
    return extended if extended is not None else _add(file, node, name)


def spell_short(
    program: Program, file: FileFacts, node: ast.AST, names: Mapping[str, str]
) -> tuple[dict[str, str], tuple[Edit, ...]]:
    """Bare spellings for several names of one module, each with the name people give it, and one import for all.

    A name that is imported already keeps its spelling; one that is not free is spelled as `spell` does.
    """
    spellings: dict[str, str] = {}
    edits: list[Edit] = []
    new: list[str] = []
    module = ""
    for name, short in names.items():
        module, _, last = name.rpartition(".")
        text, imports = spell(program, file, node, name)
        if ("." in text or imports) and _free(file, node, short):
            spellings[name] = short
            new.append(last if short == last else f"{last} as {short}")
        else:
            spellings[name] = text
            edits += imports
    if new:
        edits.append(_taking(file, module, ", ".join(new)))
    return spellings, tuple(edits)


def _taking(file: FileFacts, module: str, names: str) -> Edit:
    """Take names from a module: in a `from` statement that is there, else in one of its own."""
    for statement in file.tree.body:
        whole = isinstance(statement, ast.ImportFrom) and statement.module == module and not statement.level
        if whole and isinstance(statement, ast.ImportFrom) and statement.names[-1].name != "*":
            end = file.span(statement.names[-1])[1]
            return Edit(end, end, f", {names}")
    return _new_statement(file, f"from {module} import {names}")


def spell_from(
    program: Program, file: FileFacts, node: ast.AST, name: str
) -> tuple[str, tuple[Edit, ...]] | None:
    """As `spell`, for a name of a module that must itself be imported (`jax.extend.backend`).

    None where no name is free.
    """
    for binding in file.imports:
        value = program.evaluator.binding(file, binding)
        if isinstance(value, Api) and value.written == name and _visible(file, node, binding):
            return binding.name, ()
    extended = _extend(file, node, name)
    if extended is not None:
        return extended
    module, _, last = name.rpartition(".")
    if not _free(file, node, last):
        return None
    return last, (_new_statement(file, f"from {module} import {last}"),)


def _visible(file: FileFacts, node: ast.AST, binding: Binding) -> bool:
    bindings, scope = lookup(file, node, binding.name)
    return scope is file.module and any(found is binding for found in bindings)


def _free(file: FileFacts, node: ast.AST, name: str) -> bool:
    """Whether a name can be bound at module level without taking it from anything in the file."""
    return all(
        isinstance(node, ast.Attribute | ast.keyword)
        or (isinstance(node, ast.alias) and _bound(node) != name)
        for node in file.mentions(name)
    )


def _extend(file: FileFacts, node: ast.AST, name: str) -> tuple[str, tuple[Edit, ...]] | None:
    """Add a name to a `from module import ...` that is there."""
    module, _, last = name.rpartition(".")
    if not _free(file, node, last):
        return None
    for statement in file.tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == module and statement.level == 0:
            if statement.names[-1].name == "*":
                continue
            end = file.span(statement.names[-1])[1]
            return last, (Edit(end, end, f", {last}"),)
    return None


def _add(file: FileFacts, node: ast.AST, name: str) -> tuple[str, tuple[Edit, ...]]:
    top = name.partition(".")[0]
    alias = _CUSTOMARY.get(top)
    if alias is not None and _free(file, node, alias):
        statement, text = f"import {top} as {alias}", alias + name[len(top) :]
    elif _free(file, node, top):
        statement, text = f"import {top}", name
    else:
        module, _, last = name.rpartition(".")
        hidden = f"_{last}"
        statement, text = f"from {module} import {last} as {hidden}", hidden
    return text, (_new_statement(file, statement),)


def _new_statement(file: FileFacts, statement: str) -> Edit:
    """An import statement behind those that are there."""
    where = _after_imports(file)
    newline = file.source.newline
    at_end = where == len(file.source.text) and where > 0 and not file.source.text.endswith(("\n", "\r"))
    return Edit(where, where, newline + statement if at_end else statement + newline)


def _after_imports(file: FileFacts) -> int:
    """Offset of the line after the module's leading imports; after the docstring where there are none."""
    last: ast.stmt | None = None
    for index, statement in enumerate(file.tree.body):
        docstring = (
            index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )
        if isinstance(statement, ast.Import | ast.ImportFrom) or docstring:
            last = statement
        elif last is not None or not isinstance(statement, ast.Expr):
            break
    if last is None:
        first = file.tree.body[0] if file.tree.body else None
        if first is None:
            return 0
        decorators = getattr(first, "decorator_list", [])
        return file.source.offset(min(node.lineno for node in (first, *decorators)), 0)
    line = last.end_lineno or last.lineno
    following = file.tree.body[file.tree.body.index(last) + 1 :]
    if (
        following and following[0].lineno == line
    ):  # `import a; a.f()`: what uses the new import is on this line
        return file.source.offset(last.lineno, 0)
    if line >= len(file.source.line_starts):
        return len(file.source.text)
    return file.source.line_starts[line]


def dropped(file: FileFacts, names: set[str]) -> list[Edit]:
    """Edits that remove module-level imports of names nothing uses any more."""
    edits = []
    for statement in file.tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        gone = [alias for alias in statement.names if _bound(alias) in names and _unused(file, _bound(alias))]
        if not gone:
            continue
        if len(gone) == len(statement.names):
            edits.append(_whole_line(file, statement))
        else:
            edits.extend(_aliases(file, statement, gone))
    return edits


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _unused(file: FileFacts, name: str) -> bool:
    return not _quoted(file, name) and all(
        isinstance(node, ast.alias | ast.Attribute | ast.keyword) for node in file.mentions(name)
    )


def _quoted(file: FileFacts, name: str) -> bool:
    """Whether a string may name it: `__all__`, or an annotation in quotes."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(match[2]) for match in _IN_QUOTES.finditer(file.source.text))


def _whole_line(file: FileFacts, statement: ast.stmt) -> Edit:
    start, end = file.span(statement)
    text = file.source.text
    line_start = file.source.offset(statement.lineno, 0)
    rest = file.source.line(statement.end_lineno or statement.lineno)
    after = rest.encode()[statement.end_col_offset or 0 :].decode().strip()  # a comment goes with its import
    alone = text[line_start:start].strip() == "" and (not after or after.startswith("#"))
    if not alone:
        return Edit(start, end, "pass")
    line = statement.end_lineno or statement.lineno
    starts = file.source.line_starts
    return Edit(line_start, starts[line] if line < len(starts) else len(text), "")


def _aliases(
    file: FileFacts, statement: ast.Import | ast.ImportFrom, gone: list[ast.alias]
) -> Iterator[Edit]:
    """Edits that take some names out of an import that keeps others."""
    kept = [index for index, alias in enumerate(statement.names) if alias not in gone]
    for index, alias in enumerate(statement.names):
        if alias in gone and index < kept[-1]:
            yield Edit(file.span(alias)[0], file.span(statement.names[index + 1])[0], "")
    if statement.names[-1] in gone:
        yield Edit(file.span(statement.names[kept[-1]])[1], file.span(statement.names[-1])[1], "")
