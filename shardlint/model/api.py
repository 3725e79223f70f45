"""Tables of library names: one canonical name for each object, signatures, and the effects of transforms.

Data only. Where a name was moved between releases, its old spellings lead to the same canonical name, so rules are
written once; rules about the spelling itself (SL9) look at the name as it was written.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from shardlint.source.lazy import dataclass

# Absolute imports of these are always the library, also when the project being checked is the library itself.
LIBRARIES = frozenset(
    "jax jaxlib equinox flax haliax optax orbax einshard numpy chex functools contextlib pytest unittest absl".split()
)

_SPEC = "jax.sharding.PartitionSpec"
_ALIASES = {
    "jax.P": _SPEC,
    "jax.PartitionSpec": _SPEC,
    "jax.experimental.PartitionSpec": _SPEC,
    "jax.experimental.pjit.PartitionSpec": _SPEC,
    "jax.interpreters.pxla.PartitionSpec": _SPEC,
    "jax._src.partition_spec.PartitionSpec": _SPEC,
    "jax.NamedSharding": "jax.sharding.NamedSharding",
    "jax.experimental.pjit.NamedSharding": "jax.sharding.NamedSharding",
    "jax._src.sharding_impls.NamedSharding": "jax.sharding.NamedSharding",
    "jax.sharding.MeshPspecSharding": "jax.sharding.NamedSharding",
    "jax.Mesh": "jax.sharding.Mesh",
    "jax.interpreters.pxla.Mesh": "jax.sharding.Mesh",
    "jax.experimental.maps.Mesh": "jax.sharding.Mesh",
    "jax.experimental.maps.mesh": "jax.sharding.Mesh",
    "jax._src.mesh.Mesh": "jax.sharding.Mesh",
    "jax.sharding.make_mesh": "jax.make_mesh",
    "jax.lax.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax.experimental.pjit.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax._src.pjit.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax._src.api.device_put": "jax.device_put",
    "jax._src.api.jit": "jax.jit",
    "jax.api.jit": "jax.jit",
    "jax.experimental.shard_map.shard_map": "jax.shard_map",
    "jax._src.shard_map.shard_map": "jax.shard_map",
    "jax.smap": "jax.shard_map",
    "torchax.interop.shard_map": "jax.shard_map",  # it imports that of jax
    "jax.sharding.set_mesh": "jax.set_mesh",
    "jax._src.mesh.use_abstract_mesh": "jax.sharding.use_abstract_mesh",
    "jax.sharding.reshard": "jax.reshard",
    "jax.experimental.shard.reshard": "jax.reshard",
    "jax.experimental.shard.auto_axes": "jax.sharding.auto_axes",
    "jax.experimental.shard.explicit_axes": "jax.sharding.explicit_axes",
    "jax.remat": "jax.checkpoint",
    "jax.ad_checkpoint.checkpoint": "jax.checkpoint",
    "jax.tree_map": "jax.tree.map",
    "jax.tree_util.tree_map": "jax.tree.map",
    "jax.tree_util.tree_map_with_path": "jax.tree.map_with_path",
    "jax.experimental.io_callback": "jax.io_callback",
    "jax.experimental.layout.DeviceLocalLayout": "jax.experimental.layout.Layout",
    "equinox.experimental.filter_shard": "equinox.filter_shard",
    "numpy.asarray": "numpy.asarray",
    "haliax.partitioning.named_jit": "haliax.named_jit",
    "haliax.partitioning.axis_mapping": "haliax.axis_mapping",
    "haliax.partitioning.shard": "haliax.shard",
    "haliax.partitioning.auto_sharded": "haliax.auto_sharded",
    "haliax.jax_utils.named_jit": "haliax.named_jit",
    "haliax.partitioning.shard_with_axis_mapping": "haliax.shard",
    "haliax.shard_with_axis_mapping": "haliax.shard",
    "haliax.partitioning.fsdp": "haliax.fsdp",
    "einshard.einshard.einshard": "einshard.einshard",
    "einshard.einshard.make_sharding": "einshard.make_sharding",
}
# Whole modules re-exported under another name.
_PREFIXES = {
    "jax.experimental.pjit.pjit": "jax.experimental.pjit.pjit",
    "flax.experimental.nnx.": "flax.nnx.",
    "flax.nnx.nnx.": "flax.nnx.",
    "flax.nnx.spmd.": "flax.nnx.",
    "flax.linen.spmd.": "flax.linen.",
    "flax.linen.partitioning.": "flax.linen.",
    "haliax.axis.": "haliax.",
    "haliax.core.": "haliax.",
    "haliax.hof.": "haliax.",
    "haliax.ops.": "haliax.",
    "haliax.nn.activations.": "haliax.nn.",
    "haliax.nn.linear.": "haliax.nn.",
    "haliax.nn.embedding.": "haliax.nn.",
    "haliax.nn.normalization.": "haliax.nn.",
}


@cache
def canonical_name(name: str) -> str:
    """The one name shardlint uses for a dotted name of a library."""
    if name in _ALIASES:
        return _ALIASES[name]
    for old, new in _PREFIXES.items():
        if name.startswith(old):
            return new + name[len(old) :]
    return name


# What a project's own jit decorator, named in the settings, is known as.
USER_JIT = "the project's own jit"
USER_MESH = "the project's own mesh"

# What compiles the function that it is given, by whatever library: the one table of them.
JIT_WRAPPERS = (
    "jax.jit",
    "jax.experimental.pjit.pjit",
    "equinox.filter_jit",
    "equinox.internal.filter_jit",
    "flax.nnx.jit",
    "flax.linen.jit",
    "haliax.named_jit",
    "haliax.named_pjit",
    USER_JIT,
)

# What gives a list of devices.
DEVICE_LISTS = ("jax.devices", "jax.local_devices")

SIGNATURES: dict[str, tuple[str, ...]] = {
    "jax.sharding.NamedSharding": ("mesh", "spec"),
    "jax.sharding.Mesh": ("devices", "axis_names", "axis_types"),
    "jax.sharding.AbstractMesh": ("axis_sizes", "axis_names", "axis_types"),
    "jax.sharding.PositionalSharding": ("devices",),
    "jax.sharding.SingleDeviceSharding": ("device",),
    "jax.make_mesh": ("axis_shapes", "axis_names", "axis_types"),
    "jax.device_put": ("x", "device", "src", "donate", "may_alias"),
    "jax.lax.with_sharding_constraint": ("x", "shardings"),
    "jax.reshard": ("xs", "out_shardings"),
    "jax.make_array_from_callback": ("shape", "sharding", "data_callback"),
    "jax.make_array_from_single_device_arrays": ("shape", "sharding", "arrays"),
    "jax.set_mesh": ("mesh",),
    "jax.sharding.use_mesh": ("mesh",),
    "jax.sharding.use_abstract_mesh": ("mesh",),
    "jax.jit": ("fun",),
    "jax.pmap": ("fun", "axis_name"),
    "jax.experimental.pjit.pjit": (
        "fun",
        "in_shardings",
        "out_shardings",
        "static_argnums",
        "static_argnames",
    ),
    "jax.shard_map": ("f", "mesh", "in_specs", "out_specs"),
    "flax.nnx.pmap": ("f",),
    "flax.nnx.Optimizer": ("model", "tx", "wrt"),
    "flax.nnx.ModelAndOptimizer": ("model", "tx", "wrt"),
    "flax.nnx.shard_map": ("f",),
    "equinox.filter_pmap": ("fun",),
    "jax.experimental.mesh_utils.create_device_mesh": ("mesh_shape", "devices"),
    "jax.experimental.mesh_utils.create_hybrid_device_mesh": ("mesh_shape", "dcn_mesh_shape", "devices"),
    "jax.make_array_from_process_local_data": ("sharding", "local_data", "global_shape"),
    "equinox.filter_jit": ("fun",),
    "equinox.filter_shard": ("x", "device_or_shardings"),
    "haliax.shard": ("x", "mapping", "mesh"),
    "haliax.auto_sharded": ("x", "mesh"),
    "haliax.axis_mapping": ("mapping",),
    "haliax.named_jit": ("fn", "axis_resources"),
    "einshard.einshard": ("arr", "expression"),
    "einshard.make_sharding": ("expression",),
    "functools.partial": ("func",),
}


@dataclass(frozen=True)
class Transform:
    """A library function that transforms functions.

    `effect`: `staged` functions run under a tracer whose program is compiled, so placement calls inside do not run;
    `transparent` functions run as their caller does; `host` functions run on the host though their caller is traced;
    `abstract` functions are only traced for their shapes.
    `now`: they are called by this very call (`lax.scan`), not by calling its result (`jit`).
    `functions`: positions or keyword names of the function arguments.
    """

    effect: Literal["staged", "transparent", "host", "abstract"]
    now: bool = False
    functions: tuple[int | str, ...] = (0, "fun", "f", "func", "fn")


_WRAP_STAGED = """
jax.pmap jax.shard_map jax.checkpoint jax.make_jaxpr jax.xla_computation
jax.sharding.auto_axes jax.sharding.explicit_axes jax.experimental.checkify.checkify
equinox.filter_pmap equinox.filter_checkpoint equinox.filter_make_jaxpr
flax.nnx.pmap flax.nnx.shard_map flax.nnx.remat flax.nnx.scan flax.linen.remat
flax.linen.checkpoint flax.linen.scan flax.nnx.checkpoint
haliax.scan haliax.fold haliax.map haliax.nn.scan.Stacked
jax.experimental.maps.xmap
""".split()
_WRAP_TRANSPARENT = """
jax.grad jax.value_and_grad jax.vmap jax.jacfwd jax.jacrev jax.hessian jax.custom_vjp jax.custom_jvp jax.named_call
jax.jacobian jax.tree_util.Partial jax.linear_util.wrap_init jax.closure_convert jax.custom_batching.custom_vmap
equinox.filter_grad equinox.filter_value_and_grad equinox.filter_vmap
equinox.filter_closure_convert equinox.filter_jacfwd
equinox.filter_jacrev equinox.filter_hessian equinox.filter_custom_vjp equinox.filter_custom_jvp equinox.Partial
flax.nnx.grad flax.nnx.value_and_grad flax.nnx.vmap flax.nnx.custom_vjp flax.linen.vmap
flax.linen.grad flax.linen.compact
haliax.vmap haliax.grad haliax.value_and_grad
functools.partial functools.partialmethod functools.lru_cache functools.cache functools.wraps functools.update_wrapper
jaxtyping.jaxtyped typeguard.typechecked beartype.beartype builtins.staticmethod builtins.classmethod builtins.property
functools.cached_property
abc.abstractmethod typing.override typing_extensions.override typing.no_type_check typing.final
jax.named_scope jax.profiler.annotate_function equinox.named_scope contextlib.contextmanager
""".split()
_NOW_STAGED: dict[str, tuple[int | str, ...]] = {
    "jax.lax.scan": (0, "f"),
    "jax.lax.map": (0, "f"),
    "jax.lax.while_loop": (0, 1, "cond_fun", "body_fun"),
    "jax.lax.fori_loop": (2, "body_fun"),
    "jax.lax.cond": (1, 2, "true_fun", "false_fun"),
    "jax.lax.switch": (1, "branches"),
    "jax.lax.custom_root": (0,),
    "jax.lax.custom_linear_solve": (0,),
    "flax.nnx.while_loop": (0, 1),
    "flax.nnx.fori_loop": (2,),
    "flax.nnx.cond": (1, 2),
    "flax.nnx.switch": (1,),
    "equinox.internal.while_loop": (0, 1),
    "equinox.internal.scan": (0,),
}
_NOW_TRANSPARENT: dict[str, tuple[int | str, ...]] = {
    "jax.tree.map": (0, "f"),
    "jax.tree.map_with_path": (0, "f"),
    "jax.linearize": (0,),
    "jax.vjp": (0,),
    "jax.jvp": (0,),
    "equinox.filter_vjp": (0,),
    "equinox.filter_jvp": (0,),
    "jax.lax.associative_scan": (0,),
    "builtins.map": (0,),
    "builtins.filter": (0,),
    "builtins.sorted": ("key",),
    "functools.reduce": (0,),
    "absl.app.run": (0,),
    "equinox.tree_at": (0, "replace_fn"),
}
_NOW_HOST = {
    "jax.pure_callback": (0, "callback"),
    "jax.io_callback": (0, "callback"),
    "jax.debug.callback": (0, "callback"),
    "jax.experimental.host_callback.call": (0,),
    "jax.experimental.host_callback.id_tap": (0,),
    "threading.Thread": ("target",),
    "jax.make_array_from_callback": (2, "data_callback"),
}
_NOW_ABSTRACT = ("jax.eval_shape", "equinox.filter_eval_shape", "flax.nnx.eval_shape", "haliax.eval_shape")

TRANSFORMS: dict[str, Transform] = {
    **{name: Transform("staged") for name in (*JIT_WRAPPERS, *_WRAP_STAGED)},
    **{name: Transform("transparent") for name in _WRAP_TRANSPARENT},
    **{name: Transform("staged", True, where) for name, where in _NOW_STAGED.items()},
    **{name: Transform("transparent", True, where) for name, where in _NOW_TRANSPARENT.items()},
    **{name: Transform("host", True, where) for name, where in _NOW_HOST.items()},
    **{name: Transform("abstract", True) for name in _NOW_ABSTRACT},
}
# Called with no function, these return a decorator: `functools.wraps(f)(g)` concerns g, not f.
DECORATOR_FACTORIES = frozenset({"functools.wraps", "jax.named_scope", "functools.lru_cache"})

# How a mesh enters the context, by the name of the context manager or setter.
MESH_CONTEXTS: dict[str, Literal["set_mesh", "use_mesh", "abstract"]] = {
    "jax.set_mesh": "set_mesh",
    "jax.sharding.use_mesh": "use_mesh",
    "jax.sharding.use_abstract_mesh": "abstract",
    "jax._src.mesh.use_concrete_mesh": "use_mesh",
    "haliax.set_mesh": "set_mesh",
    "haliax.partitioning.set_mesh": "set_mesh",
    "haliax.partitioning.mesh_context": "set_mesh",
}
# Context managers that give themselves when they are entered.
ENTERED = frozenset(
    """
