"""Byte search that decides whether a file is worth parsing. Three of four are not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, cast

from shardlint.source.line_beginnings import Beginnings
from shardlint.source.patterns import compile_lazily

# Blanks for all that is in no identifier: one translation finds every word of a file, faster than a search for each.
_IN_WORDS = bytes(
    byte if byte > 127 or byte == ord("_") or chr(byte).isalnum() else ord(" ") for byte in range(256)
)

# How a file that uses a library names it or a part of it, also where a module of the project hands that on; or a mesh.
_MENTIONS = {
    "jax": (b"jax", b"jnp"),
    "flax": (b"flax", b"nnx", b"linen"),
    "equinox": (b"equinox", b"eqx"),
    "haliax": (b"haliax", b"hax"),
    "mesh": (b"Mesh", b"mesh"),
}

# What a file takes from, that has to do with devices.
_TAKEN = tuple(
    f"{word} {library}".encode()
    for word in ("import", "from")
    for library in ("jax", "flax", "equinox", "haliax", "optax", "orbax", "einshard", "eformer", "levanter")
)
_LIBRARIES = tuple(text for library in ("jax", "flax", "equinox", "haliax") for text in _MENTIONS[library])
_SHARDED = (b"harding", *_MENTIONS["mesh"])
ANY = "any"
"""For a file that imports one of the libraries, names one and speaks of meshes or shardings, or sets flags of XLA."""
_FLAGS = b"XLA_FLAGS"

Words = Mapping[str, Mapping[str, tuple[bytes, ...] | None]]
"""Identifiers to look for: for each library they may be of, the texts of which one must stand in the file too (None:
it is enough alone). A text that begins with `(?` is a regular expression; of others the beginning says what is asked:
see `_ASKED`."""


# What stands after these are: modules as files write them, each with the names that it has
# (`names:jnp=abs add;jax.lax=abs`); a part of a name; a parameter; a pattern of the file, one of its
# identifiers, texts of a line and a pattern of the line, with NULs between them; a pattern of identifiers.
NAMES, CALLING, TAKING, LINE, NAMES_LIKE = b"names:", b"calling:", b"taking:", b"line:", b"like:"
# Stands before a word, and maybe a library and a blank: as a name that is imported or read of something, or of that
# library. And before groups of texts, with \x02 between them: of each, its texts with \x03 between them, one must
# stand there.
NAMED, EACH, ANY_OF = b"named:", b"each:", b"of:"
_FROM = compile_lazily(rb"from ([A-Za-z][\w.]*) import (\([^)]*\)|[^\n]*)")
_IMPORTED = compile_lazily(rb"import[ \t]*+(\((?:[^()#]|#[^\n]*)*+|(?:[^\n\\]|\\\r?\n?)*+)")
# What is private, and the address of documentation.
_UNASKED = (b"_", b"readthedocs")
# Libraries whose functions have names that methods and other libraries have too.
_CALLED_SO = {b"numpy": (b"numpy", b"np", b"onp", b"_np")}
# Patterns that begin with a letter of their own are some ten times faster than those that begin with a boundary.
_CALLED = compile_lazily(rb"\n[ \t]*+(?:\w++\.)*+(\w++)\(")
_HEADER = compile_lazily(rb"def\s++\w++\s*+\(((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+)")


@lru_cache(maxsize=4)
def _known_names(text: bytes) -> tuple[dict[bytes, frozenset[bytes]], frozenset[bytes]]:
    """The names that each module has, and the first names of the modules."""
    entries = (entry.partition(b"=") for entry in text[len(NAMES) :].split(b";"))
    known = {module: frozenset(names.split()) for module, _, names in entries}
    return known, frozenset(module.partition(b".")[0] for module in known)


@lru_cache(maxsize=1024)
def _split_groups(text: bytes) -> list[bytes]:
    # Each group is asked about once a file, however many names it stands beside.
    return [ANY_OF + group if b"\x03" in group else group for group in text[len(EACH) :].split(b"\x02")]


@lru_cache(maxsize=1024)
def _split_texts(text: bytes) -> list[bytes]:
    return text[len(ANY_OF) :].split(b"\x03")


@lru_cache(maxsize=64)
def _parse_line_conditions(text: bytes) -> tuple[bytes, bytes, tuple[bytes, ...], bytes]:
    """Return the conditions of a line pattern: the texts of the file, of its names and of the line, and the pattern
    itself.
    """
    near, names, saying, pattern = text[len(LINE) :].split(b"\0", 3)
    if near and _search_kind(near.replace(b"|", b"")) is None:
        near = ANY_OF + near.replace(b"|", b"\x03")  # words
    elif near and not near.startswith(b"(?"):
        near = b"(?:" + near + b")"
    return near, NAMES_LIKE + names if names else b"", tuple(filter(None, saying.split(b"\x01"))), pattern


@lru_cache(maxsize=64)
def _chain_pattern(name: bytes) -> re.Pattern[bytes]:
    """Return the pattern of attribute chains of a name that is no part of a longer one. Beginning with letters, it is
    searched ten times faster.
    """
    return re.compile(name + rb"(?<![\w.]" + name + rb")\.([A-Za-z_][\w.]*)")


def _is_another(name: bytes, names: frozenset[bytes]) -> bool:
    return name not in names and not name.startswith(_UNASKED)


def words_of(data: bytes) -> set[bytes]:
    """The identifiers in a text; in UTF-8, those of other alphabets too."""
    return set(data.translate(_IN_WORDS).split())


class Screen:
    """Looks for identifiers. Knows nothing of rules."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._needles = {word.encode(): (word, tuple(asked.items())) for word, asked in words.items()}

    @classmethod
    def load_screen(cls, data: Any) -> Screen:
        """A screen from plain data. Raises `AttributeError`, `TypeError` or `ValueError` for what is none."""
        return cls(
            {
                str(word): {
                    str(library): None if near is None else tuple(bytes(text, "utf-8") for text in near)
                    for library, near in asked.items()
                }
                for word, asked in data.items()
            }
        )

    def dump_screen(self) -> dict[str, Any]:
        """The screen as plain data."""
        return {
            word: {
                library: None if near is None else [text.decode() for text in near]
                for library, near in asked.items()
            }
            for word, asked in self.words.items()
        }

    def difference_from(self, screen: Screen) -> dict[str, Any]:
        """Return the difference of a screen for some of the rules from the screen of all, as plain data."""
        other = {word: asked for word, asked in self.words.items() if screen.words.get(word) != asked}
        return {"gone": sorted(screen.words.keys() - self.words.keys()), "other": Screen(other).dump_screen()}

    def select_rules(self, data: Any) -> Screen:
        """The screen for some of the rules, from what `difference_from` gave. Raises as `load` does."""
        gone, other = set(map(str, data["gone"])), Screen.load_screen(data["other"])
        return Screen({word: asked for word, asked in self.words.items() if word not in gone} | dict(other.words))

    def find_words(self, data: bytes | Texts) -> list[str]:
        """The identifiers that make a file worth parsing, of those its bytes hold as words of their own."""
        texts = Texts.make_texts(data)
        words = self._needles.keys() & texts.file_identifiers
        return self._words_near_texts(words, texts) if words else []

    def filter_words(self, hits: Iterable[str], data: bytes | Texts) -> list[str]:
        """The same, of what a screen for more rules has found."""
        return self._words_near_texts({word.encode() for word in hits} & self._needles.keys(), Texts.make_texts(data))

    def _words_near_texts(self, words: set[bytes], texts: Texts) -> list[str]:
        found = []
        for needle in words:
            word, asked = self._needles[needle]
            if any(texts.mentions_library_near(library, near) for library, near in asked):
                found.append(word)
        return sorted(found)


