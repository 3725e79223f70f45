"""Facts about one file, derived on demand from Python's own `ast`. The package never imports libcst or jax."""

from shardlint.syntax.file import NOWHERE, FileFacts, read_facts
from shardlint.syntax.names import called_name, last_name
from shardlint.syntax.parse import NotParsed, check_parses, parse_ahead
from shardlint.syntax.scope import Binding, Scope

__all__ = [
    "NOWHERE",
    "Binding",
    "FileFacts",
    "NotParsed",
    "Scope",
    "called_name",
    "check_parses",
    "last_name",
    "parse_ahead",
    "read_facts",
]
