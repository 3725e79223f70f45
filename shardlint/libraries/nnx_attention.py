"""flax NNX: attention, as projections of its inputs and of what comes of them."""

from __future__ import annotations

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import Call, Library, Unknown, Value
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.nnx_objects import HOME, Object
from shardlint.libraries.registry import register_function

_POSITIONAL = "num_heads in_features qkv_features out_features num_kv_heads in_kv_features"
# What projections are given of the options of the attention.
_SHARED = ("dtype", "param_dtype", "kernel_init", "bias_init", "use_bias", "kernel_metadata", "bias_metadata", "rngs")


def _attend_with_layer(call: Call, layer: Object) -> Value:
    """The result of the last projection: like the queries, with the features that go out."""
    inputs = layout_as_array(call.argument_at(0, "inputs_q"))
    size = layer.setting_value("out_features", None)
    features = size if isinstance(size, int) else None
    return Layout((*inputs.shape[:-1], features) if inputs.shape else None)


@register_function(f"{HOME} MultiHeadAttention")
def make_attention(call: Call) -> Value:
    """Attention with its projections `query`, `key`, `value` and `out`."""
    names = _POSITIONAL.split()
    if call.open or len(call.args) > 4:
        return Unknown("a layer")
    given = {**dict(zip(names, call.args, strict=False)), **call.keywords}
    heads, inside = given.get("num_heads"), given.get("in_features")
    inner = given.get("qkv_features") or inside
    out, keys = given.get("out_features") or inside, given.get("in_kv_features") or inside
    groups = given.get("num_kv_heads") or heads
    known = isinstance(heads, int) and isinstance(inner, int) and heads > 0
    size: Value = inner // heads if known and isinstance(inner, int) and isinstance(heads, int) else Unknown("a size")
    made = Object(
        None,
        {**given, "out_features": out},
        region=call.interpreter.region,
        kind="MultiHeadAttention",
        apply=_attend_with_layer,
    )
    made.attributes.pop("rngs", None)
    shared: dict[str, Value] = {name: given[name] for name in _SHARED if name in given}

    def make_projection(inputs: Value, outputs: Value, **more: Value) -> Value:
        general, fields = Library(f"{HOME}.LinearGeneral"), {**shared, **more}
        return call.interpreter.call_value(general, (inputs, outputs), fields, call.place)

    made.attributes["query"] = make_projection(inside, (heads, size))
    made.attributes["key"] = make_projection(keys, (groups, size))
    made.attributes["value"] = make_projection(keys, (groups, size))
    if given.get("normalize_qk", False) is not False:
        norms: dict[str, Value] = {name: shared[name] for name in ("dtype", "param_dtype", "rngs") if name in shared}
        for name in ("query_ln", "key_ln"):
            made.attributes[name] = call.interpreter.call_value(
                Library(f"{HOME}.LayerNorm"), (size,), {**norms, "use_bias": False}, call.place
            )
    last = {name: given[f"out_{name}"] for name in ("kernel_init", "bias_init", "kernel_metadata", "bias_metadata")
            if given.get(f"out_{name}") is not None}  # fmt: skip
    made.attributes["out"] = make_projection((heads, size), out, axis=(-2, -1), **last)
    if given.get("dropout_rate", 0.0) != 0.0:
        made.attributes["rngs"] = Unknown("a stream of keys")
    return made


