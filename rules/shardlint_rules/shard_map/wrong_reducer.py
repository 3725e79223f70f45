"""SL403."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual.mapped import Ran
from shardlint.model.manual.varying import BY_OWN, OWN_SUM, Event, leaves
from shardlint.model.values import Place
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.jit.how_many import settled_expression
from shardlint_rules.shard_map._moments import other_axes
from shardlint_rules.shard_map._named_mean import SAYS, SUMS, called_a_mean
from shardlint_rules.shard_map._named_otherwise import OTHERS, named_otherwise
from shardlint_rules.shard_map._named_otherwise import SAYS as NAMED
from shardlint_rules.shard_map._shares import share
from shardlint_rules.shard_map.beside_means import GRADS, summed
from shardlint_rules.shard_map.runs import devices, elsewhere, events, shown

_REDUCING = ("jax.lax.psum", "jax.lax.pmean")
# What is averaged, why that is not the one of all data, and what to write.
_AVERAGED = {
    "std": (
        "standard deviations or variances",
        "what the shards' means differ by is left out.",
        "reduce sums and counts: psum(sum) / psum(count)",
    ),
    "masked": (
        "masked means",
        "a shard with few elements left counts as much as one with many.",
        "reduce sums and counts: psum(sum) / psum(count)",
    ),
    "curved": (
        "functions of the means",
        "a root, a logarithm, an exponential or a quotient of a mean is not linear in it.",
        "average the mean first, and take the function of that: jnp.exp(jax.lax.pmean(loss, axis))",
    ),
}


class WrongReducer(Rule):
    """Means of the shards are added up, spreads and masked means averaged, or sums divided by another count.

    ## What it does
    Follows the values of a `shard_map` or `pmap` body and reports `psum` of a mean over one device's data, where the
    sum is returned and never divided. Likely: `pmean` of a masked mean; a `psum` over some axes of the mesh that is
    divided by `jax.device_count()`, and one over all devices of a `pmap` that is divided by `jax.local_device_count()`.
    Also likely: the means of an array and of its square over different axes, in one function.
    Likely, too: `psum` of the gradients of a mean, or of a value that the function averages by `pmean`, and `pmean` of
    a root, a logarithm or an exponential of a mean.
    Likely, too: `psum` and `psum_scatter` in a function whose name says mean or average, and in which nothing divides,
    and a function that is named after one collective and returns another (`def pmap_pmean(x): return all_gather(x)`).
    Likely, too: a sum of one device in a `pmap`, divided by a count over all, which nothing adds up later; and a sum
    over all devices, divided by the rows (`x.shape[0]`) or by a sum of one.
    Possible: `pmean` of a standard deviation or a variance, and of a dictionary of figures with a masked mean in a step
    that takes gradients, which are reduced apart.

    ## Why it hurts
    The sum of eight means is eight times the mean. The mean of masked means weighs a shard with one valid
    element like one with a thousand, and the mean of standard deviations is smaller than that of all data. On a 4 x 2
    mesh a sum over the four, divided by all eight, is half the mean; with two processes a sum over all devices, divided
    by those of one process, is twice the mean. Nothing raises, also with the check on.

    ## Evidence
    Run on jax 0.4.38 to 0.12 with 8 devices: `psum(mean(x))` gives 252 where the mean is 31.5, `pmean` of a masked mean
    1.25 for 4.0, of a standard deviation 2.29 for 18.47.
    """

    code = "SL403"
    name = "wrong-reducer"
    harm = Harm.SILENT
    likely = (
        "masked", "by-devices", "moments", "gradients", "curved", "named", "named-otherwise", "beside", "own-sum",
        "own-count",
    )  # fmt: skip
    assumes = True
    triggers = (
        *MAPPING,
        Calls("jax.lax.pmean"),
        Calls(*GRADS, file_says=("psum(",)),
        Calls(*SUMS, file_says=(*SAYS, *NAMED)),
        Calls(*OTHERS, file_says=NAMED),
        Mapped(calling=(("psum", "pmean"),)),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each reduction."""
        done: set[ast.AST] = set()
        if site.api in GRADS:
            yield from self._beside(site)
            return
        if site.api in SUMS or site.api in OTHERS:
            yield from self._named_otherwise(site)
        if site.api in SUMS:
            yield from self._named(site)
            return
        if site.api in OTHERS:
            if site.api == "jax.lax.pmean":
                yield from self._moments(site)
            return
        for ran, event, node in _in_results(site, "sum of means", done):
            yield site.finding(
                node,
                f"On {site.release('jax')} the result is {devices(ran, event.axes)} times the mean: every device "
                "gives the mean of its own data.",
                label=f"adds up the means of the shards over {shown(event.axes)}{elsewhere(site, event)}",
                help="write jax.lax.pmean, or divide sums: psum(sum) / psum(count)",
            )
        for _, event, node in _in_results(site, "sum of gradients", done):
            yield site.finding(
                node,
                f"On {site.release('jax')} each device has the gradient of the mean over its own data: the sum is as "
                "many times that of the mean over all data as there are devices, and so is each step of plain SGD.",
                label=f"adds up the gradients of means{elsewhere(site, event)}",
                help="write jax.lax.pmean",
                certainty=Certainty.POSSIBLE,
                form="gradients",
                why="the loss is a mean, and nothing divides the sum",
            )
        yield from self._by_devices(site, done)
        for ran, event, node in _in_results(site, OWN_SUM, done, None):
            if ran.mapped.api != "jax.pmap" or share(event.place):
                continue  # SL402 tells of a shard_map what is declared the same
            yield site.finding(
                node,
                f"On {site.release('jax')} this is a part of the mean, another one on each device: what is made of it "
                "differs, and nothing is raised.",
                label=f"the sum of one device, divided by a count over {shown(event.axes)}{elsewhere(site, event)}",
                help="sum both over the devices: psum(sum) / psum(count)",
                certainty=Certainty.POSSIBLE,
                form="own-sum",
                why="nothing on the way to the result adds it up over the devices",
            )
        for ran, event, node in _in_results(site, BY_OWN, done, None):
            rows = event.note == "rows"
            yield site.finding(
                node,
                f"On {site.release('jax')} what is divided is the sum of all devices, and the count that of one: the "
                + (
                    f"result is {devices(ran, event.axes)} times the mean."
                    if rows
                    else "result is no mean, and another one on each device."
                ),
                label=(
                    f"a sum over {shown(event.axes)}, divided by {'the rows' if rows else 'a sum'} of one device"
                    f"{elsewhere(site, event)}"
                ),
                help="sum both over the devices: psum(sum) / psum(count)",
                certainty=Certainty.POSSIBLE,
                form="own-count",
                why="no sum over the devices goes over the count",
            )
        for _, event, node in events(
            site, "mean of std", "mean of masked", "mean of curved", inside=_REDUCING
        ):
            if node in done:
                continue
            done.add(node)
            kind = event.kind.rpartition(" ")[2]
            what, why, instead = _AVERAGED[kind]
            logged = kind == "masked" and _is_logged(event.place)
            yield site.finding(
                node,
                f"On {site.release('jax')} this is not that of all data: {why}",
                label=f"averages the {what} of the shards{elsewhere(site, event)}",
                help=instead,
                certainty=Certainty.POSSIBLE,
                form="logged" if logged else kind,
                why="a figure among others of a step that takes its gradients apart" if logged else "",
            )

    def _beside(self, site: Site) -> Iterator[Finding]:
        """Gradients that are added up where the value that they are of is averaged."""
        if not site.wants("beside") or isinstance(site.program.evaluator, Assuming):
            return
        found = summed(site)
        if found is not None:
            yield site.finding(
                found.call,
                f"On {site.release('jax')} each device has the gradient of its own loss: the sum is as many times that "
                "of the mean as there are devices, and so is each step of plain SGD.",
                label=f"adds up `{found.gradients}`, and the loss is averaged",
                help="write jax.lax.pmean",
                certainty=Certainty.POSSIBLE,
                form="beside",
                why=f"{found.why}, of which these are the gradients, and nothing divides the sum",
            )

    def _named(self, site: Site) -> Iterator[Finding]:
        """A sum in a function that is called a mean."""
        name = called_a_mean(site) if site.form == "call" and site.wants("named") else None
        if name is not None:
            scattered = site.api == "jax.lax.psum_scatter"
            yield site.finding(
                site.call,
                f"On {site.release('jax')} this is the sum over the devices along the axis, and nothing in `{name}` "
                "divides it: it is as many times the mean as there are devices.",
                label=f"adds up, and `{name}` says that it averages",
                help="divide by jax.lax.axis_size(axis)" if scattered else "write jax.lax.pmean",
                certainty=Certainty.POSSIBLE,
                form="named",
                why=f"`{name}` is called a mean",
            )

    def _named_otherwise(self, site: Site) -> Iterator[Finding]:
        """A collective in a function that is named after another one."""
        found = named_otherwise(site) if site.form == "call" and site.wants("named-otherwise") else None
        if found is not None:
            own = site.api.rpartition(".")[2]
            yield site.finding(
                site.call,
                f"On {site.release('jax')} callers of `{found.function}` get what {own} gives, and nothing in it makes "
                f"{found.named} of that.",
                label=f"`{own}`, and `{found.function}` is named after `{found.named}`",
                help=f"write jax.lax.{found.named}, or name the function after {own}",
                certainty=Certainty.POSSIBLE,
                form="named-otherwise",
                why=f"`{found.function}` is named after {found.named}",
            )

    def _moments(self, site: Site) -> Iterator[Finding]:
        """A second moment over other axes than the first."""
        found = other_axes(site) if site.form == "call" else None
        if found is not None:
            first, axes, mine = found
            yield site.finding(
                site.call,
                f"On {site.release('jax')} the two are moments of different data: their difference is no variance.",
                label=f"the mean of the square is over {mine}, that of the array at line {first.lineno} over {axes}",
                help=f"average both over {axes}",
                certainty=Certainty.POSSIBLE,
                form="moments",
                why="both are of one array, in one function",
            )

    def _by_devices(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        """Sums over some devices that are divided by the number of others."""
        for ran, event, node in events(site, "sum by devices"):
            if node in done or not self._still_wrong(site, ran, event):
                continue
            done.add(node)
            count = "jax.device_count()" if event.note == "all" else "jax.local_device_count()"
            told = (
                f"the sum is over {devices(ran, event.axes)} devices, and {count} counts those along all axes."
                if event.note == "all"
                else f"the sum is over the devices of all processes, and {count} counts those of one."
            )
            yield site.finding(
                node,
                f"On {site.release('jax')} this is no mean: {told}",
                label=f"divides a sum over {shown(event.axes)} by {count}{elsewhere(site, event)}",
                help=f"write jax.lax.pmean, or divide by the devices along {shown(event.axes)}: jax.lax.psum(1, axis)",
                certainty=Certainty.POSSIBLE,
                form="by-devices",
            )

    def _still_wrong(self, site: Site, ran: Ran, event: Event) -> bool:
        """Whether what was divided leaves the body so, and the count is another than that of the sum."""
        if not event.axes or not all(isinstance(axis, str) for axis in event.axes):
            return False
        number = ran.events.index(event)
        left = [leaf for leaf in leaves(ran.result) if number in leaf.marks]
        if event.note == "local":
            return bool(left) and ran.mapped.api == "jax.pmap"
        place = ran.mapped.settings.get("mesh", ())
        meshes = site.shardings.meshes(site.program.evaluator.value(place)) if place is not None else None
        for mesh in meshes or ():
            others = {
                axis
                for axis, size in zip(mesh.axis_names or (), mesh.sizes, strict=True)
                if axis not in event.axes and size != 1
            }
            if not others or not any(others & (leaf.reduced - event.leaf.reduced) != others for leaf in left):
                return False
        return bool(meshes) and bool(left)


def _in_results(
    site: Site, kind: str, done: set[ast.AST], inside: Collection[str] | None = _REDUCING
) -> Iterator[tuple[Ran, Event, ast.AST]]:
    """What happened in the bodies that the result shows, each place once."""
    for ran, event, node in events(site, kind, inside=inside):
        number = ran.events.index(event)
        if node not in done and any(number in leaf.marks for leaf in leaves(ran.result)):
            done.add(node)
            yield ran, event, node


def _is_logged(place: Place) -> bool:
    """Whether a reduction takes a dictionary of figures, in a function that calls for gradients besides."""
    file, call = place.file, place.node
    function = file.home(call).function()
    given = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if function is None or given is None or not isinstance(settled_expression(file, given), ast.Dict):
        return False
    return any("grad" in last_name(one.func) for one in file.walked(function).calls)
