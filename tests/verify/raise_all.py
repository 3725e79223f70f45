"""Runs each program it is given, and puts down what it raised, as `shardlint run` does. One import of jax for all."""

import json
import runpy
import sys
from pathlib import Path

startup, out, *programs = sys.argv[1:]
raised = runpy.run_path(startup)
ended = {}
for program in programs:
    try:
        runpy.run_path(program, run_name="__main__")
        ended[program] = ""
    except Exception as error:
        ended[program] = type(error).__name__
        while error.__traceback__.tb_frame.f_code.co_filename != program:
            error.__traceback__ = error.__traceback__.tb_next
        raised["write"](error, str(Path(out, f"{Path(program).stem}.json")))
Path(out, "ended").write_text(json.dumps(ended))
