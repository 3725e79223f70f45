"""Arguments of the server."""

import dataclasses


@dataclasses.dataclass
class ServerArgs:
    tp_size: int = 8
    page_size: int = 4
    num_pages: int = 16
    num_kv_heads: int = 8
    head_dim: int = 4

    @property
    def single_device(self) -> bool:
        return self.tp_size == 1
