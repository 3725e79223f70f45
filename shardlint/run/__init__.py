"""`shardlint run`: somebody's program, unchanged, on simulated devices, and what its compiled functions did.

    command -> launch -> (the program; the compiler writes dumps) -> dumps -> findings -> report

Nothing here imports jax; the program may use any release, or none.
"""
