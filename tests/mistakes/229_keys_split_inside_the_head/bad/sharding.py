"""Tensor parallelism: every device holds whole heads."""

from einshard import einshard

from params import Attention, Block


def shard_attention(attn: Attention) -> Attention:
    return Attention(
        q_proj=einshard(attn.q_proj, "m h k -> m h* k"),
        k_proj=einshard(attn.k_proj, "m h k -> m h k*"),  # mistake: wrong-spec-dim
        v_proj=einshard(attn.v_proj, "m h k -> m h* k"),
        out_proj=einshard(attn.out_proj, "h k m -> h* k m"),
    )


def shard_block(block: Block) -> Block:
    return Block(
        attn=shard_attention(block.attn),
        gate=einshard(block.gate, "m f -> m f*"),
        down=einshard(block.down, "f m -> f* m"),
    )
