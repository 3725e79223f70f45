"""What specs and results are called: which result a spec is named for. Shared by rules."""

from __future__ import annotations

# `out_spec` is what a spec of all results is called.
_GENERAL = frozenset("out output outputs o result results spec specs sharding shardings batch data x".split())


def plain(spec: str) -> str:
    """The words of a spec that name what it is for."""
    words = "".join(c if c.isalnum() else " " for c in spec.lower()).split()
    return " ".join(word for word in words if word not in _GENERAL)


# What people call the same thing: a result may be told by any of these words.
_WORDS = (
    ("cache", "kv", "kvcache"),
    ("out", "output", "attn", "o", "query", "q"),
    ("state", "states"),
    ("logits", "scores"),
    ("loss",),
    ("params", "weights"),
    ("grads", "gradients"),
    ("metrics",),
    ("weight",),
)


def named_for(spec: str, names: list[str]) -> int | None:
    """Which of the results a spec names; None where it names none or several."""
    words = set("".join(c if c.isalnum() else " " for c in spec).split()) - {
        "p",
        "spec",
        "none",
        "self",
        "partitionspec",
    }
    found = [at for at, name in enumerate(names) if words & _alike(name)]
    return found[0] if len(found) == 1 else None


def _alike(name: str) -> set[str]:
    parts = set(name.replace("_", " ").split())
    return parts.union(*(group for group in _WORDS if parts & set(group)))
