import os
from tempfile import gettempdir as scratch

import jax
from jax.experimental import multihost_utils

from start import join
from table import table_for


def main():
    join()
    port = os.environ.get("COORDINATOR", "alone").rpartition(":")[2]
    folder = os.path.join(scratch(), f"tables-{port}")
    table_for(os.path.join(folder, "words.json"), ["to be or not to be", "that is it"])
    multihost_utils.sync_global_devices("built")
    if jax.process_index() == 0:
        print("built:", sum(".builds-" in name for name in os.listdir(folder)), "times", flush=True)
    multihost_utils.sync_global_devices("end")


if __name__ == "__main__":
    main()
