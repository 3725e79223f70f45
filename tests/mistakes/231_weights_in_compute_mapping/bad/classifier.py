import equinox as eqx
import haliax as hax
import jax

from axes import Dims


class Projection(eqx.Module):
    weight: hax.NamedArray
    In: hax.Axis = eqx.field(static=True)
    Out: hax.Axis = eqx.field(static=True)

    @staticmethod
    def init(In: hax.Axis, Out: hax.Axis, *, key: jax.Array) -> "Projection":
        return Projection(hax.random.normal(key, (In, Out)) * In.size**-0.5, In, Out)

    def __call__(self, x: hax.NamedArray) -> hax.NamedArray:
        x = x.rearrange((..., self.In))
        out = x.array @ self.weight.array
        return hax.named(out, (*x.axes[:-1], self.Out))


class Classifier(eqx.Module):
    up: Projection
    down: Projection
    head: Projection

    @staticmethod
    def init(dims: Dims, *, key: jax.Array) -> "Classifier":
        k1, k2, k3 = jax.random.split(key, 3)
        return Classifier(
            up=Projection.init(dims.Embed, dims.Mlp, key=k1),
            down=Projection.init(dims.Mlp, dims.Embed, key=k2),
            head=Projection.init(dims.Embed, dims.Classes, key=k3),
        )

    def __call__(self, x: hax.NamedArray) -> hax.NamedArray:
        h = self.down(hax.nn.gelu(self.up(x)))
        return self.head(x + h)
