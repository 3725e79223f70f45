"""The vocabulary of a rule: what wakes it, what it finds, and how it would be mended."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from shardlint.site import Site

__all__ = [
    "Calls",
    "Certainty",
    "Edit",
    "Finding",
    "Fix",
    "Harm",
    "Methods",
    "Named",
    "Rule",
    "Safety",
    "Uses",
    "Wake",
    "Withs",
]


class Harm(enum.StrEnum):
    """What happens to a program with the mistake."""

    SILENT = "silent"
    """It runs, with wrong placement or wrong numbers."""
    CRASH = "crash"
    """It raises."""
    COST = "cost"
    """It is right but pays in memory, communication or recompiles."""
    REMOVED = "removed"
    """It uses a name that a release took away or will."""


class Certainty(enum.StrEnum):
    """How far the program text proves the finding."""

    PROVEN = "proven"
    LIKELY = "likely"


class Safety(enum.StrEnum):
    """What a fix may change."""

    SAFE = "safe"
    """It keeps meaning and meets the intent."""
    UNSAFE = "unsafe"
    """It may change numerics, memory or communication: `--unsafe-fixes`."""


@dataclass(frozen=True)
class Edit:
    """Replace the characters from `start` to `end` of the file's text with `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Fix:
    """How to mend a finding: all edits are made or none.

    `message` says what to write instead, in code. `why` is why it is unsafe. `drops` are names this fix stops using:
    their imports go when nothing else uses them.
    """

    safety: Safety
    message: str
    edits: tuple[Edit, ...]
    why: str = ""
    drops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Named:
    """A rule that need not be loaded to tell what it found."""

    code: str
    name: str


@dataclass(frozen=True)
class Finding:
    """One finding. `start` and `end` are character offsets in the file's text.

    `label` stands beside the underlined code, `message` says what will happen on the user's releases, and `help` what
    to write instead where there is no fix to apply.
    """

    rule: type[Rule] | Named
    start: int
    end: int
    label: str
    message: str
    help: str = ""
    harm: Harm = Harm.SILENT
    certainty: Certainty = Certainty.PROVEN
    fix: Fix | None = None


@dataclass(frozen=True)
class _Called:
    """What wakes for calls.

    `near` are texts without which a call is of no interest: a file that holds none of them is not looked into for these
    calls. One that begins with `(?` is a regular expression. `within` is the same of the function the call stands in,
    for what the call itself must say: a keyword. `outside` says that calls in the bodies of functions are of none.
    """

    names: tuple[str, ...]
    near: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    outside: bool = False

    def __init__(
        self, *names: str, near: tuple[str, ...] = (), within: tuple[str, ...] = (), outside: bool = False
    ) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "near", near or within)
        object.__setattr__(self, "within", within)
        object.__setattr__(self, "outside", outside)


class Calls(_Called):
    """Wake for calls of these library functions (canonical names), also through aliases and `functools.partial`."""


@dataclass(frozen=True)
class Uses:
    """Wake wherever one of these dotted names is imported or referred to, as written (before canonical naming).

    A name ending in `.*` stands for a module and everything in it. `near` is as for `Calls`.
    """

    names: tuple[str, ...]
    near: tuple[str, ...] = ()

    def __init__(self, *names: str, near: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "near", near)


class Methods(_Called):
    """Wake for calls of methods with these names, on anything that is not a library's own module or class.

    For names that one library alone uses (`get_metadata`): what the object is, the text seldom tells.
    """


@dataclass(frozen=True)
class Withs:
    """Wake for the items of `with` statements that say one of these words, a capital first letter or not."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


Wake = Calls | Uses | Methods | Withs


class Rule(ABC):
    """A rule: one file, one class. Its docstring, with fixed headings, is its page.

    `holds` says for which releases the claim was proven: a rule is silent for other targets. `certainty` is that of
    its findings: one that says likely finds nothing proven, and is not asked where nobody wants what is likely; one
    that says proven may still call a finding likely.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    harm: ClassVar[Harm]
    certainty: ClassVar[Certainty] = Certainty.PROVEN
    default: ClassVar[bool] = True
    holds: ClassVar[Mapping[str, str]] = {}
    wakes: ClassVar[tuple[Wake, ...]] = ()
    project: ClassVar[str] = ""
    """A module that some file of a project must import, if any of its files is to be of interest to the rule."""
    fixes: ClassVar[Literal["safe", "unsafe", "both", "none"]] = "none"

    @abstractmethod
    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at a site that woke the rule."""


@dataclass(frozen=True)
class Chosen:
    """The rules of a run: those selected, and whether likely findings are wanted."""

    rules: tuple[Rule, ...] = field(default=())
    pedantic: bool = False
