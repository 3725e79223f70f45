"""The errors of jax, and of what is built on it, that are recognised, and the rules whose findings explain each.

A pattern is searched in `TypeName: message` and holds for jax 0.4.38 to 0.12. Its groups named `word` are what the
message is about: a finding that does not say the same word is about something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from shardlint.run.raised.record import Error

# What takes, removes or renames a name, whatever the name.
_NAMES = ("SL513", "SL654", "SL901", "SL902", "SL905", "SL906", "SL907")
_KEYWORDS = ("SL101", "SL102", "SL422", "SL514", "SL903")
_SPECS = ("SL303", "SL229", "SL419")


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
    ),
    Kind(
        "pmap-axis",
        r"pytree key path flat_args|cannot select an axis to squeeze out|tuple index out of range"
        r"|vmap (?:got inconsistent sizes|was requested to map)",
        ("SL419", "SL308"),
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
    ),
    Kind(
        "out-shardings",
        r"out_shardings specification must be a tree prefix|pytree structure error[^\n]*\n *pjit out_shardings",
        ("SL210", "SL212", "SL320"),
    ),
    Kind(
        "map-specs",
        r"pytree structure error[^\n]*\n *(?:shard_map|pmap|vmap) (?:in|out)_(?:specs|axes)"
        r"|(?:in|out)_(?:specs|axes) (?:specification|value|must|is not) [^\n]*(?:tree prefix|structure)"
        r"|shard_map in_specs|(?:pmap|vmap) in_axes must be",
        ("SL405", "SL420", "SL320", "SL417"),
    ),
    Kind(
        "result-varies",
        r"out_specs entry which (?:implies|requires) .{0,40}replicat|out_specs which require replication"
        r"|out_specs.{0,200}(?:varying|replication)",
        ("SL402",),
    ),
    Kind("jit-sharding-differs", r"Sharding passed to (?:jit|pjit) does not match the sharding", ("SL213",)),
    Kind(
        "spec-rank",
        r"only valid for values of rank at least|_specs entry which is too long|spec.{0,40}longer than|"
        r"ndim.{0,60}must be (?:greater|at least).{0,80}(?:spec|partition)",
        _SPECS,
    ),
    Kind(
        "indivisible",
        r"IndivisibleError|implies that (?:the global size of its dimension|array axis \d+ is partitioned)"
        r"|axis sizes that are not evenly divisible|should evenly divide the shape",
        ("SL216", "SL654"),
    ),
    Kind("unbound-axis", r"unbound axis name: (?P<word>\w+)", ("SL406",)),
    Kind(
        "axis-not-in-mesh",
        r"Resource axis: (?P<word>\S+) of .* (?:is not found in mesh|mesh)|Axis (?P<word2>\S+) of .* not found in mesh"
        r"|Resource axis .* undefined",
        ("SL301", "SL306", "SL316", "SL505", "SL510"),
    ),
    Kind(
        "duplicate-axis",
        r"map every mesh axis to at most one positional dimension|DuplicateSpecError",
        ("SL302", "SL518"),
    ),
    Kind("donated-twice", r"[Aa]ttempt to donate the same buffer twice|f\(donate\(a\), (?:donate\()?a\)+", ("SL221",)),
    Kind(
        "deleted",
        r"(?:Array|[Bb]uffer) has been deleted|buffer has been deleted or donated", ("SL220", "SL106")),
    Kind("leaked", r"UnexpectedTracerError", ("SL653",)),
    Kind(
        "no-mesh",
        r"requires a non-empty mesh|non-empty mesh in context|set a mesh via `?jax\.|An auto mesh context or metadata"
        r"|must be called (?:with|under) .*mesh|context mesh cannot be empty|no mesh (?:is )?(?:set|in context)",
        ("SL214", "SL233", "SL502"),
    ),
    Kind("mesh-in-jit", r"`?(?:set_mesh|use_mesh)`? can only be used outside of", ("SL310",)),
    Kind(
        "manual-axis",
        r"of type `Manual`|should be of type Manual|manual (?:mesh )?ax[ei]s|[Aa]xis.{0,40}is also found in manual_axes"
        r"|can(?:not| only) refer to .{0,30}[Mm]anual|refer to (?:Auto|manual) ax.{0,80}Manual",
        ("SL413",),
    ),
    Kind(
        "explicit-axes",
        r"can only refer to (?:Auto|Explicit) axes|`with_sharding_constraint` acts as an assert|should be"
        r" (?:Auto|Explicit)|You probably meant to use `reshard`"
        r"|ShardingTypeError|dimension of all xs should be replicated"
        r"|axes of type Explicit|PartitionSpec passed to .* cannot contain axis names that"
        r" are of type",
        ("SL307", "SL313", "SL314"),
        confirms=("SL307",),
    ),
    Kind(
        "mesh-differs",
        r"[Cc]ontext mesh .* should match|Mesh for all inputs should be equal|mesh .* should match the mesh"
        r"|Conflicting meshes received|got incompatible mesh",
        (),
    ),
    Kind("backend-first", r"jax\.distributed\.initialize\(\) must be called before", ("SL803", "SL309")),
    Kind(
        "mesh-shape",
        r"Mesh requires the ndim of its first argument|Number of devices \d+ (?:must|should)|must equal the product of"
        r"|mesh_shape and axis_names|axis_shapes.{0,60}axis_names",
        ("SL304", "SL308"),
    ),
    Kind(
        "devices-reshaped",
        r"cannot reshape array of size \d+ into shape",
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
        r"|requires ndarray or scalar arguments, got <class '\S*Sharding|'[\w.]*' object has no attribute "
        r"'(?:_internal_device_list|partitions|_partitions|_device_assignment|device_set|addressable_devices)'",
        ("SL218", "SL305", "SL306", "SL318", "SL319", "SL326", "SL327"),
    ),
    Kind("not-addressable", r"non-?addressable", ("SL807", "SL808", "SL812", "SL815")),
    Kind("jit-keyword", r"`?jitkwargs`? cannot contain", ("SL101", "SL102", "SL228")),
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


@dataclass(frozen=True)
class Recognised:
    """An error of the chain, what kind it is, and the words it is about."""

    error: Error
    kind: Kind | None
    words: tuple[str, ...] = ()
    releases: Mapping[str, str] = field(default_factory=dict)
    """Of what the program had imported."""


_KNOWN = [(kind, re.compile(kind.pattern, re.DOTALL)) for kind in KINDS]


def recognise(error: Error, releases: Mapping[str, str] | None = None) -> Recognised:
    """Return the kind of an error; of kind None if it is unknown."""
    for kind, pattern in _KNOWN:
        found = pattern.search(error.said) if error.in_pmap or not kind.in_pmap else None
        if found:
            words = tuple(word.strip("'\"`") for word in found.groupdict().values() if word)
            return Recognised(error, kind, words, releases or {})
    return Recognised(error, None)
