import jax
import jax.numpy as jnp


def _layer(key, cfg):
    a, b = jax.random.split(key)
    return {
        "w_up": jax.random.normal(a, (cfg.d_model, cfg.d_ff)) * 0.02,
        "w_down": jax.random.normal(b, (cfg.d_ff, cfg.d_model)) * 0.02,
    }


def init(key, cfg):
    k_emb, k_layers = jax.random.split(key)
    return {
        "emb": jax.random.normal(k_emb, (cfg.vocab, cfg.d_model)),
        "layers": jax.vmap(lambda k: _layer(k, cfg))(jax.random.split(k_layers, cfg.n_layer)),
    }


def apply(params, tokens):
    def body(x, layer):
        return x + jax.nn.gelu(x @ layer["w_up"]) @ layer["w_down"], None

    x, _ = jax.lax.scan(body, params["emb"][tokens], params["layers"])
    return x @ params["emb"].T
