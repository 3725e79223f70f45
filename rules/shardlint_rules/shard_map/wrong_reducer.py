"""SL403."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.bound_names import settled_expression
from shardlint.model.values import Place
from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name

_LONGEST_SHOWN = 30
_SUM_BOTH = "sum the numerator and the count over the devices, then divide: `psum(sum) / psum(count)`"
# What is averaged, the form, why that is not the one of all data, and what to write.
_AVERAGED = {
    "spread": (
        "standard deviations or variances",
        "std",
        "the deviation between the means of the shards is left out",
        _SUM_BOTH,
    ),
    "masked": (
        "masked means", "masked", "a shard with few valid elements counts as much as one with many", _SUM_BOTH,
    ),
    "curved": (
        "nonlinear functions of means", "nonlinear",
        "roots, logarithms, exponentials and quotients are not linear",
        "apply `pmean` to the mean and the function to the result: `jnp.exp(jax.lax.pmean(loss, axis))`",
    ),
}  # fmt: skip


class WrongReducer(Rule):
    """A collective combines per-shard statistics incorrectly.

    `psum` of eight means is eight times the mean. `pmean` of masked means gives a shard with one valid element the same
    weight as one with a thousand. A sum divided by the wrong count is not a mean. Nothing is raised, with or without
    `check_vma`.

    ## Reports
    - proven: `psum` of a per-shard mean, if the sum is returned and never divided.
    - `unreadable-model` (likely): `psum` of a per-shard mean of the output of a model that shardlint cannot read.
    - `gradients` (likely): `psum` of the gradients of a per-shard mean.
    - `masked` (likely): `pmean` of masked means.
    - `nonlinear` (likely): `pmean` of a root, logarithm, exponential or quotient of a mean.
    - `device-count` (likely): a `psum` over some mesh axes divided by `jax.device_count()`, or a `psum` over a pmap
      axis divided by `jax.local_device_count()`.
    - `per-device-sum` (likely): a per-device sum in a `pmap` divided by a count of all devices, and no collective sums
      the results.
    - `per-device-count` (likely): a sum over all devices divided by one device's rows (`x.shape[0]`) or by a sum of one
      device.
    - `std` (possible): `pmean` of a standard deviation or variance.

    ## Write instead
    Write `jax.lax.pmean` for means of shards of equal size. For masked means, reduce the sum and the count: `psum(sum)
    / psum(count)`. For a function of a mean, apply `pmean` to the mean and the function to the result.

    ## Limits
    Not reported: means that may be one term of a sum over the devices, such as a product over a sharded dimension or a
    value that `axis_index` selects. Also a dictionary of metrics that a training step reduces separately from its
    gradients.
    """

    code = "SL403"
    name = "wrong-reducer"
    harm = Harm.SILENT
    likely = (
        "masked", "device-count", "gradients", "nonlinear", "per-device-sum", "per-device-count", "unreadable-model"
    )  # fmt: skip
    assumptions: ClassVar[Mapping[str, str]] = {
        "masked": "The shards have different numbers of valid elements.",
        "nonlinear": "The shards have different means.",
        "gradients": "The learning rate is not divided by the number of devices.",
        "device-count": "The axes that are not reduced, or the other processes, have more than one device.",
        "per-device-sum": "No code outside the function adds the results of the devices.",
        "per-device-count": "No code outside the function divides the result again.",
        "unreadable-model": "The model returns values of each example, not terms of a sum over the devices.",
    }
    triggers = (
        Violates(
            "reducer.means", "reducer.gradients", "reducer.by-all", "reducer.by-local", "reducer.own-sum",
            "reducer.own-count", "mean.nonlinear",
        ),
    )  # fmt: skip
    fixes = "none"

    @detector("violation", of="mean.nonlinear")
    def report_average(self, site: Site) -> Finding | None:
        """An average of what is not linear."""
        what, form, why, instead = _AVERAGED[site.violation.said["of"]]
        if form == "masked" and _is_logged((site.violation.place, *site.violation.inside)[-1]):
            return None
        axes = site.violation.quoted_axes
        return site.report_violation(
            f"`pmean` of {what} along {axes} differs from {what} of the data of all devices.",
            help=instead,
            form=form,
            why=why,
        )

    @detector("violation", of="reducer.gradients", finds="gradients")
    def report_gradients(self, site: Site) -> Finding:
        """A sum of gradients of means."""
        too_large = _describe_error(site)
        return site.report_violation(
            f"`psum` adds up gradients of per-shard means: the sum is {too_large}.",
            help="write `jax.lax.pmean`",
            why="the loss is a mean, and nothing divides the sum",
        )

    @detector("violation", of="reducer.means")
    def report_means(self, site: Site) -> Finding:
        """A sum of means."""
        operand, too_large = _quote_operand(site), _describe_error(site)
        return site.report_violation(
            f"`psum` adds up per-shard means{operand}: the result is {too_large}.",
            help="write `jax.lax.pmean`, or `psum(sum) / psum(count)`",
            form="unreadable-model" if site.violation.said["of"] == "unseen" else "",
            why="every device passes the mean of its local data",
        )

    @detector("violation", of=("reducer.by-all", "reducer.by-local"), finds="device-count")
    def report_other_devices(self, site: Site) -> Finding:
        """A sum that is divided by the number of other devices."""
        everywhere = site.api == "reducer.by-all"
        axes, first = site.violation.quoted_axes, site.violation.said["axes"].split(", ")
        count = "jax.device_count()" if everywhere else "jax.local_device_count()"
        counted = "the devices along all mesh axes" if everywhere else "the devices of one process"
        named = f'"{first[0]}"' if len(first) == 1 else f"({', '.join(map(repr, first))})".replace("'", '"')
        return site.report_violation(
            f"This is not a mean: the sum is over {axes}, but `{count}` counts a different set of devices.",
            help=f"write `jax.lax.pmean`, or divide by `jax.lax.psum(1, {named})`",
            why=f"{count} counts {counted}",
        )

    @detector("violation", of="reducer.own-sum", finds="per-device-sum")
    def report_own_sum(self, site: Site) -> Finding:
        """A sum of one device that is divided by the count of all."""
        return site.report_violation(
            "The mean differs on each device: a per-device sum is divided by a count over "
            f"{site.violation.quoted_axes}.",
            help=_SUM_BOTH,
            why="nothing adds the sum over the devices later",
        )

    @detector("violation", of="reducer.own-count", finds="per-device-count")
    def report_own_count(self, site: Site) -> Finding:
        """A sum of all devices that is divided by the count of one."""
        rows = site.violation.said["of"] == "rows"
        effect = f"The mean is {_describe_error(site)}" if rows else "The mean differs on each device"
        return site.report_violation(
            f"{effect}: a sum over {site.violation.quoted_axes} is divided by one device's count.",
            help=_SUM_BOTH,
            why="no psum reduces the count",
        )


def _describe_error(site: Site) -> str:
    """The error of a sum over the axes, in words."""
    factor = site.violation.said["factor"]
    return f"{factor} times too large" if factor else f"scaled by the size of {site.violation.quoted_axes}"


def _quote_operand(site: Site) -> str:
    """The first argument of the collective, as code; "" if it is long."""
    place = (site.violation.place, *site.violation.inside)[-1]
    given = place.node.args[0] if isinstance(place.node, ast.Call) and place.node.args else None
    text = place.file.source_text(given) if given is not None else ""
    return f" `{text}`" if 0 < len(text) <= _LONGEST_SHOWN and "\n" not in text else ""


def _is_logged(place: Place) -> bool:
    """True if a reduction takes a dictionary of figures, in a function that also computes gradients."""
    file, call = place.file, place.node
    function = file.evaluation_scope(call).enclosing_function()
    given = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if function is None or given is None or not isinstance(settled_expression(file, given), ast.Dict):
        return False
    return any("grad" in last_name(one.func) for one in file.walk_scope(function).calls)
