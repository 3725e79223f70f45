"""Keys of a function that runs on each device, in which nothing tells the devices apart. Shared by no other rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.enclosing import around
from shardlint.syntax.nodes import names_in, walk
from shardlint_rules.shard_map._draws import draws_nothing

REDUCING = ("jax.lax.pmean", "jax.lax.psum", "jax.lax.all_gather")
SAYS = ("axis_index(", "replicate(")
_KEY = regex(r"(?i)(^|_)(rngs?|keys?|prng|prng_?keys?)(_|$)")
_ALIKE = regex(r"(?i)init|param|shared|common|global|same")
# What tells devices apart, or may do so out of sight.
_APART = regex(
    r"(?i)axis_index|process_index|host_id|shard_prng|specialize|bind_|per_device|per_host|fold_rng|split_rng\w*device|"
    r"(?:local|device)_(?:rng|key)\w*\("
)
_COPIED = regex(r"replicate\w*\(\s*[\w.]*(?:rng|key)\w*\s*\)", re.I)
_SPLITS = regex(r"split\([^()]*device_count|shard_prng_key|split\([^()]*num_devices", re.I)


@dataclass(frozen=True)
class Alone:
    """What is given a key, what that is called, and how it is known that other devices have the same."""

    node: ast.expr
    key: str
    why: str


def alone(site: Site) -> Alone | None:
    """The first use of a key in the function around a collective, of which all devices have a copy."""
    function = _outermost(site)
    if function is None or _first_collective(function) is not site.call:
        return None
    whole = site.file.source.text
    if _APART.search(site.file.text(function)) or _SPLITS.search(whole):
        return None
    for key, roots in _keys(site, function):
        used = next(_uses(function, roots), None)
        if used is None or draws_nothing(site.program, Place(site.file, used)):
            continue
        other = _sibling(site, function, key)
        if other is not None:
            return Alone(
                used, key, f"`{other}` folds the index of the device into its `{key}`, and nothing here does"
            )
        copied = _COPIED.search(whole)
        if copied is not None and "axis_index" not in whole:
            return Alone(used, key, f"`{' '.join(copied[0].split())}` gives each device a copy of a key")
    return None


def _outermost(site: Site) -> ast.FunctionDef | None:
    """The function around a call that is no part of another one but of a class, or of one that takes no key."""
    found = [one for one in around(site.file, site.call, ast.FunctionDef) if isinstance(one, ast.FunctionDef)]
    return next((one for one in reversed(found) if any(_KEY.search(arg) for arg in _parameters(one))), None)


def _parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _first_collective(function: ast.FunctionDef) -> ast.AST | None:
    names = {name.rpartition(".")[2] for name in REDUCING}
    calls = (one for one in walk(function) if isinstance(one, ast.Call) and last_name(one.func) in names)
    return min(calls, key=lambda one: (one.lineno, one.col_offset), default=None)


def _keys(site: Site, function: ast.FunctionDef) -> Iterator[tuple[str, set[str]]]:
    """The parameters that are keys, with all names that are made of them."""
    bound = sorted((one for one in walk(function) if isinstance(one, ast.Assign)), key=lambda one: one.lineno)
    for name in _parameters(function):
        if not _KEY.search(name) or _ALIKE.search(name):
            continue
        made = {name}
        for one in bound:
            handed = one.value.args[0] if isinstance(one.value, ast.Call) and one.value.args else one.value
            if isinstance(one.value, ast.Name) or (
                isinstance(one.value, ast.Call) and last_name(one.value.func) in ("split", "fold_in")
            ):
                if names_in(handed) & made:
                    made = made.union(*map(names_in, one.targets))
        yield name, made


def _uses(function: ast.FunctionDef, keys: set[str]) -> Iterator[ast.expr]:
    """Where keys are given to what draws with them: as `rngs` of a model, or as `rng` of a loss."""
    for node in walk(function):
        if not isinstance(node, ast.Call) or "init" in last_name(node.func):
            continue
        for given in node.keywords:
            values = given.value.values if isinstance(given.value, ast.Dict) else [given.value]
            names = [one.id for one in values if isinstance(one, ast.Name)]
            if given.arg in ("rngs", "rng", "dropout_rng") and any(one in keys for one in names):
                if last_name(node.func) not in ("replace", "split", "fold_in", "dict"):
                    yield node


def _sibling(site: Site, function: ast.FunctionDef, key: str) -> str | None:
    """Another function of the file, beside this one, that folds the index of the device into a key of the same name."""
    folds = re.compile(rf"(?:fold_in|bind_\w+)\(\s*{re.escape(key)}\s*,[^)]*axis_(?:index|name)", re.S)
    for one in walk(site.file.tree):
        if isinstance(one, ast.FunctionDef) and one is not function and key in _parameters(one):
            if (
                not _within(one, function)
                and not _within(function, one)
                and folds.search(site.file.text(one))
            ):
                return one.name
    return None


def _within(part: ast.FunctionDef, whole: ast.FunctionDef) -> bool:
    return whole.lineno <= part.lineno and (part.end_lineno or 0) <= (whole.end_lineno or 0)
