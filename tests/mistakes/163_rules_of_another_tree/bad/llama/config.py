from jax.sharding import PartitionSpec as PS

CONFIGS = {
    "debug": dict(vocab=64, dim=32, n_layers=2, n_heads=4, ffn=96),
    "7b": dict(vocab=32000, dim=4096, n_layers=32, n_heads=32, ffn=11008),
}

PARTITION_RULES = (
    # embeddings
    ("wte/embedding", PS("mp", "fsdp")),
    # attention
    ("attention/(wq|wk|wv)/kernel", PS("fsdp", "mp")),
    ("attention/wo/kernel", PS("mp", "fsdp")),
    # ffn
    ("feed_forward/(w[123])/kernel", PS("fsdp", "mp")),  # mistake: rule-never-matches
    # norms
    ("attention_norm/kernel", PS(None)),
    ("ffn_norm/kernel", PS(None)),
    ("ln_f/kernel", PS(None)),
    ("lm_head/kernel", PS("fsdp", "mp")),
    (".*", PS(None)),
)
