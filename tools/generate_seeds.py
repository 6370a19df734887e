"""Fit the seed tables: ``python tools/generate_seeds.py`` writes `seed_tables`.

Each segment starts from the quadratic through three Chebyshev nodes, which is the minimax one
but for terms far below an FP32 place. ``C2`` is rounded first, since its few bits cost the most;
``C1`` takes up the slope that this leaves, and ``C0`` centres what remains. Segments that begin
where the result is exact keep ``C0`` exact, so ``exp2(k)`` and its like are exact as well.

Needs mpmath, and so is no part of the library.
"""

# pyright: basic
# mpmath has hardly any types.

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mpf

from kohakutpu.numerics.quadratic import C0_FRACTION, C1_FRACTION, SEGMENTS, Quadratic

TARGET = Path(__file__).parents[1] / "kohakutpu" / "numerics" / "seed_tables.py"
HEADER = '''"""Seed tables, written by `tools/generate_seeds.py`: mend and run that instead.

A row is ``(C0, C1, C2)`` of one segment; `quadratic` says what the numbers count.
"""

from kohakutpu.numerics.quadratic import Quadratic

'''
ROW_WIDTH = 100

Real = Callable[[Any], Any]  # on mpmath numbers
Row = tuple[int, int, int]


def _nearest(value: mpf) -> int:
    return int(mpmath.nint(value))


def fit(f: Real, start: mpf, width: mpf, fractions: Row, exact: int | None) -> Row:
    """Return integer coefficients for ``f(start + x)``, ``0 <= x < width``.

    Parameters
    ----------
    f : callable
        The function, on mpmath numbers.
    start, width : mpf
        The segment.
    fractions : (int, int, int)
        Binary places of the three coefficients.
    exact : int, optional
        What the segment must give at its start.

    Returns
    -------
    (int, int, int)
        ``C0``, ``C1``, ``C2``.
    """
    nodes = [width / 2 * (1 - mpmath.cos(mpmath.pi * (2 * i + 1) / 6)) for i in range(3)]
    values = [f(start + x) for x in nodes]
    pinned = exact is not None
    if pinned:
        nodes = [mpf(0), width / 2, width]
        values = [mpf(exact), *(f(start + x) for x in nodes[1:])]
    (x0, x1, x2), (y0, y1, y2) = nodes, values
    slope = (y1 - y0) / (x1 - x0)
    a2 = ((y2 - y1) / (x2 - x1) - slope) / (x2 - x0)
    a1 = slope - a2 * (x0 + x1)
    a0 = y0 - slope * x0 + a2 * x0 * x1
    c2 = _nearest(mpmath.ldexp(a2, fractions[2]))
    # A change d of C2 is taken up best by the line d * (width * x - width**2 / 8), or by
    # d * (2 * sqrt(2) - 2) * width * x where the start must not move.
    d = a2 - mpmath.ldexp(c2, -fractions[2])
    a1 += d * width * (2 * mpmath.sqrt(2) - 2 if pinned else 1)
    a0 -= 0 if pinned else d * width**2 / 8
    c1 = _nearest(mpmath.ldexp(a1, fractions[1]))
    d = a1 - mpmath.ldexp(c1, -fractions[1])
    a0 += 0 if pinned else d * width / 2
    return _nearest(mpmath.ldexp(a0, fractions[0])), c1, c2


def table(name: str, unit: int, weight: int, functions: list[tuple[Real, int | None]]) -> Quadratic:
    """Fit a table whose index runs through the argument 1 to 2 of each function in turn.

    Parameters
    ----------
    name, unit, weight
        See `Quadratic`.
    functions : list of (callable, int or None)
        Functions of the fraction ``x = m - 1`` in ``[0, 1)``; what must come out at 0, if exact.

    Returns
    -------
    Quadratic
        128 segments, shared out evenly.
    """
    pieces = SEGMENTS // len(functions)
    width = mpf(1) / pieces
    fractions = (C0_FRACTION, C1_FRACTION, unit - 2 * weight)
    rows = tuple(
        fit(f, width * j, width, fractions, exact if j == 0 else None)
        for f, exact in functions
        for j in range(pieces)
    )
    return Quadratic(name, unit, weight, rows)


def tables() -> list[Quadratic]:
    """Return the four tables."""
    with mpmath.workdps(50):
        # rsqrt drops the last of its 17 bits: fit what lies in the middle of the two arguments.
        middle = mpmath.ldexp(1, -24)
        return [
            table("exp2", 52, 23, [(lambda x: mpmath.power(2, x), 1)]),
            table("log2", 52, 23, [(lambda x: mpmath.log(1 + x, 2), 0)]),
            table("recip", 53, 23, [(lambda x: 1 / (1 + x), 1)]),
            table(
                "rsqrt",
                53,
                22,
                [
                    (lambda x: 1 / mpmath.sqrt(2 * (1 + x + middle)), None),
                    (lambda x: 1 / mpmath.sqrt(1 + x + middle), 1),
                ],
            ),
        ]


def _lines(quadratic: Quadratic) -> Iterator[str]:
    q = quadratic
    yield f"{q.name.upper()} = Quadratic(\n"
    yield f'    name="{q.name}",\n    unit={q.unit},\n    weight={q.weight},\n    rows=(\n'
    line = "       "
    for row in q.rows:
        if len(line) + len(f" {row},") > ROW_WIDTH:
            yield line + "\n"
            line = "       "
        line += f" {row},"
    yield line + "\n    ),\n)  # fmt: skip\n"


def source() -> str:
    """Return the text of `seed_tables`."""
    return HEADER + "\n".join("".join(_lines(q)) for q in tables())


if __name__ == "__main__":
    TARGET.write_text(source(), encoding="utf-8")
