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
    """A checkpoint holds a copy of each array for every device.

    ## What it does
    Reports what `replicate` or a pmapped function returned where it is given to `checkpoints.save_checkpoint`,
    `serialization.to_bytes`, `pickle.dump` or `safetensors`, as it is, in a dict or through `jax.device_get`.

    ## Why it hurts
    Each array in the file has a first dimension of as many entries as there were devices: the file is as many times as
    large, and is restored by no program that runs on another number of devices or has no `pmap`. Restored and
    replicated again, arrays have two such dimensions.

    ## Use instead
    `flax.jax_utils.unreplicate(state)`, after what differs from device to device (the statistics of batch norms) was
    averaged.

    ## Evidence
    Run on jax 0.12 with 8 devices: weights of shape (3,) are (8, 3) in the file. Recorded in flax and scenic.
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
                f"On {site.release('jax')} each array in the file has a first dimension of as many entries as there "
                "are devices: it is restored by no program that has another number.",
                label="has a copy for each device",
                help=f"save one copy: flax.jax_utils.unreplicate({site.text(one)})",
                form="saved",
                why=f"{by} at line {made.call.lineno} of {made.file.path.name} made it",
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
