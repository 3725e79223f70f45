"""Windows that move over arrays: convolutions, pooling, resized images. Shapes, and specs of whole arrays."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.layouts.layout import Layout, Shape, Size, count_entries, multiply_size
from shardlint.layouts.values import Call, Instance, Value, known_items
from shardlint.libraries.jax_numpy import dtype_of, sizes_of
from shardlint.libraries.meeting import common_properties, computed_array, layout_as_array
from shardlint.libraries.registry import register_function

Padding = tuple[int, int] | str | None
"""How many entries a dimension gains at its ends, or how that is computed."""


def sweep_count(size: Size, window: Size, step: Size, padding: Padding, spread: Size, gaps: Size) -> Size:
    """How often a window fits along a dimension.

    `spread` is the distance of the entries of the window, `gaps` that of the entries of the array.
    """
    if not all(isinstance(one, int) and one > 0 for one in (size, window, step, spread, gaps)) or padding is None:
        return None
    assert isinstance(size, int) and isinstance(window, int) and isinstance(step, int)
    assert isinstance(spread, int) and isinstance(gaps, int)
    if padding in ("SAME", "SAME_LOWER"):
        return -(-size // step) if gaps == 1 else None
    if isinstance(padding, str) and padding != "VALID":
        return None
    more = sum(padding) if isinstance(padding, tuple) else 0
    length, wide = (size - 1) * gaps + 1 + more, (window - 1) * spread + 1
    return max((length - wide) // step + 1, 0)


def sweep_all(
    sizes: Sequence[Size],
    windows: Sequence[Size],
    steps: Value,
    padding: Value,
    spread: Value = None,
    gaps: Value = None,
) -> list[Size]:
    """The same of several dimensions, by arguments that have a number for each of them or one for all."""
    count = len(sizes)
    if len(windows) != count:
        return [None] * count
    rows = zip(
        sizes, windows, numbers_of(steps, count), paddings_of(padding, count), numbers_of(spread, count),
        numbers_of(gaps, count), strict=True,
    )  # fmt: skip
    return [sweep_count(size, window, step, pad, far, gap) for size, window, step, pad, far, gap in rows]


def paddings_of(value: Value, count: int) -> list[Padding]:
    """The padding of so many dimensions: by a word, a number, or a pair or number for each."""
    if isinstance(value, str):
        return [value.upper()] * count
    if isinstance(value, int):
        return [(value, value)] * count
    items = known_items(value)
    if items is not None and len(items) == 1:
        items = items * count
    if items is None or len(items) != count:
        return [None] * count
    found: list[Padding] = []
    for one in items:
        pair = known_items(one)
        if isinstance(one, int):
            found.append((one, one))
        elif pair is not None and len(pair) == 2 and isinstance(pair[0], int) and isinstance(pair[1], int):
            found.append((pair[0], pair[1]))
        else:
            found.append(None)
    return found


def numbers_of(value: Value, count: int) -> Sequence[Size]:
    """A number for each of so many dimensions: one for all, or a list; 1 where there is none."""
    if value is None:
        return (1,) * count
    found = (value,) * count if isinstance(value, int) else sizes_of(value)
    if found is not None and len(found) == 1:
        found = found * count
    return found if found is not None and len(found) == count else (None,) * count


# convolutions

_LETTERS = "0123"
Letters = tuple[str, str, str]
"""The letters of the dimensions of an array, a kernel and the result: N, C, O, I, and one for each other."""


def _dimension_letters(value: Value, rank: int, channels_last: bool) -> Letters | None:
    """The letters that `dimension_numbers` give; of None those of jax, or with the channels last."""
    spatial = _LETTERS[: rank - 2]
    if isinstance(value, Instance) and "layouts" in value.attributes:
        value = value.attributes["layouts"]
    if value is None:
        if channels_last:
            return f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"
        return f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"
    items = known_items(value)
    if items is None or len(items) != 3 or not all(isinstance(one, str) and len(one) == rank for one in items):
        return None
    return (items[0], items[1], items[2])


@register_function("jax.lax conv_dimension_numbers")
def dimension_numbers(call: Call) -> Value:
    """The letters of the dimensions, as an object."""
    rank = layout_as_array(call.argument_at(0, "lhs_shape")).shape
    count = rank[0] if rank is not None and len(rank) == 1 and isinstance(rank[0], int) else 0
    found = _dimension_letters(call.argument_at(2, "dimension_numbers"), count, False) if count > 1 else None
    return Instance(None, {"layouts": found} if found is not None else {}, open=True)


def _spatial_letters(letters: Letters) -> list[str]:
    return [one for one in letters[0] if one not in "NC"]


def _sizes_by_letter(
    letters: Letters | None, array: Layout, kernel: Layout
) -> tuple[dict[str, Size], dict[str, Size]] | None:
    """The sizes of an array and a kernel by the letters of their dimensions; None where a rank is another one."""
    if letters is None or array.shape is None or kernel.shape is None:
        return None
    if {len(array.shape), len(kernel.shape)} != {len(letters[0])}:
        return None
    return dict(zip(letters[0], array.shape, strict=True)), dict(zip(letters[1], kernel.shape, strict=True))


def _convolution_operands(call: Call) -> tuple[Layout, Layout, str | None]:
    """The array and the kernel of a convolution, and the type of its result."""
    array, kernel = layout_as_array(call.argument_at(0, "lhs")), layout_as_array(call.argument_at(1, "rhs"))
    wanted = call.keywords.get("preferred_element_type")
    return array, kernel, common_properties([array, kernel]).dtype if wanted is None else dtype_of(wanted)


def _convolve_arrays(
    call: Call, letters: Letters | None, gaps: Value = None, spread: Value = None, batches: Value = 1
) -> Value:
    """The result of a convolution; without its shape where one of its sizes is not known."""
    array, kernel, dtype = _convolution_operands(call)
    known = _sizes_by_letter(letters, array, kernel)
    if known is None or letters is None:
        return computed_array(call, [array, kernel], None, dtype)
    sizes, windows = known
    spatial = _spatial_letters(letters)
    inside, over = [sizes[name] for name in spatial], [windows.get(name) for name in spatial]
    swept = sweep_all(inside, over, call.argument_at(2, "window_strides"), call.argument_at(3, "padding"), spread, gaps)
    found = dict(zip(spatial, swept, strict=True))
    rows = sizes["N"]
    found["N"] = rows // batches if isinstance(rows, int) and isinstance(batches, int) else None
    found["C"] = windows["O"]
    return computed_array(call, [array, kernel], tuple(found.get(one) for one in letters[2]), dtype)


def _convolution_rank(call: Call) -> int:
    return max(layout_as_array(call.argument_at(0, "lhs")).rank or 0, 2)


@register_function("jax.lax conv_general_dilated")
def conv_general(call: Call) -> Value:
    """A convolution with all that can be said of it."""
    letters = _dimension_letters(call.argument_at(6, "dimension_numbers", None), _convolution_rank(call), False)
    dilations = call.argument_at(4, "lhs_dilation", None), call.argument_at(5, "rhs_dilation", None)
    return _convolve_arrays(call, letters, *dilations, call.argument_at(8, "batch_group_count", 1))


@register_function("jax.lax conv conv_with_general_padding")
def convolve_arrays(call: Call) -> Value:
    """A convolution of arrays whose dimensions are in the order of jax."""
    letters = _dimension_letters(None, _convolution_rank(call), False)
    if call.function_name == "conv":
        return _convolve_arrays(call, letters)
    return _convolve_arrays(
        call, letters, call.argument_at(4, "lhs_dilation", None), call.argument_at(5, "rhs_dilation", None)
    )


def transposed_size(size: Size, window: Size, step: Size, padding: Padding, spread: Size = 1) -> Size:
    """The size of a dimension after a transposed convolution."""
    if not all(isinstance(one, int) for one in (size, window, step, spread)):
        return None
    assert isinstance(size, int) and isinstance(window, int) and isinstance(step, int) and isinstance(spread, int)
    wide = (window - 1) * spread + 1
    if padding == "SAME":
        return size * step
    if padding == "VALID":
        return size * step + max(wide - step, 0)
    return sweep_count(size, window, 1, padding, spread, step) if isinstance(padding, tuple) else None


@register_function("jax.lax conv_transpose")
def conv_transpose(call: Call) -> Value:
    """A convolution whose result is larger: the strides are those of the array."""
    array, kernel, dtype = _convolution_operands(call)
    letters = _dimension_letters(call.argument_at(5, "dimension_numbers", None), _convolution_rank(call), True)
    known = _sizes_by_letter(letters, array, kernel)
    if known is None or letters is None:
        return computed_array(call, [array, kernel], None, dtype)
    sizes, windows = known
    spatial = _spatial_letters(letters)
    count = len(spatial)
    rows = zip(
        spatial, numbers_of(call.argument_at(2, "strides"), count), paddings_of(call.argument_at(3, "padding"), count),
        numbers_of(call.argument_at(4, "rhs_dilation", None), count), strict=True,
    )  # fmt: skip
    found = {name: transposed_size(sizes[name], windows.get(name), step, pad, far) for name, step, pad, far in rows}
    turned = call.argument_at(6, "transpose_kernel", False)
    found["N"] = sizes["N"]
    found["C"] = windows["I" if turned else "O"] if isinstance(turned, bool) else None
    return computed_array(call, [array, kernel], tuple(found.get(one) for one in letters[2]), dtype)


@register_function("jax.lax conv_general_dilated_patches")
def window_patches(call: Call) -> Value:
    """The windows themselves, as channels."""
    array, window = layout_as_array(call.argument_at(0, "lhs")), sizes_of(call.argument_at(1, "filter_shape"))
    letters = _dimension_letters(call.argument_at(6, "dimension_numbers", None), _convolution_rank(call), False)
    if letters is None or array.shape is None or window is None or len(letters[0]) != len(array.shape):
        return computed_array(call, [array], None, array.dtype)
    sizes, spatial = dict(zip(letters[0], array.shape, strict=True)), _spatial_letters(letters)
    dilations = call.argument_at(5, "rhs_dilation", None), call.argument_at(4, "lhs_dilation", None)
    inside = [sizes[name] for name in spatial]
    swept = sweep_all(inside, window, call.argument_at(2, "window_strides"), call.argument_at(3, "padding"), *dilations)
    found = dict(zip(spatial, swept, strict=True))
    found |= {"N": sizes["N"], "C": multiply_size(sizes["C"], count_entries(window))}
    return computed_array(call, [array], tuple(found.get(one) for one in letters[2]), array.dtype)


# pooling


def pooled_shape(array: Layout, window: Value, steps: Value, padding: Value, before: int, after: int) -> Shape | None:
    """The shape after pooling all dimensions but some first and last ones; None where the rank is not known."""
    if array.shape is None or len(array.shape) < before + after:
        return None
    last = len(array.shape) - after
    middle = array.shape[before:last]
    swept = sweep_all(middle, numbers_of(window, len(middle)), steps, padding)
    return (*array.shape[:before], *swept, *array.shape[last:])


@register_function("jax.lax reduce_window")
def reduce_window(call: Call) -> Value:
    """A number for each place of a window."""
    array = layout_as_array(call.argument_at(0, "operand"))
    plain = not call.has_argument(6, "base_dilation") and not call.has_argument(7, "window_dilation")
    window, steps = call.argument_at(3, "window_dimensions"), call.argument_at(4, "window_strides")
    shape = pooled_shape(array, window, steps, call.argument_at(5, "padding"), 0, 0) if plain else None
    return computed_array(call, [array], shape, array.dtype)


_HOMES = ("flax.linen", "flax.nnx")


@register_function(
    *(f"{home} max_pool avg_pool min_pool pool" for home in _HOMES),
    "flax.linen.pooling max_pool avg_pool pool",
)
def pool_windows(call: Call) -> Value:
    """Pooling of the dimensions before the last one, as many as the window has."""
    general = call.function_name == "pool"
    array, window = (
        layout_as_array(call.argument_at(0, "inputs")),
        call.argument_at(3 if general else 1, "window_shape"),
    )
    steps = call.argument_at(4 if general else 2, "strides", None)
    padding = call.argument_at(5 if general else 3, "padding", "VALID")
    sizes = sizes_of(window)
    if array.rank is None or sizes is None or array.rank < len(sizes) + 1:
        return computed_array(call, [array], None, array.dtype)
    before = array.rank - len(sizes) - 1
    return computed_array(call, [array], pooled_shape(array, window, steps, padding, before, 1), array.dtype)


# images


@register_function("jax.image resize scale_and_translate")
def resize_image(call: Call) -> Value:
    """An image of another size."""
    array, sizes = layout_as_array(call.argument_at(0, "image")), sizes_of(call.argument_at(1, "shape"))
    return computed_array(call, [array], sizes, array.dtype if "float" in (array.dtype or "") else None)


