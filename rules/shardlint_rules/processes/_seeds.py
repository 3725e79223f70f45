"""Seeds that one function draws for each process anew, and keys that another file makes of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from shardlint.model import Program
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.processes._followed_key import Following
from shardlint_rules.processes.differing import Differing, sources
from shardlint_rules.processes.own_data import own_data
from shardlint_rules.processes.starting import short

SEEDS = (
    "secrets.randbits",
    "secrets.randbelow",
    "os.urandom",
    "random.randint",
    "random.randrange",
    "random.getrandbits",
    "random.random",
    "numpy.random.randint",
    "time.time",
    "time.time_ns",
    "uuid.uuid4",
)
"""What seeds are made of where none is given."""
_SAYS = ("random.key(", "PRNGKey(", "Rngs(")


@dataclass(frozen=True)
class Seeded:
    """A key that another file makes of a seed, and where it counts as one for all processes."""

    text: str
    where: str
    used: str
    used_at: str
    what: str
    why: str


def seeded_by(
    site: Site, keys: tuple[str, ...], matters: Callable[[Program, FileFacts, ast.AST], bool]
) -> Seeded | None:
    """The key in another file that is made of what a site draws, and that the program takes for one."""
    found = site.program.once(site.file, "keys by process", lambda: dict(_keys(site, keys, matters)))
    return found.get(_spot(Place(site.file, site.call)))


def _spot(place: Place) -> tuple[str, int, int]:
    return str(place.file.path), place.line, getattr(place.node, "col_offset", 0)


def _keys(
    site: Site, keys: tuple[str, ...], matters: Callable[[Program, FileFacts, ast.AST], bool]
) -> Iterator[tuple[tuple[str, int, int], Seeded]]:
    program = site.program
    for file in program.project.holding(site.file.path, _SAYS):
        if file is None or program.project.is_test(file.path):
            continue
        for call in _made(program, file, keys):
            given = [*call.args, *(one.value for one in call.keywords if one.arg is not None)]
            own = [one for node in given for one in _drawn(program, Place(file, node)) if one.place.file is not file]
            if not own or not matters(program, file, call):
                continue
            reached = next(Following(program).reached(Place(file, call)), None)
            if reached is None:
                continue
            place = reached.place
            for one in own:
                yield _spot(one.place), Seeded(
                    short(Place(file, call)),
                    f"{file.path.name}:{call.lineno}",
                    short(place),
                    f"{place.file.path.name}:{place.line}",
                    reached.what,
                    reached.why,
                )


def _drawn(program: Program, place: Place) -> list[Differing]:
    """All that makes a seed another in each process."""
    own = own_data(program, place)
    return [] if own is None else list(sources(program, place)) or [own]


def _made(program: Program, file: FileFacts, keys: tuple[str, ...]) -> Iterator[ast.Call]:
    """The keys that a file makes."""
    for name in dict.fromkeys(one.rpartition(".")[2] for one in keys):
        for mention in file.mentions(name):
            call = file.parent(mention)
            if isinstance(call, ast.Call) and call.func is mention and last_name(call.func) == name:
                if any(isinstance(one, Api) and one.name in keys for one in options(program.value(file, call.func))):
                    yield call
