"""Packed order: how a region of MX entries lies in words of 32 bytes."""

import numpy as np
from numpy.typing import NDArray

from kohakutpu.numerics.mx.block import BLOCK, LANES, Elements, Scales

WORD = 32  # bytes


def pack_region(elements: Elements, scales: Scales) -> NDArray[np.uint8]:
    """Put a region into packed order.

    Entry ``g * nk + kb`` is block ``kb`` of the 4 rows (lanes) of group ``g``.

    Parameters
    ----------
    elements : ndarray of int8
        ``[4 * g, nk, 32]``.
    scales : ndarray of uint8
        ``[4 * g, nk]``.

    Returns
    -------
    ndarray of uint8
        ``[4 * n + ceil(n / 8), 32]`` with ``n = g * nk``: a word of elements a lane, entry by
        entry; then the scales, 4 bytes an entry, the rest of the last word zero.

    Raises
    ------
    ValueError
        If the rows are not groups of 4, or the shapes do not belong together.
    """
    rows, nk = scales.shape
    if rows % LANES or elements.shape != (rows, nk, BLOCK):
        raise ValueError(
            f"a region is elements [4 * g, nk, 32] and scales [4 * g, nk], not "
            f"{list(elements.shape)} and {list(scales.shape)}"
        )
    entries = rows // LANES * nk
    words = np.zeros((region_words(entries), WORD), np.uint8)
    lanes = elements.view(np.uint8).reshape(-1, LANES, nk, BLOCK).transpose(0, 2, 1, 3)
    words[: LANES * entries] = lanes.reshape(-1, WORD)
    tail = words[LANES * entries :].reshape(-1)
    tail[: LANES * entries] = scales.reshape(-1, LANES, nk).transpose(0, 2, 1).reshape(-1)
    return words


def unpack_region(words: NDArray[np.uint8], g: int, nk: int) -> tuple[Elements, Scales]:
    """Take a region out of packed order.

    Parameters
    ----------
    words : ndarray of uint8
        ``[region_words(g * nk), 32]``.
    g, nk : int
        Groups of 4 rows, and blocks a row.

    Returns
    -------
    elements : ndarray of int8
        ``[4 * g, nk, 32]``.
    scales : ndarray of uint8
        ``[4 * g, nk]``.

    Raises
    ------
    ValueError
        If there are more or fewer words.
    """
    entries = g * nk
    if words.shape != (region_words(entries), WORD):
        raise ValueError(
            f"{g} groups of {nk} entries are {region_words(entries)} words of {WORD} bytes, not "
            f"{list(words.shape)}"
        )
    lanes = words[: LANES * entries].reshape(g, nk, LANES, BLOCK).transpose(0, 2, 1, 3)
    elements = lanes.reshape(LANES * g, nk, BLOCK).view(np.int8)
    tail = words[LANES * entries :].reshape(-1)[: LANES * entries]
    return elements, tail.reshape(g, nk, LANES).transpose(0, 2, 1).reshape(LANES * g, nk)


def region_words(entries: int) -> int:
    """Return the words of so many packed entries."""
    return LANES * entries + -(-entries // (WORD // LANES))
