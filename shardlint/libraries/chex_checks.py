"""chex: assertions about arrays, which give nothing."""

from __future__ import annotations

from shardlint.layouts.values import Call, Value
from shardlint.libraries.registry import register_function

_ASSERTIONS = """
assert_shape assert_rank assert_type assert_equal assert_equal_shape assert_equal_rank assert_equal_size
assert_equal_shape_prefix assert_equal_shape_suffix assert_axis_dimension assert_axis_dimension_gt
assert_scalar assert_scalar_positive assert_scalar_negative assert_scalar_non_negative assert_scalar_in
assert_size assert_is_divisible assert_is_broadcastable assert_not_none assert_tree_all_finite
assert_tree_shape_prefix assert_trees_all_close assert_trees_all_equal assert_trees_all_equal_shapes
assert_trees_all_equal_dtypes assert_trees_all_equal_structs assert_tree_has_only_ndarrays
assert_tree_is_on_device assert_tree_is_on_host assert_tree_is_sharded assert_tree_no_nones
assert_exactly_one_is_none assert_devices_available
"""


@register_function(f"chex {_ASSERTIONS}")
def ignore_assertion(call: Call) -> Value:
    """Nothing: what is asserted is not followed."""
    return None
