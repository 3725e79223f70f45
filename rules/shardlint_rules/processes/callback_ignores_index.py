"""SL805."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.processes import guard, several
from shardlint.model.values import Function, Items, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.jit.how_many import settled_expression
from shardlint_rules.processes._drawn import Generator, drawn_from
from shardlint_rules.processes._first_share import first_shares
from shardlint_rules.processes._ignored_index import ignores
from shardlint_rules.processes._same_data import same_data, told_apart
from shardlint_rules.processes._same_key import DRAWS, RESHAPE, SPLIT, alike
from shardlint_rules.processes.alone import alone
from shardlint_rules.processes.given import given_field, kept
from shardlint_rules.processes.own_data import own_data
from shardlint_rules.processes.replicated import whole
from shardlint_rules.processes.starting import at, short

_MAKE = "jax.make_array_from_callback"
_COUNT = "jax.process_count"
_OWN_ROWS = "jax.make_array_from_process_local_data"


class CallbackIgnoresIndex(Rule):
    """Every shard, or every process, gives the same data as its part of an array.

    ## What it does
    Reports `make_array_from_callback(x.shape, sharding, lambda index: x)`: the callback gives x, or a part of it, and
    does not use its parameter, the index of the shard. Shardings that are replicated are left alone, and so is what
    is not made of the array whose shape the whole has: zeros, a constant, the index of the process. Likely, in programs
    for several processes: `make_array_from_process_local_data(sharding, rows)` where the rows are seeded, counted or
    read alike in each process, also through classes and callers, and nothing on the way tells the processes apart.
    Likely, too: `files[: len(files) // jax.process_count()]` in a file that never asks which process this is; and
    `jax.random.split(key, jax.local_device_count())`, or numbers drawn for the devices of this process, of a key that
    comes of one seed with no process in it; and a callback that draws from a generator which all processes have
    in the same state.

    ## Why it hurts
    It is called for each shard of this process, and must give that shard's part of the whole. With the whole array it
    raises `ValueError` for the shape; with a part, every device gets the same one, so that the examples of the
    others are lost and those of one are counted again and again. Keys that are the same in each process give the
    devices of all of them the same dropout, noise and samples. What each process gives as its own rows is put one
    after another: a batch of 64 becomes one of 128 with each example twice.

    ## Evidence
    Run on jax 0.12: an array of eight equal shards where eight different ones were meant; the dropout masks of two
    processes are equal. The keys of three public trainers are so.
    """

    code = "SL805"
    name = "callback-ignores-index"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("same-rows", "first-share", "same-keys", "drawn")
    triggers = (
        Calls(_MAKE),
        Calls(_OWN_ROWS),
        Calls(_COUNT, file_says=("//",), function_says=("//",)),
        Calls(SPLIT, *DRAWS, RESHAPE, file_says=("local_device_count", "local_devices(")),
    )
    fixes = "none"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a callback, or for rows."""
        if site.api == _COUNT:
            yield from self._shares(site)
            return
        if site.api == _OWN_ROWS:
            yield from self._rows(site)
            return
        if site.api != _MAKE:
            yield from self._keys(site)
            return
        given = site.argument("data_callback")
        if given is None or self._replicated(site):
            return
        found = options(site.value(given))
        ignoring = ignores(site.program, found[0]) if len(found) == 1 else None
        if ignoring is None:
            return
        function = found[0]
        if isinstance(function, Function) and site.wants("drawn"):
            generator = drawn_from(site.program, function)
            if generator is not None:
                yield self._drawn(site, function, generator)
                return
        if not self._of_it(site, ignoring.result):
            return
        what = " ".join(ignoring.result.text().split())
        index = ignoring.index
        yield site.finding(
            given,
            f"`{index}` is not used: each shard gets `{what}`, whichever part of the array it is.",
            label="the same for each shard",
            help=f"give the part that is asked for: {what}[{index}]",
            form="unused",
            why="the callback has a parameter that it does not read",
        )

    def _shares(self, site: Site) -> Iterator[Finding]:
        """The share of one process, which each takes from the front."""
        for taken in first_shares(site):
            if alone(site.program, Place(site.file, site.call)) or site.program.project.is_test(
                site.file.path
            ):
                return
            whole_of = site.text(taken.value)
            yield site.finding(
                taken,
                "With several processes each takes the same part, and the rest is never read: the global batch has "
                "each example as many times as there are processes.",
                label="the first share, in each process",
                help=f"take the share of this process: {whole_of}[jax.process_index() :: jax.process_count()]",
                form="first-share",
                why="it is as long as the share of one process, and nothing here asks which one this is",
            )

    def _drawn(self, site: Site, function: Function, generator: Generator) -> Finding:
        """A callback that draws the next numbers, whichever part it is asked for."""
        node = generator.call if function.place.file is site.file else site.call
        return site.finding(
            node,
            f"`{generator.name}` is as far on in each process, and each asks for its own shards only: those of several "
            "processes hold the same numbers.",
            label="the next numbers, whichever part is asked for",
            help=f"make a generator for each part, by its index: {generator.name}.spawn(n)[index[0].start // rows]",
            form="drawn",
            why=generator.why,
        )

    def _keys(self, site: Site) -> Iterator[Finding]:
        """Keys, or numbers drawn, for the devices of one process, the same in each."""
        if not site.wants("same-keys") or site.program.project.is_test(site.file.path):
            return
        if site.file.path.suffix == ".ipynb":
            return  # of one process, whatever else the project starts
        found = alike(site) if several(site.program, site.file) else None
        place = Place(site.file, site.call)
        if found is None or guard(site.program, site.file, site.call) or alone(site.program, place):
            return
        key, made = found
        yield site.finding(
            key,
            f"`{short(made)}`{at(made, site.file, key)} is the same in each process, and nothing on the way tells them "
            "apart: the devices of each get what those of the others get.",
            label="the same in each process",
            help=f"fold the process in first: jax.random.fold_in({site.text(key)}, jax.process_index())",
            form="same-keys",
            why="it is made for each of the devices of this process",
        )

    def _rows(self, site: Site) -> Iterator[Finding]:
        """Rows of which each process gives the same."""
        given, sharding = site.argument("local_data"), site.argument("sharding")
        if given is None or sharding is None or site.argument("global_shape") is not None:
            return
        if any(told_apart(one) for one in site.file.ancestors(site.call) if isinstance(one, ast.FunctionDef)):
            return
        if not site.wants("same-rows") or site.program.project.is_test(site.file.path):
            return
        if several(site.program, site.file) != "initialized" or not self._splits(site, sharding):
            return
        made = same_data(site.program, Place(site.file, given))
        if made is None or alone(site.program, Place(site.file, site.call)):
            return
        if own_data(site.program, Place(site.file, given)) is not None:
            return
        yield site.finding(
            given,
            "With several processes each gives these rows as its own, and they are put one after another: the array "
            "has as many copies of each row as there are processes.",
            label="the same in each process",
            help="give each process its part: rows[jax.process_index() :: jax.process_count()], or use "
            "jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])",
            form="same-rows",
            why=f"`{' '.join(made.text().split())[:60]}` at {made.file.path.name}:{made.line} is the same in each",
        )

    def _splits(self, site: Site, node: ast.expr) -> bool:
        """Whether a sharding surely splits, also one that an object was given when it was made."""
        if site.shardings.shards(site.program.followed(site.value(node))):
            return True
        places = list(given_field(site.program, site.file, node)) if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.Attribute) and not places and (own := kept(site.file, node)) is not None:
            places = [own]
        return bool(places) and all(
            site.shardings.shards(site.program.followed(site.program.value(one.file, one.node)))
            for one in places
        )

    def _of_it(self, site: Site, result: Place) -> bool:
        """Whether a result is made of the array whose shape the whole has: it, or the same part of it."""
        shape = site.argument("shape")
        if shape is not None:
            shape = settled_expression(site.file, shape)
        if not isinstance(shape, ast.Attribute) or shape.attr != "shape":
            return False
        node = result.node
        assert isinstance(node, ast.expr)
        parts = [node, settled_expression(result.file, node)]
        wanted = ast.dump(shape.value)
        found = (inner for part in parts for inner in _values(part))
        return any(ast.dump(inner) == wanted for inner in found)

    def _replicated(self, site: Site) -> bool:
        """Whether the sharding is known to be `P()`, or the array to be a scalar."""
        shape = site.argument("shape")
        if shape is not None and any(one == Items("tuple", ()) for one in options(site.value(shape))):
            return True
        given = site.argument("sharding")
        return given is not None and all(whole(site, one) for one in options(site.value(given)))


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression holds the values of: itself, what it is a part of, what it converts."""
    yield node
    if isinstance(node, ast.Subscript):
        yield from _values(node.value)
    elif isinstance(node, ast.Call) and node.args:
        name = last_name(node.func)
        if name in ("asarray", "array"):
            yield from _values(node.args[0])
