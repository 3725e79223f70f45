"""Spelling a library name where it is needed: reuse an import, extend one, or add one, moving no others."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from shardlint.model import Program, api
from shardlint.model.values import Api
from shardlint.rules_api.import_order import add_imported_name, one_a_line, sorted_place
from shardlint.rules_api.rule import Edit
from shardlint.syntax import Binding, FileFacts
from shardlint.syntax.bindings import lookup_bindings

# What imports JAX, or is it.
_WITH_JAX = api.LIBRARIES - {"numpy", "functools", "contextlib", "pytest", "unittest", "absl"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Beside which an import of JAX is at home.
_KIN = (
    *_WITH_JAX,
    "numpy",
    "scipy",
    "absl",
    "chex",
    "optax",
    "einops",
    "ml_collections",
    "pytest",
    "torch",
    "tqdm",
)
# So many dots are long.
_FAR = 2
# How people import these.
_CUSTOMARY = {"equinox": "eqx", "jax.numpy": "jnp", "numpy": "np", "haliax": "hax"}


def spell_name(program: Program, file: FileFacts, node: ast.AST, name: str) -> tuple[str, tuple[Edit, ...]]:
    """The text for a library name at a node, and the edits that make it valid there."""
    local = _spelling_by_function_import(program, file, node, name)
    if local is not None:
        return local, ()
    here = _module_named_at(node)
    older: str | None = None
    found: dict[str, str] = {}
    for binding in file.module_imports:
        value = program.evaluator.evaluate_binding(file, binding)
        if not isinstance(value, Api) or not _is_binding_visible(file, node, binding):
            continue
        if value.name == name or api.canonical_name(value.written) == name:
            if here is None or name in (value.written, f"{name.rpartition('.')[0]}.{binding.name}"):
                return binding.name, ()
            older = older or binding.name
        elif name.startswith(f"{value.written}."):
            text = binding.name + name[len(value.written) :]
            known = found.get(value.written)
            if (
                binding.name == here
                or known is None
                or (len(text) < len(known) and not _is_in_package(known, here))
            ):
                found[value.written] = text
    best = min(found.values(), key=len, default=None)
    if older is not None and not any(_is_in_package(text, here) for text in found.values()):
        return older, ()
    if best is not None and not _is_better_imported(file, best, name):
        return best, ()
    extended = _extend_import(file, node, name)
    if best is not None and extended is None:
        return best, ()
    return extended if extended is not None else _add_import(file, node, name)


def _is_in_package(text: str, here: str | None) -> bool:
    return here is not None and text.startswith(f"{here}.")


def _module_named_at(node: ast.AST) -> str | None:
    """The name that what stands at a node begins with, where it is one of a module: `jax` of `jax.tree_map(...)`."""
    if isinstance(node, ast.Call):
        node = node.func
    dotted = isinstance(node, ast.Attribute)
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if dotted and isinstance(node, ast.Name) else None


def _is_better_imported(file: FileFacts, best: str, name: str) -> bool:
    """Return whether a class is better imported from its module, as the file does with others, than written in full."""
    module, _, last = name.rpartition(".")
    return best.count(".") >= _FAR and last[0].isupper() and not one_a_line(file, module)


def _spelling_by_function_import(program: Program, file: FileFacts, node: ast.AST, name: str) -> str | None:
    """A spelling by what the function around a node imports itself."""
    top = name.partition(".")[0]
    for written in (top, _CUSTOMARY.get(top, top)):
        bindings, scope = lookup_bindings(file, node, written)
        if scope is None or scope is file.module or [one.kind for one in bindings] != ["import"]:
            continue
        value = program.evaluator.evaluate_binding(file, bindings[0])
        if isinstance(value, Api) and value.name == top and _precedes_use(file, bindings[0].node, node):
            return written + name[len(top) :]
    return None


def spell_bare_names(
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
        text, imports = spell_name(program, file, node, name)
        if ("." in text or imports) and _is_name_free(file, node, short):
            spellings[name] = short
            new.append(last if short == last else f"{last} as {short}")
        else:
            spellings[name] = text
            edits += imports
    if new:
        edits += _import_names_from(file, node, module, new)
    return spellings, tuple(edits)


def _import_names_from(file: FileFacts, node: ast.AST, module: str, names: Sequence[str]) -> list[Edit]:
    """Take names from a module: in a `from` statement that is there, else in one of its own."""
    single = one_a_line(file, module)
    there = _extendable_import(file, node, module)
    if there is not None and not single:
        return [edit for name in names for edit in add_imported_name(file, there, name)]
    return [
        _new_statement(
            file,
            node,
            *(f"from {module} import {text}" for text in (names if single else [", ".join(names)])),
        )
    ]


def _extendable_import(file: FileFacts, node: ast.AST, module: str) -> ast.ImportFrom | None:
    """A `from module import ...` ahead of a node, to which names can be added; None where there is none."""
    for statement in file.tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == module and not statement.level:
            if statement.names[-1].name != "*" and _precedes_use(file, statement, node):
                return statement
    return None


def _precedes_use(file: FileFacts, statement: ast.AST, node: ast.AST) -> bool:
    """Return whether an import precedes the use. A function may be called before a later import runs."""
    return file.character_span(statement)[1] <= file.character_span(node)[0]


def spell_from(
    program: Program, file: FileFacts, node: ast.AST, name: str
) -> tuple[str, tuple[Edit, ...]] | None:
    """As `spell`, for a name of a module that must itself be imported (`jax.extend.backend`).

    None where no name is free.
    """
    for binding in file.module_imports:
        value = program.evaluator.evaluate_binding(file, binding)
        if isinstance(value, Api) and value.written == name and _is_binding_visible(file, node, binding):
            return binding.name, ()
    extended = _extend_import(file, node, name)
    if extended is not None:
        return extended
    module, _, last = name.rpartition(".")
    if not _is_name_free(file, node, last):
        return None
    return last, (_new_statement(file, node, f"from {module} import {last}"),)


def _is_binding_visible(file: FileFacts, node: ast.AST, binding: Binding) -> bool:
    bindings, scope = lookup_bindings(file, node, binding.name)
    return (
        scope is file.module
        and any(found is binding for found in bindings)
        and _precedes_use(file, binding.node, node)
    )


def _is_name_free(file: FileFacts, node: ast.AST, name: str) -> bool:
    """Return whether a name can be bound at module level without shadowing any use in the file."""
    return all(
        isinstance(node, ast.Attribute | ast.keyword)
        or (isinstance(node, ast.alias) and bound_name(node) != name)
        for node in file.find_mentions(name)
    )


def _extend_import(file: FileFacts, node: ast.AST, name: str) -> tuple[str, tuple[Edit, ...]] | None:
    """Add a name to a `from module import ...` that is there."""
    module, _, last = name.rpartition(".")
    if not _is_name_free(file, node, last):
        return None
    there = _extendable_import(file, node, module)
    return None if there is None else (last, tuple(_import_names_from(file, node, module, [last])))


def _add_import(file: FileFacts, node: ast.AST, name: str) -> tuple[str, tuple[Edit, ...]]:
    top = name.partition(".")[0]
    alias = _CUSTOMARY.get(top)
    if alias is not None and _is_name_free(file, node, alias):
        statement, text = f"import {top} as {alias}", alias + name[len(top) :]
    elif _is_name_free(file, node, top):
        statement, text = f"import {top}", name
    else:
        module, _, last = name.rpartition(".")
        hidden = f"_{last}"
        statement, text = f"from {module} import {last} as {hidden}", hidden
    return text, (_new_statement(file, node, statement),)


def _new_statement(file: FileFacts, node: ast.AST, *statements: str) -> Edit:
    """Import statements: at their place among those that are in order, else behind them."""
    newline = file.source.common_newline
    statement = newline.join(statements)
    place = sorted_place(file, statements[0], node, _KIN, _count_statements_before_jax(file, node))
    if place is not None:
        return Edit(place, place, statement + newline)
    where, in_line = _position_after_imports(file, node)
    if in_line:
        return Edit(where, where, "".join(f"; {one}" for one in statements))
    at_end = where == len(file.source.text) and where > 0 and not file.source.text.endswith(("\n", "\r"))
    return Edit(where, where, newline + statement if at_end else statement + newline)


def _position_after_imports(file: FileFacts, node: ast.AST) -> tuple[int, bool]:
    """Offset of the line after the module's leading imports, or those among which the first of JAX is.

    After the docstring where there are none. And whether that is in the middle of a line instead: more of the program
    follows on it, which may use the import.
    """
    last: ast.stmt | None = None
    for index, statement in enumerate(file.tree.body[_count_statements_before_jax(file, node) :]):
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
        return file.source.offset_of(min(node.lineno for node in (first, *decorators)), 0), False
    line = last.end_lineno or last.lineno
    following = file.tree.body[file.tree.body.index(last) + 1 :]
    if following and following[0].lineno == line:
        return file.character_span(last)[1], True
    if line >= len(file.source.line_starts):
        return len(file.source.text), False
    return file.source.line_starts[line], False


def _count_statements_before_jax(file: FileFacts, node: ast.AST) -> int:
    """How many statements come before the first import of JAX: they may set what it reads when it is imported."""
    for index, statement in enumerate(file.tree.body):
        if not _precedes_use(file, statement, node) or isinstance(statement, _DEFINITIONS):
            break
        modules = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            modules = [statement.module or ""]
        if not _WITH_JAX.isdisjoint(module.partition(".")[0] for module in modules):
            return index
    return 0


def bound_name(alias: ast.alias) -> str:
    """The name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]
