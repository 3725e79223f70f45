"""SL801."""

from __future__ import annotations

import ast
import re

from shardlint.facts.processes.backend_starts import Started
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint_rules.processes.environment import Setting, find_setting
from shardlint_rules.processes.started_backend import (
    describe_start,
    find_backend_start,
    is_exception_caught,
    shorten_text,
)

_READ_BY_IMPORT = (
    "JAX_PLATFORMS",
    "JAX_PLATFORM_NAME",
    "JAX_ENABLE_X64",
    "JAX_NUM_CPU_DEVICES",
    "JAX_DEBUG_NANS",
    "JAX_DISABLE_JIT",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_TRACEBACK_FILTERING",
    "JAX_THREEFRY_PARTITIONABLE",
    "JAX_LOG_COMPILES",
)
_CONFIG = ("jax_num_cpu_devices", "jax_platforms", "jax_platform_name")
_COUNTS = ("chex.set_n_cpu_devices", "numpyro.set_host_device_count", "numpyro.util.set_host_device_count")
_ELSEWHERE = (
    "subprocess",
    "Popen",
    "multiprocessing",
    "spawn",
    "execv",
    "import ray",
    "ray.remote",
    "reload(",
)
_KEPT = compile_lazily(
    r"=\s*os\.(?:getenv|environ\.get)\(\s*[\"']XLA_FLAGS[\"'][\s\S]*finally:[\s\S]*environ\[[\"']XLA_FLAGS"
)
_JAX = compile_lazily(r"^\s*(?:import|from)\s+jax\b", re.MULTILINE)


class DeviceCountTooLate(Rule):
    """`XLA_FLAGS`, a `JAX_` variable or the number of simulated devices is set after jax has read it.

    The setting has no effect: the program has one device instead of simulated devices, or runs on another platform.
    Setting `jax_num_cpu_devices` this late raises RuntimeError.

    ## Reports
    - proven: `os.environ["XLA_FLAGS"] = ...` after a statement that starts the backend, also by `setdefault`, `update`
      or `putenv`.
    - proven: `jax.config.update("jax_num_cpu_devices", n)`, `jax.config.update("jax_platforms", ...)`,
      `chex.set_n_cpu_devices(n)` or `numpyro.set_host_device_count(n)` after such a statement.
    - proven: `os.environ["XLA_FLAGS"] = ...` in a function, if the backend starts before every call of this function in
      the project.
    - proven: `os.environ[...] = ...` after `import jax`, for a variable that the import reads, such as `JAX_PLATFORMS`
      or `JAX_ENABLE_X64`.

    ## Limits
    Not reported: `XLA_FLAGS` set between `import jax` and the first use of a device, which works. Also not reported:
    tests that restore the flags, variables for another process, and `jax_platforms` after a statement `jax.devices()`,
    which starts the backend on purpose.
    """

    code = "SL801"
    name = "device-count-too-late"
    harm = Harm.SILENT
    triggers = (
        Lines(
            r"[^#\n]*environ\b[^\n]*\n?[^\n]*(?:XLA_FLAGS|JAX_)",
            r"[^#\n]*putenv\([^\n]*(?:XLA_FLAGS|JAX_)",
            saying=("environ", "putenv("),
        ),
        Calls("jax.config.update", function_says=_CONFIG),
        Calls(*_COUNTS),
    )
    fixes = "none"

    @detector("call", of="jax.config.update")
    def report_option(self, site: Site) -> Finding | None:
        """An option that is set after the backend has started."""
        first = site.call.args[0] if site.call.args else None
        name = first.value if isinstance(first, ast.Constant) else None
        return _make_finding(site, str(name), name == "jax_num_cpu_devices") if name in _CONFIG else None

    @detector("call", of=_COUNTS)
    def report_count(self, site: Site) -> Finding | None:
        """A call that sets the number of devices after the backend has started."""
        return _make_finding(site, site.text(site.call.func), site.api == "chex.set_n_cpu_devices")

    @detector("line")
    def report_flags(self, site: Site) -> Finding | None:
        """Flags that are set after the backend has read them."""
        found = _find_setting(site)
        if found is None or found.name != "XLA_FLAGS" or found.keeps_only or _is_flag_test(site):
            return None
        started = find_backend_start(site, Place(site.file, site.syntax))
        if started is None:
            return self._called_too_late(site)
        return site.finding(
            site.syntax,
            "`XLA_FLAGS` has no effect here: the backend has already started.",
            help="set `XLA_FLAGS` before any call that needs a device or makes an array",
            why=f"{describe_start(site, started)} started the backend, and XLA reads the flags once",
        )

    def _called_too_late(self, site: Site) -> Finding | None:
        """A function that sets them, where each call of it in sight comes after the start of the backend."""
        function = site.scope.enclosing_function()
        if function is None or not isinstance(function.node, ast.FunctionDef):
            return None
        calls = site.program.flow.in_sight(site.file, function.node).direct_calls()
        calls = [place for place in calls if not site.program.project.is_test(place.file.path)]
        found = [find_backend_start(site, place) for place in calls]
        first = next(iter(found), None)
        if first is None or None in found:
            return None
        where = f"{calls[0].file.path.name}:{calls[0].line}"
        return site.finding(
            site.syntax,
            f"`XLA_FLAGS` has no effect here: the backend starts before `{function.name}` is called.",
            help=f"call `{function.name}` before any call or import that needs a device or makes an array",
            why=f"{describe_start(site, first)} starts the backend, before {where} calls `{function.name}`",
        )

    @detector("line")
    def report_variable(self, site: Site) -> Finding | None:
        """A variable of the environment that is set after jax has read it."""
        found = _find_setting(site)
        if found is None or found.name not in _READ_BY_IMPORT:
            return None
        imported = _earlier_jax_import(site)
        if imported is None or _is_also_configured(site, found.name):
            return None
        return site.finding(
            site.syntax,
            f"`{found.name}` has no effect here: jax has already read the variable at import.",
            why=f"`{shorten_text(Place(site.file, imported))}` on line {imported.lineno} imports jax",
            help=f'set the variable above that import, or call `jax.config.update("{found.name.lower()}", ...)`',
        )


