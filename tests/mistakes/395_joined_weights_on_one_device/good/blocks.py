"""Attention blocks with a weight for keys and one for values."""

from flax import nnx

HEADS = nnx.with_partitioning(nnx.initializers.normal(0.02), (None, "heads"))


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.key = nnx.Param(HEADS(rngs.params(), (width, width)))
        self.value = nnx.Param(HEADS(rngs.params(), (width, width)))
        self.both = nnx.data(None)


class Stack(nnx.Module):
    def __init__(self, width, rngs):
        self.blocks = nnx.List([Block(width, rngs) for _ in range(2)])
