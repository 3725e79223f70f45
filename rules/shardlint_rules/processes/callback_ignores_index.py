"""SL805."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.processes import guard, several
from shardlint.model.values import Items, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.jit.how_many import settled_expression
from shardlint_rules.processes._ignored_index import ignores
from shardlint_rules.processes._same_data import same_data, told_apart
from shardlint_rules.processes._same_key import DRAWS, RESHAPE, SPLIT, alike
from shardlint_rules.processes.alone import alone
from shardlint_rules.processes.given import given_field, kept
from shardlint_rules.processes.own_data import own_data
from shardlint_rules.processes.replicated import whole
from shardlint_rules.processes.starting import at, short

_MAKE = "jax.make_array_from_callback"
_OWN_ROWS = "jax.make_array_from_process_local_data"


class CallbackIgnoresIndex(Rule):
    """Every shard, or every process, contributes the same data to an array.

    Examples are then counted several times and others are lost, or the devices of all processes draw the same noise.

    ## Reports
    - `unused` (possible): `make_array_from_callback(x.shape, sharding, lambda index: x)`, if the callback returns `x`
      or a part of it and doesn't use its index. If it returns all of `x`, this raises ValueError.
    - `same-keys` (likely): `jax.random.split(key, jax.local_device_count())`, or numbers drawn for the devices of this
      process, with a key that every process makes from the same seed.
    - `same-rows` (likely): `make_array_from_process_local_data(sharding, rows)`, if every process seeds, counts or
      reads `rows` alike.

    ## Limits
    Replicated shardings are not reported, nor callbacks that return zeros, a constant or the index of the process.
    """

    code = "SL805"
    name = "callback-ignores-index"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("same-keys", "same-rows")
    assumptions: ClassVar[Mapping[str, str]] = {
        "same-rows": "Nothing outside the program gives each process other files."
    }
    triggers = (
        Calls(_MAKE),
        Calls(_OWN_ROWS),
        Calls(SPLIT, *DRAWS, RESHAPE, file_says=("local_device_count", "local_devices(")),
    )
    fixes = "none"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a callback, a key or rows."""
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
        if not self._of_it(site, ignoring.result):
            return
        what = short(ignoring.result)
        yield site.finding(
            given,
            f"Every shard gets the same data: the callback ignores its parameter `{ignoring.index}`.",
            label=f"returns `{what}`",
            help=f"return the part of the shard: {what}[{ignoring.index}]",
            form="unused",
            why="make_array_from_callback calls it once for each shard and expects that shard's part",
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
        text = site.shown(key)
        yield site.finding(
            key,
            f"Every process uses the same key `{text}`, so the devices of all processes draw the same numbers.",
            help=f"fold the process in first: jax.random.fold_in({text}, jax.process_index())",
            form="same-keys",
            why=f"every process makes it by `{short(made)}`{at(made, site.file, key)}, and the numbers are for the "
            "devices of this process",
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
            f"On several processes the array contains each row of `{site.shown(given)}` once per process.",
            label="the same in each process",
            help="give each process its part: rows[jax.process_index() :: jax.process_count()]",
            form="same-rows",
            why=f"the rows of all processes are concatenated, and every process makes the same: `{short(made)}` at "
            f"{made.file.path.name}:{made.line}",
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
