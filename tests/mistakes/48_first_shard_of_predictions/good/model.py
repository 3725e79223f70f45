import jax.numpy as jnp
from flax import linen as nn


class Classifier(nn.Module):
    classes: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(16)(x))
        return nn.Dense(self.classes)(x)


def predict(model, variables, x):
    scores = model.apply(variables, x)
    return {"label": jnp.argmax(scores, axis=-1), "confidence": jnp.max(nn.softmax(scores), axis=-1)}
