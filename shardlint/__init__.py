"""shardlint: finds sharding mistakes in JAX programs, rewrites them, and proves the rewrite."""

__version__ = "0.1.0"
