import queue
import threading

import jax


class Prefetcher:
    """Copies batches to the devices in a background thread."""

    _END = object()

    def __init__(self, source, sharding, depth=2):
        self._source = iter(source)
        self._sharding = sharding
        self._queue = queue.Queue(depth)
        # the first batch is moved here so that shape errors show up in the caller's thread
        self._queue.put(jax.device_put(next(self._source), sharding))
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        for batch in self._source:
            self._queue.put(jax.device_put(batch))  # mistake: sharding-arg-not-forwarded
        self._queue.put(self._END)

    def __iter__(self):
        while (batch := self._queue.get()) is not self._END:
            yield batch
