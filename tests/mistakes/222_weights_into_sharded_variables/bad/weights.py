"""HF style names -> nnx paths. Kernels are stored [out, in] in torch."""
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors.numpy import load_file, save_file

RULES = [
    (r"model\.embed_tokens\.weight", ("embed", "embedding"), False),
    (r"model\.norm\.weight", ("norm", "scale"), False),
    (r"lm_head\.weight", ("lm_head", "kernel"), True),
    (r"model\.layers\.(\d+)\.self_attn\.([qkvo]_proj)\.weight", ("layers", 0, 1, "kernel"), True),
    (r"model\.layers\.(\d+)\.mlp\.(\w+_proj)\.weight", ("layers", 0, 1, "kernel"), True),
    (r"model\.layers\.(\d+)\.input_layernorm\.weight", ("layers", 0, "attn_norm", "scale"), False),
    (r"model\.layers\.(\d+)\.post_attention_layernorm\.weight", ("layers", 0, "mlp_norm", "scale"), False),
]


def to_path(name):
    for pattern, template, transpose in RULES:
        m = re.fullmatch(pattern, name)
        if m:
            groups = [int(g) if g.isdigit() else g for g in m.groups()]
            return tuple(groups[t] if isinstance(t, int) else t for t in template), transpose
    raise KeyError(name)


def load_safetensors(model: nnx.Module, file: str, dtype=jnp.float32):
    flat = dict(nnx.to_flat_state(nnx.state(model, nnx.Param)))
    missing = set(flat)
    for name, w in load_file(file).items():
        path, transpose = to_path(name)
        param = flat[path]
        w = (w.T if transpose else w).astype(dtype)
        if w.shape != param.shape:
            raise ValueError(f"{name}: {w.shape} vs {param.shape}")
        param.set_value(jnp.asarray(w))  # mistake: restore-without-sharding
        missing.discard(path)
    if missing:
        raise ValueError(f"not in {file}: {sorted(map(str, missing))}")
    nnx.update(model, nnx.from_flat_state(flat))


def write_demo(file, cfg):
    rng = np.random.default_rng(0)
    w = lambda *s: (0.05 * rng.standard_normal(s)).astype(np.float32)
    d, f = cfg.dim, cfg.ffn
    out = {"model.embed_tokens.weight": w(cfg.vocab, d), "lm_head.weight": w(cfg.vocab, d), "model.norm.weight": np.ones(d, np.float32)}
    for i in range(cfg.layers):
        pre = f"model.layers.{i}."
        out |= {f"{pre}self_attn.{n}_proj.weight": w(d, d) for n in "qkvo"}
        out |= {f"{pre}mlp.{n}_proj.weight": w(f, d) for n in ("up", "gate")}
        out[f"{pre}mlp.down_proj.weight"] = w(d, f)
        for n in ("input", "post_attention"):
            out[f"{pre}{n}_layernorm.weight"] = np.ones(d, np.float32)
    save_file(out, file)
