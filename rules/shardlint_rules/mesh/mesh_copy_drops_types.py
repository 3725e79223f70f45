"""SL314."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.meshes import mesh_of
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.mesh.axis_types import makes_explicit_meshes


class MeshCopyDropsTypes(Rule):
    """A mesh is made from another one's devices and names, without its axis types.

    ## What it does
    Reports `Mesh(other.devices, other.axis_names)`, also with the devices rearranged, where `other` is a
    mesh with Explicit axes, or axes of several types. With `--certainty possible` also where the types of `other` are
    not known.

    ## Why it hurts
    `Mesh` makes Auto axes unless told otherwise, so the copy is not equal to the mesh it was taken from.
    Nothing is raised: arrays on it lose the sharding from their types, the compiler chooses again, and
    together with arrays on the first mesh they raise `ValueError`.

    ## Fix safety
    Safe: the names are the other mesh's, so there is one type for each of them.

    ## Evidence
    Run on jax 0.6.2 to 0.12. Left alone: copies of a mesh that has Auto axes, also of that of `with mesh:`
    (`thread_resources`) and of any mesh of a project that makes none with Explicit axes; copies that say their types.
    """

    code = "SL314"
    name = "mesh-copy-drops-types"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.2"}
    triggers = (Calls("jax.sharding.Mesh", file_says=("axis_names",)),)
    forms = ("call",)
    closed = ("positional", "keywords")
    in_version_checks = False
    fixes = "safe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if site.argument("axis_types") is not None:
            return
        names, devices = site.argument("axis_names"), site.argument("devices")
        if devices is None or not isinstance(names, ast.Attribute) or names.attr != "axis_names":
            return
        other = site.text(names.value)
        if not any(
            isinstance(part, ast.Attribute) and part.attr == "devices" and site.text(part.value) == other
            for part in walk(devices)
        ):
            return
        meshes = [mesh_of(option, site.program.evaluator) for option in options(site.value(names.value))]
        kept = {mesh is not None and site.shardings.axis_types(mesh) == "auto" for mesh in meshes}
        if kept == {True} or (None in meshes and self._made_auto(site, names.value)):
            return
        proven = kept == {False} and all(mesh is not None and mesh.axis_types != "unknown" for mesh in meshes)
        yield site.finding(
            site.call,
            f"On {site.release('jax')} the copy has Auto axes, and `{other}` has others. Nothing is raised."
            if proven
            else f"On {site.release('jax')} the copy has Auto axes, whatever those of `{other}` are. "
            "Nothing is raised.",
            label=f"the axis types of `{other}` are lost",
            fix=self._fix(site, other),
            certainty=Certainty.PROVEN if proven else Certainty.POSSIBLE,
            form="" if proven else "unknown-types",
        )

    def _made_auto(self, site: Site, other: ast.expr) -> bool:
        """Whether a mesh out of sight is surely an Auto one: of `with mesh:`, or in a project that makes no others."""
        found = options(site.program.followed(site.value(other)))
        entered = all(isinstance(one, Api) and "thread_resources" in one.name for one in found)
        return entered or not makes_explicit_meshes(site)

    def _fix(self, site: Site, other: str) -> Fix:
        from shardlint_rules.mesh.appending import appended

        call = appended(site.node, "axis_types", f"{other}.axis_types")
        return site.fix(Safety.SAFE, f"add axis_types={other}.axis_types", [site.replace(site.call, call)])
