"""The errors of jax, and of what is built on it, that are recognised, and the rules whose findings explain each.

A pattern is searched in `TypeName: message` and holds for jax 0.4.38 to 0.12. Its groups named `word` are what the
message is about: a finding that does not say the same word is about something else.
"""

from __future__ import annotations

from dataclasses import dataclass

# What takes, removes or renames a name, whatever the name.
_NAMES = ("SL513", "SL654", "SL901", "SL902", "SL905", "SL906", "SL907")
_KEYWORDS = ("SL101", "SL102", "SL422", "SL514", "SL903")
_EXPLICIT = ("SL307", "SL313", "SL314", "SL353")
_SPECS = ("SL303", "SL229", "SL419")
_NEEDS_ROWS = "{callee} needs one row per device of each array that it maps"
_MAKE_ROWS = "for a batch write x.reshape(devices, -1, *x.shape[1:]), for a state flax.jax_utils.replicate(state)"


@dataclass(frozen=True)
class Kind:
    """A kind of error: `codes` are the rules that predict it."""

    name: str
    pattern: str
    codes: tuple[str, ...] = ()
    exact: bool = False
    """Many other mistakes raise the same: only a finding on a line of the traceback explains it."""
    in_pmap: bool = False
    """Only of what `pmap` raised itself, which newer releases say in the words of jit and shard_map."""
    live: bool = False
    """The values of the call say more than a finding does."""
    confirms: tuple[str, ...] = ()
    """Rules that say no more than what the error shows to be so: wherever in its files such a finding lies."""
    says: str = ""
    """The mistake, with {callee}, {word} and {array}: the first array of the call that jax looked at."""
    help: str = ""
    """What to write."""


