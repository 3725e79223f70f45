import jax
import jax.numpy as jnp


def init(key, cfg):
    d, f = cfg["dim"], cfg["ffn"]
    keys = iter(jax.random.split(key, 2 + 7 * cfg["n_layers"]))
    dense = lambda i, o: {"kernel": jax.random.normal(next(keys), (i, o)) * 0.02}
    h = {}
    for n in range(cfg["n_layers"]):
        h[str(n)] = {
            "attention": {k: dense(d, d) for k in ("wq", "wk", "wv", "wo")},
            "mlp": {"w1": dense(d, f), "w2": dense(f, d), "w3": dense(d, f)},
            "attention_norm": {"kernel": jnp.ones(d)},
            "ffn_norm": {"kernel": jnp.ones(d)},
        }
    return {
        "wte": {"embedding": jax.random.normal(next(keys), (cfg["vocab"], d)) * 0.02},
        "h": h,
        "ln_f": {"kernel": jnp.ones(d)},
        "lm_head": dense(d, cfg["vocab"]),
    }


def _norm(p, x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["kernel"]


def _attn(p, x, n_heads):
    b, t, d = x.shape
    q, k, v = ((x @ p[n]["kernel"]).reshape(b, t, n_heads, d // n_heads) for n in ("wq", "wk", "wv"))
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return y.reshape(b, t, d) @ p["wo"]["kernel"]


def _mlp(p, x):
    return (jax.nn.silu(x @ p["w1"]["kernel"]) * (x @ p["w3"]["kernel"])) @ p["w2"]["kernel"]


def apply(params, tokens, n_heads):
    x = params["wte"]["embedding"][tokens]
    for name in sorted(params["h"], key=int):
        p = params["h"][name]
        x = x + _attn(p["attention"], _norm(p["attention_norm"], x), n_heads)
        x = x + _mlp(p["mlp"], _norm(p["ffn_norm"], x))
    return _norm(params["ln_f"], x) @ params["lm_head"]["kernel"]
