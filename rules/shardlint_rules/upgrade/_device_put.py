"""device_put_sharded and device_put_replicated as jax.device_put over a mesh of the devices."""

from __future__ import annotations

import ast

from shardlint.facts.name_uses import find_references, is_used_elsewhere
from shardlint.rules_api.imports import spell_bare_names
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.upgrade._positional import NEW

NAMES = ("jax.device_put_sharded", "jax.device_put_replicated")


def fix_device_put(site: Site, name: str) -> Fix | str:
    """The fix of all the calls in the file; or why there is none."""
    edits: list[Edit] = []
    drops: set[str] = set()
    for node in find_references(site.program, site.file, name):
        call = site.file.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            return f"line {node.lineno} passes it on without calling it"
        if site.program.region(site.file, call).traced in ("always", "sometimes"):
            return f"line {call.lineno} is traced, where device_put places nothing"
        new = _rewrite_device_put_call(site, call, name)
        if isinstance(new, str):
            return new
        edits += new
        if isinstance(node, ast.Name):
            drops.add(node.id)
    if any(is_used_elsewhere(site, local) for local in drops):
        return "another file imports the name from here"
    if not edits:
        return "the file does not call it"
    why = "the values go through the host; check the devices in a program of several processes"
    return site.fix(
        Safety.UNSAFE,
        "write jax.device_put over a mesh of the devices",
        list(dict.fromkeys(edits)),
        why,
        sorted(drops),
    )


def _rewrite_device_put_call(site: Site, call: ast.Call, name: str) -> list[Edit] | str:
    first = "shards" if name == NAMES[0] else "x"
    given = dict(zip((first, "devices"), call.args, strict=False))
    given |= {one.arg or "": one.value for one in call.keywords}
    if set(given) != {first, "devices"} or any(isinstance(one, ast.Starred) for one in call.args):
        return f"line {call.lineno} hides its arguments"
    value, devices = site.text(given[first]), site.text(given["devices"])
    if not _is_repeatable(given["devices"]):
        return f"line {call.lineno} computes the devices in the call"
    edits: list[Edit] = []

    def spell_name(what: str) -> str:
        text, imports = site.spell(what)
        edits.extend(imports)
        return text

    numpy = spell_name("numpy.array").rpartition(".")[0]
    if not numpy:
        return "numpy has no module name in this file"
    names, imports = spell_bare_names(site.program, site.file, call, NEW)
    edits += imports
    new_mesh, named, spec = names.values()
    sharding = f'{named}({new_mesh}({numpy}.array({devices}), ("devices",)), {spec}("devices"))'
    if name == NAMES[0]:
        tree = f"{spell_name('jax.tree.map')}(lambda *leaves: {numpy}.stack(leaves), *{value})"
    else:
        copies = f"{numpy}.broadcast_to(leaf, (len({devices}), *{numpy}.shape(leaf)))"
        tree = f"{spell_name('jax.tree.map')}(lambda leaf: {copies}, {value})"
    return [site.replace(call, f"{spell_name('jax.device_put')}({tree}, {sharding})"), *edits]


def _is_repeatable(node: ast.expr) -> bool:
    """A name, or a call without arguments to spare (`jax.local_devices()`)."""
    if isinstance(node, ast.Call):
        return not node.args and _is_repeatable(node.func)
    if isinstance(node, ast.Subscript):
        return _is_repeatable(node.value)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_repeatable(node.value))
