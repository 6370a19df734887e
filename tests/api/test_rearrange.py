# pyright: reportPrivateUsage=false
"""reshape, transpose, indexing and concat against numpy, bit for bit."""

import math
import random
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from tests.kernels.oracle import assert_same_bits

pytestmark = pytest.mark.golden

EXTENTS = (1, 1, 2, 3, 4, 5, 6, 8, 16, 17, 20, 32, 33)
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, -6e-8, 6.1e-5]


def values(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    array = np.random.default_rng([*shape, 7]).normal(size=shape).astype(dtype)
    places = min(len(EDGES), array.size)
    edges = np.asarray(EDGES[:places], np.float32)
    array.reshape(-1)[:places] = np.where(np.abs(edges) < 1e-37, edges, edges.astype(np.float16))
    return array


def assert_equal(ours: ktpu.Tensor, expected: Any) -> None:
    found, wanted = ours.numpy(), np.array(expected, order="C")
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    assert_same_bits(found, wanted)


class Walk:
    """One random operation after the other, on a tensor and on an array."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        shape = [self.pick(EXTENTS) for _ in range(self.random.randint(0, 4))]
        while math.prod(shape) > 3000:
            shape.pop()
        if shape and self.random.random() < 0.05:
            shape[self.random.randrange(len(shape))] = 0
        self.dtype = self.pick((np.float16, np.float16, np.float32))
        self.array = values(*shape, dtype=self.dtype)
        self.tensor = ktpu.tensor(self.array, dtype=self.dtype)
        self.log: list[Any] = [shape]

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def transpose(self) -> None:
        order = list(range(self.array.ndim))
        self.random.shuffle(order)
        self.log.append(("transpose", order))
        self.array = self.array.transpose(order)
        self.tensor = self.tensor.transpose(order)

    def reshape(self) -> None:
        extents: list[int] = []
        left = self.array.size
        while left > 1 and self.random.random() < 0.8:
            extents.append(self.pick([n for n in range(1, left + 1) if left % n == 0]))
            left //= extents[-1]
        extents.append(left)
        if extents == [1] and self.random.random() < 0.3:
            extents = []
        self.log.append(("reshape", extents))
        self.array, self.tensor = self.array.reshape(extents), self.tensor.reshape(extents)

    def index(self) -> None:
        key: list[Any] = []
        for extent in self.array.shape:
            chance = self.random.random()
            if chance < 0.15 and extent:
                key.append(self.random.randrange(-extent, extent))
            elif chance < 0.5:
                start = self.pick([None, 4, self.random.randint(-extent - 1, extent + 1)])
                stop = self.pick([None, self.random.randint(-extent - 1, extent + 1)])
                key.append(slice(start, stop, self.pick([None, 1, 2, 3, -1, -2])))
            else:
                key.append(slice(None))
            if self.random.random() < 0.15:
                key.append(None)
        place = self.random.randint(0, len(key))
        form = self.pick(("whole", "head", "tail", "dots"))
        if form == "head":
            del key[place:]
        elif form == "tail":
            key = [Ellipsis, *key[place:]]
        elif form == "dots":
            key.insert(place, Ellipsis)
        self.log.append(("index", key))
        self.array = np.asarray(self.array[tuple(key)])
        self.tensor = self.tensor[tuple(key)]

    def concat(self) -> None:
        if not self.array.ndim or self.array.size > 2000:
            return
        axis = self.random.randrange(-self.array.ndim, self.array.ndim)
        self.log.append(("concat", axis))
        both = self.array[::-1], self.tensor[::-1]
        self.array = np.concatenate([self.array, both[0], self.array], axis)
        self.tensor = ktpu.concat([self.tensor, both[1], self.tensor], axis)


def walk(seed: int) -> None:
    state = Walk(seed)
    for _ in range(state.random.randint(1, 5)):
        state.pick((state.transpose, state.reshape, state.index, state.index, state.concat))()
    try:
        assert_equal(state.tensor, state.array)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {state.log}") from error


@pytest.mark.parametrize("start", range(0, 160, 20))
def test_random_sequences(start: int) -> None:
    for seed in range(start, start + 20):
        walk(seed)


@pytest.mark.slow
def test_many_random_sequences() -> None:
    for seed in range(10_000, 13_000):
        walk(seed)


def test_engines_interleaved_by_chance() -> None:
    for seed in range(12):
        with ktpu.device("golden", machine="duo", poison=True, seed=seed):
            walk(500 + seed)


def dispatches(function: Any) -> int:
    before = ktpu.stats().dispatches
    function()
    return ktpu.stats().dispatches - before


VIEWS: list[tuple[tuple[int, ...], Any]] = [
    ((6, 20), lambda x: x[2]), ((6, 20), lambda x: x[1:5:2]), ((6, 20), lambda x: x[::-1]),
    ((6, 20), lambda x: x[:, 4:]), ((6, 20), lambda x: x[..., 8:12]), ((6, 20), lambda x: x[None]),
    ((6, 20), lambda x: x.reshape(2, 3, 20)), ((2, 3, 20), lambda x: x.reshape(6, -1)),
    ((6, 32), lambda x: x.reshape(6, 2, 16)), ((6, 32), lambda x: x.reshape(192)),
    ((2, 3, 5, 7), lambda x: x.transpose(2, 0, 1, 3)), ((5, 1), lambda x: x.reshape(5, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "view"), VIEWS)
def test_what_keeps_rows_moves_nothing(shape: tuple[int, ...], view: Any) -> None:
    array = values(*shape)
    x = ktpu.tensor(array)
    results: list[ktpu.Tensor] = []
    assert dispatches(lambda: results.append(view(x))) == 0
    assert results[0].storage is x.storage
    assert_equal(results[0], view(array))


def test_a_view_keeps_its_memory() -> None:
    x = ktpu.tensor(values(6, 20))
    row = x[3]
    del x
    assert ktpu.stats().memory.live == 6 * 64
    assert_equal(row, values(6, 20)[3])
    del row
    assert ktpu.stats().memory.live == 0


def test_heads_side_by_side_are_contracted_in_place() -> None:
    numbers = np.random.default_rng(3)
    q, k = (numbers.integers(-3, 4, (2, 10, 64)).astype(np.float16) for _ in range(2))

    def heads(x: Any) -> Any:
        return x.reshape(2, 10, 4, 16).transpose(0, 2, 1, 3)

    results: list[ktpu.Tensor] = []
    x, w = ktpu.tensor(q), ktpu.tensor(k)
    assert dispatches(lambda: results.append(heads(x) @ heads(w))) == 1
    expected = heads(q).astype(np.float32) @ heads(k).astype(np.float32).swapaxes(-1, -2)
    assert np.array_equal(results[0].numpy(), expected)


@pytest.mark.parametrize("view", [lambda x: x[:, ::-1], lambda x: x[:, 3:8], lambda x: x.T])
def test_every_operation_takes_views(view: Any) -> None:
    array = np.random.default_rng(5).integers(-4, 5, (8, 8)).astype(np.float16)
    x, a = view(ktpu.tensor(array)[::-1]), view(array[::-1])
    wide = a.astype(np.float32)
    assert_equal(x + x, a + a)
    assert_equal(x + 1, a + 1)
    assert_equal(x * x[:1], a * a[:1])
    assert_equal(x @ x, (wide @ wide.T).astype(np.float16))
    assert_equal(x.max(), a.max(-1))
    assert_equal(x.relu(), np.maximum(a, 0))
    assert x.softmax().shape == a.shape
    assert_equal(ktpu.tensor(x, dtype="fp32"), wide)


def test_iteration() -> None:
    array = values(3, 5)
    assert [row.shape for row in ktpu.tensor(array)] == [(5,)] * 3
    first, second, third = ktpu.tensor(array)
    assert_equal(ktpu.concat([third, second, first]), np.concatenate(array[::-1]))
    with pytest.raises(CallError, match=r"len\(\) of a tensor without axes"):
        iter(ktpu.tensor(1.0))


def test_large_transposes() -> None:
    array = np.arange(257 * 130, dtype=np.float32).reshape(257, 130) % 2048
    x = ktpu.tensor(array)
    assert_equal(x.T, array.astype(np.float16).T)
    assert_equal(x.T.T, array.astype(np.float16))
    assert_equal(ktpu.tensor(values(9, 300)).T[:, 1::2], values(9, 300).T[:, 1::2])


REFUSED: list[tuple[Any, str]] = [
    (lambda x: x[5], "index 5 is out of range for axis 0 of a tensor of shape (4, 6)"),
    (lambda x: x[0, -7], "index -7 is out of range for axis 1"),
    (lambda x: x[0, 0, 0], "3 indices for a tensor with 2 axes"),
    (lambda x: x[..., ...], "an index has several `...`"),
    (lambda x: x[[0, 1]], "a tensor cannot be indexed by list"),
    (lambda x: x[True], "a tensor cannot be indexed by bool"),
    (lambda x: x[x > 0], "a tensor cannot be indexed by Tensor"),
    (lambda x: x[1.0], "a tensor cannot be indexed by float"),
    (lambda x: x[::0], "slice step cannot be zero"),
    (lambda x: x["a":], "slice indices must be integers"),
    (lambda x: x.reshape(5, 5), "has 24 elements, which do not fill (5, 5)"),
    (lambda x: x.reshape(-1, 7), "do not fill (-1, 7)"),
    (lambda x: x.reshape(-1, -1), "and one -1 at most"),
    (lambda x: x.reshape(4, 6.0), "reshape takes integers"),
    (lambda x: x.reshape(0, -1), "do not fill (0, -1)"),
    (lambda x: x.transpose(0), "transpose names 1 axes of a tensor with 2"),
    (lambda x: x.transpose(0, 2), "transpose: 2 is no axis of a tensor of shape (4, 6)"),
    (lambda x: x.transpose(0, -2), "name one axis twice"),
    (lambda x: x.sum(2), "sum: 2 is no axis of a tensor of shape (4, 6)"),
    (lambda x: x.max((0, 0)), "name one axis twice"),
    (lambda x: x.min(1.5), "min: 1.5 is no axis"),
    (lambda x: ktpu.concat(x), "takes a sequence of tensors, not one tensor"),
    (lambda x: ktpu.concat([]), "concat: no operand is a tensor"),
    (lambda x: ktpu.concat([x, cast("Any", None)]), "concat: an operand is of type NoneType"),
    (lambda x: ktpu.concat([x, x[0]]), "shapes (4, 6) and (6,) differ in more than axis 0"),
    (lambda x: ktpu.concat([x, x.T]), "shapes (4, 6) and (6, 4) differ in more than axis 0"),
    (lambda x: ktpu.concat([x, x], 2), "concat: 2 is no axis"),
    (lambda x: ktpu.concat([x, ktpu.tensor(x, dtype="fp32")]), "of float16 and of float32"),
    (lambda x: ktpu.tensor(0.0)[0], "1 indices for a tensor with 0 axes"),
    (lambda x: 1 in x, "`in` asks for elements"),
    (lambda x: x.__setitem__(0, 1), "a tensor is never changed"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_refusals(wrong: Any, message: str) -> None:
    x = ktpu.tensor(values(4, 6))
    with pytest.raises(CallError) as caught:
        wrong(x)
    assert message in str(caught.value)
    assert __file__ in str(caught.value)
