"""Rows of numbers, as they are printed at the end of a run."""
import dataclasses
import math


@dataclasses.dataclass
class Report:
    title: str
    rows: list = dataclasses.field(default_factory=list)

    def add(self, name, value, unit=""):
        self.rows.append((name, self._shown(value), unit))
        return self

    @staticmethod
    def _shown(value):
        if isinstance(value, bool) or value is None:
            return str(value)
        if isinstance(value, int):
            return f"{value:,}"
        if not math.isfinite(value):
            return "not finite"
        return f"{value:.3g}"

    def lines(self):
        width = max((len(name) for name, _, _ in self.rows), default=0)
        yield self.title
        for name, value, unit in self.rows:
            yield f"  {name:<{width}}  {value} {unit}".rstrip()

    def show(self):
        print("\n".join(self.lines()), flush=True)