def _find_setting(site: Site) -> Setting | None:
    """The variable that the statement sets for this process."""
    found = find_setting(site.syntax) if not is_exception_caught(site) else None
    return None if found is None or _is_for_other_process(site) else found


def _make_finding(site: Site, what: str, raises: bool) -> Finding | None:
    """The finding of a call, if the backend has started before."""
    started = find_backend_start(site, Place(site.file, site.call)) if not is_exception_caught(site) else None
    if started is None or (not raises and _is_started_on_purpose(started)):
        return None
    return site.finding(
        site.call,
        f"`{what}` {'raises RuntimeError' if raises else 'has no effect'}: the backend has already started.",
        help="move this call before any call that needs a device or makes an array",
        why=f"{describe_start(site, started)} started the backend",
        harm=Harm.CRASH if raises else Harm.SILENT,
    )


def _is_started_on_purpose(started: Started) -> bool:
    """True for a statement `jax.devices()`: it only starts the backend, so the option is for child processes."""
    file = started.place.file
    return not started.through and not file.source.in_cells and isinstance(file.parent(started.place.node), ast.Expr)


def _earlier_jax_import(site: Site) -> ast.stmt | None:
    """The import of jax that has run when a statement does: above it in its block, or above its function."""
    file = site.file
    inner: ast.AST = site.syntax
    for outer in file.ancestors(site.syntax):
        block = getattr(outer, "body", [])
        if isinstance(block, list) and inner in block:
            for statement in block[: block.index(inner)]:
                if isinstance(statement, ast.Import | ast.ImportFrom) and _JAX.match(site.text(statement)):
                    return statement
        inner = outer
    return None


def _is_for_other_process(site: Site) -> bool:
    """Return whether a process that is started later reads it, or a module that is loaded again."""
    return any(word in _text_around(site) for word in _ELSEWHERE)


def _is_flag_test(site: Site) -> bool:
    """Return whether it is in a test that restores the flags, whose subject reads the variable itself."""
    return site.program.project.is_test(site.file.path) and _KEPT.search(_text_around(site)) is not None


def _is_also_configured(site: Site, name: str) -> bool:
    return any(f"{quote}{name.lower()}{quote}" in _text_around(site) for quote in "\"'")


def _text_around(site: Site) -> str:
    """The text of the function, or of the whole file outside of functions."""
    function = site.scope.enclosing_function()
    return site.text(function.node) if function is not None else site.file.source.text
