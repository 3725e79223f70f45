"""Options of a program: those of its command line and of its environment.

Nobody can read their values in the text. A file that has some is run twice: with every option unknown, and with each
as its default has it (`RunState.with_defaults`). What is found in the second run alone rests on that assumption.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shardlint.layouts.values import (
    MISSING,
    Call,
    ClassValue,
    FunctionValue,
    Instance,
    Library,
    Native,
    Partial,
    Unknown,
    Value,
)
from shardlint.libraries.jax_transforms import transform_decorator
from shardlint.libraries.registry import register_function
from shardlint.source.lazy import dataclass

_CONVERTING: dict[str, Callable[[str], Value]] = {"builtins.int": int, "builtins.float": float}


def _option_value(call: Call, default: Value) -> Value:
    """The value of an option with a default."""
    if default is MISSING or isinstance(default, Unknown):
        return Unknown("an option")
    call.interpreter.note_option()
    return default if call.interpreter.with_defaults else Unknown("an option")


@dataclass(eq=False)
class Namespace(Instance):
    """The parsed command line, an `argparse.Namespace`."""

    transparent = False


@dataclass(eq=False)
class Parser(Instance):
    """An `argparse.ArgumentParser`, or a group of one. Its attributes are the defaults of the options."""

    transparent = False

    def computed_attribute(self, name: str) -> Value:
        """A method."""
        return Native(name, partial(_METHODS[name], self)) if name in _METHODS else MISSING


@register_function("argparse.ArgumentParser")
def make_parser(call: Call) -> Value:
    """A parser without options; those of `parents` are not known."""
    return Parser(None, {}, call.open or call.has_argument(-1, "parents"), region=call.interpreter.region)


def _add_argument(parser: Parser, call: Call) -> Value:
    names = [one for one in call.args if isinstance(one, str)]
    long = [one for one in names if one.startswith("--")]
    target = call.argument_at(-1, "dest", (long or names or [""])[0].lstrip("-").replace("-", "_"))
    if not isinstance(target, str) or not target:
        return Unknown("an option")
    is_given = call.argument_at(-1, "required", False) is not False or not names[0].startswith("-")
    if call.open or (is_given and "default" not in call.keywords):
        default: Value = Unknown("an option that has to be given")
    else:
        default = _default_of(call)
    call.interpreter.write_attribute(parser, target, default)
    return Unknown("an action")


def _default_of(call: Call) -> Value:
    absent = {"store_true": False, "store_false": True}.get(call.argument_at(-1, "action", ""))
    default, kind = call.argument_at(-1, "default", absent), call.argument_at(-1, "type", None)
    if isinstance(default, str) and isinstance(kind, Library) and kind.name in _CONVERTING:
        try:
            return _CONVERTING[kind.name](default)
        except ValueError:
            return Unknown("a default that argparse refuses")
    return default


def _set_defaults(parser: Parser, call: Call) -> Value:
    for name, value in call.keywords.items():
        call.interpreter.write_attribute(parser, name, value)
    return None


def _parse_options(parser: Parser, call: Call) -> Value:
    attributes = {name: _option_value(call, default) for name, default in parser.attributes.items()}
    found = Namespace(None, attributes, parser.open, region=call.interpreter.region)
    return found if call.function_name == "parse_args" else (found, Unknown("other arguments"))


_METHODS: dict[str, Callable[[Parser, Call], Value]] = {
    "add_argument": _add_argument,
    "add_argument_group": lambda parser, call: parser,
    "add_mutually_exclusive_group": lambda parser, call: parser,
    "set_defaults": _set_defaults,
    "parse_args": _parse_options,
    "parse_known_args": _parse_options,
}


@register_function("os.environ get setdefault", "os getenv")
def environment_variable(call: Call) -> Value:
    """A variable of the environment."""
    return _option_value(call, call.argument_at(1, "default"))


@register_function("absl.flags DEFINE_integer DEFINE_float DEFINE_string DEFINE_bool DEFINE_boolean DEFINE_enum")
def define_flag(call: Call) -> Value:
    """A flag. What `flags.FLAGS` holds is known of the flags that this file defines."""
    name, default = call.argument_at(0, "name"), call.argument_at(1, "default")
    value = _option_value(call, Unknown() if default is None else default)
    if isinstance(name, str):
        call.interpreter.flags[f"absl.flags.FLAGS.{name}"] = value
    return Namespace(None, {"value": value, "name": name})


@register_function("absl.app.run")
def run_main(call: Call) -> Value:
    """Run a main function with the arguments that are no flags."""
    return call.interpreter.call_value(call.argument_at(0, "main"), (Unknown("other arguments"),), {}, call.place)


@register_function("typer Option Argument", "click Option")
def annotated_default(call: Call) -> Value:
    """The default of a parameter, as typer takes it."""
    return call.argument_at(0, "default")


@register_function("typer.run", "fire.Fire", "tyro.cli", "jsonargparse.CLI", "simple_parsing.parse", "draccus.parse")
def run_function(call: Call) -> Value:
    """Call a function or class with options for its parameters."""
    return _with_options(call, call.args[0] if call.args else Unknown())


def _with_options(call: Call, value: Value, keywords: dict[str, Value] | None = None) -> Value:
    if not isinstance(value, FunctionValue | ClassValue | Partial | Native):
        return Unknown("what options are given to")
    call.interpreter.note_option()
    opened = not call.interpreter.with_defaults
    return call.interpreter.call_value(value, (), keywords or {}, call.place, opened)


def _make_command(call: Call, value: Value) -> Value:
    return Native("command", lambda again: _with_options(again, value))


register_function("click command group")(transform_decorator(_make_command))


@register_function("hydra.main")
def hydra_main(call: Call) -> Value:
    """A decorator whose function is called with a configuration that files tell."""

    def decorate_command(call: Call) -> Value:
        def run_command(again: Call) -> Value:
            return again.interpreter.call_value(call.args[0], (Unknown("a configuration"),), {}, again.place)

        return Native("command", run_command)

    return Native(call.name, decorate_command)


@register_function("click option argument")
def click_option(call: Call) -> Value:
    """A decorator that gives a parameter its option."""
    names = [one for one in call.args if isinstance(one, str)]
    plain = [one for one in names if not one.startswith("-")]
    name = (plain or names or [""])[-1].lstrip("-").replace("-", "_")
    default = False if call.argument_at(-1, "is_flag", False) is True else MISSING
    value = call.argument_at(-1, "default", default)

    def decorate_function(again: Call) -> Value:
        return Partial(again.args[0], (), {name: _option_value(again, value)})

    return Native("option", decorate_function)
