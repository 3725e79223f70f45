"""Where a name of the table is used: one place a use, the most specific name, and what keeps a place
quiet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from shardlint.config.versions import Release
from shardlint.model import api
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Certainty
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.source.regular_files import read_toml
from shardlint.syntax import FileFacts
from shardlint.syntax.release_guards import is_release_guarded
from shardlint_rules.upgrade.name_table import Name, State, read_table

# Files whose purpose is to bridge releases.
_COMPATIBILITY = compile_lazily(r"compat|shim|backport", re.IGNORECASE)


@dataclass(frozen=True)
class Use:
    """A name of the table where it is imported or referred to.

    `dotted` is the name as far as it is written there, `root` the Name node an attribute chain starts with.
    """

    form: Literal["import", "from", "attribute"]
    node: ast.alias | ast.expr
    dotted: str
    entry: Name
    root: ast.Name | None = None

    def error_on_release(self, release: Release) -> str:
        """Return the error that importing or reading it raises on a release that does not have it."""
        if self.form == "attribute":
            return "AttributeError"
        module = read_table().most_specific_entry(self.dotted.rpartition(".")[0])
        gone = module is not None and module.kind == "module" and module.state_on(release) == "removed"
        return "ModuleNotFoundError" if self.form == "import" or gone else "ImportError"


def find_use(site: Site, *wanted: State) -> Use | None:
    """The use of a name at a site, where its state on the target is among those wanted and nothing keeps it
    quiet."""
    if isinstance(site.syntax, ast.alias):
        use = _use_of_import(site, site.syntax)
    elif isinstance(site.syntax, ast.Name | ast.Attribute):
        use = _use_of_attribute_chain(site, site.syntax)
    else:
        return None
    if use is None:
        return None
    state = use.entry.state_on(site.target("jax"))
    if state not in wanted or (state == "not yet" and use.dotted != use.entry.name):
        return None
    if is_release_guarded(site.file, use.node) or is_compatibility_layer(site):
        return None
    if use.root is not None and _is_reported_at_import(site, use, state):
        return None
    return None if _is_patched(site, use.dotted) else use


def is_compatibility_layer(site: Site) -> bool:
    """Return whether a file is a compatibility layer for several releases, or belongs to jax itself."""
    return _COMPATIBILITY.search(site.file.path.stem) is not None or is_the_library(site.program.project.root)


def _use_of_import(site: Site, alias: ast.alias) -> Use | None:
    statement = site.file.parent(alias)
    entry = read_table().most_specific_entry(site.written)
    if entry is None or not entry.trigger or (entry.kind == "namespace" and site.written == entry.name):
        return None
    if not isinstance(statement, ast.ImportFrom):
        return Use("import", alias, site.written, entry)
    if entry.name != site.written and entry.kind == "module":
        # The module itself is what is gone: said once, at the first of the names taken from it.
        others = (read_table().most_specific_entry(f"{statement.module}.{other.name}") for other in statement.names)
        first = next(other for other, found in zip(statement.names, others, strict=True) if found is entry)
        if first is not alias:
            return None
    return Use("from", alias, site.written, entry)


def _use_of_attribute_chain(site: Site, node: ast.Name | ast.Attribute) -> Use | None:
    """The longest part of an attribute chain that is in the table; in a module that went, the module."""
    chain: list[tuple[ast.expr, str]] = [(node, site.written)]
    outer = site.file.parent(node)
    while isinstance(outer, ast.Attribute):
        chain.append((outer, f"{chain[-1][1]}.{outer.attr}"))
        outer = site.file.parent(outer)
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return None
    for part, dotted in reversed(chain):
        entry = read_table().names.get(dotted)
        if entry is not None and entry.trigger and entry.kind != "namespace":
            return Use("attribute", part, dotted, entry, inner) if part is not inner else None
    for part, dotted in chain:
        entry = read_table().most_specific_entry(dotted)
        if entry is not None and entry.kind == "namespace" and dotted != entry.name and part is not inner:
            return Use("attribute", part, dotted, entry, inner)
    return None


def imports_binding(file: FileFacts, root: ast.Name) -> Iterator[tuple[ast.alias, str]]:
    """The imports in this file that give a name its value, each with the dotted name it imports."""
    for scope in file.evaluation_scope(root).enclosing_scopes():
        bindings = file.bindings(scope, root.id)
        for binding in bindings:
            if not isinstance(binding.node, ast.alias):
                continue
            statement = file.parent(binding.node)
            if isinstance(statement, ast.ImportFrom):
                module = "." * statement.level + (statement.module or "")
                yield binding.node, f"{module}.{binding.node.name}"
            else:
                yield binding.node, binding.node.name
        if bindings:
            return


def _is_reported_at_import(site: Site, use: Use, state: State) -> bool:
    """Return whether an import of the file is reported instead of the use, or decides the release of the use."""
    assert use.root is not None
    if len(options(site.value(use.root))) > 1:
        return True
    for alias, dotted in imports_binding(site.file, use.root):
        if dotted.partition(".")[0] not in api.LIBRARIES:
            return True  # taken through a module of the project, which has its own reasons
        entry = read_table().most_specific_entry(dotted)
        if (
            entry is None
            or not entry.trigger
            or not (use.dotted == dotted or use.dotted.startswith(f"{dotted}."))
        ):
            continue
        if is_release_guarded(site.file, alias):
            return True
        if entry.kind == "namespace" and dotted == entry.name:
            continue
        if entry.state_on(site.target("jax")) in (state, "removed"):
            return True
    return False


def _is_patched(site: Site, dotted: str) -> bool:
    """Return whether the file puts the name there itself: `jax.tree_map = jax.tree.map`."""
    module, _, last = dotted.rpartition(".")
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and any(isinstance(base, Api) and base.written == module for base in options(site.value(node.value)))
        for node in site.file.find_mentions(last)
    )


def certainty_of_use(site: Site, use: Use) -> Certainty:
    """Annotations that are never evaluated raise nothing by themselves."""
    return Certainty.PROVEN if use.form != "attribute" else certainty_of_evaluation(site.file, use.node)


def certainty_of_evaluation(file: FileFacts, node: ast.AST) -> Certainty:
    """Return how surely an expression runs with the code around it: annotations may never be evaluated."""
    if _is_in_local_annotation(file, node):
        return Certainty.POSSIBLE
    if not _has_postponed_annotations(file):
        return Certainty.PROVEN
    inner: ast.AST = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.arg):
            return Certainty.POSSIBLE
        if isinstance(outer, ast.AnnAssign) and inner is outer.annotation:
            return Certainty.POSSIBLE
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = outer.args
            every = (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                arguments.vararg,
                arguments.kwarg,
            )
            annotations = [outer.returns, *(arg.annotation for arg in every if arg is not None)]
            return Certainty.POSSIBLE if inner in annotations else Certainty.PROVEN
        if isinstance(outer, ast.stmt):
            return Certainty.PROVEN
        inner = outer
    return Certainty.PROVEN


def _is_in_local_annotation(file: FileFacts, node: ast.AST) -> bool:
    """Return whether an expression is in the annotation of a local variable, which Python does not evaluate."""
    inner: ast.AST = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.AnnAssign):
            return inner is outer.annotation and file.evaluation_scope(outer).kind == "function"
        if isinstance(outer, ast.stmt):
            return False
        inner = outer
    return False


def _has_postponed_annotations(file: FileFacts) -> bool:
    return any(
        isinstance(statement, ast.ImportFrom)
        and statement.module == "__future__"
        and any(alias.name == "annotations" for alias in statement.names)
        for statement in file.tree.body
    )


@lru_cache(maxsize=64)
def is_the_library(root: Path) -> bool:
    """Return whether the checked project is jax or jaxlib, which define these names."""
    if (
        (root / "jax" / "_src").is_dir()
        or (root.name == "jax" and (root / "_src").is_dir())
        or root.name == "jaxlib"
    ):
        return True
    try:
        project = read_toml(root / "pyproject.toml").get("project", {})
    except (OSError, ValueError):
        return False
    return isinstance(project, dict) and project.get("name") in ("jax", "jaxlib")
