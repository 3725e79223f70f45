"""The built-in rules of shardlint. Registered as any pack is: see `shardlint.registry`."""

from pathlib import Path

_here = Path(__file__).parent

RULES = {
    "SL101": "shardlint_rules.equinox.filter_jit_shardings:FilterJitShardings",
    "SL102": "shardlint_rules.equinox.filter_jit_jit_keyword:FilterJitJitKeyword",
    "SL201": "shardlint_rules.jit.device_put_in_jit:DevicePutInJit",
    "SL202": "shardlint_rules.jit.device_in_jit:DeviceInJit",
    "SL203": "shardlint_rules.jit.discarded_placement:DiscardedPlacement",
    "SL214": "shardlint_rules.jit.spec_needs_mesh:SpecNeedsMesh",
    "SL218": "shardlint_rules.jit.device_as_sharding:DeviceAsSharding",
    "SL301": "shardlint_rules.mesh.unknown_axis:UnknownAxis",
    "SL302": "shardlint_rules.mesh.duplicate_axis:DuplicateAxis",
    "SL305": "shardlint_rules.mesh.namedsharding_arguments:NamedShardingArguments",
    "SL306": "shardlint_rules.mesh.spec_string:SpecString",
    "SL901": "shardlint_rules.upgrade.api_removed:ApiRemoved",
    "SL902": "shardlint_rules.upgrade.api_deprecated:ApiDeprecated",
    "SL903": "shardlint_rules.upgrade.keyword_renamed:KeywordRenamed",
}
"""Code to module and class."""

PROOFS = (_here / "proofs", _here.parent.parent / "fixtures")
"""In a wheel the proofs are inside the package; in a checkout they are the top-level fixtures."""
