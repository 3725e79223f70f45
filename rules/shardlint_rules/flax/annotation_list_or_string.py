"""SL505."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Constant, Items, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax.annotations import (
    LAYERS,
    VARIABLES,
    WITH_METADATA,
    WITH_PARTITIONING,
    given_annotations,
    is_key_heeded,
    names_axes,
)

# A project that turns flax's own sharding off reads the annotations itself, and may take what it likes.
_OWN_WAYS = ("flax_always_shard_variable", "use_eager_sharding")


class AnnotationListOrString(Rule):
    """The sharding annotation of an NNX variable is a list or a string.

    flax takes only a tuple or a `PartitionSpec`. From flax 0.12.6 it ignores a list or string, and the variable is
    replicated. Earlier releases accept a list. They read a string letter by letter, which raises under a mesh.

    ## Reports
    - proven: a string as the annotation of a variable. From flax 0.12.6 also a list.

    The annotation is the second argument of `nnx.with_partitioning`, or the value of `out_sharding`, `sharding` or
    `sharding_names` in a call of a variable, in `nnx.with_metadata` or in `kernel_metadata={...}`.

    ## Fix
    Writes a tuple in place of a list or string literal. Unsafe: the variable is then sharded.

    ## Limits
    Not reported: linen, which accepts lists, and projects that turn `flax_always_shard_variable` off.
    """

    code = "SL505"
    name = "annotation-list-or-string"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (
        Calls(*VARIABLES, WITH_METADATA, file_says=("sharding",)),
        Calls(*LAYERS, file_says=("_metadata",)),
        Calls(WITH_PARTITIONING),
    )
    in_version_checks = False
    fixes = "unsafe"

    @detector("call", of=WITH_PARTITIONING)
    def report_partitioning(self, site: Site) -> Finding | None:
        """A list or string given to `with_partitioning`."""
        given = site.arguments
        place = given.keywords.get("sharding")
        if place is None and len(given.positional) > 1 and not given.open_positional:
            place = given.positional[1]
        return (
            self._judge_annotation(site, place.node)
            if place is not None and isinstance(place.node, ast.expr)
            else None
        )

    @detector("call")
    def find_annotations(self, site: Site) -> Iterator[Finding]:
        """The lists and strings that a variable or layer is annotated with."""
        for one in given_annotations(site):
            finding = self._judge_annotation(site, one.value) if is_key_heeded(site, one.key) else None
            if finding is not None:
                yield finding

    def _judge_annotation(self, site: Site, node: ast.expr) -> Finding | None:
        values = options(site.value(node))
        ignored, on = site.allows("flax", ">=0.12.6"), site.release("flax")
        if all(isinstance(value, Constant) and isinstance(value.value, str) for value in values):
            what = "string"
        elif ignored and all(isinstance(v, Items) and v.kind == "list" and names_axes(v) for v in values):
            what = "list"
        else:
            return None
        if any(site.is_named_anywhere(flag) for flag in _OWN_WAYS):
            return None
        message = f"On {on} the variable is replicated: flax ignores a {what} as annotation."
        letters = f"On {on} this raises under a mesh: flax reads each letter of `{site.shown(node)}` as an axis name."
        return site.finding(
            node,
            message if ignored else letters,
            why="flax takes a tuple or a PartitionSpec",
            help='write a tuple with one entry for each dimension, such as `(None, "model")`',
            fix=self._write_fix(site, node),
            harm=Harm.SILENT if ignored else Harm.CRASH,
        )

    def _write_fix(self, site: Site, node: ast.expr) -> Fix | None:
        text = site.text(node)
        if isinstance(node, ast.List):
            inside = text[1:-1].rstrip()
            comma = "," if len(node.elts) == 1 and not inside.endswith(",") else ""
            written = f"({text[1:-1]}{comma})"
        elif isinstance(node, ast.Constant):
            written = f"({text},)"
        else:
            return None
        return site.fix(
            Safety.UNSAFE,
            f"write {' '.join(written.split())}",
            [site.replace(node, written)],
            "the variable is then sharded",
        )
