"""The built-in rules of shardlint. Registered as any pack is: see `shardlint.registry`."""

from pathlib import Path

_here = Path(__file__).parent

RULES = {
    "SL101": "shardlint_rules.equinox.filter_jit_shardings:FilterJitShardings",
    "SL102": "shardlint_rules.equinox.filter_jit_jit_keyword:FilterJitJitKeyword",
    "SL103": "shardlint_rules.equinox.device_put_module:DevicePutModule",
    "SL104": "shardlint_rules.equinox.hand_written_filter_shard:HandWrittenFilterShard",
    "SL105": "shardlint_rules.equinox.weights_become_constants:WeightsBecomeConstants",
    "SL106": "shardlint_rules.equinox.donate_takes_the_weights:DonateTakesTheWeights",
    "SL107": "shardlint_rules.equinox.filter_pmap:FilterPmap",
    "SL108": "shardlint_rules.equinox.jit_of_filtered_transform:JitOfFilteredTransform",
    "SL109": "shardlint_rules.equinox.filter_shard_across_devices:FilterShardAcrossDevices",
    "SL110": "shardlint_rules.equinox.module_through_jax_jit:ModuleThroughJaxJit",
    "SL201": "shardlint_rules.jit.device_put_in_jit:DevicePutInJit",
    "SL202": "shardlint_rules.jit.device_in_jit:DeviceInJit",
    "SL203": "shardlint_rules.jit.discarded_placement:DiscardedPlacement",
    "SL204": "shardlint_rules.jit.jit_init_loses_sharding:JitInitLosesSharding",
    "SL205": "shardlint_rules.jit.optimizer_before_sharding:OptimizerBeforeSharding",
    "SL206": "shardlint_rules.jit.grad_loses_sharding:GradLosesSharding",
    "SL207": "shardlint_rules.jit.sharding_lost_by_shape:ShardingLostByShape",
    "SL208": "shardlint_rules.jit.constraint_to_own_sharding:ConstraintToOwnSharding",
    "SL209": "shardlint_rules.jit.swallowed_sharding_error:SwallowedShardingError",
    "SL210": "shardlint_rules.jit.in_shardings_arity:InShardingsArity",
    "SL211": "shardlint_rules.jit.in_shardings_with_keywords:InShardingsWithKeywords",
    "SL212": "shardlint_rules.jit.in_shardings_counts_static:InShardingsCountsStatic",
    "SL213": "shardlint_rules.jit.in_instead_of_out:InInsteadOfOut",
    "SL214": "shardlint_rules.jit.spec_needs_mesh:SpecNeedsMesh",
    "SL215": "shardlint_rules.jit.identity_of_specs:IdentityOfSpecs",
    "SL216": "shardlint_rules.jit.indivisible_constraint:IndivisibleConstraint",
    "SL217": "shardlint_rules.jit.none_is_not_replicated:NoneIsNotReplicated",
    "SL218": "shardlint_rules.jit.device_as_sharding:DeviceAsSharding",
    "SL220": "shardlint_rules.jit.use_after_donate:UseAfterDonate",
    "SL221": "shardlint_rules.jit.donated_twice:DonatedTwice",
    "SL222": "shardlint_rules.jit.donate_index:DonateIndex",
    "SL223": "shardlint_rules.jit.donation_not_used:DonationNotUsed",
    "SL301": "shardlint_rules.mesh.unknown_axis:UnknownAxis",
    "SL302": "shardlint_rules.mesh.duplicate_axis:DuplicateAxis",
    "SL303": "shardlint_rules.mesh.spec_longer_than_array:SpecLongerThanArray",
    "SL304": "shardlint_rules.mesh.mesh_shape_and_names:MeshShapeAndNames",
    "SL305": "shardlint_rules.mesh.namedsharding_arguments:NamedShardingArguments",
    "SL306": "shardlint_rules.mesh.spec_string:SpecString",
    "SL307": "shardlint_rules.mesh.make_mesh_axis_types:MakeMeshAxisTypes",
    "SL308": "shardlint_rules.mesh.mesh_size_hard_coded:MeshSizeHardCoded",
    "SL309": "shardlint_rules.mesh.devices_in_default:DevicesInDefault",
    "SL310": "shardlint_rules.mesh.context_inside_jit:ContextInsideJit",
    "SL311": "shardlint_rules.mesh.nested_mesh_contexts:NestedMeshContexts",
    "SL312": "shardlint_rules.mesh.mesh_empty_guard:MeshEmptyGuard",
    "SL313": "shardlint_rules.mesh.constraint_on_explicit_mesh:ConstraintOnExplicitMesh",
    "SL314": "shardlint_rules.mesh.mesh_copy_drops_types:MeshCopyDropsTypes",
    "SL315": "shardlint_rules.mesh.legacy_mesh_context:LegacyMeshContext",
    "SL507": "shardlint_rules.flax.nothing_trains:NothingTrains",
    "SL514": "shardlint_rules.flax.nnx_param_call:NnxParamCall",
    "SL901": "shardlint_rules.upgrade.api_removed:ApiRemoved",
    "SL902": "shardlint_rules.upgrade.api_deprecated:ApiDeprecated",
    "SL903": "shardlint_rules.upgrade.keyword_renamed:KeywordRenamed",
}
"""Code to module and class."""

PROOFS = (_here / "proofs", _here.parent.parent / "fixtures")
"""In a wheel the proofs are inside the package; in a checkout they are the top-level fixtures."""
