"""Linear algebra and Fourier transforms of jax and numpy: decompositions of matrices, and sizes of spectra."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape, Size, multiply_size
from shardlint.layouts.values import Call, Unknown, Value, known_items
from shardlint.libraries.jax_numpy import add_sizes, place_by_module, size_of
from shardlint.libraries.jax_products import check_matrix
from shardlint.libraries.jax_slices import compute_resized, record_gather
from shardlint.libraries.meeting import NEWEST_CHANGE, computed_array, is_recent, layout_as_array, spec_entry
from shardlint.libraries.registry import register_function

_HOMES = ("jax.numpy.linalg", "numpy.linalg", "jax.scipy.linalg", "jax.lax.linalg")
_OF_NUMPY = ("jax.numpy", "numpy")


def _float_dtype_of(array: Layout) -> str | None:
    return array.dtype if array.dtype is not None and "float" in array.dtype else None


def _make_matrix_result(
    call: Call, arrays: list[Layout], shape: Shape | None, dtype: str | None = None
) -> Layout:
    """One result of a function of matrices."""
    check_matrix(call, arrays[-1])
    found = computed_array(call, arrays, shape, _float_dtype_of(arrays[0]) if dtype is None else dtype)
    return place_by_module(call, found)


def _split_matrix_shape(array: Layout) -> tuple[Shape, Size, Size] | None:
    """The dimensions of a batch of matrices, and their rows and columns; None of anything else."""
    if array.shape is None or len(array.shape) < 2:
        return None
    return array.shape[:-2], array.shape[-2], array.shape[-1]


def _smaller_size(one: Size, two: Size) -> Size:
    return min(one, two) if isinstance(one, int) and isinstance(two, int) else one if one == two else None


@register_function(*(f"{home} qr" for home in _HOMES))
def qr_factors(call: Call) -> Value:
    """An orthogonal and a triangular matrix."""
    array = layout_as_array(call.argument_at(0, "a"))
    parts, mode = _split_matrix_shape(array), call.keywords.get("mode", "reduced")
    numpy = ".numpy." in f".{call.name}"
    if not numpy or mode not in ("reduced", "complete", "r") or len(call.args) > 1:
        return (
            (_make_matrix_result(call, [array], None), _make_matrix_result(call, [array], None))
            if mode != "r"
            else _make_matrix_result(call, [array], None)
        )
    if parts is None:
        return (
            (_make_matrix_result(call, [array], None),) * 2
            if mode != "r"
            else _make_matrix_result(call, [array], None)
        )
    batch, rows, columns = parts
    inner = rows if mode == "complete" else _smaller_size(rows, columns)
    triangular = _make_matrix_result(call, [array], (*batch, inner, columns))
    return (
        triangular if mode == "r" else (_make_matrix_result(call, [array], (*batch, rows, inner)), triangular)
    )


@register_function(*(f"{home} svd" for home in _HOMES[:3]))
def singular_values(call: Call) -> Value:
    """Two orthogonal matrices, and the singular values between them."""
    array = layout_as_array(call.argument_at(0, "a"))
    parts, full, vectors = (
        _split_matrix_shape(array),
        call.argument_at(1, "full_matrices", True),
        call.argument_at(2, "compute_uv", True),
    )
    if parts is None or not isinstance(full, bool) or not isinstance(vectors, bool):
        return (
            (_make_matrix_result(call, [array], None),) * 3 if vectors is True else Unknown("singular values")
        )
    batch, rows, columns = parts
    inner = _smaller_size(rows, columns)
    values = _make_matrix_result(call, [array], (*batch, inner))
    if not vectors:
        return values
    left = _make_matrix_result(call, [array], (*batch, rows, rows if full else inner))
    return (left, values, _make_matrix_result(call, [array], (*batch, columns if full else inner, columns)))


@register_function(*(f"{home} eigh eigvalsh" for home in _HOMES[:2]))
def eigen_decomposition(call: Call) -> Value:
    """The eigenvalues of symmetric matrices, and their eigenvectors."""
    array = layout_as_array(call.argument_at(0, "a"))
    values = _make_matrix_result(call, [array], array.shape[:-1] if array.shape else None)
    return (
        values if "vals" in call.function_name else (values, _make_matrix_result(call, [array], array.shape))
    )


@register_function(*(f"{home} cholesky matrix_power" for home in _HOMES[:3]), "jax.scipy.linalg expm")
def square_matrix(call: Call) -> Value:
    """A matrix of the same size."""
    array = layout_as_array(call.argument_at(0, "a"))
    return _make_matrix_result(call, [array], array.shape)


@register_function(*(f"{home} pinv" for home in _HOMES[:2]))
def pseudo_inverse(call: Call) -> Value:
    """A matrix with rows and columns in place of each other."""
    array = layout_as_array(call.argument_at(0, "a"))
    parts = _split_matrix_shape(array)
    return _make_matrix_result(call, [array], None if parts is None else (*parts[0], parts[2], parts[1]))


@register_function(*(f"{home} det slogdet matrix_rank cond" for home in _HOMES[:2]))
def matrix_determinant(call: Call) -> Value:
    """A number for each matrix; two of `slogdet`."""
    array = layout_as_array(call.argument_at(0, "a"))
    shape = array.shape[:-2] if array.shape is not None and len(array.shape) > 1 else None
    check_matrix(call, array)
    found = place_by_module(call, computed_array(call, [array], shape))
    return (found, found) if call.function_name == "slogdet" else found


@register_function("jax.scipy.linalg solve_triangular cho_solve", "jax.lax.linalg triangular_solve")
def solve_system(call: Call) -> Value:
    """Solutions of the size of the right-hand sides."""
    matrix, sides = call.argument_at(0, "a"), layout_as_array(call.argument_at(1, "b"))
    if isinstance(matrix, tuple) and matrix:
        matrix = matrix[0]
    return place_by_module(
        call, computed_array(call, [sides, layout_as_array(matrix)], sides.shape, _float_dtype_of(sides))
    )


@register_function(*(f"{home} trace" for home in _OF_NUMPY))
def matrix_trace(call: Call) -> Value:
    """The sum of a diagonal: two dimensions go."""
    array = layout_as_array(call.argument_at(0, "a"))
    plain = call.argument_at(2, "axis1", 0) == 0 and call.argument_at(3, "axis2", 1) == 1
    shape = array.shape[2:] if array.shape is not None and plain and len(array.shape) > 1 else None
    return place_by_module(call, computed_array(call, [array], shape, array.dtype if _float_dtype_of(array) else None))


@register_function(*(f"{home} diagonal" for home in _OF_NUMPY))
def take_diagonal(call: Call) -> Value:
    """The entries of a diagonal, along a new last dimension in place of two."""
    array, rank = layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(0, "a")).rank
    one, two = call.argument_at(2, "axis1", 0), call.argument_at(3, "axis2", 1)
    shape: Shape | None = None
    if array.shape is not None and rank and all(isinstance(each, int) and -rank <= each < rank for each in (one, two)):
        gone = (one % rank, two % rank)
        split = next(
            (spec_entry(array, place) for place in gone if array.is_explicit and spec_entry(array, place)),
            None,
        )
        if split:
            record_gather(call, array, split)
        size = (
            _smaller_size(array.shape[gone[0]], array.shape[gone[1]])
            if call.argument_at(1, "offset", 0) == 0
            else None
        )
        shape = (*(each for place, each in enumerate(array.shape) if place not in gone), size)
    return place_by_module(call, computed_array(call, [array], shape, array.dtype))


@register_function("jax.scipy.linalg block_diag")
def block_diagonal(call: Call) -> Value:
    """Matrices along a diagonal."""
    arrays = [layout_as_array(one) for one in call.args] or [Layout()]
    parts = [_split_matrix_shape(one) for one in arrays]
    sizes = [one[1:] for one in parts if one is not None and not one[0]]
    if len(sizes) < len(arrays) or call.open:
        return computed_array(call, arrays, (None, None))
    return computed_array(call, arrays, tuple(add_sizes(list(each)) for each in zip(*sizes, strict=True)))


@register_function(*(f"{home} cov corrcoef" for home in _OF_NUMPY))
def covariance_matrix(call: Call) -> Value:
    """A matrix of all pairs of variables, which are the rows."""
    array = layout_as_array(call.argument_at(0, "m"))
    plain = len(call.args) == 1 and not call.keywords and array.rank == 2 and array.shape is not None
    rows = array.shape[0] if plain and array.shape else None
    shape: Shape | None = (rows, rows) if isinstance(rows, int) and rows > 1 else None
    return place_by_module(call, computed_array(call, [array], shape, None, plain))


# spectra

_FOURIER = ("jax.numpy.fft", "numpy.fft")
_COMPLEX = {"float32": "complex64", "complex64": "complex64", "float64": "complex128", "complex128": "complex128"}
_REAL = {"complex64": "float32", "float32": "float32"}


def _fourier_transform(call: Call) -> Value:
    array, name = layout_as_array(call.argument_at(0, "a")), call.function_name
    several = name[-1] in "2n"
    kind = name.rstrip("2n").replace("ihfft", "rfft")
    if several:
        default: Value = (-2, -1) if name.endswith("2") else None
        axes = call.argument_at(2, "axes", default)
        places = known_items(axes) if axes is not None else tuple(range(array.rank or 0))
        sizes = known_items(call.argument_at(1, "s", ())) or ()
    else:
        places, size = (call.argument_at(2, "axis", -1),), call.argument_at(1, "n", None)
        sizes = () if size is None else (size,)
    rank = array.rank or 0
    known = places is not None and all(isinstance(one, int) and -rank <= one < rank for one in places)
    dtype = _REAL.get(array.dtype or "") if kind in ("irfft", "hfft") else _COMPLEX.get(array.dtype or "")
    dtype = None if call.name.startswith("numpy.") else dtype
    if array.shape is None or not known or not places or (sizes and len(sizes) != len(places)):
        return place_by_module(call, computed_array(call, [array], None, dtype))
    shape = list(array.shape)
    for place, wanted in zip(places, sizes, strict=False):
        shape[place] = size_of(wanted)
    last = places[-1]
    length = shape[last]
    if kind == "rfft":
        shape[last] = length // 2 + 1 if isinstance(length, int) else None
    elif kind in ("irfft", "hfft") and not sizes:
        doubled = multiply_size(2, length)
        shape[last] = doubled - 2 if isinstance(doubled, int) else None
    return place_by_module(call, compute_resized(call, array, tuple(shape), dtype))


for _home in _FOURIER:
    register_function(f"{_home} fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn")(
        _fourier_transform
    )


@register_function(*(f"{home} fftshift ifftshift" for home in _FOURIER))
def shift_halves(call: Call) -> Value:
    """An array with its halves in the other order."""
    array = layout_as_array(call.argument_at(0, "x"))
    whole = is_recent(call, NEWEST_CHANGE) and not call.has_argument(1, "axes")
    return place_by_module(call, computed_array(call, [array], array.shape, array.dtype, whole))


@register_function(*(f"{home} fftfreq rfftfreq" for home in _FOURIER))
def sample_frequencies(call: Call) -> Value:
    """The frequencies of a spectrum."""
    count = size_of(call.argument_at(0, "n"))
    if call.function_name == "rfftfreq":
        count = count // 2 + 1 if isinstance(count, int) else None
    return replace(place_by_module(call, computed_array(call, [layout_as_array(0)], (count,))), dtype=None)
