from parallel.state import get_mesh, init_parallel
from parallel.decorators import sharded

__all__ = ["get_mesh", "init_parallel", "sharded"]
