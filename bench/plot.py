"""A small SVG writer for line charts: axes with units, log scales, legible on light and dark pages. Pure."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import msgspec

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 74, 30, 62, 52  # around the plotted area
TICKS = 6  # about so many on a linear axis

Point = tuple[float, float]

# Both themes: a viewer that shows the picture by itself uses the reader's own.
STYLE = """\
<style>
  .paper { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #59636e } .grid { stroke: #d1d9e0 } .axis { stroke: #59636e }
  .floor { stroke: #6e7781; fill: #6e7781 } .ours { stroke: #0969da; fill: #0969da } .peer { stroke: #bc4c00; fill: #bc4c00 }
  path.line { fill: none; stroke-width: 2 } text { stroke: none } .grid, .axis { stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .ink { fill: #e6edf3 } .faint { fill: #9198a1 } .grid { stroke: #30363d } .axis { stroke: #9198a1 }
    .floor { stroke: #9198a1; fill: #9198a1 } .ours { stroke: #58a6ff; fill: #58a6ff } .peer { stroke: #f0883e; fill: #f0883e }
  }
</style>"""


class Axis(msgspec.Struct, frozen=True):
    """What an axis shows. `log` leaves zeros out; `zero` makes a linear axis begin at 0."""

    title: str
    log: bool = False
    zero: bool = True


class Scale:
    """Values of one axis as pixels."""

    def __init__(self, axis: Axis, values: Sequence[float], begin: float, end: float) -> None:
        self.log = axis.log
        self.begin, self.end = begin, end
        if self.log:
            steps = [10.0**n * step for n in range(-9, 13) for step in (1, 2, 5)]
            low = max(step for step in steps if step <= min(values) * 1.0001)
            high = min(step for step in steps if step >= max(values) * 0.9999 and step > low)
            self.low, self.high = _log(low), _log(high)
            few = self.high - self.low < 2.5  # then the steps between the decades need marks too
            self.ticks = [step for step in steps if low <= step <= high and (few or _round(step))]
        else:
            low_value = 0.0 if axis.zero else min(values)
            step = _step((max(values) - low_value) or 1.0)
            self.low = math.floor(low_value / step) * step
            self.high = max(math.ceil(max(values) / step - 1e-9) * step, self.low + step)
            count = round((self.high - self.low) / step)
            self.ticks = [self.low + step * n for n in range(count + 1)]

    def __call__(self, value: float) -> float:
        at = _log(value) if self.log else value
        return self.begin + (at - self.low) / (self.high - self.low) * (self.end - self.begin)


def chart(title: str, x: Axis, y: Axis, lines: Mapping[str, Sequence[Point]]) -> str:
    """One chart as an SVG document; `lines` by name: floor, ours or peer, which have colours of their own."""
    shown = {name: _usable(points, x, y) for name, points in lines.items()}
    shown = {name: points for name, points in shown.items() if points}
    if not shown:
        raise ValueError(f"nothing to draw for {title!r}")
    xs = [point[0] for points in shown.values() for point in points]
    ys = [point[1] for points in shown.values() for point in points]
    across = Scale(x, xs, LEFT, WIDTH - RIGHT)
    up = Scale(y, ys, HEIGHT - BOTTOM, TOP)
    named = escape(title, {'"': "&quot;"})
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img" aria-label="{named}">',
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        _text(LEFT, 22, title, "ink", size=14, weight="600"),
    ]
    for tick in up.ticks:
        at = up(tick)
        parts.append(_line(LEFT, at, WIDTH - RIGHT, at, "grid"))
        parts.append(_text(LEFT - 8, at + 4, label(tick), "faint", anchor="end"))
    for tick in across.ticks:
        at = across(tick)
        parts.append(_line(at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 5, "axis"))
        parts.append(_text(at, HEIGHT - BOTTOM + 19, label(tick), "faint", anchor="middle"))
    parts.append(_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, _axis_title(x), "ink", anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f' transform="rotate(-90 18 {middle:g})"'
    parts.append(_text(18, middle, _axis_title(y), "ink", anchor="middle", extra=turned))
    for number, (name, points) in enumerate(shown.items()):
        at = LEFT + 70 * number
        parts.append(f'<path class="line {name}" d="M{at} 41h22"/>')
        parts.append(_text(at + 27, 45, name, "ink"))
        path = "L".join(f"{across(px):.1f} {up(py):.1f}" for px, py in points)
        parts.append(f'<path class="line {name}" d="M{path}"/>')
        if len(points) <= 40:  # dots where something was measured; a series in time would be all dots
            parts += [
                f'<circle class="{name}" cx="{across(px):.1f}" cy="{up(py):.1f}" r="3"/>' for px, py in points
            ]
    return "\n".join([*parts, "</svg>", ""])


def label(value: float) -> str:
    """A number as a tick shows it: 0.5, 20, 5,000."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def _usable(points: Sequence[Point], x: Axis, y: Axis) -> list[Point]:
    return sorted(
        (px, py)
        for px, py in points
        if math.isfinite(py) and not (x.log and px <= 0) and not (y.log and py <= 0)
    )


def _axis_title(axis: Axis) -> str:
    return f"{axis.title}, log scale" if axis.log else axis.title


def _log(value: float) -> float:
    return math.log10(value)


def _round(step: float) -> bool:
    """Whether it is a power of ten."""
    return abs(_log(step) - round(_log(step))) < 1e-9


def _step(span: float) -> float:
    """A round distance between ticks."""
    rough = span / TICKS
    size = 10.0 ** math.floor(_log(rough))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f'<path class="{name}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    name: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "",
    extra: str = "",
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text class="{name}" x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{bold}{extra}>'
        f"{escape(text)}</text>"
    )
