"""Runs each program it is given, and puts down what it raised, as `shardlint run` does. One import of jax for all.

Of a program in a folder `raising` each function is run by itself.
"""

import json
import runpy
import sys
import types
from functools import partial
from pathlib import Path

startup, out, *programs = sys.argv[1:]
raised = runpy.run_path(startup)
raised["watch_exceptions"]()
ended = {}


def attempt(program: str, name: str, run) -> None:
    try:
        run()
        ended[name] = ""
    except Exception as error:
        ended[name] = type(error).__name__
        while error.__traceback__.tb_frame.f_code.co_filename != program:
            error.__traceback__ = error.__traceback__.tb_next
        raised["write"](error, str(Path(out, f"{Path(name).stem}.json")))


for program in programs:
    if Path(program).parent.name != "raising":
        attempt(program, program, partial(runpy.run_path, program, run_name="__main__"))
        continue
    module = types.ModuleType(Path(program).stem)
    exec(compile(Path(program).read_text(), program, "exec"), vars(module))
    for name, function in list(vars(module).items()):
        if (
            isinstance(function, types.FunctionType)
            and function.__doc__
            and function.__module__ == module.__name__
        ):
            attempt(program, f"{module.__name__}-{name}", function)
Path(out, "ended").write_text(json.dumps(ended))
