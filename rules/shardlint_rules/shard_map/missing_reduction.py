"""SL402."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily

# Axes along which the examples of one batch are split; members of a population have another.
_SPLIT = compile_lazily(r"(?i)batch|data|device|replica|host|(^|_)(dp|core|cores|shards?)($|_)")


class MissingReduction(Rule):
    """A value that differs on each device is declared replicated, or updates replicated parameters.

    The copies of an array that jax marks as replicated differ. Printing shows the first copy, and a later jit may read
    any of them. Parameters that are updated this way drift apart.

    ## Reports
    - proven: a result of a `shard_map` with `check_vma=False` that differs along an axis which its out spec does not
      name. No collective over this axis reduces it. shardlint follows values through helpers, loops and tree maps.
    - `after-last-collective` (likely): such a result, if each device computes with its local shard after the last
      collective.
    - `gradients` (likely): such a result made from the gradients of a loss on the local data of each device.
    - `other-axis` (likely): a `psum` over the wrong axis. The out spec names this axis, and the result still differs
      along another axis, which the out spec does not name.
    - `pmap` (likely): unreduced gradients that update the state in a `pmap` with an axis name, in a file that
      replicates a state.
    - `pmap-named` (likely): unreduced gradients that update the state in a `pmap` whose axis is named after the batch,
      the data or the devices.
    - `unknown-check-vma` (possible): a result as above, if the value of `check_vma` is not known.

    ## Limits
    Not reported: values from code that shardlint can't read, values that are gathered, permuted or exchanged, and axes
    whose names are not known.
    """

    code = "SL402"
    name = "missing-reduction"
    harm = Harm.SILENT
    behind = ("SL403",)
    likely = ("pmap", "pmap-named", "gradients", "other-axis", "after-last-collective")
    assumptions: ClassVar[Mapping[str, str]] = {
        "pmap-named": "The devices along an axis with this name train one model.",
        "gradients": "The model in the loss does not reduce gradients.",
        "other-axis": "The function runs as one of its call sites in the project shows.",
        "after-last-collective": "The shards differ on the devices.",
    }
    triggers = (Violates("result.differs", "gradient.own"),)
    fixes = "none"

    @detector("violation", of="result.differs")
    def report_result(self, site: Site) -> Finding:
        """A result that is declared replicated."""
        said = site.violation.said
        axes, name = f"`{said['axes']}`", said["function"]
        if said["other"]:
            form, evidence = "other-axis", f"the out spec names `{said['other']}`, over which this psum adds up"
        elif said["again"]:
            form = "after-last-collective"
            evidence = "each device computes with its local shard after the last collective"
        else:
            form, evidence = "", f"no collective over {axes} reduces the result"
        off = said["check"] == "off"
        result = f"A result of {f'`{name}`' if name else 'the mapped function'}"
        return site.report_violation(
            f"{result} is declared replicated over {axes} but differs on each device.",
            help=f"reduce the result over {axes} with `jax.lax.psum` or `jax.lax.pmean`, "
            "or name the axis in its out spec",
            why=f"{evidence}; check_vma is {said['check']}",
            form=form if off else "unknown-check-vma",
        )

    @detector("violation", of="gradient.own")
    def report_gradients(self, site: Site) -> Finding | None:
        """Gradients that the optimizer is given as each device has them."""
        said = site.violation.said
        found = site.violation
        copied = any(place.file.contains_text("replicate") for place in (found.place, *found.calls, *found.inside))
        why = "no collective reduces them over the axis of the pmap"
        if said["check"]:
            form, why = "gradients", f"the out spec does not name the axis, and check_vma is {said['check']}"
        elif copied:
            form, why = "pmap", f"{why}, and the file replicates the state"
        elif any(_SPLIT.search(axis) for axis in said["axes"].split(", ")):
            form = "pmap-named"
        else:
            return None  # each device may train a model of its own
        return site.report_violation(
            f"The parameters drift apart: each device applies only its local gradients along `{said['axes']}`.",
            help=f'average the gradients first: `grads = jax.lax.pmean(grads, "{said["axes"].partition(",")[0]}")`',
            why=why,
            form=form,
        )
