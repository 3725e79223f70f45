"""What library functions do to what varies, for the body of a `shard_map` or `pmap`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.manual.arithmetic import product_spec
from shardlint.model.manual.collectives import COLLECTIVES
from shardlint.model.manual.local_control import LocalControl
from shardlint.model.manual.varying import (
    HIDDEN,
    NONE,
    NOTHING,
    Axes,
    Closure,
    Columns,
    Known,
    Leaf,
    Local,
    Record,
    Through,
    Told,
    Tree,
    Updated,
    combined,
    kept_spec,
    leaves,
)
from shardlint.model.values import Constant, Items, Place, Unknown

if TYPE_CHECKING:
    from shardlint.model.manual.local_calls import LocalCalls

Named = dict[str, Local]
# Libraries whose functions hold no collective, unless they are given a function that does.
_PURE = (
    "jax.numpy.",
    "jax.lax.",
    "jax.nn.",
    "jax.scipy.",
    "jax.random.",
    "jax.image.",
    "jax.ops.",
    "numpy.",
    "optax.",
    "einops.",
    "math.",
    "builtins.",
    "jax.tree.",
    "jax.tree_util.",
    "functools.",
    "operator.",
    "jax.ad_checkpoint.",
)
_FRESH = (
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "shape",
    "ndim",
    "size",
    "result_type",
    "iinfo",
    "finfo",
)
_KEEPING = (
    "jax.lax.stop_gradient",
    "jax.ad_checkpoint.checkpoint_name",
    "jax.lax.optimization_barrier",
    "jax.numpy.asarray",
    "jax.numpy.array",
    "builtins.float",
    "jax.block_until_ready",
    "jax.lax.convert_element_type",
    "jax.lax.with_sharding_constraint",
    "equinox.filter_shard",
)
_KEYS = ("PRNGKey", "key", "split", "fold_in", "clone", "wrap_key_data")
# What draws by probabilities that it is given, with one random number for each of them.
_DRAWN_FROM = ("categorical", "bernoulli", "poisson", "binomial")
# Where the shape stands; with none, and numbers for what stands before it, one number is drawn.
_SHAPE_AT = {
    **dict.fromkeys(("uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy", "rademacher"), 1),
    **dict.fromkeys(("bernoulli", "gamma", "chisquare", "t", "poisson"), 2),
    **dict.fromkeys(("beta", "truncated_normal"), 3),
}
_UNSEEN = ("jax.lax.custom_root", "jax.lax.custom_linear_solve", "jax.lax.platform_dependent")
_SILENT = (
    "jax.debug.print",
    "jax.debug.callback",
    "builtins.print",
    "builtins.isinstance",
    "builtins.len",
    "builtins.hasattr",
    "builtins.callable",
    "builtins.type",
)

# What asks the host, whatever the body is given.
_NUMBERS = ("builtins.len", "jax.devices", "jax.local_devices", "jax.device_count", "jax.local_device_count")


class LibraryCalls:
    """Applies library functions, for the calls of a body."""

    def __init__(self, calls: LocalCalls) -> None:
        self.calls = calls
        self.control = LocalControl(calls)
        self._special: dict[str, Callable[[list[Local], Named, Place], Local]] = {
            "jax.tree.map": self._tree_map,
            "jax.lax.scan": self.control.scan,
            "jax.lax.fori_loop": self.control.fori_loop,
            "jax.lax.while_loop": self.control.while_loop,
            "jax.lax.cond": self.control.cond,
            "jax.lax.switch": self.control.switch,
            "jax.lax.map": self.control.map,
            "builtins.tuple": self._same,
            "builtins.list": self._same,
            "builtins.dict": lambda given, named, _: given[0] if given else Record(tuple(named.items())),
            "builtins.zip": self._zip,
            "dataclasses.replace": self._replace_fields,
            "builtins.enumerate": self._enumerate,
        }

    def _replace_fields(self, given: list[Local], named: Named, place: Place) -> Local:
        if len(given) == 1 and isinstance(given[0], Leaf | Updated):
            return self.calls.replace_fields(given[0], [], named, place)
        return combined([*given, *named.values()])

    def call(self, name: str, given: list[Local], named: Named, place: Place) -> Local:
        """The result of calling a library function."""
        if name in COLLECTIVES:
            return self.calls.collectives.call(name.removeprefix("jax.lax."), given, named, place)
        if name in self._special:
            return self._special[name](given, named, place)
        if name in _NUMBERS and all(isinstance(one, Known) for one in (*given, *named.values())):
            return Known(self.calls.body.evaluator.value(place))
        transform = api.TRANSFORMS.get(name)
        if transform is not None and not transform.now and (given or "f" in named):
            rest = {k: v for k, v in named.items() if k != "f"}
            return Through(name, given[0] if given else named["f"], tuple(given[1:]), rest)
        values = [*given, *named.values()]
        if name in _SILENT:
            return NOTHING
        if name in _KEEPING and given:
            return given[0] if not isinstance(given[0], Known) else NOTHING
        if name.startswith("jax.random."):
            return self._random(name.rpartition(".")[2], given, named, place)
        if not name.startswith(_PURE) or name in _UNSEEN or _functions(values):
            return (
                combined([*values, HIDDEN])
                if any(leaf.traced for v in values for leaf in leaves(v))
                else Known(Unknown())
            )
        self.calls.met(*values)
        return self._computed(name.rpartition(".")[2], given, named, place)

    def _computed(self, last: str, given: list[Local], named: Named, place: Place) -> Local:
        values = [*given, *named.values()]
        if last in _FRESH:
            return NOTHING
        if last in ("matmul", "dot"):
            self.calls.body.multiplied(*given)
            if len(given) == 2:
                return replace(combined(values), spec=product_spec(given[0], given[1]))
        if last == "einsum":
            self._too_few_letters(given)
            return replace(combined(values), spec=_einsum_spec(given))
        if last in ("divide", "true_divide") and given:
            self.calls.body.cancelled |= combined(given[:1]).marks
        if not any(leaf.traced for value in values for leaf in leaves(value)) and all(
            isinstance(value, Known) for value in values
        ):
            return Known(Unknown("made in the body"))
        result = self.calls.still_random(combined(values), *values)
        return replace(result, spec=kept_spec(values)) if last in _ELEMENTWISE else result

    def _too_few_letters(self, given: list[Local]) -> None:
        """Note stacks that an einsum has letters for the shards of, and none for the devices."""
        form = given[0].value if given and isinstance(given[0], Known) else None
        if not isinstance(form, Constant) or not isinstance(form.value, str) or "." in form.value:
            return
        taken = form.value.replace(" ", "").partition("->")[0].split(",")
        for letters, one in zip(taken, given[1:], strict=False):
            if isinstance(one, Leaf) and one.kind == "gathered" and one.origin is not None:
                if len(letters) <= self.calls.body.stacks.get(one.origin.node, 0):
                    self.calls.note("stack in a product", one.origin, tuple(one.reduced), one, form.value)

    def _random(self, last: str, given: list[Local], named: Named, place: Place) -> Local:
        key = named.get("key") or (given[0] if given else NOTHING)
        found = combined([key])
        if last in _KEYS:
            return replace(combined([*given, *named.values()], "key"), origin=place)
        self.calls.met(*given[1:])
        others = [*given[1:], *(one for name, one in named.items() if name != "key")]
        shaped = len(given) > _SHAPE_AT.get(last, 0) or "shape" in named
        if not shaped and all(isinstance(one, Known) for one in others):
            return replace(found, kind="", origin=place, spec=None)  # one number for the whole batch, and meant so
        mask = replace(found, kind="mask", origin=place, spec=None)
        self.calls.drawn.setdefault(place.node, tuple(self.calls.body.chain))
        if last in _DRAWN_FROM and any(leaf.over for one in others for leaf in leaves(one)):
            # The same random numbers choose from what each device has of its own.
            self.calls.met(mask, *others)
            return combined([mask, *others])
        return mask

    # functions given to functions

    def _apply(self, function: Local, given: list[Local], place: Place) -> Local:
        return self.calls.apply(function, given, {}, place)

    def _same(self, given: list[Local], named: Named, place: Place) -> Local:
        return given[0] if given else Tree(())

    def _zip(self, given: list[Local], named: Named, place: Place) -> Local:
        rows = [_listed(one) for one in given]
        if rows and all(row is not None for row in rows):
            return Tree(tuple(Tree(one) for one in zip(*(row or () for row in rows), strict=False)))
        return Tree((Tree(tuple(self.calls.body.element(one) for one in given)),))

    def _enumerate(self, given: list[Local], named: Named, place: Place) -> Local:
        row = _listed(given[0]) if given else None
        if row is None:
            return Tree((Tree((NOTHING, self.calls.body.element(given[0] if given else NOTHING))),))
        return Tree(tuple(Tree((Known(Constant(i)), one)) for i, one in enumerate(row)))

    def _tree_map(self, given: list[Local], named: Named, place: Place) -> Local:
        if len(given) < 2:
            return HIDDEN
        function, first, rest = given[0], given[1], list(given[2:])
        match first:
            case Tree(items=items) if all(
                isinstance(one, Tree) and len(one.items) == len(items) for one in rest
            ):
                rows = [one.items for one in rest if isinstance(one, Tree)]
                return Tree(
                    tuple(
                        self._tree_map([function, item, *(row[i] for row in rows)], named, place)
                        for i, item in enumerate(items)
                    )
                )
            case Record(entries=entries) if not rest:
                return Record(tuple((k, self._tree_map([function, v], named, place)) for k, v in entries))
        leaf = [one if isinstance(one, Leaf) else combined([one]) for one in (first, *rest)]
        return self._apply(function, list(leaf), place)


_ELEMENTWISE = frozenset(
    "exp expm1 log log1p sqrt rsqrt square power abs tanh negative where maximum minimum add subtract multiply divide "
    "relu gelu silu swish softplus sigmoid clip astype float32 bfloat16".split()
)


def _einsum_spec(given: list[Local]) -> tuple[Axes, ...] | None:
    """How the result of an einsum is split, by the letters of its arrays."""
    form = given[0].value if given and isinstance(given[0], Known) else None
    text = form.value.replace(" ", "") if isinstance(form, Constant) and isinstance(form.value, str) else ""
    taken, arrow, result = text.partition("->")
    if not arrow or "." in text or len(taken.split(",")) != len(given) - 1:
        return None
    split: dict[str, Axes] = {}
    for letters, one in zip(taken.split(","), given[1:], strict=True):
        if not isinstance(one, Leaf) or one.spec is None or isinstance(one.spec, Columns):
            return None
        for letter, axes in zip(letters, one.spec, strict=False):
            split[letter] = split.get(letter, NONE) | axes
    return Told(split.get(letter, NONE) for letter in result)


def _listed(value: Local) -> tuple[Local, ...] | None:
    match value:
        case Tree(items=items):
            return items
        case Known(value=Items(items=items, open=False)):
            return tuple(Known(item) for item in items)
    return None


def _functions(values: list[Local]) -> bool:
    return any(isinstance(value, Closure | Through) for value in values)
