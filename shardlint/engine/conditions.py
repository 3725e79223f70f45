"""Conditions under which a word in a file triggers a rule: on the project, then on the bytes of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from shardlint.model import api
from shardlint.rules_api.rule import (
    Attributes,
    Calls,
    Imports,
    Keywords,
    Lines,
    Methods,
    Names,
    Rule,
    Statements,
    Takes,
    Trigger,
    Violates,
    Withs,
)
from shardlint.source.lazy import dataclass
from shardlint.source.screen import ANY, CALLING, EACH, LINE, NAMED, TAKING
from shardlint.syntax import NOWHERE

# Words that stand for a library name whose own last part is not in the text.
_SPELLINGS: dict[str, set[str]] = {}
for _written, _name in api.canonical_spellings():
    _SPELLINGS.setdefault(_name, set()).add(_written.rpartition(".")[2])
WITH = "with"
# Files that are looked into for the form of their statements import something.
IMPORT = "import"
# A file that breaks a contract about layouts says something of each: what places or maps arrays, and what makes them.
_PLACING = tuple(
    text.encode()
    for text in (
        "device_put shard_map pmap sharding_constraint reshard filter_shard NamedSharding psum pmean set_mesh "
        "make_mesh PartitionSpec named_sharding with_partitioning with_logical_partitioning axis_mapping named_jit "
        "hax.shard auto_sharded einshard("
    ).split()
)
_MAKING = tuple(
    text.encode()
    for text in (
        "zeros ones full arange normal uniform randint eye make_mesh Mesh( device_put array( init( Linear Axis( "
        "make_axes"
    ).split()
)
# What shard_map and pmap run says one of these, unless another file maps it.
_MAPPING = tuple(b"in_specs shard_map pmap psum pmean pmax pmin all_gather axis_index ppermute axis_name".split())
# What makes Modules of flax NNX, or replaces their arrays.
_BUILDING_NNX = (b"Rngs(", b"nnx.update(", b".set_value(", b"nnx.Optimizer(", b"ModelAndOptimizer(")
# A function of another module, or an object's method, that is compiled here.
_COMPILING = rb"(?:)jit\(\s*(?!(?:self|cls|jax|nnx|nn|eqx|lambda)\b)[a-z_]\w*\.[a-z_]\w*"
# What has an entry for each device, or one that was taken out of these.
_REPLICATING = (b"jax_utils", b"device_put_replicated")
_IN_BODIES = (
    "collective.", "constraint.manual", "copies.", "result.", "gradient.", "term.", "specs.", "random.", "stack.",
    "rows.", "reducer.", "mean.", "piece.", "axes.", "closure.",
)  # fmt: skip
# Contracts of one library, by the beginnings of their names, and what breaks one beside what makes arrays.
_OF_LIBRARIES = {"named.": "haliax", "mapping.": "haliax", "einshard.": "einshard"}
_MAPPING_AXES = (b"Axis(", b"make_axes", b"axis_mapping", b"named_jit", b"shard(", b"auto_sharded")
# Names that other libraries have too, though they do not look it.
_COMMON = frozenset(("assert_equal",))
# Triggers on a name, whatever it stands on.
_ON_ANYTHING = (Methods, Attributes, Keywords, Imports)


@dataclass(frozen=True)
class When:
    """Conditions under which a word in a file triggers a rule."""

    library: str
    """What the file must be about."""
    near: tuple[bytes, ...] | None
    """The texts of which one must stand in the file too; None: that says nothing."""
    beside: tuple[str, ...]
    """The texts of which one must stand in the same function; none: that says nothing."""
    module: str
    """What the project must import, or nothing."""
    says: tuple[str, ...]
    """Texts of which one must stand in the file or in one that runs with it; none: that says nothing."""
    or_says: tuple[str, ...]
    """Texts of which one in the file does instead."""
    in_tests: bool
    """Whether the file may be a test."""
    evaluated: bool
    """Whether what the word is tells: for a method, an attribute or a keyword it is the word alone."""
    line: str
    """The pattern of lines that is looked for; nothing where it is a word."""
    mapped: bool = False
    """Whether another file that maps functions must import the file."""


@dataclass(frozen=True)
class ProjectConditions:
    """Properties of the project around a file, tested before the file itself."""

    imports: Callable[[str], bool] = lambda module: True
    """Whether the project imports a module."""
    says: Callable[[tuple[str, ...], tuple[str, ...]], bool] = lambda texts, own: True
    """Whether the file, or one that runs with it, holds one of some texts, or the file itself one of others."""
    is_test: bool = False
    """Whether the file is a test."""
    is_mapped: Callable[[], bool] = lambda: True
    """Whether another file that maps functions imports the file."""

    def may_be_met(self, when: When) -> bool:
        """Return whether the conditions of a word outside its file may hold. Only those are tested that cost less than
        reading the file.
        """
        return not (self.is_test and not when.in_tests)

    def is_met(self, when: When) -> bool:
        """Return whether the conditions of a word outside its file hold."""
        if not self.may_be_met(when):
            return False
        if when.module and not self.imports(when.module):
            return False
        if when.mapped and not self.is_mapped():
            return False
        return not when.says or self.says(when.says, when.or_says)


ANYWHERE = ProjectConditions()
"""A project that is all that any rule asks for."""


def trigger_conditions(rule: Rule, trigger: Trigger, name: str) -> Iterator[tuple[str, When]]:
    """The words to look for where a rule triggers on a name, each with what must hold for it."""
    for word in _searched_words(trigger, name):
        near = _required_texts(trigger, name, word)
        for library in _required_libraries(trigger, name, word):
            when = When(
                library,
                None if near is None else tuple(sorted(near)),
                _texts_in_function(trigger),
                rule.project,
                rule.project_says,
                rule.or_file_says,
                rule.in_tests,
                not isinstance(trigger, Methods | Attributes | Keywords),
                name if isinstance(trigger, Lines) else "",
            )
            yield word, when
            if isinstance(trigger, Violates) and name.startswith(_IN_BODIES):
                yield word, replace(when, near=(b"jax",), mapped=True)


def _required_libraries(trigger: Trigger, name: str, word: str) -> tuple[str, ...]:
    """Return the libraries of which a file must mention one for a word to count; empty if the word means the same
    everywhere.
    """
    if isinstance(trigger, Withs):
        return (name,)
    if (isinstance(trigger, Statements) and trigger.or_scripts) or (isinstance(trigger, Lines) and trigger.anywhere):
        return ("",)
    if isinstance(trigger, Statements | Lines | Takes | Violates):
        own = [library for start, library in _OF_LIBRARIES.items() if name.startswith(start)]
        return (own[0],) if own and isinstance(trigger, Violates) else (ANY,)
    anywhere = isinstance(trigger, (*_ON_ANYTHING, Names)) or not _is_plain(word)
    return ("" if anywhere else name.partition(".")[0],)


def _is_plain(word: str) -> bool:
    """Return whether a word is a common name that means many things."""
    if word in ("jit", "pjit"):
        return False
    return word in _COMMON or ("_" not in word and sum(letter.isupper() for letter in word) < 2)


def _combine_texts(first: Iterable[bytes], second: Iterable[bytes]) -> set[bytes]:
    """A text that stands where one of each does."""
    return {EACH + b"\x02".join(b"\x03".join(sorted(group)) for group in (first, second))}


def _required_texts(trigger: Trigger, name: str, word: str) -> set[bytes] | None:
    """Return the texts of which a file holds one if the name is used in it; None if there is no such condition."""
    if isinstance(trigger, Imports):
        return {text.encode() for text in trigger.file_says} or None
    if isinstance(trigger, _ON_ANYTHING):
        says = {text.encode() for text in trigger.file_says}
        keyword = isinstance(trigger, Keywords)
        named = {f"{name}=".encode(), f"{name} =".encode()} if keyword else {f".{name}".encode()}
        if says and all(one.startswith(tuple(named)) for one in says):
            return says
        return _combine_texts(named, says) if says else named
    if isinstance(trigger, Withs):
        # It says the word, or enters what a name stands for.
        first = f"[{name[0]}{name[0].upper()}]"
        header = rf"(?s)with\b(?:[^\n]*|[^\n]*\([^:]*){first}{name[1:]}"
        return {header.encode(), rb"(?:)with[ \t]+[\w.]+[ \t]*(?:as\b|[:,\\])"}
    if isinstance(trigger, Statements):
        calling = CALLING + name.encode()
        return _combine_texts({calling}, {b"__main__"}) if trigger.or_scripts else {calling}
    if isinstance(trigger, Lines):
        saying = "\x01".join(trigger.saying)
        asked = trigger.file_says, trigger.file_names, saying, name
        return {LINE + b"\0".join(text.encode() for text in asked)}
    if isinstance(trigger, Violates):
        if name.startswith(_IN_BODIES):
            return {*_MAPPING, *(_REPLICATING if name.startswith("rows.") else ()), _COMPILING}
        if name.startswith("variable."):
            return set(_BUILDING_NNX)
        if name.startswith(("named.", "mapping.")):
            return set(_MAPPING_AXES)
        if name.startswith("einshard."):
            return {b"einshard"}
        return _combine_texts((b"donate_arg",) if name.startswith("donation.") else _PLACING, _MAKING)
    if isinstance(trigger, Takes):
        return {TAKING + name.encode()}
    if isinstance(trigger, Names):
        return None  # a module of the project may hand it on
    if isinstance(trigger, Calls):
        library, _, _ = name.partition(".")
        if _is_plain(word) and len(word) > 1 and library != "builtins" and "." in name:
            if word in _COMMON:
                named = {name.split(".")[-2].encode()}
            else:
                named = {NAMED + f"{library} {word}".encode()}
            return (
                _combine_texts(named, (text.encode() for text in trigger.file_says))
                if trigger.file_says
                else named
            )
        if trigger.file_says:
            return {text.encode() for text in trigger.file_says}
        last = name.rpartition(".")[2]
        # A short spelling (`P`) is in every file; as a name it was imported or is an attribute.
        spelled = (last, f".{word}", f"import {word}", f", {word}\n", f", {word},", f" as {word}")
        return {text.encode() for text in spelled} if word != last and len(word) < 4 else None
    if trigger.file_says:
        return {text.encode() for text in trigger.file_says}
    module, _, last = name.removesuffix(".*").rpartition(".")
    if not module:
        return None
    # `jax.tree_map` stands in few files, `tree_map` in every third.
    own = module.rpartition(".")[2]
    texts = [f"{own}.{last}", f"from {module} import", f"{own} as "]
    return {text.encode() for text in (texts if own == module else [*texts, f"= {module}"])}


def _texts_in_function(trigger: Trigger) -> tuple[str, ...]:
    """Return the texts that must occur in the function of a mention; empty if there is no such condition."""
    if not isinstance(trigger, Calls | Methods | Attributes | Keywords):
        return ()
    return (NOWHERE,) if trigger.at_module_level else tuple(sorted(set(trigger.function_says)))


def _searched_words(trigger: Trigger, name: str) -> set[str]:
    if isinstance(trigger, Withs | Statements | Lines | Imports | Violates):
        return {WITH if isinstance(trigger, Withs) else IMPORT}
    bare = name.removesuffix(".*")
    words = {bare.rpartition(".")[2]}
    return words | _SPELLINGS.get(bare, set()) if isinstance(trigger, Calls | Names) else words
