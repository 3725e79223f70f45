"""The vocabulary of a rule: what triggers it, what it finds, and how it would be fixed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

from shardlint.config.certainty import Certainty
from shardlint.config.own_names import OwnNames
from shardlint.source.lazy import dataclass
from shardlint.source.line_beginnings import OnLine

if TYPE_CHECKING:
    from shardlint.rules_api.site import Site

__all__ = [
    "Attributes",
    "Calls",
    "Certainty",
    "Edit",
    "Finding",
    "Fix",
    "Form",
    "Harm",
    "Keywords",
    "Lines",
    "Methods",
    "Names",
    "Rule",
    "RuleIdentity",
    "Safety",
    "Statements",
    "Takes",
    "Trigger",
    "Uses",
    "Violates",
    "Withs",
    "detector",
    "on_lines",
]


class Harm(enum.StrEnum):
    """Effect of the mistake on a program."""

    SILENT = "silent"
    """It runs, with wrong placement or wrong numbers."""
    CRASH = "crash"
    """It raises."""
    COST = "cost"
    """It is right but pays in memory, communication or recompiles."""
    REMOVED = "removed"
    """It uses a name that is removed or deprecated in a release."""

    @property
    def is_mild(self) -> bool:
        """True if the program is right today."""
        return self in (Harm.COST, Harm.REMOVED)


class Safety(enum.StrEnum):
    """Effect that a fix may have on the program."""

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
class Needed:
    """A name that a fix writes (`jax.tree.map`), its package, and the first release that has it ("0.4.25")."""

    package: str
    since: str
    what: str


@dataclass(frozen=True)
class Fix:
    """How to fix a finding: all edits are made or none.

    `message` says what to write instead, in code. `why` is why it is unsafe. `drops` are names this fix stops using:
    their imports go when nothing else uses them. `together` are the files (absolute paths) of a change that is right
    only as a whole: unless each of them is changed, none is. `uncovers` are codes of what may be found in its place
    once it is made, and is no worse: what raised works, and is deprecated. `needs` is what it writes that older
    releases lack.
    """

    safety: Safety
    message: str
    edits: tuple[Edit, ...]
    why: str = ""
    drops: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    uncovers: tuple[str, ...] = ()
    needs: tuple[Needed, ...] = ()


NO_FIX = "no automatic fix: "
"""Between what to write and the reason why there is no fix, which ends the help of a finding."""
TOGETHER = "the mesh contexts of a project change together"
"""What a finding says that a whole project moves with; what keeps it follows, or stands once for the project."""


@dataclass(frozen=True)
class RuleIdentity:
    """A rule that need not be loaded to tell what it found."""

    code: str
    name: str


@dataclass(frozen=True)
class Finding:
    """One finding. `start` and `end` are character offsets in the file's text.

    `message` is the effect on the user's releases. `why` is the evidence: the call chain, an annotation, a
    configuration file. `help` is what to write if there is no fix. `label` is a short note at the underlined code.
    `form` is a short, lasting name of the form of the mistake within its rule, by which findings are judged (see
    ledger.py). `obstacles` is not None where a project has many such
    findings, of which the report says one line: what keeps it from being fixed, each with its file and line.
    """

    rule: type[Rule] | RuleIdentity
    start: int
    end: int
    label: str
    message: str
    help: str = ""
    harm: Harm = Harm.SILENT
    certainty: Certainty = Certainty.PROVEN
    fix: Fix | None = None
    form: str = ""
    why: str = ""
    obstacles: tuple[str, ...] | None = None
    rests: tuple[str, ...] = field(default=(), compare=False)
    """The other files (absolute paths) that were read to find it; entered by the checker."""

    @property
    def advice(self) -> str:
        """The text that says what to write: that of the fix, if there is one; empty where nothing is known."""
        return self.fix.message if self.fix is not None else self.help


@dataclass(frozen=True)
class _Called:
    """A trigger on calls.

    `file_says` are texts without which a call is of no interest: a file that holds none of them is not looked into
    for these calls. One that begins with `(?` is a regular expression; one with `names:` gives the names that modules
    have, and stands in a file that takes another from them. `function_says` is the same of the function the call stands
    in (of the file, outside of functions), for what the call itself must say: a keyword. `at_module_level` says that
    calls in the bodies of functions are of none. They hold for this rule, whatever others are run with it.
    """

    names: tuple[str, ...]
    file_says: tuple[str, ...] = ()
    function_says: tuple[str, ...] = ()
    at_module_level: bool = False

    def __init__(
        self,
        *names: str,
        file_says: tuple[str, ...] = (),
        function_says: tuple[str, ...] = (),
        at_module_level: bool = False,
    ) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "file_says", file_says or function_says)
        object.__setattr__(self, "function_says", function_says)
        object.__setattr__(self, "at_module_level", at_module_level)


def on_lines(pattern: str, *saying: str) -> str:
    """A text for `file_says`: it stands in a file of which a line that holds one of `saying` matches a pattern.

    From its beginning; blanks there may be passed over.
    """
    return "line:" + "\0".join(("", "", "\x01".join(saying), pattern))


class Calls(_Called):
    """Trigger on calls of these library functions (canonical names), also through aliases and `functools.partial`."""


@dataclass(frozen=True)
class Uses:
    """Trigger wherever one of these dotted names is imported or referred to, as written (before canonical naming).

    A name ending in `.*` stands for a module and everything in it. `file_says` is as for `Calls`.
    """

    names: tuple[str, ...]
    file_says: tuple[str, ...] = ()

    def __init__(self, *names: str, file_says: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "file_says", file_says)


@dataclass(frozen=True)
class Imports:
    """Trigger on what import statements take of these libraries. `file_says` is as for `Calls`."""

    names: tuple[str, ...]
    file_says: tuple[str, ...] = ()

    def __init__(self, *names: str, file_says: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "file_says", file_says)


class Methods(_Called):
    """Trigger on calls of methods with these names, on anything that is not a library's own module or class.

    For names that one library alone uses (`get_metadata`): what the object is, the text seldom tells.
    """


class Attributes(_Called):
    """Trigger where an attribute with one of these names is read, on anything that is not a library's own."""