Screens = tuple[Screen, Mapping[str, Screen]]
"""That of all rules, and for some modules that of what there is to say in a project that does not import them."""


class Texts(dict[bytes, bool]):
    """Which texts a file holds: each is looked for once."""

    def __init__(self, data: bytes, before: Texts | None = None) -> None:
        self.data = data
        self._known_members: dict[bytes, set[bytes]] = {}
        self._begins: dict[tuple[bytes, tuple[bytes, ...]], bool] = {}
        """Whether a line begins as a pattern says, of those that hold one of some texts."""
        self.beginnings = Beginnings(data)
        self._edit = Edit(before, data) if before is not None else None
        if before is not None:
            before._edit = None

    @classmethod
    def make_texts(cls, data: bytes | Texts) -> Texts:
        """The texts of a file, given as such or as bytes."""
        return data if isinstance(data, cls) else cls(cast(bytes, data))

    @cached_property
    def file_identifiers(self) -> set[bytes]:
        """The identifiers of the file."""
        return words_of(self.data)

    @cached_property
    def _is_library_mentioned(self) -> bool:
        taken, named, sharded = (
            any(map(self.__getitem__, texts)) for texts in (_TAKEN, _LIBRARIES, _SHARDED)
        )
        return taken or (named and sharded) or self[_FLAGS]

    @cached_property
    def _file_with_leading_break(self) -> bytes:
        """The file with a line break before every line."""
        return b"\n" + self.data

    @cached_property
    def _called_names(self) -> bytes:
        """The names, in small letters, of what lines begin by calling."""
        return b"\n".join(_CALLED.findall(self._file_with_leading_break)).lower()

    @cached_property
    def _parameter_names(self) -> set[bytes]:
        """The identifiers in the headers of functions."""
        return words_of(b" ".join(_HEADER.findall(self.data)))

    def __missing__(self, text: bytes) -> bool:
        kind = _search_kind(text)
        known = self._edit.is_still_present(text, kind) if self._edit is not None else None
        found = self[text] = self._search_text(text, kind) if known is None else known
        return found

    def _search_text(self, text: bytes, kind: Kind) -> bool:
        if kind is None:
            return text in self._identifiers_once
        if callable(kind):
            return kind(self, text)
        if kind:
            return re.search(text, self.data) is not None
        return text in self.data

    def imports_unknown_name(self, text: bytes) -> bool:
        """Return whether a file imports a name from a module that does not have it. It may be True for a file without
        such imports.
        """
        (known, roots), data = _known_names(text), self.data
        for root in roots & self.file_identifiers:
            for chain in set(_chain_pattern(root).findall(data)):
                module = root
                for name in chain.rstrip(b".").split(b"."):
                    names = known.get(module)
                    if names is not None and _is_another(name, names):
                        return True
                    module += b"." + name
        for found in _FROM.finditer(data):
            if found[1] in known:
                taken = re.sub(rb"#[^\n]*", b"", found[2]).strip(b"() \n\\").split(b",")
                firsts = [one.split()[0] for one in taken if one.split()]
                if any(one != b"*" and _is_another(one, known[found[1]]) for one in firsts):
                    return True
        return False

    def has_call_line(self, text: bytes) -> bool:
        """Return whether a line begins with a call of something whose name contains this text."""
        return text[len(CALLING) :].lower() in self._called_names

    def has_parameter(self, text: bytes) -> bool:
        """Return whether a function has a parameter. It may be True if the header contains the word elsewhere."""
        return text[len(TAKING) :] in self._parameter_names

    def has_matching_line(self, text: bytes) -> bool:
        """Return whether a line matches a pattern at its first character that is no blank, in a file that matches
        another pattern.
        """
        near, names, saying, pattern = _parse_line_conditions(text)
        if saying and not any(map(self.__getitem__, saying)):
            return False
        if not all(self[asked] for asked in (names, near) if asked):
            return False
        return self.has_line_beginning(pattern, saying)

    def has_line_beginning(self, pattern: bytes, saying: tuple[bytes, ...]) -> bool:
        """Return whether a line with one of some texts begins with a pattern."""
        key = pattern, saying
        if key not in self._begins:
            known = self._edit.still_begins(pattern, saying) if self._edit is not None else None
            if known is None:
                known = bool(self.beginnings.match_positions(pattern, saying))
            self._begins[key] = known
        return self._begins[key]

    def has_identifier_like(self, text: bytes) -> bool:
        """Return whether an identifier, in small letters, matches a pattern."""
        return re.search(text[len(NAMES_LIKE) :], self._identifiers_in_small_letters) is not None

    @cached_property
    def _identifiers_once(self) -> bytes:
        """The identifiers, each once, blanks between them: a tenth of the file."""
        return b" ".join(self.file_identifiers)

    @cached_property
    def _identifiers_in_small_letters(self) -> bytes:
        return self._identifiers_once.lower()

    def is_name_used(self, text: bytes) -> bool:
        """Return whether a word occurs after a dot or in an import. It may be True for a line of prose."""
        library, _, word = text[len(NAMED) :].rpartition(b" ")
        if library in _CALLED_SO:
            if word in self._members_of_library(library):
                return True
        elif self[b"." + word]:
            return True
        if self[b"import *"] and word in self.file_identifiers:
            return True
        return word in self._imported_names

    @cached_property
    def _imported_names(self) -> set[bytes]:
        """The identifiers in import statements."""
        return words_of(b" ".join(_IMPORTED.findall(self.data)))

    def _members_of_library(self, library: bytes) -> set[bytes]:
        """Return the attributes read from a library, by its usual names and by those that the file gives it."""
        if library not in self._known_members:
            called = {*_CALLED_SO[library], *re.findall(rb"import " + library + rb" as (\w+)", self.data)}
            read = {
                chain for name in called & self.file_identifiers for chain in _chain_pattern(name).findall(self.data)
            }
            found = {one for chain in read for one in chain.split(b".")}
            self._known_members[library] = found
        return self._known_members[library]

    def has_one_of_each(self, text: bytes) -> bool:
        """Return whether one text of each group occurs."""
        return all(map(self.__getitem__, _split_groups(text)))

    def has_any_text(self, text: bytes) -> bool:
        """Return whether one of a group of texts occurs."""
        return any(map(self.__getitem__, _split_texts(text)))

    def mentions_library_near(self, library: str, near: tuple[bytes, ...] | None) -> bool:
        """Return whether a file mentions a library and one of the texts, if there are any."""
        about = (
            self._is_library_mentioned
            if library == ANY
            else library not in _MENTIONS or self.mentions_library(library)
        )
        return about and (not near or any(map(self.__getitem__, near)))

    def mentions_library(self, library: str) -> bool:
        """Return whether a file names a library or a part of it.

        `update` is in every third file, and is Flax's in few: one that names neither Flax nor a part of it has none.
        (`device_put` may be handed on by a module of the project; it means the same thing everywhere.)
        """
        return any(map(self.__getitem__, _MENTIONS[library]))


