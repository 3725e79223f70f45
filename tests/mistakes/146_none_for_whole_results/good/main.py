import argparse
import tempfile

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import encoder
from export import Writer


def build(mesh):
    repl, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    params = jax.device_put(encoder.init(jax.random.key(0)), repl)
    fn = jax.jit(encoder.encode, in_shardings=(repl, rows), out_shardings=repl)
    return params, fn


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=None)
    ap.add_argument("--batches", type=int, default=2)
    ap.add_argument("--batch", type=int, default=32)
    a = ap.parse_args(argv)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    params, fn = build(mesh)
    writer = Writer(a.out or tempfile.mkdtemp(), jax.process_index(), jax.process_count())
    rng, rows = np.random.default_rng(0), 0
    for i in range(a.batches):
        x = rng.normal(size=(a.batch, 32)).astype(np.float32)
        rows += writer.write(i, fn(params, x))
    writer.close(rows)
    print("wrote", rows, "rows")
    return rows


if __name__ == "__main__":
    main()
