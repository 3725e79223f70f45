"""Donated arguments that are no state by their names: a batch, a random key, a learning rate. For SL223."""

from __future__ import annotations

import ast
from typing import NamedTuple

from shardlint.model.values import Api, Constant, Items, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import mentions_name, walk_nodes
from shardlint_rules.jit.results import returned_expressions

_NUMBER = compile_lazily(
    r"^_*(?:lr|learning_rate|momentum|weight_decay|temperature|damping|mcmc_width|dropout_rate|beta\d?)$"
)
_BATCH = compile_lazily(r"^_*(?:(?:train_|eval_|input_)?batch|images?|labels?|inputs?|input_ids|targets?|examples?)$")
_KEY = compile_lazily(r"^_*(?:(?:dropout_|train_|prng_|sample_)?(?:rngs?|keys?|prng))$")
WEIGHTS = compile_lazily(r"^_*(?:(?:train_|model_)?(?:params|state|variables|weights|model)|batch_stats|train_state)$")
"""Names of weights and states, which a caller needs again."""
_OF_ATTENTION = frozenset(("query", "queries", "value", "values", "q", "v"))
_KEYS_SAID = compile_lazily(r"rng|key|seed|split|random")
_DATA_SAID = compile_lazily(
    r"batch|image|label|input|target|example|data|recon|logits|predict|output|generat|sample|token"
)
_JITS = compile_lazily(r"^(?:jit|pjit|pmap|filter_jit|filter_pmap|named_jit)$")
_MOST = 32


class NamedDonation(NamedTuple):
    """A donated parameter, and what it is by its name."""

    name: str
    what: str


class Wrapped(NamedTuple):
    """A decorator of the project with `donate_argnums`, the function below it, and its donated parameters."""

    keyword: ast.keyword
    function: ast.FunctionDef
    donated: list[str]


def find_unupdated_donations(
    file: FileFacts, node: ast.FunctionDef | ast.AsyncFunctionDef, donated: list[str]
) -> list[NamedDonation]:
    """The donated parameters that are no state by their names and that no result updates."""
    returned = returned_expressions(file, node)
    if not returned:
        return []
    attention = _OF_ATTENTION.intersection(one.arg for one in (*node.args.posonlyargs, *node.args.args))
    said = " ".join(file.source_text(part) for one in returned for part in _result_elements(one))
    delegates = any(isinstance(one, ast.Call) for one in returned)
    matches = []
    for name in donated:
        mentioned = any(
            isinstance(part, ast.Name) and part.id == name
            for one in returned
            for part in _nodes_outside_calls(one)
        )
        if mentioned or not mentions_name(node, name):
            continue
        if _NUMBER.search(name) and name not in said.replace("(", " ").replace(",", " ").split():
            matches.append(NamedDonation(name, "a number by its name"))
        elif not delegates and _BATCH.search(name) and not _DATA_SAID.search(said):
            matches.append(NamedDonation(name, "data by its name"))
        elif not delegates and not attention and _KEY.search(name) and not _KEYS_SAID.search(said):
            matches.append(NamedDonation(name, "a random key by its name"))
    return matches


def _result_elements(result: ast.expr) -> list[ast.expr]:
    """The elements of a result."""
    if isinstance(result, ast.Call):
        return []
    return list(result.elts) if isinstance(result, ast.Tuple | ast.List) else [result]


def _nodes_outside_calls(result: ast.expr) -> list[ast.expr]:
    """The nodes of a result outside calls."""
    if isinstance(result, ast.Call):
        return []
    if isinstance(result, ast.Tuple | ast.List):
        return [part for one in result.elts for part in _nodes_outside_calls(one)]
    return list(walk_nodes(result))  # type: ignore[arg-type]


def function_under_donating_decorator(site: Site) -> Wrapped | None:
    """The function below a decorator of the project with `donate_argnums`, and its donated parameters."""
    call = site.call
    keyword = next((one for one in call.keywords if one.arg == "donate_argnums"), None)
    if keyword is None or _JITS.search(last_name(call.func)):
        return None
    function = site.file.parent(call)
    if not isinstance(function, ast.FunctionDef) or call not in function.decorator_list:
        return None
    first = call.args[0] if last_name(call.func) == "partial" and call.args else call.func
    if _JITS.search(last_name(first)) or any(isinstance(one, Api) for one in options(site.value(first))):
        return None
    at = _read_positions(site, keyword.value)
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if at is None or not names:
        return None
    donated = [names[index] for index in at if index < len(names)]
    if names[0] == "self":
        bound = [names[index + 1] for index in at if index + 1 < len(names)]
        donated = [name for name in bound if name in donated]
    return Wrapped(keyword, function, donated)


def _read_positions(site: Site, node: ast.expr) -> list[int] | None:
    """The positions in `(0, 1)`, `3` or `tuple(range(5))`; None if they are unknown."""
    match node:
        case ast.Call(
            func=ast.Name(id="tuple" | "list"),
            args=[ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))])],
        ):
            return list(range(min(count, _MOST)))
    value = site.value(node)
    if isinstance(value, Constant) and isinstance(value.value, int):
        return [value.value]
    if isinstance(value, Items) and not value.open:
        numbers = [one.value for one in value.items if isinstance(one, Constant)]
        if len(numbers) == len(value.items) and all(isinstance(one, int) and one >= 0 for one in numbers):
            return [one for one in numbers if isinstance(one, int)]
    return None
