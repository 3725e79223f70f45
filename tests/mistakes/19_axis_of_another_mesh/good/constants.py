"""Names that are used all over the project."""


class Axis:
    DATA = "data"
    MODEL = "tensor"
    SEQUENCE = None


class Paths:
    LOGS = "logs"
    CHECKPOINTS = "checkpoints"
