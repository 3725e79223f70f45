"""SL427."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.per_device import per_device

# Where each has what is saved, and what the parameter is called.
_SAVING = {
    "flax.training.checkpoints.save_checkpoint": (1, "target"),
    "flax.training.checkpoints.save_checkpoint_multiprocess": (1, "target"),
    "flax.serialization.to_bytes": (0, "target"),
    "flax.serialization.msgpack_serialize": (0, "pytree"),
    "pickle.dump": (0, "obj"),
    "pickle.dumps": (0, "obj"),
    "cloudpickle.dump": (0, "obj"),
    "safetensors.flax.save_file": (0, "tensors"),
}
_READING = ("device_get", "to_state_dict")


class CopiesSaved(Rule):
    """A checkpoint stores a replicated tree, with one copy of each array per device.

    The file is larger by the number of devices. A program with another number of devices, or without `pmap`, cannot
    restore it. Restored and replicated again, the arrays have two device dimensions.

    ## Reports
    - `saved` (likely): a result of `replicate` or a pmapped function that is passed to `checkpoints.save_checkpoint`,
      `serialization.to_bytes`, `pickle.dump` or `safetensors`, directly, in a dict or through `jax.device_get`.

    ## Write instead
    `flax.jax_utils.unreplicate(state)`. First average values that differ on each device, such as batch norm statistics.
    """

    code = "SL427"
    name = "copies-saved"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("saved",)
    triggers = (Calls(*_SAVING),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call."""
        if not (site.anywhere("pmap") or site.anywhere("jax_utils")) or site.program.project.is_test(
            site.file.path
        ):
            return
        at, name = _SAVING[site.api]
        keyword = site.keyword(name)
        args = site.call.args
        given = keyword.value if keyword is not None else args[at] if at < len(args) else None
        for one in _parts(site, given, 0) if given is not None else ():
            made = per_device(site.program, site.file, one)
            if made is None:
                continue
            by = "replicate" if made.by == "replicate" else "pmap"
            yield site.finding(
                one,
                f"The checkpoint stores one copy of `{site.shown(one)}` per device, for this device count only.",
                label="replicated",
                help=f"save one copy: flax.jax_utils.unreplicate({site.shown(one)})",
                form="saved",
                why=f"{by} at line {made.call.lineno} of {made.file.path.name} adds a leading device dimension",
            )
            return


def _parts(site: Site, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """What is saved: itself, the values of a dict, what was fetched."""
    match node:
        case ast.Dict(values=values):
            for value in values:
                yield from _parts(site, value, depth + 1)
        case ast.Tuple(elts=values) | ast.List(elts=values):
            for value in values:
                yield from _parts(site, value, depth + 1)
        case ast.Call(args=[inner]) if site.text(node.func).rpartition(".")[2] in _READING and depth < 4:
            yield from _parts(site, inner, depth + 1)
        case _:
            yield node