class Edit:
    """Search results of a text before an edit, and the edited lines before and after.

    What was found and does not stand in those lines stands elsewhere, and what was not found can only stand there now.
    They reach from the definition or import before the edited ones to the one after: nothing that is looked for goes
    on past such a line, but for patterns whose `.` matches line breaks.
    """

    def __init__(self, before: Texts, now: bytes) -> None:
        self._found, self._begins = before, before._begins
        self._had, self._has = map(Texts, changed_regions(before.data, now))

    def is_still_present(self, text: bytes, kind: Kind) -> bool | None:
        """Return whether a text occurs, if that is known from before."""
        found = self._found.get(text)
        if found is None or text.startswith(_OVER_LINES):
            return None
        lines = self._had if found else self._has
        if kind is Texts.is_name_used:
            word = text[len(NAMED) :].rpartition(b" ")[2]
            return None if b"import" in lines.data or word in lines.data else found
        if kind in (Texts.has_call_line, Texts.has_identifier_like, Texts.imports_unknown_name) or not callable(kind):
            return None if lines[text] else found
        return None  # asks of the whole text, piece by piece

    def still_begins(self, pattern: bytes, saying: tuple[bytes, ...]) -> bool | None:
        """The same of a line that begins as a pattern says."""
        found = self._begins.get((pattern, saying))
        if found is None:
            return None
        return None if (self._had if found else self._has).has_line_beginning(pattern, saying) else found


