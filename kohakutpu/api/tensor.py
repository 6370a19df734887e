"""Tensors: operators and methods, each on a kernel of `kohakutpu.kernels`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import contraction, elementwise, indexing, rearrange, rowwise, shapes
from kohakutpu.api.array import Array
from kohakutpu.api.elementwise import Number
from kohakutpu.api.shapes import Axes


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

    def __lt__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("lt", self, other)

    def __le__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("le", self, other)

    def __gt__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("lt", other, self)

    def __ge__(self, other: Tensor | Number) -> Tensor:
        return elementwise.apply("le", other, self)

    def __eq__(self, other: Tensor | Number) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return elementwise.apply("eq", self, other)

    def __ne__(self, other: Tensor | Number) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return elementwise.apply("ne", self, other)

    __hash__ = object.__hash__  # by identity: comparing elements says nothing about the object

    # ------------------------------------------------------------------ shapes

    def __getitem__(self, key: Any) -> Tensor:
        return indexing.select(self, key)

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[i] for i in range(len(self))])

    def __setitem__(self, key: Any, value: Any) -> None:
        raise CallError(
            "a tensor is never changed",
            loc=caller(),
            fix="make another: where(condition, a, b), or concat of pieces",
        )

    def __contains__(self, value: Any) -> bool:
        raise CallError(
            "`in` asks for elements, which are not known before the data comes back",
            loc=caller(),
            fix="test `value in x.numpy()`",
        )

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Return the elements in order under another shape, whose product is the same.

        One extent may be -1: it is what the others leave. Where rows stay, or both shapes have
        rows of whole words, no element moves.

        Raises
        ------
        CallError
            If the elements do not fill it.
        """
        return shapes.reshape(self, shape)

    def transpose(self, *axes: int | Sequence[int] | None) -> Tensor:
        """Return the axes in another order, by default the reverse.

        No element moves where the last axis stays the last.

        Raises
        ------
        CallError
            If not every axis is named once.
        """
        return shapes.transpose(self, axes)

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return shapes.transpose(self, ())

    def contiguous(self) -> Tensor:
        """Return the same elements with rows one after the other: itself, or a copy."""
        return rearrange.contiguous(self)

    # ------------------------------------------------------------ elementwise

    def clamp(
        self, low: Tensor | Number | None = None, high: Tensor | Number | None = None
    ) -> Tensor:
        """Return ``minimum(maximum(x, low), high)``; a bound that is None is none.

        Raises
        ------
        CallError
            If the shapes do not go together.
        """
        raised = self if low is None else elementwise.apply("maximum", self, low)
        return raised if high is None else elementwise.apply("minimum", raised, high)

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

    def sum(self, axis: Axes = -1, keepdims: bool = False) -> Tensor:
        """Return the sum along the last axis, another one, several, or, for None, all.

        The axes go, or with `keepdims` stay with one index.

        Raises
        ------
        CallError
            If there is no such axis.
        """
        return rowwise.reduce("sum", self, axis, keepdims)

    def mean(self, axis: Axes = -1, keepdims: bool = False) -> Tensor:
        """Return the mean along the last axis, another one, several, or, for None, all.

        The axes go, or with `keepdims` stay with one index.

        Raises
        ------
        CallError
            If there is no such axis.
        """
        return rowwise.reduce("mean", self, axis, keepdims)

    def max(self, axis: Axes = -1, keepdims: bool = False) -> Tensor:
        """Return the maximum along the last axis, another one, several, or, for None, all.

        The axes go, or with `keepdims` stay with one index.

        Raises
        ------
        CallError
            If there is no such axis, or nothing to compare.
        """
        return rowwise.reduce("max", self, axis, keepdims)

    def min(self, axis: Axes = -1, keepdims: bool = False) -> Tensor:
        """Return the minimum along the last axis, another one, several, or, for None, all.

        The axes go, or with `keepdims` stay with one index.

        Raises
        ------
        CallError
            If there is no such axis, or nothing to compare.
        """
        return rowwise.reduce("min", self, axis, keepdims)
