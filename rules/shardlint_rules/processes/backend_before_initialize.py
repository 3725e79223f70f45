"""SL803."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Statements
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.processes.starting import caught, started_before, told

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
    """Something has started the backend before `jax.distributed.initialize` is called.

    ## What it does
    Reports calls of `jax.distributed.initialize`, and of functions and methods of the project that call it, where an
    earlier statement starts the backend: `jax.devices()`, `jax.process_index()`, a key, an array. It follows what
    surely runs before: statements, functions and constructors they call, modules they import with their constants,
    defaults, class bodies and decorators. Branches and loops do not count.
    Likely: such a call in a method of a class of `jax._src.clusters` by which initialize finds out where it runs.

    ## Why it hurts
    It raises `RuntimeError: jax.distributed.initialize() must be called before any JAX calls that might initialise the
    XLA backend`. Older releases went on, and each process was a cluster of its own.

    ## Evidence
    Run on jax 0.12 with each of the calls that it takes for a start. Reported for jax itself (issue 12258), flashbax
    and MaxText.
    """

    code = "SL803"
    name = "backend-before-initialize"
    harm = Harm.CRASH
    certainty = Certainty.PROVEN
    likely = ("cluster",)
    triggers = (
        Calls(_INITIALIZE),
        Calls(*_ASKING, file_says=("ClusterEnv", "SlurmCluster", "clusters.")),
        Statements(*_PARTS),
        Statements(*_PARTS, or_scripts=True),
    )
    or_file_says = ("ClusterEnv", "SlurmCluster", "clusters.")
    project_says = ("distributed.initialize", "jax.distributed", "import distributed", "distributed as")
    fixes = "none"
    forms = ("call", "statement")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call."""
        if site.form == "call" and site.api != _INITIALIZE:
            yield from self._cluster(site)
            return
        place = Place(site.file, site.call)
        if site.form == "statement" and not self._leads(site):
            return
        if caught(site):
            return
        started = started_before(site, place)
        if started is None:
            return
        through = "" if site.form == "call" else f" that `{site.text(site.call.func)}` makes"
        yield site.finding(
            site.call,
            f"The call of jax.distributed.initialize{through} raises RuntimeError: the backend was started by "
            f"{told(site, started)}.",
            label="the backend has started",
            help="call jax.distributed.initialize first, and ask for devices, processes and arrays after it",
        )

    def _cluster(self, site: Site) -> Iterator[Finding]:
        """What a method asks by which jax.distributed.initialize finds out where it runs."""
        method = site.scope.function()
        node = method.node if method is not None else None
        cls = method.parent.node if method is not None and method.parent is not None else None
        if not isinstance(node, ast.FunctionDef) or not isinstance(cls, ast.ClassDef) or caught(site):
            return
        clusters = [one for one in cls.bases if last_name(one).endswith(("Cluster", "ClusterEnv"))]
        if node.name not in _OF_CLUSTERS or not clusters:
            return
        yield site.finding(
            site.call,
            f"jax.distributed.initialize calls `{node.name}` to find out where it runs, and this starts the backend: "
            "it then raises RuntimeError, or the process is a cluster of its own.",
            label="starts the backend",
            help="ask the environment, or return None to leave the choice to jax",
            certainty=Certainty.POSSIBLE,
            form="cluster",
            why=f"`{cls.name}` is a `{site.text(clusters[0])}`, which jax asks before it starts the backend",
        )

    def _leads(self, site: Site) -> bool:
        """Whether a function of the project calls it, and nothing that surely runs in there comes before."""
        if isinstance(site.call.func, ast.Attribute) and site.call.func.attr == "__init__":
            return False  # of the class above
        if not (site.anywhere("distributed.initialize") or site.anywhere("jax.distributed")):
            return False
        for option in options(site.value(site.call.func)):
            found = _inside(site, option, 0)
            if found is not None:
                return started_before(site, found) is None
        return False


def _inside(site: Site, value: object, depth: int) -> Place | None:
    """The call of initialize in a function or what it calls."""
    if not isinstance(value, Function) or isinstance(value.node, ast.Lambda) or depth > _DEPTH:
        return None
    if depth == _DEPTH and not value.place.file.says("distributed"):
        return None
    question = "leads to initialize", value.node, depth
    return site.program.of_node(question, lambda: _looked_into(site, value, depth))


def _looked_into(site: Site, value: Function, depth: int) -> Place | None:
    file = value.place.file
    for scope in (file.walked(file.scope(value.node)),):
        for call in scope.calls:
            for option in options(site.program.value(file, call.func)):
                if isinstance(option, Api) and option.name == _INITIALIZE:
                    return Place(file, call)
                if isinstance(option, Function):
                    found = _inside(site, option, depth + 1)
                    if found is not None:
                        return found
    return None
