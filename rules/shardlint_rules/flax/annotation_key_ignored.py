"""SL504."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Api, Parameter, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Harm, Methods, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax.annotations import (
    KEYS,
    LAYERS,
    OLDER,
    VARIABLES,
    WITH_METADATA,
    Annotation,
    fix_key,
    given_annotations,
    is_key_heeded,
    names_axes,
    preferred_key,
    storage_key,
)

# What people write for one of KEYS begins so. Other keys are metadata of the user's own.
_BEGINNINGS = ("shard", "partition", "out_s")
_IN_TEXT = (*KEYS, *_BEGINNINGS)


class AnnotationKeyIgnored(Rule):
    """The sharding annotation of an NNX variable uses a key that this release of flax ignores.

    flax stores an unknown keyword as plain metadata. The variable is then replicated, or stays on one device. Code that
    reads an annotation under an old key gets `KeyError` or the default. If this code loads weights, it leaves the
    variable unsharded.

    | flax | reads | stores the annotation as |
    |---|---|---|
    | 0.10 | `sharding` | `sharding` |
    | 0.11 to 0.12.3 | `sharding`, `sharding_names` | `sharding_names` |
    | from 0.12.4 | `out_sharding`, and the others (deprecated from 0.12.6) | `out_sharding` |

    ## Reports
    - proven: axis names under a key that this release ignores: a key of another release, or a similar name
      (`out_shardings`, `sharding_metadata`, `partition_spec`). The key is passed to `nnx.Param`, `nnx.with_metadata` or
      `kernel_metadata={...}`.
    - proven: `get_metadata("sharding")`, `get_metadata().get("sharding")` or `get_metadata()["sharding"]`, if this
      release stores the annotation under another key.
    - `getattr` (likely): `getattr(param, "sharding", ())`, if this release stores the annotation under another key. The
      default is an empty tuple, or `param` is annotated as an NNX variable.

    ## Fix
    Writes the key that the project's release of flax uses. Unsafe: the variable is then sharded, and other releases of
    flax use another key.

    ## Limits
    Not reported: other unknown keys, values that are not axis names, and code that reads both keys. SL515 reports
    deprecated keys, which still work.
    """

    code = "SL504"
    name = "annotation-key-ignored"
    harm = Harm.SILENT
    likely = ("getattr",)
    assumptions: ClassVar[Mapping[str, str]] = {"getattr": "The object is an annotated NNX variable."}
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (
        Calls(*VARIABLES, WITH_METADATA, file_says=_IN_TEXT),
        Calls(*LAYERS, file_says=("_metadata",)),
        Calls(
            "builtins.getattr",
            file_says=("(?:)getattr\\([^)]*[\"'](?:sharding|sharding_names|out_sharding)[\"']",),
        ),
        Methods("get_metadata", file_says=tuple(f"{quote}{key}{quote}" for key in KEYS for quote in "\"'")),
    )
    in_version_checks = False
    fixes = "unsafe"

    @detector("call", of=(*VARIABLES, WITH_METADATA, *LAYERS))
    def find_ignored_keys(self, site: Site) -> Iterator[Finding]:
        """Each key that is given to a variable, and that flax does not read."""
        found = list(given_annotations(site))
        for one in found:
            others = [other.key for other in found if other is not one]
            finding = self._report_ignored(site, one, others)
            if finding is not None:
                yield finding

    def _report_ignored(self, site: Site, annotation: Annotation, others: list[str]) -> Finding | None:
        write = preferred_key(site)
        if any(is_key_heeded(site, key) for key in others):
            return None
        if annotation.key in KEYS and is_key_heeded(site, annotation.key):
            return None  # SL515 reports deprecated keys
        if not (annotation.key in KEYS or annotation.key.startswith(_BEGINNINGS)) or not names_axes(
            site.value(annotation.value)
        ):
            return None
        if annotation.key not in KEYS and _is_key_read(site, annotation):
            return None
        return site.finding(
            annotation.node,
            f"The variable is not sharded: `{annotation.key}` is plain metadata on {site.release('flax')}.",
            label="flax ignores this key",
            help=f"write {write}",
            fix=fix_key(site, annotation, write, "the variable is then sharded"),
        )

    @detector("method")
    def report_key_read(self, site: Site) -> Finding | None:
        """`x.get_metadata("sharding")`, `x.get_metadata().get("sharding")` and `x.get_metadata()["sharding"]`."""
        key = _key_constant_read(site)
        kept = storage_key(site)
        if key is None or key.value == kept or key.value not in KEYS:
            return None
        scope = site.scope.enclosing_function()
        around = site.text(scope.node) if scope is not None else site.file.source.text
        if (
            f'"{kept}"' in around
            or f"'{kept}'" in around
            or _sets_key(_code_before_read(site, key), key.value)
        ):
            return None
        start, end = site.file.character_span(key)
        edit = Edit(start, end, site.text(key).replace(str(key.value), kept))
        raises, set_later = _raises_when_missing(site, key), _sets_key(around, key.value)
        return site.finding(
            key,
            f"On {site.release('flax')} no variable has `{key.value}` in its metadata: this raises KeyError."
            if raises
            else f"On {site.release('flax')} no variable has `{key.value}` in its metadata: all look unsharded.",
            label=f"flax stores it as {kept}",
            harm=Harm.CRASH if raises else None,
            help=f"read and set {kept}" if set_later else "",
            fix=None if set_later else site.fix(Safety.UNSAFE, f"read {kept}", [edit], OLDER),
        )

    @detector("call", of="builtins.getattr", finds="getattr")
    def report_attribute(self, site: Site) -> Finding | None:
        """`getattr(param, "sharding", ())`, of what is a variable by its annotation or by a default that is axes."""
        key = site.call.args[1] if len(site.call.args) > 1 else None
        kept = storage_key(site)
        if not isinstance(key, ast.Constant) or key.value not in KEYS or key.value == kept:
            return None
        if key.value == "sharding_names" and site.allows("flax", ">=0.12.4"):
            return None  # a deprecated property, which gives the axes
        scope = site.scope.enclosing_function()
        around = site.text(scope.node) if scope is not None else site.file.source.text
        why = _explain_variable_key(site)
        if why is None or f'"{kept}"' in around or f"'{kept}'" in around or not site.is_named_anywhere("nnx"):
            return None
        start, end = site.file.character_span(key)
        instead = "the array's sharding or the default" if key.value == "sharding" else "the default"
        edit = Edit(start, end, site.text(key).replace(str(key.value), kept))
        return site.finding(
            key,
            f"On {site.release('flax')} this returns {instead} in place of the annotated axes.",
            label=f"flax stores them as {kept}",
            fix=site.fix(Safety.UNSAFE, f"read {kept}", [edit], OLDER),
            why=why,
        )


def _explain_variable_key(site: Site) -> str | None:
    """Why what `getattr` is called with is a variable, or its axes are wanted; None where nothing says so."""
    subject, default = site.call.args[0], site.call.args[2] if len(site.call.args) > 2 else None
    value = site.value(subject)
    annotation = getattr(value.place.node, "annotation", None) if isinstance(value, Parameter) else None
    if isinstance(value, Parameter) and annotation is not None and value.place.file is site.file:
        kinds = options(site.value(annotation))
        if all(isinstance(one, Api) and one.name in VARIABLES for one in kinds):
            return f"`{value.name}` is annotated as {site.text(annotation)}"
    if isinstance(default, ast.Tuple) and not default.elts:
        return "the default is a tuple, like axes"
    return None


def _key_constant_read(site: Site) -> ast.Constant | None:
    given: ast.expr | None = site.call.args[0] if site.call.args else None
    if given is not None and not site.allows("flax", ">=0.12"):
        return None  # get_metadata takes no name there
    if given is None:
        outer = site.file.parent(site.call)
        if isinstance(outer, ast.Subscript) and outer.value is site.call:
            given = outer.slice
        elif isinstance(outer, ast.Attribute) and outer.attr == "get":
            call = site.file.parent(outer)
            if isinstance(call, ast.Call) and call.func is outer and call.args:
                given = call.args[0]
    return given if isinstance(given, ast.Constant) else None


def _raises_when_missing(site: Site, key: ast.Constant) -> bool:
    """Return whether a read of a missing key raises: it has no default."""
    outer = site.file.parent(key)
    if isinstance(outer, ast.Subscript):
        return True
    return outer is site.call and len(site.call.args) + len(site.call.keywords) == 1


def _code_before_read(site: Site, key: ast.Constant) -> str:
    """The code around a read that runs before it: what is set after it was read is no reason why it is there.

    In a loop, or in another function, what stands below may have run.
    """
    scope = site.scope.enclosing_function()
    if scope is None or any(isinstance(one, ast.For | ast.While) for one in site.file.ancestors(key)):
        return site.text(scope.node) if scope is not None else site.file.source.text
    start = site.file.character_span(scope.node)[0]
    return site.file.source.text[start : site.file.character_span(key)[0]]


def _sets_key(text: str, key: str) -> bool:
    """Return whether code puts a key into metadata itself."""
    return any(
        f"set_metadata({quote}{key}{quote}" in text or f"set_metadata({key}=" in text for quote in "\"'"
    )


def _is_key_read(site: Site, annotation: Annotation) -> bool:
    """Return whether the file reads the key, as code with metadata of its own does."""
    text = site.file.source.text
    quoted = text.count(f'"{annotation.key}"') + text.count(f"'{annotation.key}'")
    own = 0 if isinstance(annotation.node, ast.keyword) else 1
    return quoted > own or f".{annotation.key}" in text
