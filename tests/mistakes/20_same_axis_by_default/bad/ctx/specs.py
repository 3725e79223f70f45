"""Specs from the configuration."""

from jax.sharding import PartitionSpec as P

from ctx.config import ShardingConfig


def activation_spec(cfg: ShardingConfig) -> P:
    return P(cfg.batch_axis, cfg.sequence_axis, cfg.embed_axis)  # mistake: duplicate-axis


def batch_spec(cfg: ShardingConfig) -> P:
    return P(cfg.batch_axis)