_OVER_LINES = b"(?s)"
_BETWEEN = (b"def ", b"async def ", b"class ", b"@", b"from ", b"import ")


def changed_regions(before: bytes, now: bytes) -> tuple[bytes, bytes]:
    """The lines that an edit changed, before and now, with those around from one definition or import to another."""
    had, has = before.split(b"\n"), now.split(b"\n")
    most = min(len(had), len(has))
    first = next((at for at in range(most) if had[at] != has[at]), most)
    same = next((at for at in range(most - first) if had[-1 - at] != has[-1 - at]), most - first)
    first -= 1
    while first > 0 and not has[first].lstrip().startswith(_BETWEEN):
        first -= 1
    while same > 0 and not has[len(has) - same].lstrip().startswith(_BETWEEN):
        same -= 1
    first = max(0, first)
    one, other = (lines[first : len(lines) - same + 1] for lines in (had, has))
    return b"\n".join([b"", *one, b""]), b"\n".join([b"", *other, b""])


_ASKED = {
    NAMES: Texts.imports_unknown_name,
    CALLING: Texts.has_call_line,
    TAKING: Texts.has_parameter,
    LINE: Texts.has_matching_line,
    NAMES_LIKE: Texts.has_identifier_like,
    NAMED: Texts.is_name_used,
    EACH: Texts.has_one_of_each,
    ANY_OF: Texts.has_any_text,
}


Kind = Callable[[Texts, bytes], bool] | bool | None


@cache
def _search_kind(text: bytes) -> Kind:
    """How a text is looked for: by a method; as a regular expression (True) or as such (False); None: in a name."""
    ask = _ASKED.get(text[: text.find(b":") + 1])
    if ask is not None:
        return ask
    if text.startswith(b"(?"):
        return True
    return None if text.isalnum() or text.replace(b"_", b"").isalnum() else False
