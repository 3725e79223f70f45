"""SL905."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Sequence
from functools import cache

from shardlint.config.versions import Release, compare_releases, format_release
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Imports, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.guards import expected_to_fail
from shardlint.syntax.release_guards import is_release_guarded
from shardlint_rules.upgrade.name_places import certainty_of_evaluation, is_compatibility_layer
from shardlint_rules.upgrade.name_table import read_table
from shardlint_rules.upgrade.nnx_spmd_names import NAMES
from shardlint_rules.upgrade.public_names import LIBRARIES, Library, read_libraries, screen_text

_SPELLINGS = 2
# What is not looked into.
_UNSEEN = ("*", "experimental", "contrib", "tests", "testing")


@dataclass(frozen=True)
class _Missing:
    """A name that a module of a library does not have on the project's release.

    `last` is the newest release looked at that had it; None where none did.
    """

    library: Library
    module: str
    name: str
    last: Release | None


class UnknownName(Rule):
    """The code uses a name that a module of a library does not have.

    The import or the attribute raises, often in a branch that runs late.

    ## Reports
    - proven: an import or attribute of a module of jax, flax, equinox, optax or haliax that no release has
      (`jax.sharding.psum`), or that the project's release no longer has.
    - `annotation` (possible): such a name in a type hint that may never be evaluated.

    ## Limits
    Not reported:

    - code under `try`, `hasattr`, a version check or `TYPE_CHECKING`
    - private names, names below `jax.experimental`, and names that SL901 reports
    - names that the file itself sets in the module
    - modules with a `__getattr__`, and releases newer than the tested ones.

    A name that existed only between two tested releases counts as missing.
    """

    code = "SL905"
    name = "unknown-name"
    harm = Harm.CRASH
    triggers = (Imports(*LIBRARIES, file_says=(screen_text(),)),)
    fixes = "none"
    by_hand = "the name is similar, and the behaviour may differ"

    @detector("import")
    def find_names(self, site: Site) -> Iterator[Finding]:
        """Names that an import takes, and attributes of the modules that it binds."""
        if (
            not isinstance(site.syntax, ast.alias)
            or is_compatibility_layer(site)
            or is_release_guarded(site.file, site.syntax)
        ):
            return
        library = site.written.partition(".")[0]
        if library not in read_libraries() or _is_library_itself(site, library):
            return
        alias, statement = site.syntax, site.file.parent(site.syntax)
        taken = isinstance(statement, ast.ImportFrom)
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else alias.name
        missing, error = _missing_module(site, module), "ModuleNotFoundError"
        if missing is None and taken:
            missing, error = _find_missing(site, module, alias.name), "ImportError"
        if missing is not None:
            if not expected_to_fail(site.file, alias) and not _is_reported_by_other_rule(missing):
                yield self._report_missing(site, alias, missing, error)
        elif taken:
            yield from self._check_attributes(site, alias.asname or alias.name, site.written)
        elif alias.asname is not None:
            yield from self._check_attributes(site, alias.asname, alias.name)
        else:
            yield from self._check_attributes(site, library, library)

    def _check_attributes(self, site: Site, local: str, module: str) -> Iterator[Finding]:
        if module not in _library_of(module).modules and not _is_function(site, module):
            return
        chains = set(re.findall(rf"{local}(?<!\w{local})((?:\s*\.\s*\w+)+)", site.file.source.text))
        if not any(_find_missing_attribute(site, module, re.findall(r"\w+", chain)) for chain in chains):
            return
        for node in site.file.find_mentions(local):
            if not isinstance(node, ast.Name) or not _is_module(site, node, module):
                continue
            found = _first_missing(site, node, module)
            if found is not None and not _is_reported_by_other_rule(found[1]):
                yield self._report_missing(site, *found, "AttributeError")

    def _report_missing(self, site: Site, node: ast.AST, missing: _Missing, error: str) -> Finding:
        library = missing.module.partition(".")[0]
        on, dotted, why = site.release(library), f"{missing.module}.{missing.name}", list[str]()
        if missing.module not in missing.library.modules:
            history = f"`{missing.module}` is a function without `{missing.name}`"
        elif missing.last is None:
            history = f"`{missing.module}` has no `{missing.name}`"
            if len(missing.library.releases) > 1:
                why.append(f"no release from {library} {format_release(missing.library.releases[0])} on has it")
        else:
            history = f"`{dotted}` is gone"
            why.append(f"{library} {format_release(missing.last)} had it")
        sure = certainty_of_evaluation(site.file, node) if error == "AttributeError" else Certainty.PROVEN
        if sure is not Certainty.PROVEN:
            why.append("it raises only if the annotation is evaluated")
        similar = _similar_names(missing, site)
        return site.finding(
            node,
            f"On {on} this raises {error}: {history}.",
            help=f"write {similar}" if similar else f"remove the use: `{missing.module}` has no similar name",
            kept="" if similar else "no replacement is known",
            form="" if sure is Certainty.PROVEN else "annotation",
            why="; ".join(why),
            harm=Harm.CRASH if missing.last is None else Harm.REMOVED,
        )


def _is_reported_by_other_rule(missing: _Missing) -> bool:
    """Return whether SL513 reports the name, with its new place."""
    return f"{missing.module}.{missing.name}" in NAMES


def _is_library_itself(site: Site, library: str) -> bool:
    """Return whether the project is the library, or bundles it."""
    return site.program.project.resolve_module(library, site.file.path) is not None


def _is_module(site: Site, node: ast.Name, module: str) -> bool:
    found = options(site.value(node))
    return isinstance(node.ctx, ast.Load) and all(
        isinstance(one, Api) and one.written == module for one in found
    )


def _first_missing(site: Site, node: ast.Name, module: str) -> tuple[ast.AST, _Missing] | None:
    """The first attribute in a chain that its module does not have."""
    chain: list[ast.Attribute] = []
    outer = site.file.parent(node)
    while isinstance(outer, ast.Attribute) and isinstance(outer.ctx, ast.Load):
        chain.append(outer)
        outer = site.file.parent(outer)
    found = _find_missing_attribute(site, module, [one.attr for one in chain])
    if found is None:
        return None
    at, missing = chain[found[0]], found[1]
    quiet = is_release_guarded(site.file, at) or expected_to_fail(site.file, at)
    return None if quiet or _is_set_by_file(site, at.attr) else (at, missing)


def _find_missing_attribute(site: Site, module: str, attributes: Sequence[str]) -> tuple[int, _Missing] | None:
    """Which of the attributes of a module, of that attribute and so on is the first that is missing."""
    for place, name in enumerate(attributes):
        missing = _find_missing(site, module, name)
        if missing is not None:
            return place, missing
        module = f"{module}.{name}"
        if module not in _library_of(module).modules and not _is_function(site, module):
            return None
    return None


def _library_of(dotted: str) -> Library:
    return read_libraries()[dotted.partition(".")[0]]


def _is_function(site: Site, dotted: str) -> bool:
    module, _, last = dotted.rpartition(".")
    place = _release_index(_library_of(dotted), site.target(dotted.partition(".")[0]))
    return place is not None and _library_of(dotted).is_function(module, last, place)


def _find_missing(site: Site, module: str, name: str) -> _Missing | None:
    """Return the missing part of a name, if the project's release surely does not have it."""
    library = _library_of(module)
    at = _release_index(library, site.target(module.partition(".")[0]))
    on = library.releases_with_name(module, name) if module in library.modules else frozenset()
    if at in on:  # as nearly always
        return None
    if name.startswith("_") or name in _UNSEEN or read_table().most_specific_entry(f"{module}.{name}") is not None:
        return None
    if _is_function(site, module):
        return _Missing(library, module, name, None)
    if module not in library.modules or f"{module}.{name}" in library.modules:
        return None
    if at is None or at not in library.modules[module][0] or any(place > at for place in on):
        return None
    return _Missing(library, module, name, library.releases[max(on)] if on else None)


