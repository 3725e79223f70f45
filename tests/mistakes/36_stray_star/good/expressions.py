"""How each weight of a layer is split, by name."""

EXPRESSIONS = {
    "up": "i o -> i o*",
    "gate": "i o -> i o*",
    "down": "i o -> i* o",
    "norm": "d -> * d",
}
