"""SL427."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class CopiesSaved(Rule):
    """A checkpoint stores a replicated tree, with one copy of each array per device.

    With eight devices the file is eight times larger. Restoring it raises nothing, and the arrays keep the device
    dimension: without `pmap`, or with another number of devices, their shapes are wrong. If the restored tree is
    replicated again, the arrays have two device dimensions.

    ## Reports
    - `saved` (likely): a result of `replicate` or of a pmapped function passed to `checkpoints.save_checkpoint`,
      `serialization.to_bytes`, `pickle.dump` or `safetensors`. It is passed directly, in a dict or through
      `jax.device_get`.

    ## Write instead
    Save `flax.jax_utils.unreplicate(state)`. If values differ on each device, such as batch norm statistics, average
    them before: `jax.lax.pmean` in a pmapped function.

    ## Limits
    Not reported: a tree, if the code unreplicates some of its leaves before it saves it.
    """

    code = "SL427"
    name = "copies-saved"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("saved",)
    assumptions: ClassVar[Mapping[str, str]] = {"saved": "The devices hold copies, not different parts."}
    triggers = (Violates("rows.saved", is_conditional=False),)
    in_tests = False
    fixes = "none"

    @detector("violation", finds="saved")
    def report_copies(self, site: Site) -> Finding | None:
        """The arrays that are saved with a copy per device."""
        said = site.violation.said
        return site.report_violation(
            f"The checkpoint stores one copy of `{site.shown()}` per device; only this device count can restore it.",
            help=f"save one copy: `flax.jax_utils.unreplicate({site.shown()})`",
            why=f"the call at line {said['line']} of {said['file']} adds a leading device dimension",
        )
