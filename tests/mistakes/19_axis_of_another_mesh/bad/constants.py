"""Names that are used all over the project."""


class Axis:
    DATA = "data"
    MODEL = "mp"  # mistake: axis-name-not-in-mesh
    SEQUENCE = None


class Paths:
    LOGS = "logs"
    CHECKPOINTS = "checkpoints"
