"""SL349."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.meshes import MESH_MAKERS, mesh_of
from shardlint.model.values import Assumed, Constant, Items, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import defaults
from shardlint_rules.mesh.two_batch_axes import of_a_batch

_ROWS = regex(r"dp|data|batch|replica|data_parallel|dp_replicate")
_WEIGHTS = regex(r"fsdp|zero\d?|dp_shard")
# `"batch_axes": ("data", "fsdp")`, `data_axes: tuple[str, ...] = ("data",)`, `BATCH_AXES = ["data"]`.
_LIST = regex(
    r"""\b((?i:(?:\w+_)?(?:batch|data|rows?|inputs?)_(?:\w+_)?(?:ax[ei]s|sharding|p?spec|dims?|names)))["']?"""
    r"""(?:\s*:[^=\n(]*=\s*|\s*[:=]\s*)[(\[]([^()\[\]]*)[)\]]"""
)
_QUOTED = regex(r"""["'](\w+)["']""")
_MAKERS = ("Mesh", "make_mesh", "create_device_mesh")


class BatchLeavesAxisOut(Rule):
    """The batch is split over the data axis alone and the FSDP axis repeats its rows, or it is over too many axes.

    ## What it does
    Reports the sharding of a batch that splits over a data axis and leaves the FSDP axis of the mesh out, in a program
    whose weights are split over that axis and in which nothing splits rows over both. And a batch that is split over
    the axis for the weights too, where a setting lists the axes for the batch and nothing reads it.

    ## Why it hurts
    FSDP is data parallelism: each device of its axis holds a part of the weights and computes with rows of its own. A
    batch that is whole along it is computed by all of its devices alike: with `fsdp=4` every row four times, with the
    memory for its activations. The numbers are right, and nothing is raised.

    ## Use instead
    `P(("data", "fsdp"))` for the rows of a batch.

    ## Evidence
    The proof shows the rows that a device holds. Left alone: meshes whose FSDP axis has one device, or has one unless a
    caller of the function that makes them says more, and none does; programs that split rows or an activation over both
    axes somewhere, and shardings that are not said to be of a batch.
    """

    code = "SL349"
    name = "batch-leaves-axis-out"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("data-alone", "more-than-said")
    triggers = (Calls("jax.sharding.PartitionSpec"),)
    forms = ("call",)
    assumes = True
    project_says = ("fsdp", "zero", "dp_shard", "tensor", "model", "tp")
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for the spec of a batch."""
        if not site.call.args or site.call.keywords or not site.wants("data-alone", "more-than-said"):
            return
        if any(not _is_none(one) for one in site.call.args[1:]) or not of_a_batch(site):
            return
        rows = _axes(site.value(site.call.args[0]))
        if not rows:
            return
        if not all(_ROWS.fullmatch(one) for one in rows):
            yield from self._more(site, rows)
            return
        found = site.program.once(site.file, "SL349", lambda: _left_out(site))
        if found is None:
            return
        whole = ", ".join(f'"{one}"' for one in (*rows, found))
        yield site.finding(
            site.call,
            f"the rows are not split over `{found}`",
            f"Each device along `{found}` computes the same rows: FSDP splits weights and batch over its devices.",
            help=f"write P(({whole}))",
            form="data-alone",
            why=f"weights are split over `{found}`, and no rows are",
        )

    def _more(self, site: Site, rows: tuple[str, ...]) -> Iterator[Finding]:
        """A batch that is split over more axes than a setting says which nothing reads."""
        said = next((one for one in _unread(site) if set(one[1]) < set(rows)), None)
        if said is None:
            return
        name, axes = said
        more = " and ".join(f'"{axis}"' for axis in rows if axis not in axes)
        yield site.finding(
            site.call,
            f"the rows are split over {more} too",
            f"The devices along {more} hold parts of the weights: with rows of their own they gather the weights, or "
            f"the rows are moved to where the weights are, in every layer.",
            help=f"split them over {', '.join(axes)}, as `{name}` says",
            form="more-than-said",
            why=f"`{name}` names the axes {', '.join(axes)}, and nothing reads it",
        )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _axes(value: Value) -> tuple[str, ...]:
    """The axes of the first entry, also where a field has them by default."""
    found = options(value)
    one = found[0] if len(found) == 1 else None
    if isinstance(one, Assumed):
        one = one.value
    parts = one.items if isinstance(one, Items) and not one.open else (one,)
    names = [part.value for part in parts if isinstance(part, Constant)]
    if len(names) != len(parts):
        return ()
    return (
        tuple(name for name in names if isinstance(name, str))
        if all(isinstance(n, str) for n in names)
        else ()
    )


def _unread(site: Site) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The settings, fields and constants that list the axes of a batch, and that nothing reads."""
    return site.program.once(site.file, "SL349 unread", lambda: tuple(_lists(site)))


