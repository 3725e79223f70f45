import flax.serialization

import states


def save(path, state):
    host = states.first_copy(states.average_batch_stats(state))
    path.write_bytes(flax.serialization.to_bytes(host.batch_stats))


def load(path):
    return flax.serialization.msgpack_restore(path.read_bytes())