class Keywords(_Called):
    """Trigger on calls, of whatever, that give a keyword argument with one of these names."""


@dataclass(frozen=True)
class Names:
    """Trigger wherever one of these full names is read, of a library or of the project, and where one is imported.

    However it is called there, and whichever module hands it on. One ending in `.*` stands for all that a module has.
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True)
class Withs:
    """Trigger on the items of `with` statements that say one of these words, a capital first letter or not."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True)
class Statements:
    """Trigger on calls that are statements by themselves, of something whose name holds one of these parts.

    `shard_params(state)`: a function of the project, by what people name it. Capitals do not count. Only in files that
    name one of the libraries, or, with `or_scripts`, that are run (`__main__`): they may leave jax to what they import.
    """

    names: tuple[str, ...]
    or_scripts: bool = False

    def __init__(self, *names: str, or_scripts: bool = False) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "or_scripts", or_scripts)


@dataclass(frozen=True)
class Lines:
    r"""Trigger on statements that begin on a line which matches one of these regular expressions, from its beginning.

    For what no library name marks: `return None`, a field of a class. Only in files that name one of the libraries,
    unless it is for files `anywhere`: for what a file does through other files of the project.
    A pattern says nothing of blanks at the beginning of the line. `file_says` is one that the file must match
    too, anywhere; `file_names` one that its identifiers must, in small letters and with blanks between them.
    `saying` are texts of which one stands on every line that matches: trying the pattern on all lines is slow. Of a
    pattern that begins with `[^#\n]*`, anything but a comment, the rest begins with one of them.
    `on` says which line of a statement: the `first`, `any`, or that of the `definition` of a function or class, which
    the others leave out.
    """

    names: tuple[str, ...]
    file_says: str = ""
    file_names: str = ""
    saying: tuple[str, ...] = ()
    on: OnLine = "first"
    anywhere: bool = False

    def __init__(
        self,
        *names: str,
        file_says: str = "",
        file_names: str = "",
        saying: tuple[str, ...] = (),
        on: OnLine = "first",
        anywhere: bool = False,
    ) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "file_says", file_says)
        object.__setattr__(self, "file_names", file_names)
        object.__setattr__(self, "saying", saying)
        object.__setattr__(self, "on", on)
        object.__setattr__(self, "anywhere", anywhere)


