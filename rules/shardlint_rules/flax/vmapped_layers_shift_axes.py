"""SL506."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Function, Place, Value, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.flax import sharded_init as init
from shardlint_rules.flax.built import Annotated


class VmappedLayersShiftAxes(Rule):
    """Annotated layers are stacked by `nnx.vmap` without saying what the new dimension is called.

    ## What it does
    Reports `nnx.vmap` without `transform_metadata` over a function that builds layers whose variables carry a sharding
    annotation, in a project that reads annotations back (`nnx.get_partition_spec`, `nnx.get_named_sharding`).

    ## Why it hurts
    The stacked variables get a dimension in front, and their annotation does not: `(None, "model")` for a kernel is
    then read as the sharding of (layers, in), and the kernel is split along another dimension than was meant. Nothing
    is raised where the sizes happen to divide.

    ## Use instead
    None leaves the new dimension whole; a mesh axis or logical name shards it.

    ## Fix safety
    Unsafe: the variables are split along another dimension.

    ## Evidence
    Run on flax 0.11.2, 0.12.0, 0.12.4, 0.12.6 and 0.12.12: a (3, 16, 32) kernel annotated
    (None, "model") came out as P(None, "model"), with `transform_metadata` as P(None, None, "model"). Layers whose
    annotation the text does not show are left alone.
    """

    code = "SL506"
    name = "vmapped-layers-shift-axes"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.11"}
    triggers = (Calls("flax.nnx.vmap"),)
    closed = ("positional", "keywords")
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a vmap."""
        if site.form == "name":
            return
        given = site.arguments
        if "transform_metadata" in given.keywords:
            return
        if not any(site.anywhere(name) for name in init.READING):
            return
        layers = Annotated(site.program)
        built = [value for function in _functions(site) for value in layers.built(function)]
        found = [layers.annotation(value) for value in built]
        if not found or any(one is None for one in found):
            return
        first = found[0]
        assert first is not None
        where = site.where(first)
        yield site.finding(
            site.call.func if site.form == "call" else site.call.args[0],
            f"On {site.release('flax')} the annotation gets no entry for the new dimension: read back, it shards "
            "the dimension before the one that was meant.",
            label=f"stacks layers that are annotated at {where}",
            help="write transform_metadata={nnx.PARTITION_NAME: None}, or the name of an axis",
            fix=self._fix(site),
        )

    def _fix(self, site: Site) -> Fix | None:
        from shardlint_rules.mesh.appending import appended

        name, imports = site.spell("flax.nnx.PARTITION_NAME")
        text = f"transform_metadata={{{name}: None}}"
        call = appended(site.node, "transform_metadata", f"{{{name}: None}}")
        edits = [site.replace(site.call, call), *imports]
        return site.fix(
            Safety.UNSAFE, f"add {text}", edits, "the variables are split along another dimension"
        )


def _functions(site: Site) -> Iterator[Value]:
    """What is vmapped: the definition that is decorated, or the argument."""
    if site.decorated is not None:
        # nnx.transform_metadata says the same by a decorator of its own.
        others = site.decorated.decorator_list
        if not any("transform_metadata" in site.text(one) for one in others):
            yield Function(Place(site.file, site.decorated))
    elif site.form == "call" and site.call.args:
        yield from options(site.value(site.call.args[0]))
