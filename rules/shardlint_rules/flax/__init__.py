"""Rules for Flax: NNX and linen."""
