"""SL506."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Function, Place, Value, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax._built_annotations import Annotated

_READING = ("get_partition_spec", "get_named_sharding")
"""The words that show that annotations are read back."""


class VmappedLayersShiftAxes(Rule):
    """`nnx.vmap`, or linen's `nn.scan`, stacks annotated layers without a name for the new dimension.

    The stacked variables get a leading dimension, but their annotation gets no entry for it. The annotation
    `(None, "model")` of a kernel then applies to the dimensions (layers, in). NNX code that reads the annotation back
    shards the wrong dimension, and raises nothing if the sizes divide. Linen raises PartitioningUnspecifiedError in
    `init`, and in `apply` if the variables are still boxed.

    ## Reports
    - proven: `nnx.vmap` without `transform_metadata` over a function that builds annotated layers, in a project that
      reads annotations back (`nnx.get_partition_spec`, `nnx.get_named_sharding`).
    - proven: linen's `nn.scan` or `nn.vmap` without a partition name in `metadata_params`, if the Module uses
      `nn.with_partitioning` and the program runs `init` or `apply`.

    ## Write instead
    For `nnx.vmap` write `transform_metadata={nnx.PARTITION_NAME: None}`. For linen's `nn.scan` and `nn.vmap` write
    `metadata_params={nn.PARTITION_NAME: None}`. To shard the new dimension, write a mesh axis in place of None.

    ## Fix
    Adds one of these keywords. Unsafe: with NNX the sharding of the stacked variables changes.
    """

    code = "SL506"
    name = "vmapped-layers-shift-axes"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.11"}
    triggers = (Calls("flax.nnx.vmap"), Violates("scan.partition-name"))
    closed = ("positional", "keywords")
    in_version_checks = False
    fixes = "unsafe"

    @detector("call", "partial")
    def report_vmap(self, site: Site) -> Finding | None:
        """A `nnx.vmap` that stacks annotated layers."""
        if "transform_metadata" in site.arguments.keywords or not any(map(site.is_named_anywhere, _READING)):
            return None
        layers = Annotated(site.program)
        built = [value for function in _find_functions(site) for value in layers.find_built(function)]
        found = [layers.find_annotation(value) for value in built]
        if not found or any(one is None for one in found):
            return None
        first = found[0]
        assert first is not None
        where = site.where(first)
        return site.finding(
            site.callee_expression,
            "Each annotation shards the wrong dimension: `nnx.vmap` adds no entry for the new layer dimension.",
            why=f"the stacked layers are annotated at {where}",
            help="pass `transform_metadata={nnx.PARTITION_NAME: None}` to `nnx.vmap`. To shard the new dimension, "
            "write a mesh axis in place of None",
            fix=self._write_fix(site),
        )

    @detector("violation")
    def report_linen(self, site: Site) -> Finding:
        """A `nn.vmap` or `nn.scan` that stacks boxed weights."""
        operation = f"`nn.{site.violation.said['operation']}`"
        return site.report_violation(
            f"Linen raises PartitioningUnspecifiedError: {operation} adds an unnamed axis to partitioned weights.",
            help=f"pass `metadata_params={{nn.PARTITION_NAME: None}}` to {operation}. To shard the new dimension, "
            "write a mesh axis in place of None",
            why=f"the `nn.with_partitioning` of one of them names {site.violation.said['names']}",
            harm=Harm.CRASH,
            fix=self._write_fix(site, "flax.linen", "metadata_params"),
        )

    def _write_fix(
        self, site: Site, module: str = "flax.nnx", keyword: str = "transform_metadata"
    ) -> Fix | None:
        from shardlint.rules_api.cst import append_argument

        if not isinstance(site.syntax, ast.Call) or any(one.arg == keyword for one in site.syntax.keywords):
            return None
        name, imports = site.spell(f"{module}.PARTITION_NAME")
        call = append_argument(site.node, keyword, f"{{{name}: None}}")
        edits = [site.replace(site.call, call), *imports]
        why = "the sharding of the stacked variables changes"
        return site.fix(Safety.UNSAFE, f"add {keyword}={{{name}: None}}", edits, why)


def _find_functions(site: Site) -> Iterator[Value]:
    """Yield the vmapped function: the decorated definition, or the values of the argument."""
    if site.decorated is not None:
        # The decorator nnx.transform_metadata does the same.
        others = site.decorated.decorator_list
        if not any("transform_metadata" in site.text(one) for one in others):
            yield Function(Place(site.file, site.decorated))
    elif site.form == "call" and site.call.args:
        yield from options(site.value(site.call.args[0]))