def _lists(site: Site) -> Iterator[tuple[str, tuple[str, ...]]]:
    texts = [file.source.text for file in site.program.together(site.file)]
    for text in texts:
        for found in _LIST.finditer(text):
            name = regex(rf"\b{found[1]}\b")
            axes = tuple(one[1] for one in _QUOTED.finditer(found[2]))
            if axes and sum(len(name.findall(one)) for one in texts) == 1:
                yield found[1], axes


def _left_out(site: Site) -> str | None:
    """The FSDP axis that all meshes of the program have beside one for data, and over which no rows are split."""
    axes: set[str] = set()
    texts = []
    for file in site.program.together(site.file):
        texts.append(file.source.text)
        for name in _MAKERS:
            for mention in file.mentions(name):
                call = file.parent(mention)
                if not isinstance(call, ast.Call) or call.func is not mention:
                    continue
                for value in options(site.program.value(file, call)):
                    mesh = (
                        mesh_of(value, site.program.evaluator)
                        if getattr(value, "api", "") in MESH_MAKERS
                        else None
                    )
                    if mesh is None:
                        continue
                    names = mesh.axis_names or ()
                    mine = [one for one in names if isinstance(one, str) and _WEIGHTS.fullmatch(one)]
                    sizes = dict(zip(names, mesh.sizes or (), strict=False))
                    if len(mine) != 1 or sizes.get(mine[0]) == 1 or _left_at_one(site, file, call, mine[0]):
                        return None
                    if not any(isinstance(one, str) and _ROWS.fullmatch(one) for one in names):
                        return None
                    axes.add(mine[0])
    if len(axes) != 1:
        return None
    (axis,) = axes
    return axis if _of_weights_alone(texts, axis) else None


def _left_at_one(site: Site, file: FileFacts, call: ast.Call, axis: str) -> bool:
    """Whether the size of an axis is a parameter of what makes the mesh, 1 by default, and no call gives it."""
    scope = file.home(call).function()
    function = scope.node if scope is not None else None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    placed = [*function.args.posonlyargs, *function.args.args]
    ones = [
        one.arg
        for one, value in defaults(function.args)
        if axis in one.arg and isinstance(value, ast.Constant) and value.value == 1 and value.value is not True
    ]
    if len(ones) != 1:
        return False
    at = next((at for at, one in enumerate(placed) if one.arg == ones[0]), len(placed))
    calls = [one.place.node for one in site.program.flow.in_sight(file, function).found if one.kind == "called"]
    return bool(calls) and all(isinstance(one, ast.Call) and _leaves(one, ones[0], at) for one in calls)


def _leaves(call: ast.Call, name: str, at: int) -> bool:
    """Whether a call leaves a parameter at its default."""
    if len(call.args) > at or any(isinstance(one, ast.Starred) for one in call.args):
        return False
    return all(one.arg is not None and one.arg != name for one in call.keywords)


def _of_weights_alone(texts: list[str], axis: str) -> bool:
    """Whether specs name an axis, and none of them beside one for rows, or for a batch."""
    quoted = rf"""["']{axis}["']"""
    rows = r"""["'](?:dp|data|batch|replica|data_parallel|dp_replicate)["']"""
    both = regex(rf"(?:P|PartitionSpec)\(\s*[\(\[]\s*(?:{rows}\s*,\s*{quoted}|{quoted}\s*,\s*{rows})")
    batch = regex(rf"(?i)(?:batch|rows|data_axes|dp_axes)\w*[\"']?\s*(?::[^=\n]*)?[:=,][^\n]*{quoted}")
    named = regex(rf"(?:P|PartitionSpec)\([^\n]*{quoted}")
    said = [one for one in texts if named.search(one)]
    return bool(said) and not any(both.search(one) or batch.search(one) for one in texts)
