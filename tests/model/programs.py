"""A blocked matmul for one cluster, written by hand: loops, rings, extents, semaphores."""

from __future__ import annotations

from dataclasses import dataclass

from kohakutpu import isa
from kohakutpu.isa import Address, Extent, Flag, Instruction, Post, Wait
from tests.model.support import ORIGIN, at

FREE, LOADED, TILE_FREE, TILE_DONE, HANDED, TAKEN = range(6)
M, N, K, A_ROW, A_POS, B_COL, B_POS, C_ROW, C_POS, RING, HAND = range(1, 12)


@dataclass(frozen=True)
class Matmul:
    """``C[m, n] = A[m, k] @ B[k, n]``: byte addresses, strides in words, tile shape."""

    m: int
    n: int
    k: int
    a: int
    b: int
    c: int
    a_stride: int
    b_stride: int
    c_stride: int
    gm: int = 4
    gn: int = 4
    nk: int = 2
    slots: int = 2

    @property
    def tiles(self) -> tuple[int, int, int]:
        return (
            -(-self.m // (4 * self.gm)),
            -(-self.n // (4 * self.gn)),
            -(-self.k // (32 * self.nk)),
        )

    def cluster(self, node: int, vector: int | None = None) -> list[Instruction]:
        """The cluster's program; it drains to memory, or to the L1 of `vector` at word 0."""
        gm, gn, nk, slots = self.gm, self.gn, self.nk, self.slots
        size_a, size_b = gm * nk, gn * nk
        rows, cols = Extent(self.m, M), Extent(self.n, N)
        if vector is None:
            drain = isa.DRAIN(
                acc=ORIGIN, gm=gm, gn=gn, to="memory", mem=Address(C_POS, 0),
                stride=self.c_stride, rows=rows, cols=cols, format="fp16", order="row",
                waits=(Wait(TILE_DONE),), posts=(Post(node, TILE_FREE),),
            )  # fmt: skip
        else:
            drain = isa.DRAIN(
                acc=ORIGIN, gm=gm, gn=gn, to="node", mem=ORIGIN, nodes=1 << vector,
                stride=-(-4 * gn // 16), rows=rows, cols=cols, format="fp16", order="row",
                waits=(Wait(TILE_DONE), Wait(TAKEN)),
                posts=(Post(node, TILE_FREE), Post(vector, HANDED)),
            )  # fmt: skip
        mt, nt, kt = self.tiles
        return [
            isa.SETA(A_ROW, self.a // 8),
            isa.SETA(C_ROW, self.c // 8),
            *[isa.SYNC(1, posts=(Post(node, FREE),)) for _ in range(slots)],
            isa.SYNC(2, posts=(Post(node, TILE_FREE),)),
            isa.LOOP(at(mt)),
            isa.SETA(N, 0),
            isa.SETA(B_COL, self.b // 8),
            isa.ADDA(C_POS, C_ROW, 0),
            isa.LOOP(at(nt)),
            isa.SETA(K, 0),
            isa.ADDA(A_POS, A_ROW, 0),
            isa.ADDA(B_POS, B_COL, 0),
            isa.SYNC(1, waits=(Wait(TILE_FREE),)),
            isa.LOOP(at(kt)),
            isa.FILL(
                buffer="A", l1=Address(RING, 0), l1_stride=nk, mem=Address(A_POS, 0),
                stride=self.a_stride, g=gm, nk=nk, rows=rows, k=Extent(self.k, K), mode="fp16",
                waits=(Wait(FREE),),
            ),
            isa.FILL(
                buffer="B", l1=Address(RING, 0), l1_stride=nk, mem=Address(B_POS, 0),
                stride=self.b_stride, g=gn, nk=nk, rows=cols, k=Extent(self.k, K), mode="fp16",
                transpose=True, posts=(Post(node, LOADED),),
            ),
            isa.GEMM(
                a=Address(RING, 0), b=Address(RING, 0), acc=ORIGIN, gm=gm, gn=gn, nk=nk,
                a_stride=nk, b_stride=nk, accumulate=Flag(False, K),
                waits=(Wait(LOADED),), posts=(Post(node, FREE),),
            ),
            isa.ADDA(K, K, 32 * nk),
            isa.ADDA(A_POS, A_POS, 8 * nk),
            isa.ADDA(B_POS, B_POS, 32 * nk * 4 * self.b_stride),
            isa.ADDA(RING, RING, max(size_a, size_b), modulo=slots * max(size_a, size_b)),
            isa.END(),
            isa.SYNC(1, posts=(Post(node, TILE_DONE),)),
            drain,
            isa.ADDA(N, N, 4 * gn),
            isa.ADDA(B_COL, B_COL, gn),
            isa.ADDA(C_POS, C_POS, gn),
            isa.END(),
            isa.ADDA(M, M, 4 * gm),
            isa.ADDA(A_ROW, A_ROW, 4 * gm * 4 * self.a_stride),
            isa.ADDA(C_ROW, C_ROW, 4 * gm * 4 * self.c_stride),
            isa.END(),
            isa.SYNC(0, waits=(Wait(FREE, slots),)),
            isa.SYNC(1, waits=(Wait(TILE_FREE),)),
            isa.HALT(),
        ]  # fmt: skip
