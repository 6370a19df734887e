"""What a seed table is: piecewise quadratics in fixed point, evaluated exactly.

One description for everybody: `seed_tables` holds the instances, the fast twin folds them into
float64 arrays, and the ROMs and multipliers of the hardware are sized from the same fields.
"""

from dataclasses import dataclass

INDEX_BITS = 7
OFFSET_BITS = 16
SEGMENTS = 1 << INDEX_BITS
C0_FRACTION = 27
C1_FRACTION = 20


@dataclass(frozen=True)
class Quadratic:
    """A function on 128 segments: ``P = C0 + C1*t + C2*t**2``, an integer times ``2**-unit``.

    The range reduction of `seeds` supplies a segment, 7 bits, and an offset ``t`` inside it,
    16 bits without sign. Nothing is dropped on the way to ``P``.

    Parameters
    ----------
    name : str
        The function it serves.
    unit : int
        ``P`` counts steps of ``2**-unit``; with ``unit`` <= 53 it is exact in a float64.
    weight : int
        One step of ``t`` is ``2**-weight`` of the reduced argument.
    rows : tuple of (int, int, int)
        ``(C0, C1, C2)`` a segment. ``C0`` counts ``2**-27``, ``C1`` counts ``2**-20`` per unit of
        the reduced argument, ``C2`` counts steps of ``P`` per step of ``t`` squared.

    Raises
    ------
    ValueError
        If there are not 128 rows, or a segment turns around or leaves 53 bits.
    """

    name: str
    unit: int
    weight: int
    rows: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        if len(self.rows) != SEGMENTS:
            raise ValueError(
                f"table {self.name} has {len(self.rows)} rows; a {INDEX_BITS} bit index needs "
                f"{SEGMENTS}"
            )
        last = (1 << OFFSET_BITS) - 1
        for segment in range(SEGMENTS):
            _, c1, c2 = self.rows[segment]
            first_slope = c1 << self.c1_shift
            last_slope = first_slope + 2 * c2 * last
            largest = max(abs(self.evaluate(segment, t)) for t in (0, last))
            if first_slope * last_slope < 0 or largest > 1 << 53:
                raise ValueError(
                    f"table {self.name}, segment {segment}: slopes {first_slope} to {last_slope}, "
                    f"values up to {largest}; one direction and at most 2**53 keep P exact"
                )

    @property
    def c0_shift(self) -> int:
        """Places from the unit of ``C0`` down to that of ``P``."""
        return self.unit - C0_FRACTION

    @property
    def c1_shift(self) -> int:
        """Places from the unit of ``C1 * t`` down to that of ``P``."""
        return self.unit - self.weight - C1_FRACTION

    def evaluate(self, segment: int, t: int) -> int:
        """Return ``P`` in units of ``2**-unit``, exactly.

        Parameters
        ----------
        segment : int
            0 to 127.
        t : int
            0 to 65535.

        Returns
        -------
        int
            ``C0 + C1*t + C2*t**2``.
        """
        c0, c1, c2 = self.rows[segment]
        return (c0 << self.c0_shift) + ((c1 << self.c1_shift) + c2 * t) * t
