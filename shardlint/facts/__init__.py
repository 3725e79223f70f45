"""What one file says, read from Python's own `ast` on demand. Never imports libcst or jax."""

from shardlint.facts.file import NOWHERE, FileFacts, NotParsed, read_facts
from shardlint.facts.later import CutWrong
from shardlint.facts.scope import Binding, Scope

__all__ = ["NOWHERE", "Binding", "CutWrong", "FileFacts", "NotParsed", "Scope", "read_facts"]
