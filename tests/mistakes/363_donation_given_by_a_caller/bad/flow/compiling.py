import functools

import equinox as eqx

CALLS = {}


def compiled(name, **options):
    """Compile a function, and count its calls by name."""

    def decorate(function):
        jitted = eqx.filter_jit(function, **options)  # mistake: filter-jit-donation

        @functools.wraps(function)
        def call(*args):
            CALLS[name] = CALLS.get(name, 0) + 1
            return jitted(*args)

        return call

    return decorate
