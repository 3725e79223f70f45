"""What library functions do to what varies, for the body of a `shard_map` or `pmap`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.api import COLLECTIVES
from shardlint.model.manual.arithmetic import is_count, product_spec
from shardlint.model.manual.local_control import LocalControl
from shardlint.model.manual.varying import (
    ALONG,
    COLUMN_SUM,
    COLUMNS,
    CURVED,
    HIDDEN,
    NONE,
    NOTHING,
    OWN_NORM,
    REMAINDER,
    ROWS,
    SCATTERED,
    Axes,
    Closure,
    Columns,
    Gathered,
    Known,
    Leaf,
    Local,
    Record,
    Size,
    Through,
    Told,
    Tree,
    Updated,
    combined,
    kept_kind,
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
_MEANS = ("mean", "nanmean")
_SUMS = ("sum", "nansum")
_SPREADS = ("std", "var", "nanstd", "nanvar")
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
        if name == "builtins.len" and len(given) == 1:
            first = given[0]
            if isinstance(first, Leaf) and first.spec and not first.kind and not isinstance(first.spec, Columns):
                return Size(Unknown("the size of a dimension"), first.spec[0])
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
        return self._computed(name.rpartition(".")[2], given, named, place)

    def _computed(self, last: str, given: list[Local], named: Named, place: Place) -> Local:
        values = [*given, *named.values()]
        if last in _FRESH:
            return NOTHING
        if last == "arange" and len(given) == 1 and isinstance(given[0], Size) and given[0].axes:
            self.calls.body.rows.append((given[0].axes, place, tuple(self.calls.body.chain)))
            return Leaf(kind=f"{ROWS} {len(self.calls.body.rows) - 1}", origin=place)
        if last in _RESHAPED and given and self.calls.body.counted(given[0]):
            return given[0]
        if last == "one_hot" and given:
            count = named.get("num_classes") or (given[1] if len(given) > 1 else NOTHING)
            self.calls.body.chosen_by(given[0], count.axes if isinstance(count, Size) else NONE, place)
        if last == "take" and len(given) > 1:
            self.calls.body.taken_by(given[0], self.calls.body.counted(given[1]), place)
        if last == "arange" and len(given) == 1 and isinstance(given[0], Gathered):
            return Leaf(kind=COLUMNS, reduced=given[0].axes, origin=place)
        if last in ("cos", "sin") and len(given) == 1:
            self.calls.body.note_rows("rows turned", given[0])
        if last == "outer" and len(given) == 2:
            turned = self.calls.body.turned(None, given[0], given[1])
            if turned:
                return replace(combined(values), kind=turned)
        if last in ("remainder", "mod", "fmod"):
            return combined(values, REMAINDER)
        whole = "axis" not in named and len(given) == 1
        own = self._own_norm(last, given, whole, place)
        if own:
            return replace(combined(values), kind=own)
        if last in _MEANS and whole:
            return combined(values, "masked" if "where" in named else "mean")
        if last in _SUMS and whole:
            return combined(values, "sum")
        if last in _SPREADS and (whole or _first_axis(given, named)):
            return combined(values, "std")
        if last in _CURVES and len(given) == 1 and isinstance(given[0], Leaf) and given[0].kind == "mean":
            return combined(values, CURVED if given[0].over else "")
        self._moved(last, given, named, place)
        kind = self._along(last, given, named, place)
        if last in _SUMS and not kind and _first_axis(given, named):
            return combined(values, COLUMN_SUM)
        if last in ("maximum", "clip") and given and isinstance(given[0], Leaf):
            constant = all(isinstance(one, Known) for one in (*given[1:], *named.values()))
            if constant and (given[0].kind == "sum" or is_count(given[0])):
                return given[0]  # a count that is kept from being 0
        if last in ("sqrt", "rsqrt") and given:
            self.calls.body.root_of(given[0])
        if last in ("matmul", "dot"):
            if len(given) == 2:
                return replace(combined(values), spec=product_spec(given[0], given[1]))
        if last == "einsum":
            if len(given) == 3 and (turned := self.calls.body.turned(None, given[1], given[2])):
                return replace(combined(values), kind=turned)
            return replace(combined(values), spec=_einsum_spec(given))
        if last in ("divide", "true_divide") and given:
            self.calls.body.cancelled |= self.calls.body.but_own_sums(combined(given[:1]).marks)
        if not any(leaf.traced for value in values for leaf in leaves(value)) and all(
            isinstance(value, Known) for value in values
        ):
            return Known(Unknown("made in the body"))
        result = self.calls.still_random(combined(values), *values)
        if kind:
            return replace(result, kind=kind)
        if last in _ELEMENTWISE or last == "expand_dims":
            result = replace(result, kind=kept_kind(values) or result.kind)
        return replace(result, spec=kept_spec(values)) if last in _ELEMENTWISE else result

    def _own_norm(self, last: str, given: list[Local], whole: bool, place: Place) -> str:
        """The kind of a norm over what a device has of an array that was scattered, or of the sum under its root."""
        one = given[0] if given else None
        if not isinstance(one, Leaf) or one.kind != SCATTERED or not whole:
            return ""
        if last not in ("global_norm", "norm", "sum", "vdot"):
            return ""
        self.calls.body.norms.append((place, tuple(self.calls.body.chain)))
        return f"{OWN_NORM} {len(self.calls.body.norms) - 1}"

    def _moved(self, last: str, given: list[Local], named: Named, place: Place) -> None:
        """Note what moves the entries of a split dimension to the places of others: each device turns its own part."""
        one = given[0] if given else named.get("a") or named.get("m")
        axis = named.get("axis") or (given[_MOVING[last]] if last in _MOVING and len(given) > _MOVING[last] else None)
        if last in _MOVING and isinstance(one, Leaf) and isinstance(axis, Known) and isinstance(axis.value, Constant):
            self.calls.body.shifted(one, axis.value.value, place)
            way = given[1] if len(given) > 1 else named.get("shift")
            if last == "roll" and axis.value.value == 0 and isinstance(way, Known) and isinstance(way.value, Constant):
                self.calls.body.turned_round(one, way.value.value, place)
        if last.startswith("conv") and isinstance(one, Leaf):
            self._convolved(last, one, given, named, place)

    def _convolved(self, last: str, one: Leaf, given: list[Local], named: Named, place: Place) -> None:
        """Note a convolution along a split dimension."""
        if last == "convolve":
            if isinstance(one.spec, tuple) and len(one.spec) == 1 and one.spec[0] and one.kind in ("", "key"):
                self.calls.note("shifted", place, tuple(one.spec[0]), one)
            return
        order = named.get("dimension_numbers")
        at = list(range(2, len(one.spec or ())))
        if isinstance(order, Known) and isinstance(order.value, Items) and order.value.items:
            letters = order.value.items[0]
            if not isinstance(letters, Constant) or not isinstance(letters.value, str):
                return
            at = [index for index, letter in enumerate(letters.value) if letter not in "NC"]
        elif order is not None:
            return
        for dimension in at:
            self.calls.body.shifted(one, dimension, place)

    def _along(self, last: str, given: list[Local], named: Named, place: Place) -> str:
        """Note what goes along one dimension of an argument as it came, if that dimension is split.

        The kind of a statistic that drops the dimension, which is noted where it meets the dimension again.
        """
        kept = named.get("keepdims")
        again = isinstance(kept, Known) and kept.value == Constant(True)
        if last not in _ALONG and last not in _STATISTICS:
            return ""
        if not given or not isinstance(given[0], Leaf) or given[0].spec is None:
            return ""
        axis = named.get("axis") or (
            given[1] if len(given) > 1 and last not in ("top_k",) else Known(Constant(_ALONG.get(last)))
        )
        at = axis.value.value if isinstance(axis, Known) and isinstance(axis.value, Constant) else None
        spec = given[0].spec
        # There may be more dimensions than entries: what is last is known only of a spec that names several.
        last_one = isinstance(at, int) and at < 0 and len(spec) > 1
        index = at + len(spec) if isinstance(at, int) and last_one else at
        if isinstance(spec, Columns):
            last_one, index = True, 0 if at == -1 else None
        if isinstance(index, int) and 0 <= index < len(spec) and spec[index]:
            note = f"{last}?" if last_one and not isinstance(spec, Told) else last
            if last in _STATISTICS:
                if again and last not in ("norm", "std", "var"):
                    self.calls.note("along a split dimension", place, tuple(spec[index]), given[0], f"{note}+")
                self.calls.body.along.append((place, spec[index], given[0], note))
                return f"{ALONG} {len(self.calls.body.along) - 1}"
            self.calls.note("along a split dimension", place, tuple(spec[index]), given[0], note)
        return ""

    def _random(self, last: str, given: list[Local], named: Named, place: Place) -> Local:
        key = named.get("key") or (given[0] if given else NOTHING)
        found = combined([key])
        if last in _KEYS:
            return replace(combined([*given, *named.values()], "key"), origin=place)
        others = [*given[1:], *(one for name, one in named.items() if name != "key")]
        shaped = len(given) > _SHAPE_AT.get(last, 0) or "shape" in named
        if not shaped and all(isinstance(one, Known) for one in others):
            return replace(found, kind="", origin=place, spec=None)  # one number for the whole batch, and meant so
        mask = replace(found, kind="mask", origin=place, spec=None)
        if last in _DRAWN_FROM and any(leaf.over for one in others for leaf in leaves(one)):
            # The same random numbers choose from what each device has of its own.
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
_RESHAPED = ("broadcast_to", "expand_dims", "tile", "reshape", "astype", "asarray")
_STATISTICS = ("mean", "var", "std", "sum", "max", "min", "norm")
# Of a mean they make what is no longer the mean of anything.
_CURVES = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "square", "reciprocal")
# What goes along a dimension, and which one unless told.
_ALONG = {
    "softmax": -1, "log_softmax": -1, "cumsum": None, "cumprod": None, "sort": -1, "argsort": -1, "standardize": -1,
    "logsumexp": None, "cummax": 0, "argmax": None, "argmin": None, "top_k": -1,
}  # fmt: skip


# What moves entries along a dimension, and where it is told which one.
_MOVING = {"roll": 2, "flip": 1, "diff": 2}


def _first_axis(given: list[Local], named: Named) -> bool:
    """Whether a statistic goes along the first dimension, and drops it."""
    if set(named) - {"axis"} or len(given) + len(named) != 2:
        return False
    axis = named.get("axis") or given[1]
    return isinstance(axis, Known) and axis.value == Constant(0)


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