def _missing_module(site: Site, dotted: str) -> _Missing | None:
    """The first part of a module's dotted name that is not there, or is not a module."""
    parts = dotted.split(".")
    for count in range(1, len(parts)):
        module = ".".join(parts[:count])
        if module not in _library_of(dotted).modules and not _is_function(site, module):
            return None
        missing = _find_missing(site, module, parts[count])
        if missing is not None:
            return missing
    return None


@cache
def _release_index(library: Library, release: Release) -> int | None:
    """The newest release looked at that is not newer; None where the project's is older than all, or newer."""
    width = 3
    known = [one[:width] for one in library.releases]
    if compare_releases(release[:2], known[-1][:2]) > 0:
        return None
    older = [place for place, one in enumerate(known) if compare_releases(one, release[:width]) <= 0]
    return older[-1] if older else None


def _is_set_by_file(site: Site, name: str) -> bool:
    """Return whether the file sets an attribute of this name, or tests for it: `hasattr(jax, "name")`."""
    text = site.file.source.text
    if f'"{name}"' in text or f"'{name}'" in text:
        return True
    return any(
        isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        for node in site.file.find_mentions(name)
    )


def _similar_names(missing: _Missing, site: Site) -> str:
    """Return the names that may be intended: the same name in other modules, else similar ones in this module."""
    library = missing.library
    at = _release_index(library, site.target(missing.module.partition(".")[0])) or 0
    same = [
        f"{module}.{missing.name}"
        for module, (_, names) in library.modules.items()
        if at in {*names.get(missing.name, ()), *names.get(f"{missing.name}()", ())}
        and (module.count(".") < 2 or module.startswith(f"{missing.module}."))
    ]
    if same:
        return " or ".join(f"`{one}`" for one in sorted(same, key=len)[:_SPELLINGS])
    held = library.modules.get(missing.module, (frozenset(), {}))[1]
    now = [name.removesuffix("()") for name, on in held.items() if at in on]
    close = difflib.get_close_matches(missing.name, now, n=_SPELLINGS)
    return " or ".join(f"`{missing.module}.{one}`" for one in close)
