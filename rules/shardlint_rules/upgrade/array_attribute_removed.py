"""SL906."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import CallResult, options
from shardlint.rules_api.rule import (
    Attributes,
    Finding,
    Fix,
    Harm,
    Methods,
    Needed,
    Rule,
    Safety,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.upgrade.array_evidence import ArrayEvidence, shown_as_array
from shardlint_rules.upgrade.name_places import is_compatibility_layer

_INSTEAD = {
    "device": "`x.devices()` for the set of devices, or `x.device` for an array on one device",
    "device_buffer": "`x.addressable_data(0)`",
    "device_buffers": "`[shard.data for shard in x.addressable_shards]`",
}


_WITH_SPEC = "with_spec"
_SHARDING = "jax.sharding.NamedSharding"
_UPDATE = (Needed("jax", "0.6.2", "NamedSharding.update"),)
_DEVICE = (Needed("jax", "0.4.31", "the attribute device of arrays"),)


class ArrayAttributeRemoved(Rule):
    """The code uses an array attribute that the project's jax release does not have.

    The attribute raises `AttributeError`. On releases where `device` is a property, `x.device()` raises `TypeError`.

    ## Reports
    - proven: `x.device()`, `x.device_buffer` or `x.device_buffers` of a jax array, which jax 0.4.27 removed. `x` is a
      result of a jax function, the data of a shard, or checked to be a jax array.
    - proven: `sharding.with_spec(spec)` of a `NamedSharding`, which jax 0.6.2 removed.
    - `called-sharding` (likely): `with_spec` of a name that contains "sharding", in a project that defines no
      `with_spec`.
    - `annotated` (possible): `x.device()`, `x.device_buffer` or `x.device_buffers` of a parameter with the type hint of
      an array.
    - `array-attribute` (possible): `device_buffer` or `device_buffers` of any value, in a project that defines no such
      attribute.
    - `sharding-of-value` (possible): `x.sharding.with_spec(spec)`.

    ## Fix
    Writes the replacement that jax's changelog names. Safe, because the code raised before.
    """

    code = "SL906"
    name = "array-attribute-removed"
    harm = Harm.REMOVED
    likely = ("called-sharding",)
    assumptions: ClassVar[Mapping[str, str]] = {"called-sharding": "The object is a NamedSharding of jax."}
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.21"}
    triggers = (
        Attributes("device_buffer", "device_buffers"),
        Methods("device", file_says=("(?:)\\.device\\(\\)",)),
        Methods(_WITH_SPEC),
    )
    in_version_checks = False
    fixes = "safe"

    @detector("method")
    def report_method(self, site: Site) -> Finding | None:
        """A call of a method that arrays or shardings do not have."""
        node = site.call.func
        if isinstance(node, ast.Attribute) and node.attr == _WITH_SPEC:
            return self._report_with_spec(site, node)
        return self.report_attribute(site) if not site.call.args and not site.call.keywords else None

    @detector("attribute")
    def report_attribute(self, site: Site) -> Finding | None:
        """A read of an attribute that arrays do not have."""
        node = site.syntax.func if isinstance(site.syntax, ast.Call) else site.syntax
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load) or is_compatibility_layer(site):
            return None
        shown = shown_as_array(site, node.value) or self._evidence_by_name(site, node)
        if shown is None:
            return None
        return site.finding(
            site.syntax,
            f"On {site.release('jax')} `{site.shown()}` {_describe_effect(site, node.attr)}.",
            help=f"write {_INSTEAD[node.attr]}",
            fix=self._write_fix(site, node),
            form=shown.form,
            why=shown.why,
        )

    def _report_with_spec(self, site: Site, node: ast.Attribute) -> Finding | None:
        """`sharding.with_spec(spec)`: of what is a sharding, or is called one."""
        if is_compatibility_layer(site) or site.allows("jax", "<0.6.2") or len(site.call.args) != 1:
            return None
        shown = _shown_as_sharding(site, node.value)
        if shown is None or site.call.keywords:
            return None
        text = f"{site.text(node.value)}.update(spec={site.text(site.call.args[0])})"
        return site.finding(
            site.syntax,
            f"On {site.release('jax')} this raises AttributeError: jax 0.6.2 removed `NamedSharding.with_spec`.",
            help=f"write {text}",
            fix=site.fix(Safety.SAFE, f"write {text}", [site.replace(site.syntax, text)], needs=_UPDATE),
            form=shown.form,
            why=shown.why,
        )

    def _evidence_by_name(self, site: Site, node: ast.Attribute) -> ArrayEvidence | None:
        """A name that only arrays of jax have had, unless the project has its own."""
        own = site.program.project.files_holding(site.file.path, (f"(?:)(?:self\\.|def ){node.attr}\\b",))
        if node.attr == "device" or any(True for _ in own) or _is_own(node.value):
            return None
        return ArrayEvidence("array-attribute", "no class of the project has an attribute with this name")

    def _write_fix(self, site: Site, node: ast.Attribute) -> Fix | None:
        called = site.file.parent(node)
        if node.attr != "device" and isinstance(called, ast.Call) and called.func is node:
            return None
        receiver = site.text(node.value)
        needs: tuple[Needed, ...] = ()
        if node.attr == "device":
            if not site.allows("jax", ">=0.4.38"):
                return None
            text, needs = f"{receiver}.device", _DEVICE
        elif node.attr == "device_buffer":
            text = f"{receiver}.addressable_data(0)"
        else:
            text = f"[shard.data for shard in {receiver}.addressable_shards]"
        return site.fix(Safety.SAFE, f"write {text}", [site.replace(site.syntax, text)], needs=needs)


def _shown_as_sharding(site: Site, node: ast.expr) -> ArrayEvidence | None:
    """Return the evidence that an expression is a sharding; None if there is none."""
    found = options(site.value(node))
    if all(isinstance(one, CallResult) and one.api == _SHARDING for one in found):
        return ArrayEvidence()
    if isinstance(node, ast.Attribute) and node.attr == "sharding":
        return shown_as_array(site, node.value) or ArrayEvidence(
            "sharding-of-value", "it is the `.sharding` of a value"
        )
    own = site.program.project.files_holding(site.file.path, (f"def {_WITH_SPEC}",))
    if "sharding" not in last_name(node).lower() or any(True for _ in own):
        return None
    return ArrayEvidence("called-sharding", f"the project defines no `{_WITH_SPEC}` of its own")


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _describe_effect(site: Site, name: str) -> str:
    if site.allows("jax", "<0.4.27"):
        return "is deprecated: jax 0.4.27 removes this attribute of arrays"
    if name == "device" and site.allows("jax", ">=0.4.38"):
        return "raises TypeError: `device` of an array is no method but a property"
    return "raises AttributeError: jax 0.4.27 removed this attribute of arrays"
