"""What one file says, read from Python's own `ast` on demand. Never imports libcst or jax."""

from shardlint.facts.file import FileFacts, NotParsed, read_facts
from shardlint.facts.later import CutWrong
from shardlint.facts.scope import Binding, Scope

__all__ = ["Binding", "CutWrong", "FileFacts", "NotParsed", "Scope", "read_facts"]
