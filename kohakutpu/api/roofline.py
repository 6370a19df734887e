"""The roofline of a machine and the kernels below it, as SVG.

Both axes are logarithmic: MACs for each word that crosses a memory port, MACs a cycle. A kernel
cannot be above the peak of the clusters, nor above what the ports let in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

LEFT, TOP, WIDTH, HEIGHT = 70, 40, 640, 360
LINE = 18  # from one entry of the list to the next
COLOURS = ("#1b6ca8", "#c8553d", "#588157", "#7b4fa3", "#b8860b", "#00798c")


@dataclass(frozen=True)
class Point:
    """All runs of one kernel: cycles, multiply-accumulates, words over the memory ports."""

    name: str
    cycles: int
    macs: int
    words: int

    @property
    def intensity(self) -> float:
        """MACs for each word."""
        return self.macs / max(1, self.words)

    @property
    def rate(self) -> float:
        """MACs a cycle."""
        return self.macs / max(1, self.cycles)


@dataclass(frozen=True)
class Axes:
    """Where a value is drawn: powers of two from ``low`` to ``high``, across and upwards."""

    x: tuple[int, int]
    y: tuple[int, int]

    def at(self, intensity: float, rate: float) -> tuple[float, float]:
        """Return the place of a point, clipped to the picture."""
        across = (math.log2(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        upwards = (math.log2(rate) - self.y[0]) / (self.y[1] - self.y[0])
        across, upwards = (min(max(part, 0.0), 1.0) for part in (across, upwards))
        return LEFT + across * WIDTH, TOP + (1 - upwards) * HEIGHT


def picture(machine: str, peak: int, ports: int, points: Sequence[Point]) -> str:
    """Return the picture.

    Parameters
    ----------
    machine : str
        Its name.
    peak : int
        MACs a cycle of all clusters.
    ports : int
        Words a cycle of all memory ports.
    points : sequence of Point
        The kernels; those without MACs are listed only.
    """
    computing = [point for point in points if point.macs]
    axes = _axes(peak, ports, computing)
    height = TOP + HEIGHT + 60 + LINE * (len(points) + 1)
    title = f"Roofline of {machine}: {peak:,} MAC/cycle, {ports} word{'s' * (ports != 1)}/cycle"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{height}"',
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        *_grid(axes),
        *_roof(axes, peak, ports),
        *_points(axes, points),
        *_list(peak, ports, points),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _axes(peak: int, ports: int, points: Sequence[Point]) -> Axes:
    """Return axes that hold the ridge, where both limits meet, and all points."""
    across = [math.log2(point.intensity) for point in points] + [math.log2(peak / ports)]
    upwards = [math.log2(point.rate) for point in points] + [math.log2(peak)]
    x = math.floor(min(across)) - 2, math.ceil(max(across)) + 2
    y = min(math.floor(min(upwards)) - 1, math.ceil(math.log2(peak)) - 5), math.ceil(max(upwards))
    return Axes(x, (y[0], y[1] + 1))


def _grid(axes: Axes) -> Iterator[str]:
    bottom = TOP + HEIGHT
    yield (
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    )
    for power in range(*axes.x):
        x, _ = axes.at(2.0**power, 2.0 ** axes.y[0])
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#e6e6e6"/>'
        label = _short(2.0**power)
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>'
    for power in range(*axes.y):
        _, y = axes.at(2.0 ** axes.x[0], 2.0**power)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#e6e6e6"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(2.0**power)}</text>'
    yield f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 36}" text-anchor="middle">MAC/word</text>'
    middle = TOP + HEIGHT / 2
    yield (
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        "MAC/cycle</text>"
    )


def _short(value: float) -> str:
    return f"{value:g}" if value < 1024 else f"{value / 1024:g}k"


def _roof(axes: Axes, peak: int, ports: int) -> Iterator[str]:
    low = max(2.0 ** axes.x[0], 2.0 ** axes.y[0] / ports)
    corners = [(low, low * ports), (peak / ports, peak), (2.0 ** axes.x[1], peak)]
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (axes.at(*corner) for corner in corners))
    yield f'<polyline class="roof" points="{places}" fill="none" stroke="black" stroke-width="2"/>'


def _points(axes: Axes, points: Sequence[Point]) -> Iterator[str]:
    for number, point in enumerate(points, start=1):
        if not point.macs:
            continue
        x, y = axes.at(point.intensity, point.rate)
        colour = COLOURS[number % len(COLOURS)]
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}">'
        yield f"<title>{escape(point.name)}</title></circle>"
        yield f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{number}</text>'


def _list(peak: int, ports: int, points: Sequence[Point]) -> Iterator[str]:
    for number, point in enumerate(points, start=1):
        y = TOP + HEIGHT + 50 + LINE * number
        words = point.words / max(1, point.cycles)
        text = f"{number}  {point.name}: {point.cycles:,} cycles, "
        if point.macs:
            roof = min(peak, point.intensity * ports)
            text += f"{point.rate:.1f} MAC/cycle, {100 * point.rate / roof:.0f}% of the roof, "
        text += f"{words:.2f} words/cycle, {100 * words / ports:.0f}% of the ports"
        yield f'<text x="{LEFT}" y="{y}">{escape(text)}</text>'
