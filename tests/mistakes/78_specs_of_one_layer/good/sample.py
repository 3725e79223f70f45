import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gpt import model
from gpt.config import GPTConfig
from gpt.sharding import param_shardings


def main():
    cfg = GPTConfig()
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("fsdp", "tp"))
    init = jax.jit(model.init, static_argnums=1, out_shardings=param_shardings(mesh))
    params = init(jax.random.key(0), cfg)
    logits = jax.jit(model.apply)(params, jnp.zeros((4, 8), jnp.int32))
    print("logits", logits.shape)


if __name__ == "__main__":
    main()
