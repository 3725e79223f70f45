"""Configurations of ml_collections: dicts whose entries are attributes too."""

from __future__ import annotations

from shardlint.layouts.values import Call, DictValue, State, Unknown, Value
from shardlint.libraries.registry import register_function


@register_function(
    "ml_collections ConfigDict FrozenConfigDict",
    "ml_collections.config_dict ConfigDict FrozenConfigDict create",
    "ml_collections.config_dict.config_dict ConfigDict FrozenConfigDict create",
)
def config_dict(call: Call) -> Value:
    """A configuration of the entries of a dict, with those of its dicts."""
    if call.function_name == "create":
        return _make_state(call, DictValue(dict(call.keywords), call.open))
    given = call.argument_at(0, "initial_dictionary", DictValue())
    return _make_state(call, given) if isinstance(given, DictValue) else State({}, True)


def _make_state(call: Call, dict_value: DictValue) -> State:
    entries = {
        name: _make_state(call, one) if type(one) is DictValue else one for name, one in dict_value.entries.items()
    }
    return State(entries, dict_value.open, region=call.interpreter.region)


@register_function(
    "ml_collections.config_dict placeholder required_placeholder",
    "ml_collections.config_dict.config_dict placeholder required_placeholder",
)
def make_placeholder(call: Call) -> Value:
    """An entry that is given later."""
    return Unknown("an entry that is given later")
