"""Spelling a library name where it is needed: reuse an import, extend one, or add one, moving no others."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from shardlint.facts import Binding, CutWrong, FileFacts
from shardlint.program import Program, api
from shardlint.program.project import Project
from shardlint.program.reach import lookup
from shardlint.program.values import Api
from shardlint.rule import Edit

# What stands between two quotes. Every quote may be the first of a pair, and each is looked at once.
_IN_QUOTES = re.compile(r"""(['"])(?=([\w.\[\], |]*)\1)""")
_EXAMPLES = re.compile(r"^[ \t]*(?:>>>|\.\.\.) .*", re.MULTILINE)
# A linter was told that an import is meant though nothing here uses it.
_NOQA = re.compile(r"#.*\bnoqa\b", re.IGNORECASE)
# What imports JAX, or is it.
_WITH_JAX = api.LIBRARIES - {"numpy", "functools", "contextlib", "pytest", "unittest", "absl"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
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
        edits.append(_taking(file, node, module, ", ".join(new)))
    return spellings, tuple(edits)


def _taking(file: FileFacts, node: ast.AST, module: str, names: str) -> Edit:
    """Take names from a module: in a `from` statement that is there, else in one of its own."""
    end = _end_of_names(file, node, module)
    if end is not None:
        return Edit(end, end, f", {names}")
    return _new_statement(file, node, f"from {module} import {names}")


def _end_of_names(file: FileFacts, node: ast.AST, module: str) -> int | None:
    """Where a name can be added to a `from module import ...` ahead of a node; None where there is none."""
    for statement in file.tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == module and not statement.level:
            if statement.names[-1].name != "*" and _ahead(file, statement, node):
                return file.span(statement.names[-1])[1]
    return None


def _ahead(file: FileFacts, statement: ast.AST, node: ast.AST) -> bool:
    """Whether an import comes first: a function may be called before what follows it is imported."""
    return file.span(statement)[1] <= file.span(node)[0]


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
    return last, (_new_statement(file, node, f"from {module} import {last}"),)


def _visible(file: FileFacts, node: ast.AST, binding: Binding) -> bool:
    bindings, scope = lookup(file, node, binding.name)
    return (
        scope is file.module
        and any(found is binding for found in bindings)
        and _ahead(file, binding.node, node)
    )


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
    end = _end_of_names(file, node, module)
    return (last, (Edit(end, end, f", {last}"),)) if end is not None else None


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
    return text, (_new_statement(file, node, statement),)


def _new_statement(file: FileFacts, node: ast.AST, statement: str) -> Edit:
    """An import statement behind those that are there."""
    where, in_line = _after_imports(file, node)
    if in_line:
        return Edit(where, where, f"; {statement}")
    newline = file.source.newline
    at_end = where == len(file.source.text) and where > 0 and not file.source.text.endswith(("\n", "\r"))
    return Edit(where, where, newline + statement if at_end else statement + newline)


def _after_imports(file: FileFacts, node: ast.AST) -> tuple[int, bool]:
    """Offset of the line after the module's leading imports, or those among which the first of JAX is.

    After the docstring where there are none. And whether that is in the middle of a line instead: more of the program
    follows on it, which may use the import.
    """
    last: ast.stmt | None = None
    for index, statement in enumerate(file.tree.body[_before_jax(file, node) :]):
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
            return 0, False
        decorators = getattr(first, "decorator_list", [])
        return file.source.offset(min(node.lineno for node in (first, *decorators)), 0), False
    line = last.end_lineno or last.lineno
    following = file.tree.body[file.tree.body.index(last) + 1 :]
    if following and following[0].lineno == line:
        return file.span(last)[1], True
    if line >= len(file.source.line_starts):
        return len(file.source.text), False
    return file.source.line_starts[line], False


def _before_jax(file: FileFacts, node: ast.AST) -> int:
    """How many statements come before the first import of JAX: they may set what it reads when it is imported."""
    for index, statement in enumerate(file.tree.body):
        if not _ahead(file, statement, node) or isinstance(statement, _DEFINITIONS):
            break
        modules = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            modules = [statement.module or ""]
        if not _WITH_JAX.isdisjoint(module.partition(".")[0] for module in modules):
            return index
    return 0


def dropped(file: FileFacts, names: set[str], project: Project | None = None) -> list[Edit]:
    """Edits that remove module-level imports of names nothing uses any more, in the file or elsewhere in its project.

    What an `__init__.py` imports is what its package offers.
    """
    edits: list[Edit] = []
    if file.path.name == "__init__.py":
        return edits
    for statement in file.tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        gone = [
            alias
            for alias in statement.names
            if _bound(alias) in names
            and not _meant(file, statement, alias)
            and _unused(file, _bound(alias))
            and (project is None or not _used_elsewhere(project, file.path, _bound(alias)))
        ]
        if not gone:
            continue
        if len(gone) == len(statement.names):
            edits.append(_whole_line(file, statement))
        else:
            edits.extend(_aliases(file, statement, gone))
    return edits


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _meant(file: FileFacts, statement: ast.stmt, alias: ast.alias) -> bool:
    """Whether an import says itself that it is for others: `from a import b as b`, or a comment for linters."""
    lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    return alias.name == alias.asname or any(_NOQA.search(file.source.line(line)) for line in lines)


def _unused(file: FileFacts, name: str) -> bool:
    return not (_quoted(file, name) or _spelled_otherwise(file, name)) and all(
        isinstance(node, ast.alias | ast.Attribute | ast.keyword) for node in file.mentions(name)
    )


def _spelled_otherwise(file: FileFacts, name: str) -> bool:
    """Whether a word of other letters is the same name to Python, which takes full-width letters for plain ones."""
    return not file.source.text.isascii() and any(
        not word.isascii() and unicodedata.normalize("NFKC", word) == name
        for word in re.findall(r"\w+", file.source.text)
    )


def _used_elsewhere(project: Project, path: Path, name: str) -> bool:
    """Whether another file may take a name from this one; also when that cannot be told."""
    try:
        return any(other is None or _takes(other, path.stem, name) for other in project.importing(path, name))
    except CutWrong:
        return True
    finally:
        project.forget()


def _takes(other: FileFacts, module: str, name: str) -> bool:
    """Whether a file may take a name from a module: by an import, as an attribute, or in `patch("module.name")`."""
    stars = [star.node for star in other.bindings(other.module, "*")]
    for alias in (*other.taken_from(module), *stars):
        statement = other.parent(alias)
        whole = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        if isinstance(alias, ast.alias) and alias.name in (name, "*") and module in whole.split("."):
            return True
    imports = [node for node in other.mentions(module) if isinstance(node, ast.alias)]
    modules = "|".join(map(re.escape, {module, *(_bound(alias) for alias in imports)}))
    used = rf"\b(?:{modules})\s*\.\s*{re.escape(name)}\b"
    if imports:  # `setattr(module, "name", ...)`
        used += rf"|(['\"]){re.escape(name)}\1"
    return re.search(used, other.source.text) is not None


def _quoted(file: FileFacts, name: str) -> bool:
    """Whether a string may name it: `__all__`, an annotation in quotes, or an example that doctest runs."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    said = (*_IN_QUOTES.finditer(file.source.text), *_EXAMPLES.finditer(file.source.text))
    return any(word.search(match[match.lastindex or 0]) for match in said)


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
