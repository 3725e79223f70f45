"""SL906."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import CallResult, options
from shardlint.rules_api.rule import Attributes, Certainty, Finding, Fix, Harm, Methods, Needed, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.upgrade.arrays import Shown, shown_as_array
from shardlint_rules.upgrade.places import in_a_bridge

_INSTEAD = {
    "device": "`x.devices()`, the set of its devices; `x.device` where it is on one",
    "device_buffer": "`x.addressable_data(0)`",
    "device_buffers": "`[shard.data for shard in x.addressable_shards]`",
}


_WITH_SPEC = "with_spec"
_SHARDING = "jax.sharding.NamedSharding"
_UPDATE = (Needed("jax", "0.6.2", "NamedSharding.update"),)
_DEVICE = (Needed("jax", "0.4.31", "the attribute device of arrays"),)


class ArrayAttributeRemoved(Rule):
    """An attribute of arrays that the project's release of jax does not have.

    ## What it does
    Reports `x.device()`, `x.device_buffer` and `x.device_buffers`, which jax 0.4.27 removed (deprecated from
    0.4.21 and 0.4.22 on), where the text shows that `x` is a jax array: a function of jax made it, it is the data of a
    shard, it was tested for, annotated as one, or read as only arrays are (`x.addressable_shards`). `device_buffer` and
    `device_buffers` also where nothing that runs with this has an attribute of its own by that name. And
    `sharding.with_spec(spec)`, which `NamedSharding` has no more since jax 0.6.2.

    ## Why it hurts
    The attribute raises `AttributeError`, and `x.device()` `TypeError` where `device` is a property again.

    ## Fix safety
    Safe: it raised before, and jax's changelog names what stands for it.

    ## Evidence
    jax's changelog for 0.4.21, 0.4.22 and 0.4.27; arrays of jax 0.4.30, 0.4.38, 0.5.3, 0.9.2 and 0.12 were asked, and
    shardings of 0.5.3 (has `with_spec`), 0.6.2 and later (have `update`).
    """

    code = "SL906"
    name = "array-attribute-removed"
    harm = Harm.REMOVED
    likely = ("called-sharding",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.21"}
    triggers = (
        Attributes("device_buffer", "device_buffers"),
        Methods("device", file_says=("(?:)\\.device\\(\\)",)),
        Methods(_WITH_SPEC),
    )
    in_version_checks = False
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for an attribute."""
        node = site.call.func if site.form == "method" else site.syntax
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return
        if in_a_bridge(site) or (node.attr == "device" and _given(site)):
            return
        if node.attr == _WITH_SPEC:
            yield from self._with_spec(site, node)
            return
        shown = shown_as_array(site, node.value) or self._by_name(site, node)
        if shown is None:
            return
        yield site.finding(
            site.syntax,
            f"On {site.release('jax')} {_happens(site, node.attr)}: jax 0.4.27 removed {_shown(node.attr)} of arrays.",
            label="jax 0.4.27 removed it",
            help=f"write {_INSTEAD[node.attr]}",
            fix=self._fix(site, node),
            certainty=Certainty.POSSIBLE if shown.form else Certainty.PROVEN,
            form=shown.form,
            why=shown.why,
        )

    def _with_spec(self, site: Site, node: ast.Attribute) -> Iterator[Finding]:
        """`sharding.with_spec(spec)`: of what is a sharding, or is called one."""
        if site.form != "method" or site.allows("jax", "<0.6.2") or len(site.call.args) != 1:
            return
        shown = _shown_as_sharding(site, node.value)
        if shown is None or site.call.keywords:
            return
        text = f"{site.text(node.value)}.update(spec={site.text(site.call.args[0])})"
        yield site.finding(
            site.syntax,
            f"On {site.release('jax')} this raises AttributeError: jax 0.6.2 removed NamedSharding.with_spec.",
            label="jax 0.6.2 removed it",
            help=f"write {text}",
            fix=site.fix(Safety.SAFE, f"write {text}", [site.replace(site.syntax, text)], needs=_UPDATE),
            certainty=Certainty.POSSIBLE if shown.form else Certainty.PROVEN,
            form=shown.form,
            why=shown.why,
        )

    def _by_name(self, site: Site, node: ast.Attribute) -> Shown | None:
        """A name that only arrays of jax have had, unless the project has its own."""
        own = site.program.project.holding(site.file.path, (f"(?:)(?:self\\.|def ){node.attr}\\b",))
        if node.attr == "device" or any(True for _ in own) or _is_own(node.value):
            return None
        return Shown("name-of-arrays", "nothing that runs with this has an attribute of its own by that name")

    def _fix(self, site: Site, node: ast.Attribute) -> Fix | None:
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


def _given(site: Site) -> bool:
    return bool(site.call.args or site.call.keywords)


def _shown_as_sharding(site: Site, node: ast.expr) -> Shown | None:
    """What shows that an expression is a sharding; None where nothing does."""
    found = options(site.value(node))
    if all(isinstance(one, CallResult) and one.api == _SHARDING for one in found):
        return Shown()
    if isinstance(node, ast.Attribute) and node.attr == "sharding":
        return shown_as_array(site, node.value) or Shown("of-a-value", "`.sharding` is read of it")
    own = site.program.project.holding(site.file.path, (f"def {_WITH_SPEC}",))
    if "sharding" not in last_name(node).lower() or any(True for _ in own):
        return None
    return Shown("called-sharding", f"`{site.text(node)}` is called a sharding, and only those of jax had it")


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _happens(site: Site, name: str) -> str:
    if site.allows("jax", "<0.4.27"):
        return "this is deprecated"
    again = name == "device" and site.allows("jax", ">=0.4.38")
    return f"this raises {'TypeError, as it is a property' if again else 'AttributeError'}"


def _shown(name: str) -> str:
    return "the method device" if name == "device" else name
