"""Contraction of MX operands into FP32 accumulators.

The 32 products of a block pair are summed exactly as integers, ``s``; the partial is
``s * 2**(sa + sb - 266)`` as FP32: a zero of its sign below the normal range, infinite above it,
NaN if either scale is 0xFF. An accumulator starts at +0 and takes one FP32 addition a block, in
ascending order.

Almost always a float32 matrix product of scaled elements gives the same partials: the 32 products
are integers times one power of two and their sum stays below ``2**20`` times it, so it is exact
in whatever order it is taken. `Operand` knows the range of its scales, and `gemm` goes the long
way when a number could leave the normal range.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kohakutpu.numerics import fp32
from kohakutpu.numerics.mx.block import BLOCK, ELEMENT_BIAS, NAN_SCALE, WEIGHT, Elements, Scales

Array = NDArray[np.float32]

# Partials are multiples of 2**-126 and below 2**127 when the sum of the scales is in this range.
_LEAST_SCALES = 2 * ELEMENT_BIAS - 126
_MOST_SCALES = 2 * ELEMENT_BIAS + 127 - 19
_MOST_SCALE = 253  # -128 under 254 is no FP32 number

# Outputs of one matrix product. BLAS has a fast kernel for small ones, and uses one thread.
_PANEL = 128 * 128


class Operand:
    """Rows of MX blocks, in the forms that a matrix product wants.

    Parameters
    ----------
    elements : ndarray of int8
        ``[rows, blocks, 32]``; not copied, must not change.
    scales : ndarray of uint8
        ``[rows, blocks]``; not copied, must not change.

    Raises
    ------
    ValueError
        If the shapes do not belong together.
    """

    def __init__(self, elements: Elements, scales: Scales) -> None:
        if elements.shape != (*scales.shape, BLOCK) or scales.ndim != 2:
            raise ValueError(
                f"an operand is elements [rows, blocks, 32] and scales [rows, blocks], not "
                f"{list(elements.shape)} and {list(scales.shape)}"
            )
        self.elements = elements
        self.scales = scales
        self.rows, self.blocks = scales.shape

    @cached_property
    def range(self) -> tuple[int, int]:
        """The least and the largest scale that matter; blocks of zeros and NaN do not."""
        least = np.minimum.reduce(self.scales, axis=None, initial=NAN_SCALE)
        most = np.maximum.reduce(self.scales, axis=None, initial=0)
        if least == 0 or most == NAN_SCALE:
            blank = self.scales == 0
            if self.elements[blank].any():
                blank[...] = False
            matters = ~(blank | (self.scales == NAN_SCALE))
            least = np.minimum.reduce(self.scales, axis=None, initial=NAN_SCALE, where=matters)
            most = np.maximum.reduce(self.scales, axis=None, initial=0, where=matters)
        return int(least), int(most)

    @cached_property
    def nan(self) -> NDArray[np.bool_] | None:
        """``[blocks, rows]``, where a scale is the NaN; None if nowhere."""
        where = self.scales.T == NAN_SCALE
        return where if where.any() else None

    @cached_property
    def left(self) -> Array:
        """``[blocks, rows, 32]``: what elements are worth."""
        values = np.empty((self.blocks, self.rows, BLOCK), np.float32)
        np.copyto(values, self.elements.transpose(1, 0, 2))
        return np.multiply(values, self._weights()[:, :, None], out=values)

    @cached_property
    def right(self) -> Array:
        """``[blocks, 32, rows]``: what elements are worth."""
        values = np.empty((self.blocks, BLOCK, self.rows), np.float32)
        np.copyto(values, self.elements.transpose(1, 2, 0))
        return np.multiply(values, self._weights()[:, None, :], out=values)

    def _weights(self) -> Array:
        weights = WEIGHT.take(self.scales.T)
        if self.nan is not None:
            weights[self.nan] = 0
        return weights


def prepare(elements: Elements, scales: Scales) -> Operand:
    """Return an operand; its forms are made when a contraction first needs them.

    Parameters
    ----------
    elements : ndarray of int8
        ``[rows, blocks, 32]``; not copied, must not change.
    scales : ndarray of uint8
        ``[rows, blocks]``; not copied, must not change.

    Returns
    -------
    Operand
        To be multiplied any number of times, on either side.

    Raises
    ------
    ValueError
        If the shapes do not belong together.
    """
    return Operand(elements, scales)


def gemm(a: Operand, b: Operand, acc: Array | None = None, out: Array | None = None) -> Array:
    """Return ``acc + a @ b.T``, block after block of K.

    Parameters
    ----------
    a, b : Operand
        ``M`` and ``N`` rows of the same number of blocks.
    acc : ndarray of float32, optional
        ``[M, N]``, what the accumulators hold; +0 by default.
    out : ndarray of float32, optional
        ``[M, N]``, where to put the result; may be `acc`.

    Returns
    -------
    ndarray of float32
        `out`, or a fresh array. A NaN may have any payload, see `fp32.canonical`.

    Raises
    ------
    ValueError
        If the operands have different numbers of blocks, or a tile another shape.
    """
    if a.blocks != b.blocks:
        raise ValueError(f"a has {a.blocks} blocks along K and b has {b.blocks}")
    shape = (a.rows, b.rows)
    for name, tile in (("acc", acc), ("out", out)):
        if tile is not None and tile.shape != shape:
            raise ValueError(f"{name} must be {list(shape)}, not {list(tile.shape)}")
    if out is None:
        out = np.empty(shape, np.float32)
    if acc is None:
        out[...] = 0
    elif acc is not out:
        np.copyto(out, acc)
    if _plain(a, b) and (acc is None or fp32.no_smaller(out, -103)):
        _matmul(a, b, out)
    else:
        _exact(a, b, out)
    return out


def _plain(a: Operand, b: Operand) -> bool:
    """Return whether no partial and no product can leave the normal range."""
    (least_a, most_a), (least_b, most_b) = a.range, b.range
    return (
        least_a + least_b >= _LEAST_SCALES
        and most_a + most_b <= _MOST_SCALES
        and max(most_a, most_b) <= _MOST_SCALE
    )


@np.errstate(all="ignore")
def _matmul(a: Operand, b: Operand, out: Array) -> None:
    if a.blocks:
        # A partial of exactly zero is +0, but BLAS may give -0. The two differ on a -0 alone.
        np.add(out, np.float32(0), out=out)
    left, right = a.left, b.right
    step = max(1, _PANEL // max(1, b.rows))
    partial = np.empty((min(step, a.rows), b.rows), np.float32)
    for row in range(0, a.rows, step):
        panel = out[row : row + step]
        partial = partial[: len(panel)]
        for block in range(a.blocks):
            np.matmul(left[block, row : row + step], right[block], out=partial)
            if a.nan is not None:
                partial[a.nan[block, row : row + step]] = np.nan
            if b.nan is not None:
                partial[:, b.nan[block]] = np.nan
            np.add(panel, partial, out=panel)


@np.errstate(all="ignore")
def _exact(a: Operand, b: Operand, out: Array) -> None:
    for block in range(a.blocks):
        # Sums of 32 products of integers are below 2**24: float32 holds them exactly.
        sums = a.elements[:, block].astype(np.float32) @ b.elements[:, block].astype(np.float32).T
        scales = a.scales[:, block, None].astype(np.int32) + b.scales[:, block]
        # 20 bits, so the cast rounds nothing but what is flushed.
        wide = np.ldexp(sums.astype(np.float64), scales - 2 * ELEMENT_BIAS)
        partial = fp32.flush(wide.astype(np.float32))
        if a.nan is not None:
            partial[a.nan[block]] = np.nan
        if b.nan is not None:
            partial[:, b.nan[block]] = np.nan
        fp32.add(out, partial, out=out)
