"""Tensors: operators and methods, each on a kernel of `kohakutpu.kernels`."""

from __future__ import annotations

from kohakutpu.api import contraction, elementwise, rowwise
from kohakutpu.api.array import Array
from kohakutpu.api.elementwise import Number


class Tensor(Array):
    """Elements on a device, and arithmetic on them there.

    Made by `tensor`, `zeros`, `full` or a kernel; never changed afterwards. Every operation runs
    on the device its operands live on, in FP32, and rounds the result to FP16; Python numbers take
    part in FP32. `numpy()` is what brings elements back.

    Attributes
    ----------
    shape : tuple of int
        As in numpy.
    format : str
        ``"fp16"`` or ``"fp32"``: how elements are stored.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves `array + tensor` to us, and we refuse by name

    # -------------------------------------------------------------- operators

    def __matmul__(self, other: Tensor) -> Tensor:
        return contraction.matmul(self, other)

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return contraction.matmul(other, self)

    def __add__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("add", self, other)

    def __radd__(self, other: Number) -> Tensor:
        return elementwise.apply("add", other, self)

    def __sub__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("sub", self, other)

    def __rsub__(self, other: Number) -> Tensor:
        return elementwise.apply("sub", other, self)

    def __mul__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("mul", self, other)

    def __rmul__(self, other: Number) -> Tensor:
        return elementwise.apply("mul", other, self)

    def __truediv__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("div", self, other)

    def __rtruediv__(self, other: Number) -> Tensor:
        return elementwise.apply("div", other, self)

    def __neg__(self) -> Tensor:
        return elementwise.unary("neg", self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return elementwise.unary("abs", self)

    # ------------------------------------------------------------ elementwise

    def silu(self) -> Tensor:
        """Return ``x * sigmoid(x)``, of the same shape."""
        return elementwise.unary("silu", self)

    def gelu(self) -> Tensor:
        """Return ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))``, of the same shape."""
        return elementwise.unary("gelu", self)

    def relu(self) -> Tensor:
        """Return ``max(x, 0)``, of the same shape."""
        return elementwise.unary("relu", self)

    # --------------------------------------------------------- last axis

    def softmax(self) -> Tensor:
        """Return the softmax along the last axis, of the same shape."""
        return rowwise.softmax(self)

    def rmsnorm(self, w: Tensor, eps: float = 1e-5) -> Tensor:
        """Return ``x / sqrt(mean(x**2) + eps) * w`` along the last axis, of the same shape.

        Raises
        ------
        CallError
            If `w` has not the shape of the last axis.
        """
        return rowwise.rmsnorm(self, w, eps)

    def layernorm(self, w: Tensor, b: Tensor, eps: float = 1e-5) -> Tensor:
        """Return ``(x - mean(x)) / sqrt(var(x) + eps) * w + b`` along the last axis.

        Raises
        ------
        CallError
            If `w` or `b` has not the shape of the last axis.
        """
        return rowwise.layernorm(self, w, b, eps)

    def sum(self) -> Tensor:
        """Return the sum along the last axis, which goes: shape ``x.shape[:-1]``."""
        return rowwise.reduce("sum", self)

    def mean(self) -> Tensor:
        """Return the mean along the last axis, which goes: shape ``x.shape[:-1]``."""
        return rowwise.reduce("mean", self)

    def max(self) -> Tensor:
        """Return the maximum along the last axis, which goes: shape ``x.shape[:-1]``.

        Raises
        ------
        CallError
            If the last axis has no elements.
        """
        return rowwise.reduce("max", self)

    def min(self) -> Tensor:
        """Return the minimum along the last axis, which goes: shape ``x.shape[:-1]``.

        Raises
        ------
        CallError
            If the last axis has no elements.
        """
        return rowwise.reduce("min", self)
