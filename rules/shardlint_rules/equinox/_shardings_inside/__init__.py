"""How the shardings of `filter_jit` move into the function it wraps (SL101)."""