jax.sharding.Mesh jax.make_mesh orbax.checkpoint.CheckpointManager orbax.checkpoint.Checkpointer
orbax.checkpoint.AsyncCheckpointer orbax.checkpoint.PyTreeCheckpointer orbax.checkpoint.StandardCheckpointer
concurrent.futures.ThreadPoolExecutor concurrent.futures.ProcessPoolExecutor
""".split()
) | {USER_MESH}
# Context managers that never set a mesh, so they leave what is known of the context complete.
HARMLESS_CONTEXTS = frozenset(
    """
builtins.open tempfile.TemporaryDirectory tempfile.NamedTemporaryFile contextlib.suppress contextlib.nullcontext
contextlib.redirect_stdout contextlib.redirect_stderr contextlib.closing warnings.catch_warnings
jax.named_scope jax.default_device jax.default_matmul_precision jax.disable_jit
jax.enable_x64 jax.experimental.enable_x64
jax.debug_nans jax.log_compiles jax.transfer_guard jax.profiler.trace jax.profiler.TraceAnnotation
jax.profiler.StepTraceAnnotation jax.ensure_compile_time_eval jax.checking_leaks jax.numpy_rank_promotion
jax.checking_leaks jax.numpy_dtype_promotion jax.threefry_partitionable concurrent.futures.ThreadPoolExecutor
time.perf_counter tqdm.tqdm tqdm.auto.tqdm threading.Lock
pytest.raises pytest.warns numpy.errstate numpy.load
flax.linen.logical_axis_rules flax.linen.axis_rules haliax.axis_mapping
""".split()
)


# Library names that stand for a plain value.
CONSTANTS: dict[str, object] = {
    "haliax.partitioning.ResourceAxis.MODEL": "model",
    "haliax.partitioning.ResourceAxis.DATA": "data",
    "haliax.partitioning.ResourceAxis.REPLICA": "replica",
}


# Names of builtins that star imports of these libraries bind too.
BUILTINS_OF_LIBRARIES = frozenset(
    "abs all any bool complex divmod filter map max min object pow round slice sum".split()
)
_NAMES = frozenset((*_ALIASES, *_ALIASES.values(), *SIGNATURES, *TRANSFORMS, *MESH_CONTEXTS, *HARMLESS_CONTEXTS))


def has_name(module: str, name: str) -> bool:
    """Return whether a module of a library surely has a name. For most names that is unknown."""
    return f"{module}.{name}" in _NAMES


def canonical_spellings() -> list[tuple[str, str]]:
    """Every known old or short spelling with its canonical name."""
    return list(_ALIASES.items())

# Where each collective has its axis.
AXIS_AT = {
    **dict.fromkeys("psum pmean pmax pmin all_gather psum_scatter all_to_all ppermute pshuffle".split(), 1),
    **dict.fromkeys(("pbroadcast", "pvary", "pcast"), 1),
    "axis_index": 0,
    "axis_size": 0,
}
COLLECTIVES = frozenset(f"jax.lax.{name}" for name in AXIS_AT)
