"""Logging with the number of the process."""

from pathlib import Path

import jax


class ProcessLogger:
    def __init__(self, folder: Path | None):
        self.index = jax.process_index()
        self.folder = folder

    def __call__(self, text: str) -> None:
        print(f"[{self.index}] {text}", flush=True)
        if self.folder is not None:
            self.folder.mkdir(exist_ok=True)
            with (self.folder / f"{self.index}.log").open("a") as file:
                file.write(text + "\n")
