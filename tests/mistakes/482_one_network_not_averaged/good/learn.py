"""An actor and a critic: on each device, and inside of it for each part of the batch, one learner with the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

FEATURES, ROWS, PARTS = 8, 16, 2
actor_opt, critic_opt = optax.sgd(0.1), optax.sgd(0.1)


def actor_apply(params, obs):
    return jnp.tanh(obs @ params)


def critic_apply(params, obs):
    return obs @ params


def get_learner(actor_apply, critic_apply):
    """The update of both networks, for one part of the batch."""

    def update(state, batch):
        actor, critic, actor_state, critic_state = state

        def actor_loss(params):
            loss = jnp.mean((actor_apply(params, batch["obs"]) - batch["actions"]) ** 2)
            return loss, {"actor": loss}

        def critic_loss(params):
            loss = jnp.mean((critic_apply(params, batch["obs"]) - batch["returns"]) ** 2)
            return loss, {"critic": loss}

        actor_grads, actor_info = jax.grad(actor_loss, has_aux=True)(actor)
        critic_grads, critic_info = jax.grad(critic_loss, has_aux=True)(critic)

        # The mean over the parts on a device, and over the devices.
        actor_grads, actor_info = jax.lax.pmean((actor_grads, actor_info), axis_name="part")
        actor_grads, actor_info = jax.lax.pmean((actor_grads, actor_info), axis_name="device")
        critic_grads, critic_info = jax.lax.pmean((critic_grads, critic_info), axis_name="part")
        critic_grads, critic_info = jax.lax.pmean((critic_grads, critic_info), axis_name="device")

        updates, actor_state = actor_opt.update(actor_grads, actor_state)
        actor = optax.apply_updates(actor, updates)
        updates, critic_state = critic_opt.update(critic_grads, critic_state)
        critic = optax.apply_updates(critic, updates)
        return (actor, critic, actor_state, critic_state), {**actor_info, **critic_info}

    return update


def batches(count, devices):
    rng = np.random.default_rng(0)
    weights = np.random.default_rng(1).normal(size=(FEATURES,))
    for _ in range(count):
        obs = rng.normal(size=(devices, PARTS, ROWS, FEATURES)).astype(np.float32)
        yield {"obs": obs, "actions": np.tanh(obs @ weights), "returns": obs @ weights}


def main():
    devices = jax.local_device_count()
    params = jnp.zeros((FEATURES,)), jnp.zeros((FEATURES,))
    state = (*params, actor_opt.init(params[0]), critic_opt.init(params[1]))
    state = jax.tree.map(lambda x: jnp.broadcast_to(x, (devices, PARTS, *x.shape)), state)
    learn = jax.vmap(get_learner(actor_apply, critic_apply), axis_name="part")
    learn = jax.pmap(learn, axis_name="device")
    for batch in batches(5, devices):
        state, info = learn(state, batch)
    alike = [bool(jnp.all(one[:, 0] == one[:, 1])) for one in state[:2]]
    print("the same weights for both parts:", alike)


if __name__ == "__main__":
    main()
