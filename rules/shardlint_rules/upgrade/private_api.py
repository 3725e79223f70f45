"""SL907."""

from __future__ import annotations

import ast

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Uses, detector
from shardlint.rules_api.site import Site
from shardlint_rules.upgrade.name_places import is_compatibility_layer
from shardlint_rules.upgrade.name_table import read_table
from shardlint_rules.upgrade.public_names import read_libraries

_PRIVATE = "jax._src"
# The folders below it: what follows is a module, not an object.
_PACKAGES = frozenset(
    """clusters cudnn debugger export image internal_test_util interpreters lax lib mosaic nn numpy ops pallas scipy
    state third_party tpu triton""".split()
)


class PrivateApi(Rule):
    """The code uses a private name of jax.

    Any release may move or remove a private name without an entry in the changelog. For example, a release removed
    `jax._src.sharding_impls.TransferToMemoryKind`, and `jax._src.mesh.thread_resources` does not see `jax.set_mesh`.

    ## Reports
    - `private` (possible): an import or attribute below `jax._src`.

    ## Write instead
    Write the public name. The finding shows it if both names end alike: `jax._src.mesh.Mesh` is `jax.sharding.Mesh`. If
    jax has no public name, pin the release of jax.

    ## Limits
    Not reported: code under `try`, `hasattr` or a version check, and names that SL901 reports.
    """

    code = "SL907"
    name = "private-api"
    harm = Harm.REMOVED
    certainty = Certainty.POSSIBLE
    triggers = (Uses(f"{_PRIVATE}.*", file_says=(_PRIVATE,)),)
    in_version_checks = False
    fixes = "none"

    @detector("name", "import", finds="private")
    def report_use(self, site: Site) -> Finding | None:
        """An import, or a chain of attributes that starts at jax itself."""
        if is_compatibility_layer(site):
            return None
        node, dotted = site.syntax, site.written
        if isinstance(node, ast.Attribute):
            if not site.text(node).startswith(_PRIVATE) or site.text(node) != dotted:
                return None  # reached through an import, which is reported
            while isinstance(outer := site.file.parent(node), ast.Attribute):
                node, dotted = outer, f"{dotted}.{outer.attr}"
        elif not isinstance(node, ast.alias):
            return None
        if read_table().most_specific_entry(dotted) is not None:
            return None
        public = _public_name_for(_name_in_module(dotted))
        return site.finding(
            node,
            f"Any release of jax may move or remove `{dotted}`, which is private.",
            help=f"write `{public}`" if public else "write a public name that does the same, or pin the release of jax",
            why="jax gives no guarantees for names below jax._src",
        )


def _name_in_module(dotted: str) -> str:
    """The name that a private module has, without what is read of the object: `plugins` of `bridge.plugins.add`."""
    parts = dotted.removeprefix(f"{_PRIVATE}.").split(".")
    while len(parts) > 2 and parts[0] in _PACKAGES:
        parts = parts[1:]
    return parts[min(1, len(parts) - 1)]


def _public_name_for(name: str) -> str:
    """The shortest public name of jax that ends in the same word, where it is one that says what it is."""
    library = read_libraries()["jax"]
    newest = len(library.releases) - 1
    found = [
        f"{module}.{name}"
        for module in library.modules
        if module.count(".") < 2
        and newest in library.releases_with_name(module, name)
        and newest not in library.releases_with_name(module, "*")  # that one could not be looked into
        and f"{module}.{name}" not in library.modules
    ]
    return min(found, key=len, default="")