KINDS = (
    Kind(
        "pmap-axis",
        r"pmap (?:got inconsistent sizes|was requested to map)|input to pmapped function must equal"
        r"|requires \d+ logical devices, but .*num_replicas=|Specified axis_size \d+ doesn't match",
        ("SL419", "SL308"),
        live=True,
        says=_NEEDS_ROWS,
        help=_MAKE_ROWS,
    ),
    Kind(
        "pmap-axis",
        r"pytree key path flat_args|cannot select an axis to squeeze out|tuple index out of range"
        r"|vmap (?:got inconsistent sizes|was requested to map)",
        ("SL419", "SL308"),
        live=True,
        says=_NEEDS_ROWS,
        help=_MAKE_ROWS,
        in_pmap=True,
    ),
    Kind(
        "incompatible-devices",
        r"Received incompatible devices for |incompatible device(?:s| order|_assignment)",
        ("SL109",),
    ),
    Kind("keywords", r"does not support kwargs when in_shardings", ("SL211",)),
    Kind(
        "in-shardings",
        r"in_shardings specification must be a tree prefix|pytree structure error[^\n]*\n *pjit in_shardings",
        ("SL210", "SL212", "SL320"),
        says="in_shardings does not have the structure of the arguments of {callee}",
        help="write one entry for each argument, in their order, and none for static arguments",
    ),
    Kind(
        "out-shardings",
        r"out_shardings specification must be a tree prefix|pytree structure error[^\n]*\n *pjit out_shardings",
        ("SL210", "SL212", "SL320"),
        says="out_shardings does not have the structure of the result of {callee}",
        help="write one entry for each result, or one sharding for all",
    ),
    Kind(
        "map-specs",
        r"pytree structure error[^\n]*\n *(?:shard_map|pmap|vmap) (?:in|out)_(?:specs|axes)"
        r"|(?:in|out)_(?:specs|axes) (?:specification|value|must|is not) [^\n]*(?:tree prefix|structure)"
        r"|shard_map in_specs(?! argument)",
        ("SL405", "SL420", "SL320", "SL417"),
        says="the specs of {callee} do not have the structure of its arguments or results",
        help="write one spec for each argument and result, in their order, or one for all",
    ),
    Kind(
        "result-varies",
        r"out_specs entry which (?:implies|requires) .{0,40}replicat|out_specs which require replication"
        r"|out_specs.{0,200}(?:varying|replication)",
        ("SL402",),
        says="the result can differ on each device along an axis that out_specs leaves out",
        help="write jax.lax.psum or pmean over that axis, or name the axis in out_specs",
    ),
    Kind(
        "jit-sharding-differs", r"Sharding passed to (?:jit|pjit) does not match the sharding", ("SL213",),
        says="{callee} does not move {array}, whose sharding differs from in_shardings",
        help="write jax.device_put({array}, sharding) before the call, or None for this argument in in_shardings",
    ),
    Kind(
        "spec-rank",
        r"only valid for values of rank at least|Length of sharding\.spec|_specs entry which is too long|"
        r"spec.{0,40}longer than|ndim.{0,60}must be (?:greater|at least).{0,80}(?:spec|partition)",
        _SPECS,
        says="a spec has more entries than its array has dimensions",
        help="write at most one entry for each dimension, and P() for a scalar",
    ),
    Kind(
        "indivisible",
        r"IndivisibleError|implies that (?:the global size of its dimension|array axis \d+ is partitioned)"
        r"|scatter dimension size \d+ must|all_to_all split_axis"
        r"|axis sizes that are not evenly divisible|should evenly divide the shape",
        ("SL216", "SL654"),
        says="the devices along a mesh axis do not divide a dimension",
        help="pad the dimension, or shard another one",
    ),
    Kind(
        "unbound-axis", r"unbound axis name: (?P<word>\w+)", ("SL406",),
        says="no axis {word!r} is bound when {callee} is traced",
        help="call it under jax.shard_map over a mesh with the axis {word!r}, or jax.vmap(..., axis_name={word!r})",
    ),
    Kind(
        "axis-not-in-mesh",
        r"Resource axis: (?P<word>\S+) of .* (?:is not found in mesh|mesh)|Axis (?P<word2>\S+) of .* not found in mesh"
        r"|Resource axis .* undefined",
        ("SL301", "SL306", "SL316", "SL505", "SL510"),
        says="the mesh has no axis {word!r}: its axes are {mesh_axes}",
    ),
    Kind(
        "duplicate-axis",
        r"duplicate entries for `(?P<word>\w+)`|map every mesh axis to at most one positional dimension"
        r"|DuplicateSpecError",
        ("SL302", "SL518"),
        says="a spec uses {word!r} for more than one dimension",
        help="use {word!r} for one dimension, and None for the others",
    ),
    Kind("donated-twice", r"[Aa]ttempt to donate the same buffer twice|f\(donate\(a\), (?:donate\()?a\)+", ("SL221",)),
    Kind(
        "deleted",
        r"(?:Array|[Bb]uffer) has been deleted|buffer has been deleted or donated", ("SL220", "SL106"),
        says="{callee} gets an array whose buffer an earlier call donated or deleted",
        help="use the result of that call; to keep the array, donate jnp.copy({deleted}), or do not donate it",
    ),
    Kind(
        "leaked", r"UnexpectedTracerError", ("SL653",),
        says="a tracer is used after its trace has ended: traced code stored it",
        help="return it from the traced function, and use the result of the call",
    ),
    Kind(
        "no-mesh",
        r"requires a non-empty mesh|non-empty mesh in context|set a mesh via `?jax\.|An auto mesh context or metadata"
        r"|must be called (?:with|under) .*mesh|[Cc]ontext mesh cannot be empty"
        r"|[Nn]o mesh (?:is )?(?:set|in context|found)|not under a mesh context|out_shardings which are non-None",
        ("SL214", "SL233", "SL502"),
        says="no mesh is in context, and a PartitionSpec names none",
        help="write `with jax.set_mesh(mesh):` around the call, or pass NamedSharding(mesh, spec)",
    ),
    Kind("mesh-in-jit", r"`?(?:set_mesh|use_mesh)`? can only be used outside of", ("SL310",)),
    Kind(
        "carry-varies",
        r"carry.{0,600}(?:varying|manual axis types|\{V:)|branches.{0,600}(?:varying|\{V:)",
        says="{callee} starts with a value that is equal on all devices, and gets back one that varies along {axes}",
        help="write jax.lax.pcast({start}, {axes}, to='varying') as the first value",
    ),
    Kind(
        "carry-layout",
        r"(?:carry|branches).{0,600}\w@\w",
        says="{callee} starts with one layout, and its function returns another",
        help="write jax.sharding.reshard(result, spec) in the function, with the spec of the first value",
    ),
    Kind(
        "manual-axis",
        r"of type `Manual`|should be of type Manual|manual (?:mesh )?ax[ei]s|[Aa]xis.{0,40}is also found in manual_axes"
        r"|can(?:not| only) refer to .{0,30}[Mm]anual|refer to (?:Auto|manual) ax.{0,80}Manual",
        ("SL413",),
    ),
    Kind(
        "contraction",
        r"Contracting dimensions are sharded",
        _EXPLICIT,
        says="{callee} contracts a dimension that both operands shard: the layout of the result is ambiguous",
        help="write jnp.matmul(..., out_sharding=P(...)), or jnp.einsum(..., out_sharding=P(...))",
    ),
    Kind(
        "gather",
        r"Use `\.at\[\.\.\.\]\.(?P<how>get|set)",
        _EXPLICIT,
        says="the layout of the result of {callee} is ambiguous",
        help="write {array}.at[...].get(out_sharding=P(...)); for an update pass out_sharding= to set or add",
    ),
    Kind(
        "layouts-differ",
        r"produces an illegally sharded result|incompatible shardings for broadcasting"
        r"|dimensions to have the same sharding|(?:should|must) have (?:the same|equal) (?:\w+ )?sharding"
        r"|have the same sharding as|must be equal to update"
        r"|Incompatible types for [^\n]*\w@\w|should be sharded the same",
        _EXPLICIT,
        says="{callee} combines dimensions that are sharded differently",
        help="write jax.sharding.reshard({other}, {spec}) first, so that both have one layout",
    ),
    Kind(
        "dimension-sharded",
        r"(?:should|must|cannot|can't) be (?:unsharded|replicated|fully replicated|sharded)"
        r"|over sharded axes|on sharded dims",
        _EXPLICIT,
        says="{callee} needs an unsharded dimension, and {array} shards it",
        help="write jax.sharding.reshard({array}, P(...)) first, with None for that dimension",
    ),
    Kind(
        "result-layout",
        r"reshape is not supported|Please (?:pass|specify)[^\n]* `out_sharding` (?:param|arg)",
        _EXPLICIT,
        says="the layout of the result of {callee} is ambiguous",
        help="write out_sharding=P(...), or reshard {array} first with jax.sharding.reshard",
    ),
    Kind(
        "unreduced",
        r"cannot accept inputs? that (?:is|are) unreduced|cannot be unreduced|is unreduced while",
        _EXPLICIT,
        says="{array} holds partial sums, and {callee} needs their total",
        help="write jax.sharding.reshard({array}, P(...)) first: a spec without unreduced adds them up",
    ),
    Kind(
        "out-sharding-type",
        r"cannot contain axis names that are of type",
        _EXPLICIT,
        says="out_sharding names an axis of the mesh that is not Explicit",
        help="make the mesh with axis_types=(AxisType.Explicit,) * len(axes), or use jax.lax.with_sharding_constraint",
    ),
    Kind(
        "in-specs-differ",
        r"does not match the specs of the input",
        ("SL353",),
        says="in_specs differs from the layout of the argument of {callee}",
        help="remove in_specs, or write jax.sharding.reshard({array}, spec) first",
    ),
    Kind(
        "memories-differ",
        r"memory_space of all inputs",
        says="{callee} combines arrays in different memories",
        help="write jax.device_put({other_memory}, jax.memory.Space.Device) first",
    ),
    Kind(
        "memory-kind",
        r"Memory kinds passed to",
        says="{array} is in another memory than in_shardings names",
        help="write jax.device_put({array}, sharding) first",
    ),
    Kind(
        "partition-name",
        r"PartitioningUnspecifiedError|\"partition_name\" is not specified",
        says="{callee} stacks annotated variables along a new axis, and nothing names that axis",
        help="write metadata_params={{nn.PARTITION_NAME: None}} in nn.scan or nn.vmap; in nnx, "
        "transform_metadata={{nnx.PARTITION_NAME: None}}",
    ),
    Kind(
        "traced-layout",
        r"'(?:sharding|addressable_shards)' attribute is not available"
        r"|The (?:addressable_data|is_deleted)\(\) method was called"
        r"|The (?:global_shards|is_fully_addressable|is_fully_replicated) property was called",
        ("SL208",),
        says="{array} is traced: its layout on the devices is not known yet",
        help="on Explicit axes write jax.typeof({array}).sharding; on others read it outside of the traced function",
    ),
    Kind(
        "spec-axes",
        r"partitions cannot overlap|argument (?:to|of) PartitionSpec (?:cannot|should)|reduced cannot contain None",
        says="{callee} names an axis twice, or its unreduced and reduced are not sets of axis names",
        help="write P('data', unreduced={{'model'}})",
    ),
    Kind(
        "vmap-dimension",
        r"vmap was requested to map its argument|must be passed at least one argument containing an array",
        says="{callee} maps a dimension that its arguments do not have",
        help="write None in in_axes for an argument that is not mapped, or pass axis_size",
    ),
    Kind(
        "axes-type",
        r"(?:in|out)_axes must be an int|`in_axes` and `out_axes` must consist",
        ("SL417", "SL420"),
        says="in_axes and out_axes of {callee} take integers, None, and trees of these",
        help="write the position of the dimension: 0 for the first",
    ),
    Kind(
        "constraint-explicit",
        r"can only refer to (?:Auto|Explicit) axes|`with_sharding_constraint` acts as an assert"
        r"|You probably meant to use `reshard`",
        _EXPLICIT,
        confirms=("SL307",),
        says="the axes of this mesh are Explicit, and a constraint does not apply to them",
        help="write jax.sharding.reshard({array}, spec); or make the mesh with axis_types=(AxisType.Auto,) * len(axes)",
    ),
    Kind(
        "explicit-axes",
        r"should be (?:Auto|Explicit)"
        r"|ShardingTypeError|axes of type Explicit",
        _EXPLICIT,
        confirms=("SL307",),
    ),
    Kind(
        "mesh-differs",
        r"[Cc]ontext mesh .* should match|Mesh for all inputs should be equal|mesh .* should match the mesh"
        r"|Conflicting meshes received|got incompatible mesh|(?:Mesh of both lhs and rhs|Mesh shape of the input)"
        r"|must match the mesh passed|should have the same mesh",
        says="{callee} gets two meshes: the mesh of its arguments and the mesh in context must be the same",
        help="make the mesh once, and use it for `jax.set_mesh` and for every NamedSharding",
    ),
    Kind("backend-first", r"jax\.distributed\.initialize\(\) must be called before", ("SL803", "SL309")),
    Kind(
        "mesh-shape",
        r"Mesh requires the ndim of its first argument|Number of devices \d+ (?:must|should|>=)"
        r"|must equal the product of|mesh_shape and axis_names|axis_shapes.{0,60}axis_names|number of axis_types",
        ("SL304", "SL308"),
        says="the sizes of the mesh do not fit its devices or its axis names",
        help="write one name for each size, and sizes whose product is the number of devices",
    ),
    Kind(
        "devices-reshaped",
        r"cannot reshape array of (?:size|shape) [^\n]* into shape",
        ("SL308",),
        exact=True,
    ),
    Kind(
        "too-few-devices",
        r"requires \d+ (?:logical )?devices, but only|requires number of .*replicas|compiling computation that"
        r" requires",
        ("SL308", "SL419"),
    ),
    Kind(
        "not-a-sharding",
        r"(?:leaf specifications|leaves?) .{0,30}expected to be PartitionSpec|must be (?:a |an )?(?:instance of )?"
        r"(?:`?jax\.sharding\.)?Sharding|NamedSharding.*[Ii]nvoked with types|is not a valid JAX (?:array"
        r" )?type.*Sharding"
        r"|must be a pytree of `jax.sharding.PartitionSpec`|should be an instance of `jax.sharding"
        r"|only accepts `None`, `jax.sharding"
        r"|requires ndarray or scalar arguments, got <class '\S*Sharding|'[\w.]*' object has no attribute "
        r"'(?:_internal_device_list|partitions|_partitions|_device_assignment|_is_concrete|device_set|addressable_devices)'",
        ("SL218", "SL305", "SL306", "SL318", "SL319", "SL326", "SL327"),
        says="{callee} takes a sharding, and gets a value that is not one",
        help="write NamedSharding(mesh, P(...))",
    ),
    Kind(
        "not-addressable",
        r"non-?addressable",
        ("SL807", "SL808", "SL812", "SL815"),
        says="{callee} reads the values of an array of which other processes hold a part",
        help="gather it on all processes: multihost_utils.process_allgather({array}, tiled=True); "
        "or read the addressable_shards of each process",
    ),
    Kind(
        "jit-keyword",
        r"`?(?:jit|pmap)kwargs`? cannot contain|donate=\.\.\.\)` must be one of",
        ("SL101", "SL102", "SL228"),
        says="{callee} does not take this keyword or value",
        help="to donate, write donate='all'; remove keywords that it sets itself",
    ),
    Kind(
        "not-an-array",
        r"as an abstract array|is not a valid JAX type",
        ("SL103", "SL110", "SL108", "SL405", "SL417"),
    ),
    Kind("name-removed", r"cannot import name '(?P<word>\w+)' from '(?:jax|equinox|flax|haliax|optax)", _NAMES),
    Kind("name-removed", r"No module named '(?:jax|flax|equinox|haliax)\.(?:[\w.]*\.)?(?P<word>\w+)'", _NAMES),
    Kind(
        "name-removed",
        r"(?:[Mm]odule '?(?:jax|flax|equinox|haliax)[\w.]*'? has no attribute '(?P<word>\w+)'"
        r"|AttributeError: (?:jax|flax|equinox)[\w.]*\.(?P<word2>\w+) (?:is|was|has been) (?:deprecated|removed))",
        _NAMES,
    ),
    Kind(
        "attribute-removed",
        r"AttributeError: '(?:ArrayImpl|\w*Tracer)' object has no attribute '(?P<word>\w+)'", _NAMES),
    Kind(
        "keyword-not-taken",
        r"TypeError: .*unexpected keyword argument '(?P<word>\w+)'", (*_KEYWORDS, "SL228", "SL308")),
    Kind(
        "too-many-arguments",
        r"TypeError: .*takes .* positional argument", ("SL228", "SL236", "SL514", "SL405", "SL420"), exact=True),
    Kind("call-does-not-fit", r"TypeError: \w+\(\) missing \d+ required", ("SL236",), exact=True),
    Kind("einshard", r"Cannot parse einshard expression", ("SL651",)),
    Kind(
        "donate-names",
        r"static_arg\w+ and donate_arg\w+ cannot intersect|donate_arg\w+ .*(?:out of|not in)", ("SL222",)),
    Kind("filter-spec", r"`filter_spec` must consist of booleans", ("SL603",)),
    Kind("attribute-removed", r"arr\.(?P<word>\w+) has been deprecated", _NAMES),
    Kind("sharding-arguments", r"incompatible function arguments.*spec: ", ("SL305", "SL319", "SL327", "SL306")),
    Kind(
        "read-as-one",
        r"truth value of an array|only (?:length-1|size-1|integer scalar) arrays can|setting an array element",
        ("SL416",),
        exact=True,
    ),
    Kind(
        "wrong-argument",
        r"unhashable type: |'NoneType' object (?:is not|has no)|'\w+' object (?:is not (?:iterable"
        r"|subscriptable|callable)"
        r"|has no attribute)|not supported between instances of",
        ("SL108", "SL327", "SL319", "SL815", "SL320"),
        exact=True,
    ),
    Kind("none-among", r"pytree structure error.*NoneType|Expected None, got ", ("SL320",), exact=True),
    Kind("missing-axis", r"KeyError: '(?P<word>\w+)'", ("SL316", "SL301", "SL306"), exact=True),
)  # fmt: skip
