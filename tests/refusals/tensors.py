# pyright: reportArgumentType=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false
"""Tensors: what the tensor level says before anything runs."""

import numpy as np

from kohakutpu import api as ktpu
from kohakutpu.api import zeros


def other_k() -> None:
    """A weight stored the other way round"""
    _ = zeros((3, 4)) @ zeros((4, 5))


def no_axes() -> None:
    """A product with a number"""
    _ = zeros((3, 4)) @ zeros(())


def other_batch() -> None:
    """Products of different batches"""
    _ = zeros((2, 3, 4)) @ zeros((5, 6, 4))


def no_broadcast() -> None:
    """Shapes that do not broadcast"""
    _ = zeros((3, 4)) + zeros((3,))


def beyond_fp16() -> None:
    """A value beyond FP16"""
    ktpu.tensor([1.0, 1e6])


def beyond_fp32() -> None:
    """A number beyond FP32"""
    _ = zeros((3,)) * 1e39


def complex_numbers() -> None:
    """Complex numbers"""
    ktpu.tensor(np.ones(2, complex))


def ragged_lists() -> None:
    """Lists of different lengths"""
    ktpu.tensor([[1], [2, 3]])


def integer_storage() -> None:
    """A format that memory has not"""
    zeros((3,), dtype="int8")


def negative_extent() -> None:
    """A negative extent"""
    zeros((3, -1))


def array_operand() -> None:
    """An array where a tensor belongs"""
    _ = zeros((3,)) + np.ones(3)


def truth() -> None:
    """The truth of a comparison"""
    if zeros((3,)) == 0:
        pass


def compared_with_none() -> None:
    """A comparison with None"""
    _ = zeros((3,)) == None  # noqa: E711


def no_such_index() -> None:
    """An index out of range"""
    _ = zeros((3, 4))[3]


def list_index() -> None:
    """A list as an index"""
    _ = zeros((3, 4))[[0, 2]]


def set_item() -> None:
    """A tensor that is changed"""
    zeros((3, 4))[0] = 1


def other_size() -> None:
    """A shape that the elements do not fill"""
    zeros((3, 4)).reshape(5, -1)


def axis_twice() -> None:
    """An axis named twice"""
    zeros((3, 4)).transpose(0, 0)


def no_such_axis() -> None:
    """An axis there is not"""
    zeros((3, 4)).sum(axis=2)


def nothing_to_compare() -> None:
    """The maximum of nothing"""
    zeros((3, 0)).max()


def different_pieces() -> None:
    """Pieces that do not fit together"""
    ktpu.concat([zeros((3, 4)), zeros((3, 5))])


def unknown_precision() -> None:
    """A precision there is not"""
    ktpu.matmul(zeros((3, 4)), zeros((5, 4)), precision="low")


def unpinned() -> None:
    """An unpin without a pin"""
    zeros((3,)).unpin()


def unknown_device() -> None:
    """A device there is not"""
    ktpu.device("abacus")


def unknown_machine() -> None:
    """A machine there is not"""
    ktpu.device(machine="huge")


def unknown_option() -> None:
    """An option that a device has not"""
    ktpu.device("golden", seeds=3)


def closed_device() -> None:
    """A tensor of a closed device"""
    with ktpu.device("golden", machine="quad") as device:
        x = zeros((3,))
        device.close()
    x.numpy()
