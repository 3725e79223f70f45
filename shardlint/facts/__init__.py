"""What one file says, read from Python's own `ast` on demand. Never imports libcst or jax."""

from shardlint.facts.file import NOWHERE, FileFacts, read_facts
from shardlint.facts.names import called_name, last_name
from shardlint.facts.parse import NotParsed, check_parses
from shardlint.facts.scope import Binding, Scope

__all__ = [
    "NOWHERE",
    "Binding",
    "FileFacts",
    "NotParsed",
    "Scope",
    "called_name",
    "check_parses",
    "last_name",
    "read_facts",
]
