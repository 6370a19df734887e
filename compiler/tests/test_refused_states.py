"""States and tiles of fused stages whose sizes do not go together, or that nobody says."""

from compiler.pipeline import ArgSpec, compile_kernel
from compiler.tests.refusals import refused
from kohakuaccel.lang import dims, sweep, units
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import Kernel, kernel

M, N, K, E = dims("M, N, K, E")
SMALL = preset("small")


def compiled(bad: Kernel, *shapes: tuple[int, ...]) -> None:
    compile_kernel(bad, [ArgSpec(shape) for shape in shapes], {}, SMALL)


def test_a_state_of_another_width() -> None:
    @kernel
    def bad(q=L.In(M, K), k=L.In(N, K), v=L.In(N, E), y=L.Out(M, E), *, nk=None):
        with units(q.rows(4)) as i:
            out = L.state(0.0, M)
            for j in sweep(k.rows(32)):
                s = L.tile()
                for c in sweep(q.chunks32(nk)):
                    s += q[i, c] @ k[j, c]
                pv = L.tile()
                pv += L.relu(s) @ v[j]
                out <<= out * L.row_max(s) + pv  # HERE
            y[i] <<= out

    with refused("rows of 1 and 8 elements meet", "out * L.row_max(s) + pv", "one width"):
        compiled(bad, (1, 40), (7, 40), (7, 8))


def test_a_tile_that_nobody_says_the_size_of() -> None:
    @kernel
    def bad(q=L.In(M, K), k=L.In(N, K), y=L.Out(M), *, rows=None):
        with units(q.rows(rows)) as i:
            total = L.state(0.0)
            for j in sweep(k.rows(32)):
                s = L.tile()  # HERE
                for c in sweep(q.chunks32(1)):
                    s += q[i + 1, c] @ k[j, c]
                total <<= total + L.row_sum(s)
            y[i] <<= total

    with refused("nothing says how large tile `s` is", "L.tile()", "L.tile(gm, gn, nk)"):
        compiled(bad, (5, 40), (7, 40))
