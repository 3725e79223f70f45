"""SL803."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Statements, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.processes.started_backend import describe_start, find_backend_start, is_exception_caught

_INITIALIZE = "jax.distributed.initialize"
_ASKING = tuple(
    f"jax.{name}"
    for name in (
        "local_device_count", "device_count", "local_devices", "devices", "process_index", "process_count",
        "default_backend",
    )
)  # fmt: skip
_OF_CLUSTERS = (
    "is_env_present", "get_coordinator_address", "get_process_count", "get_process_id", "get_local_process_id",
    "get_local_device_ids_for_process",
)  # fmt: skip
_PARTS = ("init", "setup", "set_up", "connect", "distributed", "configure", "launch", "start", "join")
_DEPTH = 2


class BackendBeforeInitialize(Rule):
    """The backend starts before `jax.distributed.initialize` is called.

    `initialize` then raises RuntimeError.

    ## Reports
    - proven: `jax.distributed.initialize()`, or a call of a project function that calls it, after a statement that
      starts the backend: `jax.devices()`, `jax.process_index()`, a new key or array. shardlint also looks into the
      functions, constructors and imported modules that run before the call.
    - `cluster` (likely): a call that starts the backend in a method of a `jax._src.clusters.ClusterEnv` subclass.
      `initialize` calls such methods before it starts the backend.

    ## Limits
    Not reported: a backend start inside a branch or loop, which may not run.
    """

    code = "SL803"
    name = "backend-before-initialize"
    harm = Harm.CRASH
    certainty = Certainty.PROVEN
    likely = ("cluster",)
    assumptions: ClassVar[Mapping[str, str]] = {"cluster": "The class is the one that jax chooses for the cluster."}
    triggers = (
        Calls(_INITIALIZE),
        Calls(*_ASKING, file_says=("ClusterEnv", "SlurmCluster", "clusters.")),
        Statements(*_PARTS),
        Statements(*_PARTS, or_scripts=True),
    )
    or_file_says = ("ClusterEnv", "SlurmCluster", "clusters.")
    project_says = ("distributed.initialize", "jax.distributed", "import distributed", "distributed as")
    fixes = "none"

    @detector("call", of=_INITIALIZE)
    def report_call(self, site: Site) -> Finding | None:
        """A call of initialize that comes too late."""
        return self._make_finding(site, _INITIALIZE)

    @detector("statement")
    def report_statement(self, site: Site) -> Finding | None:
        """A function of the project that calls initialize, and comes too late."""
        called = site.text(site.call.func)
        leads = self._is_called_first(site)
        return self._make_finding(site, called, f", and `{called}` calls {_INITIALIZE}") if leads else None

    def _make_finding(self, site: Site, called: str, reason: str = "") -> Finding | None:
        started = find_backend_start(site, Place(site.file, site.call)) if not is_exception_caught(site) else None
        if started is None:
            return None
        return site.finding(
            site.call,
            f"`{called}` raises RuntimeError: the backend has already started.",
            help="call `jax.distributed.initialize` before calls that need devices or processes, or make arrays",
            why=f"{describe_start(site, started)} started the backend{reason}",
        )

    @detector("call", finds="cluster")
    def report_cluster(self, site: Site) -> Finding | None:
        """A call that starts the backend, in a method by which jax.distributed.initialize detects its cluster."""
        method = site.scope.enclosing_function()
        node = method.node if method is not None else None
        cls = method.parent.node if method is not None and method.parent is not None else None
        if not isinstance(node, ast.FunctionDef) or not isinstance(cls, ast.ClassDef) or is_exception_caught(site):
            return None
        clusters = [one for one in cls.bases if last_name(one).endswith(("Cluster", "ClusterEnv"))]
        if node.name not in _OF_CLUSTERS or not clusters:
            return None
        return site.finding(
            site.call,
            f"`jax.distributed.initialize` raises RuntimeError: it calls `{node.name}`, which starts the backend.",
            label="starts the backend",
            help="read an environment variable of the cluster instead, or return None to let jax choose",
            why=f"`{cls.name}` is a `{site.text(clusters[0])}`, which jax calls before it starts the backend",
        )

    def _is_called_first(self, site: Site) -> bool:
        """Return whether a function of the project calls it, and nothing that surely runs in there comes before."""
        if isinstance(site.call.func, ast.Attribute) and site.call.func.attr == "__init__":
            return False  # of the class above
        if not (site.is_named_anywhere("distributed.initialize") or site.is_named_anywhere("jax.distributed")):
            return False
        for option in options(site.value(site.call.func)):
            found = _find_initialize_inside(site, option, 0)
            if found is not None:
                return find_backend_start(site, found) is None
        return False


def _find_initialize_inside(site: Site, value: object, depth: int) -> Place | None:
    """The call of initialize in a function or what it calls."""
    if not isinstance(value, Function) or isinstance(value.node, ast.Lambda) or depth > _DEPTH:
        return None
    if depth == _DEPTH and not value.place.file.contains_text("distributed"):
        return None
    question = "leads to initialize", value.node, depth
    return site.program.answer_for_node(question, lambda: _find_in_called_function(site, value, depth))


def _find_in_called_function(site: Site, value: Function, depth: int) -> Place | None:
    file = value.place.file
    for scope in (file.walk_scope(file.scope(value.node)),):
        for call in scope.calls:
            for option in options(site.program.value(file, call.func)):
                if isinstance(option, Api) and option.name == _INITIALIZE:
                    return Place(file, call)
                if isinstance(option, Function):
                    found = _find_initialize_inside(site, option, depth + 1)
                    if found is not None:
                        return found
    return None