@dataclass(frozen=True)
class Takes:
    """Trigger on parameters with these names, of functions that a `def` makes. Only in files that name a library."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True)
class Violates:
    """Trigger where a call breaks a contract of a library, of one of these kinds (see `shardlint.libraries`).

    The site's `syntax` is the expression that breaks it, and `violation` says how. `is_conditional` is false if the
    rule gives each finding a form of its own, also where the contract may hold on another branch.
    """

    names: tuple[str, ...]
    is_conditional: bool

    def __init__(self, *names: str, is_conditional: bool = True) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "is_conditional", is_conditional)


Form = Literal[
    "call",
    "partial",
    "name",
    "import",
    "method",
    "attribute",
    "keyword",
    "with",
    "statement",
    "line",
    "parameter",
    "violation",
]
"""What a trigger came upon (see `Site`)."""


Trigger = (
    Calls
    | Uses
    | Names
    | Imports
    | Methods
    | Attributes
    | Keywords
    | Withs
    | Statements
    | Lines
    | Takes
    | Violates
)


Detector = Callable[[Any, "Site"], Finding | Iterator[Finding] | None]
_DetectorType = TypeVar("_DetectorType", bound=Detector)
CONDITIONAL = "conditional"
"""The form of a broken contract whose place may not run (see `Site.report_violation`)."""


@dataclass(frozen=True)
class DeclaredDetector:
    """A detector of a rule: the name of its method, and which sites it is called for (see `detector`)."""

    name: str
    forms: tuple[Form, ...]
    of: tuple[str, ...]
    finds: tuple[str, ...]

    def collect_findings(self, rule: Rule, site: Site) -> list[Finding]:
        """Return what it finds at a site, with the form that it declares."""
        if site.form not in self.forms or (self.of and site.api not in self.of):
            return []
        if self.finds and not site.wants(*self.finds):
            return []
        found: Finding | Iterator[Finding] | None = getattr(rule, self.name)(site)
        all_found = [found] if isinstance(found, Finding) else list(found or ())
        if len(self.finds) != 1:
            return all_found
        (form,) = self.finds
        return [replace(one, form=form, certainty=rule.unproven_certainty(form)) for one in all_found]


def detector(
    *forms: Form, of: str | tuple[str, ...] = (), finds: str | tuple[str, ...] = ()
) -> Callable[[_DetectorType], _DetectorType]:
    """Mark a method of a rule that finds mistakes: it is called for sites of these forms alone.

    Without forms it is called for those that no other detector of the rule names. `of` are the library functions, or
    the kinds of contracts, that it is for. `finds` are the forms of its findings, which are not proven: it is called
    only if a finding of one of them would be reported. If there is one form, the findings get it. The detectors for a
    site are called in the order of the class, until one finds something.
    """

    def mark_method(method: _DetectorType) -> _DetectorType:
        method.detects = DeclaredDetector(method.__name__, forms, *map(_as_tuple, (of, finds)))  # type: ignore[attr-defined]
        return method

    return mark_method


def _as_tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


class Rule:
    """A rule: one file, one class. Its docstring, with fixed headings, and the programs of its proof are its page.

    A rule finds mistakes in its `detector` methods, or in `check` if it has none.

    `releases` says for which releases the claim was proven: a rule is silent for other targets. `certainty` is what
    the surest of its findings may be, `PROVEN` or `POSSIBLE`. Findings that are not proven are possible, or likely
    where their form is among `likely`: the forms that have earned it (ledger.py). A rule of which no finding
    would be reported is not run.

    What `forms`, `closed`, `where` and `in_version_checks` say is asked before `check` or of what it finds
    (`Site.findings`), and no rule is asked about code that a test expects to raise or warn: `check` need not.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    harm: ClassVar[Harm]
    certainty: ClassVar[Certainty] = Certainty.PROVEN
    likely: ClassVar[tuple[str, ...]] = ()
    assumptions: ClassVar[Mapping[str, str]] = {}
    """What a likely form assumes beyond the text, by form: "the calls in this project are all calls". Only for forms of
    a contract of jax or a library, which the rule's proof tests against jax. Other likely forms need evidence."""
    default: ClassVar[bool] = True
    deprecated: ClassVar[str] = ""
    """What to use in place of a rule that is going away. It runs only where it is selected by its code or name."""
    releases: ClassVar[Mapping[str, str]] = {}
    triggers: ClassVar[tuple[Trigger, ...]] = ()
    project: ClassVar[str] = ""
    """A module that some file of a project must import, if any of its files is to be of interest to the rule."""
    project_says: ClassVar[tuple[str, ...]] = ()
    """Texts of which one must stand in a file, or in one that runs with it, if the file is to be of interest."""
    or_file_says: ClassVar[tuple[str, ...]] = ()
    """Texts of which one in the file itself does as well."""
    in_tests: ClassVar[bool] = True
    """Whether it is asked in files that are tests, by their names or a folder's."""
    blames_calls: ClassVar[bool] = False
    """Whether a finding that only some calls of the function around it lead to stands at the first of those."""
    fixes: ClassVar[Literal["safe", "unsafe", "both", "none"]] = "none"
    by_hand: ClassVar[str] = ""
    """Why findings without a fix have none, where they do not say it."""
    forms: ClassVar[tuple[Form, ...]] = ()
    """The forms of its triggers that it is asked about; () for all of them."""
    closed: ClassVar[tuple[Literal["positional", "keywords"], ...]] = ()
    """It is not asked of a call that spreads such arguments (`*args`, `**kwargs`) which cannot be read."""
    where: ClassVar[Literal["", "host", "traced"]] = ""
    """"traced" where it holds only in code that is always or sometimes traced, "host" where only in other code."""
    in_version_checks: ClassVar[bool] = True
    """Whether it holds also in code that runs only after a question for the release of a library."""
    bound: ClassVar[bool] = False
    """It is asked, too, of calls of a name that a partial is bound to, and of partials of it: it takes what the first
    partial was given into account (`Site.arguments` and `Site.keyword` know only what is given here)."""
    assumes: ClassVar[bool] = False
    """Where it finds nothing, ask again on each way to the site that is in sight, with defaults for what is not known.

    What calls alone prove on a way is proven; what rests on a default or a test is likely at most. Neither has a fix.
    Not for a rule that takes it for evidence that something is not there.
    """

    setting: ClassVar[str] = ""
    """The setting that it rests on: where a project does not give it, the rule is not asked."""
    behind: ClassVar[tuple[str, ...]] = ()
    """Codes of rules that say more of a place: where one of them is as sure of something there, this one is silent."""

    detectors: ClassVar[tuple[DeclaredDetector, ...]] = ()
    """Its detectors, in the order of the class."""

    def __init_subclass__(cls) -> None:
        """Collect the detectors, and name the form that every rule about a contract has."""
        found = [method.detects for method in vars(cls).values() if hasattr(method, "detects")]
        if found:
            named = {form for one in found for form in one.forms}
            others = tuple(form for form in get_args(Form) if form not in named)
            cls.detectors = tuple(replace(one, forms=one.forms or others) for one in found)
            is_open = any(not one.forms for one in found)
            cls.forms = () if is_open else tuple(form for form in get_args(Form) if form in named)
        conditional = any(isinstance(one, Violates) and one.is_conditional for one in cls.triggers)
        if conditional and CONDITIONAL not in cls.likely:
            cls.likely = (*cls.likely, CONDITIONAL)
            cls.assumptions = {CONDITIONAL: "The branch runs, and options keep their defaults.", **cls.assumptions}

    def triggers_for(self, own_names: OwnNames) -> tuple[Trigger, ...]:
        """Return its triggers in a project with these settings."""
        return self.triggers if not self.setting or self.setting in own_names.triggering_names else ()

    @classmethod
    def highest_certainty(cls) -> Certainty:
        """How sure the surest of its findings is."""
        return Certainty.LIKELY if cls.certainty is not Certainty.PROVEN and cls.likely else cls.certainty

    @classmethod
    def unproven_certainty(cls, form: str = "") -> Certainty:
        """How sure a finding of this form is where the text does not prove it."""
        return Certainty.LIKELY if form in cls.likely else Certainty.POSSIBLE

    @classmethod
    def stability(cls) -> Literal["preview", "stable", "deprecated"]:
        """Return the stability of the rule (docs/reference.md). A preview reports only possible findings, and only if
        asked.
        """
        if cls.deprecated:
            return "deprecated"
        return "stable" if cls.certainty is Certainty.PROVEN or cls.likely else "preview"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at a site that triggered the rule: those of the first of its detectors that has any."""
        for one in self.detectors:
            if found := one.collect_findings(self, site):
                yield from found
                return
