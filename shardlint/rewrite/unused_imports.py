"""Imports that a fix left unused: which they are, also for the project's other files, and the edits without them."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from shardlint.model.project import Project
from shardlint.rules_api.imports import bound_name
from shardlint.rules_api.rule import Edit
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts

# What may be a name in a string: an annotation, an entry of `__all__`. In prose words follow one another.
_NAMES = compile_lazily(r"[\w.\[\], |]*")
_PROSE = compile_lazily(r"\w\s+\w")
_IN_QUOTES = compile_lazily(r"""(['"])(?=([\w.\[\], |]*)\1)""")
_EXAMPLES = compile_lazily(r"^[ \t]*(?:>>>|\.\.\.) .*", re.MULTILINE)
# A linter was told that an import is meant though nothing here uses it.
_NOQA = compile_lazily(r"#.*\bnoqa\b", re.IGNORECASE)
_LAYOUT = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


def drop_unused_imports(
    file: FileFacts, names: set[str], project: Project | None = None, before: str | None = None, length: int = 0
) -> list[Edit]:
    """Edits that remove module-level imports of names nothing uses any more, in the file or elsewhere in its project.

    What an `__init__.py` imports is what its package offers. An import that was broken over several lines since the
    text `before` comes back on one where that is no longer than `length`.
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
            if bound_name(alias) in names
            and not _is_reexport(file, statement, alias)
            and _is_unused(file, bound_name(alias))
            and (project is None or not _used_elsewhere(project, file.path, bound_name(alias)))
        ]
        if not gone:
            continue
        if len(gone) == len(statement.names):
            edits.append(_whole_line(file, statement))
        elif (
            before is not None
            and (joined := _import_on_one_line(file, statement, gone, before, length)) is not None
        ):
            edits.append(joined)
        else:
            edits.extend(_remove_alias_edits(file, statement, gone))
    return edits


def _is_reexport(file: FileFacts, statement: ast.stmt, alias: ast.alias) -> bool:
    """Return whether an import is marked as intended for others: `from a import b as b`, or a comment for linters."""
    lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    return alias.name == alias.asname or any(_NOQA.search(file.source.line_text(line)) for line in lines)


def _is_unused(file: FileFacts, name: str) -> bool:
    return not (_is_quoted(file, name) or _spelled_otherwise(file, name)) and all(
        isinstance(node, ast.alias | ast.Attribute | ast.keyword) for node in file.find_mentions(name)
    )


def _spelled_otherwise(file: FileFacts, name: str) -> bool:
    """Return whether a word in other letters is the same name to Python, which normalizes full-width letters."""
    return not file.source.text.isascii() and any(
        not word.isascii() and unicodedata.normalize("NFKC", word) == name
        for word in re.findall(r"\w+", file.source.text)
    )


def _used_elsewhere(project: Project, path: Path, name: str) -> bool:
    """Return whether another file may use a name of this one. True also if that cannot be determined."""
    try:
        return any(
            other is None or _uses_name_of_module(other, path.stem, name)
            for other in project.files_importing(path, name, every=True)
        )
    finally:
        project.forget_parsed()


def _uses_name_of_module(other: FileFacts, module: str, name: str) -> bool:
    """Return whether a file may use a name of a module: by an import, as an attribute, or in `patch("module.name")`."""
    stars = [star.node for star in other.bindings(other.module, "*")]
    for alias in (*other.names_imported_from(module), *stars):
        statement = other.parent(alias)
        whole = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        if isinstance(alias, ast.alias) and alias.name in (name, "*") and module in whole.split("."):
            return True
    imports = [node for node in other.find_mentions(module) if isinstance(node, ast.alias)]
    modules = "|".join(map(re.escape, {module, *(bound_name(alias) for alias in imports)}))
    used = rf"\b(?:{modules})\s*\.\s*{re.escape(name)}\b"
    if imports:  # `setattr(module, "name", ...)`
        used += rf"|(['\"]){re.escape(name)}\1"
    said = re.compile(used)
    return (
        said.search(other.source.text) is not None
        and said.search(_code_without_comments(other.source.text)) is not None
    )


def _code_without_comments(text: str) -> str:
    """A text without its comments, and without strings that stand alone, as docstrings do."""
    lines = text.splitlines(keepends=True)
    before = tokenize.NEWLINE
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    for token, after in itertools.pairwise(tokens):
        alone = token.type == tokenize.STRING and before in _LAYOUT and after.type in _LAYOUT
        if token.type == tokenize.COMMENT or alone:
            _blank_token(lines, token)
        if token.type != tokenize.COMMENT:
            before = token.type
    return "".join(lines)


def _blank_token(lines: list[str], token: tokenize.TokenInfo) -> None:
    (first, start), (last, end) = token.start, token.end
    for number in range(first, last + 1):
        line = lines[number - 1]
        begin, stop = start if number == first else 0, end if number == last else len(line)
        lines[number - 1] = line[:begin] + " " * (stop - begin) + line[stop:]


def _is_quoted(file: FileFacts, name: str) -> bool:
    """Return whether a string may name it: `__all__`, an annotation in quotes, or an example that doctest runs."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    prose: set[ast.AST] = set()
    offered: set[ast.AST] = set()
    for node in ast.walk(file.tree):  # outer ones first
        if isinstance(node, ast.Expr):
            prose.add(node.value)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                offered |= set(ast.walk(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and word.search(node.value):
            text = node.value
            if node in prose:
                said = [match[0] for match in _EXAMPLES.finditer(text)]
            elif node in offered or (_NAMES.fullmatch(text) and not _PROSE.search(text)):
                return True
            else:
                said = [match[2] for match in _IN_QUOTES.finditer(text)]
            if any(word.search(part) for part in said):
                return True
    return False


def _whole_line(file: FileFacts, statement: ast.stmt) -> Edit:
    start, end = file.character_span(statement)
    text = file.source.text
    line_start = file.source.offset_of(statement.lineno, 0)
    rest = file.source.line_text(statement.end_lineno or statement.lineno)
    after = rest.encode()[statement.end_col_offset or 0 :].decode().strip()  # a comment goes with its import
    alone = text[line_start:start].strip() == "" and (not after or after.startswith("#"))
    return without_lines(file, statement) if alone else Edit(start, end, "pass")


def without_lines(file: FileFacts, statement: ast.stmt) -> Edit:
    """An edit that takes a statement away with its lines, and with empty lines that would be too many then."""
    source = file.source
    starts = source.line_starts
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    above = below = 0
    while first - above > 1 and not source.line_text(first - above - 1).strip():
        above += 1
    while last + below < len(starts) and not source.line_text(last + below + 1).strip():
        below += 1
    last += below if first - above == 1 else min(above, below)
    return Edit(source.offset_of(first, 0), starts[last] if last < len(starts) else len(source.text), "")


def _import_on_one_line(
    file: FileFacts, statement: ast.Import | ast.ImportFrom, aliases: list[ast.alias], before: str, length: int
) -> Edit | None:
    """The import without some names on one line, where a fix had broken it over several."""
    start, end = file.character_span(statement)
    text = file.source.text[start:end]
    if statement.lineno == statement.end_lineno or text in before or "#" in text:
        return None
    head = re.match(r"from\s+([\w.]+)\s+import\s*\(", text)
    if head is None or re.search(rf"from\s+{re.escape(head[1])}\s+import\s*\(", before):
        return None
    kept = [file.source_text(alias) for alias in statement.names if alias not in aliases]
    line = f"{' '.join(head[0].rstrip('( ').split())} {', '.join(kept)}"
    return Edit(start, end, line) if len(line) + statement.col_offset <= length else None


def _remove_alias_edits(
    file: FileFacts, statement: ast.Import | ast.ImportFrom, aliases: list[ast.alias]
) -> Iterator[Edit]:
    """Edits that take some names out of an import that keeps others."""
    kept = [index for index, alias in enumerate(statement.names) if alias not in aliases]
    for index, alias in enumerate(statement.names):
        if alias in aliases and index < kept[-1]:
            yield Edit(file.character_span(alias)[0], file.character_span(statement.names[index + 1])[0], "")
    if statement.names[-1] in aliases:
        yield Edit(file.character_span(statement.names[kept[-1]])[1], file.character_span(statement.names[-1])[1], "")
