"""The code that starts a part of the verifier in an interpreter that has nothing of shardlint. No jax."""

from __future__ import annotations

from pathlib import Path

# Children see shardlint's own source and nothing else of the environment the command runs in: with
# another interpreter the packages beside it would be built for the wrong one. The working directory
# is not importable until a job asks.
BOOT = """
import sys, types
sys.path[:] = [path for path in sys.path if path]
package = types.ModuleType("shardlint")
package.__path__ = [sys.argv.pop(1)]
sys.modules["shardlint"] = package
from shardlint.verify.inside.{module} import main
main()
"""


PACKAGE = str(Path(__file__).resolve().parent.parent)
"""Its first argument."""
