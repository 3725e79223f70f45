"""Programs of flax NNX, to compare the arrays that are predicted with those that flax makes."""

from __future__ import annotations

HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.{kind}, AxisType.{kind}))
init = nnx.initializers.lecun_normal()
whole = NamedSharding(mesh, P())


class Net(nnx.Module):
    def __init__(self, rngs, names=None):
        annotated = init if names is None else nnx.with_partitioning(init, names)
        self.up = nnx.Linear(8, 16, kernel_init=annotated, rngs=rngs)
        self.norm = nnx.LayerNorm(16, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(16, 16, use_bias=False, rngs=rngs) for _ in range(2)])
        self.down = nnx.Linear(16, 4, rngs=rngs)
        self.width = 16

    def __call__(self, x):
        x = nnx.relu(self.norm(self.up(x)))
        for layer in self.layers:
            x = x + layer(x)
        return self.down(x)


x = jnp.ones((4, 8))
"""
READ = """\
k = model.up.kernel.value
l = model.up.bias[...]
n = model.norm.scale.get_value()
o = model.layers[1].kernel[...]
"""
AUTO = [
    "model = Net(nnx.Rngs(0))\n" + READ + "y = model(x)\nz = jax.jit(lambda m, x: m(x))(model, x)\nw = nnx.jit(lambda m, x: m(x))(model, x)\n",
    "with jax.set_mesh(mesh):\n    model = Net(nnx.Rngs(0), ('a', 'b'))\n    k = model.up.kernel.value\n    l = model.up.bias[...]\n    y = model(x)\n",
    "with jax.set_mesh(mesh):\n    model = Net(nnx.Rngs(0), ('b', 'b'))\n",
    "with jax.set_mesh(mesh):\n    model = Net(nnx.Rngs(0), ('b', 'c'))\n",
    "with jax.set_mesh(mesh):\n    model = Net(nnx.Rngs(0), ('b', None, None))\n",
    "with jax.set_mesh(mesh):\n    model = Net(nnx.Rngs(0), ('b',))\n    k = model.up.kernel.value\n    s = model.up.kernel.T\n",
    "model = nnx.Linear(8, 16, kernel_init=nnx.with_partitioning(init, ('a', 'b'), mesh=mesh), rngs=nnx.Rngs(0))\nk = model.kernel.value\nb = model.bias.value\n",
    "with nnx.use_eager_sharding(False):\n    model = Net(nnx.Rngs(0), ('b', 'b'))\n    k = model.up.kernel.value\n",
    "with nnx.use_eager_sharding(False):\n    model = Net(nnx.Rngs(0), ('a', 'b'))\n    k = model.up.kernel.value\nstate = nnx.state(model)\nspecs = nnx.get_partition_spec(state)\n@jax.jit\ndef place(state):\n    return jax.lax.with_sharding_constraint(state, specs)\nwith jax.set_mesh(mesh):\n    nnx.update(model, place(state))\nk2 = model.up.kernel.value\nb2 = model.up.bias.value\n",
    "model = Net(nnx.Rngs(0))\nstate = jax.device_put(nnx.state(model), whole)\nk = model.up.kernel.value\nnnx.update(model, state)\n" + READ + "y = model(x)\n",
    "model = Net(nnx.Rngs(0))\ngraphdef, state = nnx.split(model)\nstate = jax.device_put(state, whole)\nnew = nnx.merge(graphdef, state)\nk = model.up.kernel.value\nl = new.up.kernel.value\no = new.layers[0].kernel.value\nnew.up.kernel.value = jnp.zeros((3, 3))\ns = state['up']['kernel'].value\n",
    "model = Net(nnx.Rngs(0))\ngraphdef, state = nnx.split(model)\nstate['up']['kernel'].value = jnp.zeros((3, 5))\nk = model.up.kernel.value\n",
    "model = Net(nnx.Rngs(0))\ngraphdef, params, rest = nnx.split(model, nnx.Param, ...)\nparams = jax.device_put(params, jax.devices()[1])\nnew = nnx.merge(graphdef, params, rest)\nk = new.up.kernel.value\ny = new(jax.device_put(x, jax.devices()[2]))\n",
    "model = Net(nnx.Rngs(0))\nnnx.update(model, jax.device_put(nnx.state(model), whole))\ny = nnx.jit(lambda m, x: m(x))(model, jax.device_put(x, jax.devices()[0]))\n",
    "model = Net(nnx.Rngs(0))\nnnx.update(model, jax.device_put(nnx.state(model), whole))\ny = nnx.jit(lambda m, x: m(x))(model, jax.device_put(x, whole))\nz = model(jax.device_put(x, NamedSharding(mesh, P('a'))))\n",
    "model = Net(nnx.Rngs(0))\nnnx.update(model, jax.device_put(nnx.state(model), whole))\n@nnx.jit\ndef double(m):\n    m.up.kernel.value = m.up.kernel.value * 2\n    m.extra = nnx.Param(jnp.ones((3,)))\ndouble(model)\nk = model.up.kernel.value\nl = model.down.kernel.value\ne = model.extra.value\n",
    "model = Net(nnx.Rngs(0))\nnnx.update(model, jax.device_put(nnx.state(model), whole))\noptimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)\n@nnx.jit\ndef step(m, o, x):\n    loss, grads = nnx.value_and_grad(lambda m: m(x).mean())(m)\n    o.update(m, grads)\n    return loss\nloss = step(model, optimizer, jax.device_put(x, NamedSharding(mesh, P('a'))))\n" + READ + "mu = optimizer.opt_state[0].mu['up']['kernel'].value\nc = optimizer.step.value\n",
    "model = Net(nnx.Rngs(0))\noptimizer = nnx.Optimizer(model, optax.sgd(1e-3), wrt=nnx.Param)\ngrads = nnx.grad(lambda m: m(x).mean())(model)\ng = grads['up']['kernel'].value\noptimizer.update(model, grads)\n" + READ,
    "model = Net(nnx.Rngs(0))\nstate = nnx.state(model)\nshardings = nnx.get_named_sharding(state, mesh)\nstate = jax.device_put(state, shardings)\nk = state['up']['kernel'].value\nd = nnx.to_pure_dict(state)\n",
    "with jax.set_mesh(mesh):\n    model = nnx.eval_shape(lambda: Net(nnx.Rngs(0), ('a', 'b')))\ns = model.up.kernel.shape\nd = jnp.zeros(model.up.kernel.shape)\n",
    "p = nnx.Param(jnp.ones((4, 8)))\nq = nnx.Param(jnp.ones((8,)))\na = p + q\nb = 2 * p\nc = p @ q\nd = jnp.sum(p, axis=0)\ne = -p\nf = p.T\ng = p[1]\np[...] = jax.device_put(jnp.zeros((4, 8)), whole)\nh = p.value\np[0] = 3.0\ni = p.value\np.value = jnp.ones((2, 2), jnp.bfloat16)\nj = p.value\nk = p.shape[0] * q\n",
    "with jax.set_mesh(mesh):\n    p = nnx.Param(jnp.ones((4, 8)), out_sharding=('a', 'b'))\n    q = nnx.Param(jnp.ones((4, 8)), sharding=P('a'))\n    r = nnx.Param(jnp.ones((8, 8)), sharding_names=(('a', 'b'),))\n    s = nnx.Param(jnp.ones((8, 8)), out_sharding=())\n    t = nnx.Param(np.ones((4, 4)), out_sharding=(None, 'b'))\n    a = p.value\n    b = q.value\n    c = r.value\n    d = s.value\n    e = t.value\n    f = nnx.Param(jnp.ones((3, 4)), out_sharding=('a',)).value\n",
    "with mesh:\n    p = nnx.Param(jnp.ones((4, 8)), out_sharding=('a', 'b'))\n",
    "rngs = nnx.Rngs(0, params=1)\na = rngs.params()\nb = rngs()\nc = rngs.dropout()\nd = jax.random.normal(rngs.params(), (3, 4))\nwith jax.set_mesh(mesh):\n    e = nnx.Rngs(3)()\n    f = rngs()\n",
    "conv = nnx.Conv(3, 8, (3, 3), strides=2, rngs=nnx.Rngs(0))\nk = conv.kernel.value\nb = conv.bias.value\ny = conv(jnp.ones((2, 16, 16, 3)))\nbn = nnx.BatchNorm(8, rngs=nnx.Rngs(0))\nz = bn(y)\nm = bn.mean.value\nbn.eval()\nw = bn(y)\nd = nnx.Dropout(0.5, rngs=nnx.Rngs(0))\nv = d(z)\nd.eval()\nu = d(z)\ne = nnx.Embed(32, 16, rngs=nnx.Rngs(0))\nt = e.embedding.value\ns = e(jnp.ones((2, 5), jnp.int32))\nr = nnx.RMSNorm(16, rngs=nnx.Rngs(0))(s)\n",
    "g = nnx.LinearGeneral((4, 2), (8, 3), axis=(-2, -1), rngs=nnx.Rngs(0))\nk = g.kernel.value\nb = g.bias.value\ny = g(jnp.ones((5, 4, 2)))\nh = nnx.LinearGeneral(8, (2, 3), rngs=nnx.Rngs(0))\nl = h.kernel.value\nm = h.bias.value\nz = h(jnp.ones((5, 8)))\ne = nnx.Einsum('nta,hab->nthb', (8, 2, 4), (8, 4), rngs=nnx.Rngs(0))\no = e.kernel.value\np = e.bias.value\n",
    "s = nnx.Sequential(nnx.Linear(8, 16, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(16, 4, dtype=jnp.bfloat16, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(1)))\ny = s(x)\nk = s.layers[2].kernel.value\nstate = jax.device_put(nnx.state(s), jax.devices()[3])\nnnx.update(s, state)\nl = s.layers[0].kernel.value\nz = s(x)\n",
    "@nnx.jit\ndef create():\n    model = Net(nnx.Rngs(0), ('a', 'b'))\n    nnx.update(model, jax.lax.with_sharding_constraint(nnx.state(model), nnx.get_partition_spec(nnx.state(model))))\n    return model\nwith jax.set_mesh(mesh):\n    model = create()\nk = model.up.kernel.value\nb = model.up.bias.value\n",
    "@nnx.jit\ndef create():\n    return Net(nnx.Rngs(0), ('a', 'a'))\nwith jax.set_mesh(mesh):\n    model = create()\n",
    "with nnx.logical_axis_rules((('rows', 'a'), ('columns', 'b'))):\n    with jax.set_mesh(mesh):\n        model = Net(nnx.Rngs(0), ('rows', 'columns'))\nk = model.up.kernel.value\n",
    "p = nnx.Param(jnp.ones((4, 8)), out_sharding=('rows', 'columns'), sharding_rules=(('rows', 'a'), ('columns', 'a')), mesh=mesh)\n",
    "model = Net(nnx.Rngs(0))\nother = nnx.clone(model)\nother.up.kernel.value = jnp.ones((1, 1))\nk = model.up.kernel.value\nl = other.up.kernel.value\nm = other\nm.up = nnx.Linear(3, 3, rngs=nnx.Rngs(0))\nn = other.up.kernel.value\n",
    "@jax.jit\ndef run(graphdef, state, x):\n    return nnx.merge(graphdef, state)(x)\nmodel = Net(nnx.Rngs(0))\ngraphdef, state = nnx.split(model)\ny = run(graphdef, state, x)\nstate = jax.device_put(state, whole)\nz = run(graphdef, state, x)\nw = run(graphdef, state, jax.device_put(x, jax.devices()[3]))\n",
]
EXPLICIT = [
    "with jax.set_mesh(mesh):\n    model = Net(nnx.Rngs(0), ('a', 'b'))\n    k = model.up.kernel.value\n    l = model.up.bias[...]\n    h = model.up(x)\n",
    "with jax.set_mesh(mesh):\n    model = Net(nnx.Rngs(0), ('b', 'b'))\n",
    "with jax.set_mesh(mesh):\n    p = nnx.Param(jnp.ones((4, 8)), out_sharding=('a', 'b'))\n    a = p.value\n    b = nnx.Param(jnp.ones((3, 4)), out_sharding=('a',)).value\n",
    "with jax.set_mesh(mesh):\n    p = nnx.Param(jnp.ones((4, 8)), out_sharding=('a', 'b', None))\n",
    "with jax.set_mesh(mesh):\n    p = nnx.Param(jnp.ones((4, 8)), out_sharding=('a',))\n    q = nnx.Param(jnp.ones((4, 8)), out_sharding=('b',))\n    a = p.value\n    b = q.value\n    c = p + q\n",
    "model = Net(nnx.Rngs(0))\nnnx.update(model, jax.device_put(nnx.state(model), whole))\nk = model.up.kernel.value\n@nnx.jit\ndef double(m):\n    m.up.kernel.value = m.up.kernel.value * 2\ndouble(model)\nl = model.up.kernel.value\n",
]
PROGRAMS = [HEAD.format(kind="Auto") + one for one in AUTO]
PROGRAMS += [HEAD.format(kind="Explicit") + one for one in EXPLICIT]


UNTOLD = frozenset(place for place, one in enumerate(PROGRAMS) if "with mesh:" in one)
"""Those that raise, and of which no contract tells: without a mesh in context, names raise."""


def program(number: int) -> str:
    """The program of a number."""
    return PROGRAMS[number]
