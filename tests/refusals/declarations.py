# pyright: reportArgumentType=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false
"""Declarations and calls: tensors, knobs, shapes, devices."""

from kohakuaccel.lang import dims, grid
from kohakutpu import api as ktpu
from kohakutpu import lang as L
from kohakutpu.api import zeros
from kohakutpu.kernels import add, batched_matmul, matmul, rmsnorm
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def no_declaration() -> None:
    """A parameter that declares nothing"""

    @kernel
    def undeclared(x, y=L.Out(M, N)):
        for r in grid(y.rows(1)):
            y[r] <<= x[r]


def no_default() -> None:
    """A knob without a default"""

    @kernel
    def undefaulted(x=L.In(M, N), y=L.Out(M, N), *, n):
        for r in grid(x.rows(n)):
            y[r] <<= x[r]


def no_result() -> None:
    """A kernel without a result"""

    @kernel
    def resultless(x=L.In(M, N)):
        for _ in grid(x.rows(1)):
            pass


def any_number() -> None:
    """A parameter for any number of tensors"""

    @kernel
    def variadic(*xs, y=L.Out(M, N)):
        for r in grid(y.rows(1)):
            y[r] <<= xs[0][r]


def no_batch() -> None:
    """A result without the batch of its arguments"""

    @kernel
    def unbatched(x=L.In(..., M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r]


def two_forms() -> None:
    """A batch beside any rank"""

    @kernel
    def forms(x=L.In(...), z=L.In(..., M, N), y=L.Out(..., M, N)):
        for r in grid(z.rows(1)):
            y[r] <<= z[r]


def no_shape() -> None:
    """A result of any rank that nothing gives a shape"""

    @kernel
    def shapeless(x=L.In(M, N), y=L.Out(...)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r]


def returned() -> None:
    """A kernel that returns a value"""

    @kernel
    def returns(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r]
        return y

    returns.trace()


def two_dimensions() -> None:
    """Two dimensions of one name"""
    W, again = dims("W, H")[0], dims("W, H")[0]

    @kernel
    def names(x=L.In(M, W), y=L.Out(M, again)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r]

    names.trace()


def other_rank() -> None:
    """An argument of another rank"""
    matmul(zeros((8,)), zeros((8, 48)))


def other_extent() -> None:
    """Arguments that disagree on a dimension"""
    matmul(zeros((8, 32)), zeros((8, 48)))


def other_batches() -> None:
    """Batches that do not broadcast"""
    batched_matmul(zeros((2, 8, 32)), zeros((3, 8, 32)))


def other_format() -> None:
    """An argument of another format"""
    add(zeros((4, 4)), zeros((4, 4), dtype="fp32"))


def too_many() -> None:
    """An argument too many"""
    matmul(zeros((8, 32)), zeros((8, 32)), zeros((8, 8)))


def too_few() -> None:
    """An argument too few"""
    matmul(zeros((8, 32)))


def twice() -> None:
    """An argument given twice"""
    matmul(zeros((8, 32)), a=zeros((8, 32)))


def unknown_knob() -> None:
    """A knob there is not"""
    matmul(zeros((8, 32)), zeros((8, 32)), gk=2)


def no_tensor() -> None:
    """An argument that is no tensor"""
    matmul(zeros((8, 32)), [[1.0] * 32])


def other_device() -> None:
    """Arguments on two devices"""
    with ktpu.device("golden", machine="tiny"):
        far = zeros((8, 32))
    matmul(zeros((8, 32)), far)


def channel_shape() -> None:
    """A weight that is no row of the argument"""
    rmsnorm(zeros((4, 16)), zeros((8,)))
