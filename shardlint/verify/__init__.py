"""Prove on simulated meshes what a program's shardings, donations and numbers really are.

A fixture is plain Python and needs no change to the program it declares something about::

    from shardlint.verify import Fixture, P, arg

    step = Fixture(
        fn="proj.train:step",
        meshes=[{"data": 4, "model": 2}, "all:8"],
        args=[
            arg("proj.train:init", specs="proj.shard:specs"),
            arg(shape=(16, 512), dtype="int32", spec=P("data")),
        ],
        out={"0/**/w1": P("data", "model")},
        replicated_bytes_max="1MiB",
        donate=(0,),
        reference="single_device",
    )

`shardlint verify` runs it. Importing this package imports no jax: everything that does lives in
`verify.inside` and runs in child processes only.
"""

from shardlint.verify.calls import first_calls
from shardlint.verify.fixture import Argument, Fixture, arg
from shardlint.verify.spec import P

__all__ = ["Argument", "Fixture", "P", "arg", "first_calls"]
