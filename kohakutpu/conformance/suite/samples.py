"""Numbers that tests are made of: ordinary ones, and those that break things."""

from __future__ import annotations

import random
import struct
from functools import lru_cache

from kohakutpu.config import KBLOCK, LANES
from kohakutpu.conformance.draft import seeded
from kohakutpu.numerics.scalar import mx
from kohakutpu.numerics.scalar.formats import FP16, FP32

FP16_EDGES = (
    0x0000,  # zeros
    0x8000,
    0x0001,  # subnormals, and the smallest normal numbers
    0x8001,
    0x03FF,
    0x0400,
    0x83FF,
    0x8400,
    0x3BFF,  # around one
    0x3C00,
    0x3C01,
    0xBC00,
    0x7BFF,  # the largest, the infinities, NaNs
    0xFBFF,
    0x7C00,
    0xFC00,
    0x7C01,
    0x7E00,
    0xFE01,
)

FP32_EDGES = (
    0x00000000,
    0x80000000,
    0x00000001,
    0x807FFFFF,
    0x00800000,
    0x80800000,
    0x00FFFFFF,
    0x01000000,
    0x3F7FFFFF,
    0x3F800000,
    0x3F800001,
    0xBF800000,
    0x477FE000,  # 65504, the halfway points above it and below the next number down
    0x477FEFFF,
    0x477FF000,
    0xC77FF000,
    0x33000000,  # 2**-25, the halfway point between 0 and the smallest FP16 number
    0x33000001,
    0xB3000000,
    0x387FC000,
    0x387FE000,  # between the largest FP16 subnormal number and the smallest normal one
    0x387FF000,
    0x3F801000,  # ties of FP16: 1 + 2**-11 and 1 + 3 * 2**-11
    0x3F803000,
    0x42FE0000,  # 127, 128, -126, -127: the ends of exp2
    0x43000000,
    0xC2FC0000,
    0xC2FE0000,
    0x7E800000,  # 2**126 and above: reciprocals that are no normal number
    0x7E800001,
    0x7F000000,
    0x7F7FFFFF,
    0xFF7FFFFF,
    0x7F800000,
    0xFF800000,
    0x7F800001,
    0x7FC00000,
    0xFFC00001,
)


def fp16(chance: random.Random, count: int, edges: float = 0.1) -> list[int]:
    """Return FP16 codes: numbers around one, and a share of edges."""
    codes: list[int] = []
    for _ in range(count):
        if chance.random() < edges:
            codes.append(chance.choice(FP16_EDGES))
        else:
            codes.append(chance.randrange(2) << 15 | chance.randrange(0x3000, 0x4800))
    return codes


def fp32(chance: random.Random, count: int, edges: float = 0.1) -> list[int]:
    """Return FP32 codes: numbers around one, a few of any size, and a share of edges."""
    codes: list[int] = []
    for _ in range(count):
        draw = chance.random()
        if draw < edges:
            codes.append(chance.choice(FP32_EDGES))
        elif draw < 2 * edges:
            codes.append(chance.getrandbits(32))
        else:
            codes.append(chance.randrange(2) << 31 | chance.randrange(0x3D000000, 0x42000000))
    return codes


def as_fp16(codes: list[int]) -> bytes:
    """Return FP16 codes as bytes."""
    assert all(code <= FP16.sign_bit | FP16.sign_bit - 1 for code in codes)
    return struct.pack(f"<{len(codes)}H", *codes)


def as_fp32(codes: list[int]) -> bytes:
    """Return FP32 codes as bytes."""
    assert all(code <= FP32.sign_bit | FP32.sign_bit - 1 for code in codes)
    return struct.pack(f"<{len(codes)}I", *codes)


@lru_cache(maxsize=256)
def fp16_bytes(seed: str, count: int, edges: float = 0.0) -> bytes:
    """Return FP16 numbers that depend on `seed` alone."""
    return as_fp16(fp16(seeded(seed), count, edges))


@lru_cache(maxsize=256)
def fp32_bytes(seed: str, count: int, edges: float = 0.1) -> bytes:
    """Return FP32 numbers that depend on `seed` alone."""
    return as_fp32(fp32(seeded(seed), count, edges))


@lru_cache(maxsize=256)
def packed(seed: str, entries: int, scales: tuple[int, ...]) -> bytes:
    """Return entries in packed order: any elements, -128 among them, scales out of `scales`."""
    chance = seeded(seed)
    return mx.pack_region(
        [
            [
                ([chance.randrange(-128, 128) for _ in range(KBLOCK)], chance.choice(scales))
                for _ in range(LANES)
            ]
            for _ in range(entries)
        ]
    )


MILD = tuple(range(122, 132))
WILD = (0, 1, 60, 64, 90, 120, 126, 127, 128, 133, 140, 190, 200, 254, 255)
