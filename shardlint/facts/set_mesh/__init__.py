"""Can `with mesh:` become `with jax.set_mesh(mesh):`? What reads its mesh, and what would run as another program."""
