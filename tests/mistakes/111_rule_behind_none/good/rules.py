"""Logical to mesh axis rules. First match wins."""

ACTIVATIONS = [
    ("batch", "data"),
    ("length", None),
    ("classes", None),
]

WEIGHTS = [
    ("embed", None),
    ("heads", "model"),
    ("kv", None),
    ("qkv", None),
    ("mlp", "model"),
]


def get_rules():
    return ACTIVATIONS + WEIGHTS
