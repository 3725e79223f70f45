"""SL403."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.model.manual.varying import leaves
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import MAPPING, devices, elsewhere, events, shown


class WrongReducer(Rule):
    """Means of the shards are added up, or spreads and masked means averaged.

    ## What it does
    Follows the values of a `shard_map` or `pmap` body and reports `psum` of a mean over one device's data, where the
    sum is returned and never divided. Possible: `pmean` of a standard deviation, a variance or a mean with `where=`.

    ## Why it hurts
    The sum of eight means is eight times the mean. The mean of masked means weighs a shard with one valid
    element like one with a thousand, and the mean of standard deviations is smaller than that of all data. Nothing
    raises, also with the check on.

    ## Evidence
    Run on jax 0.4.38 to 0.12 with 8 devices: `psum(mean(x))` gives 252 where the mean is 31.5, `pmean` of a masked mean
    1.25 for 4.0, of a standard deviation 2.29 for 18.47.
    """

    code = "SL403"
    name = "wrong-reducer"
    harm = Harm.SILENT
    assumes = True
    triggers = MAPPING
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each reduction."""
        done = set()
        for ran, event, node in events(site, "sum of means"):
            number = ran.events.index(event)
            if node in done or not any(number in leaf.marks for leaf in leaves(ran.result)):
                continue
            done.add(node)
            yield site.finding(
                node,
                f"adds up the means of the shards over {shown(event.axes)}{elsewhere(site, event)}",
                f"On {site.release('jax')} the result is {devices(ran, event.axes)} times the mean: every device "
                "gives the mean of its own data.",
                help="write jax.lax.pmean, or divide sums: psum(sum) / psum(count)",
            )
        for _, event, node in events(site, "mean of std", "mean of masked"):
            if node in done:
                continue
            done.add(node)
            what = "standard deviations or variances" if event.kind.endswith("std") else "masked means"
            yield site.finding(
                node,
                f"averages the {what} of the shards{elsewhere(site, event)}",
                f"On {site.release('jax')} this is not that of all data: "
                + (
                    "what the shards' means differ by is left out."
                    if event.kind.endswith("std")
                    else "a shard with few elements left counts as much as one with many."
                ),
                help="reduce sums and counts: psum(sum) / psum(count)",
                certainty=Certainty.POSSIBLE,
                form=event.kind.rpartition(" ")[2],
            )
