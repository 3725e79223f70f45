import jax
import jax.numpy as jnp


def init(key, vocab=128, d=64):
    a, b = jax.random.split(key)
    return {"wte": jax.random.normal(a, (vocab, d)) * 0.02, "w": jax.random.normal(b, (d, d)) * 0.1}


def logits(params, tokens):
    x = params["wte"][tokens]
    return jnp.tanh(x @ params["w"]) @ params["wte"].T


def lm_loss(params, batch):
    lp = jax.nn.log_softmax(logits(params, batch["input_tokens"]))
    nll = -jnp.take_along_axis(lp, batch["target_tokens"][..., None], axis=-1)[..., 0]
    return (nll * batch["loss_masks"]).sum() / batch["loss_masks"].sum()
