"""Two layers in one pass: bits as stated, every combination of operands, nothing in memory."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from kohakuaccel.errors import CallError, CapacityError
from kohakutpu import api as ktpu
from kohakutpu.api import fitting
from kohakutpu.api.mlp import HIDDEN
from kohakutpu.kernels import attention
from kohakutpu.kernels.mlp import gated_mlp, kernel_for, mlp
from tests.kernels import oracle
from tests.kernels.statements import ACTIVATIONS, Array, half, wide

pytestmark = pytest.mark.golden

FORMS = list(product((False, True), repeat=3))
NAMES = ("x", "gate", "up", "down", "up_bias", "down_bias", "residual")


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (values * scale).astype(np.float16)


def operands(m: int, k: int, f: int, n: int, *lead: int) -> dict[str, Array]:
    return {
        "x": normal(*lead, m, k),
        "gate": normal(f, k, seed=1, scale=k**-0.5),
        "up": normal(f, k, seed=2, scale=k**-0.5),
        "down": normal(n, f, seed=3, scale=f**-0.5),
        "up_bias": normal(f, seed=4),
        "down_bias": normal(n, seed=5),
        "residual": normal(*lead, m, n, seed=6),
    }


def chosen(values: dict[str, Array], form: tuple[bool, bool, bool]) -> dict[str, Array]:
    gated, biased, residual = form
    left_out = {"gate": gated, "up_bias": biased, "down_bias": biased, "residual": residual}
    return {name: values[name] for name in NAMES if left_out.get(name, True)}


def stated(
    given: dict[str, Array], activation: str, hidden: int, precision: str = "default"
) -> Array:
    """The accumulator takes in block after block of the hidden layer, with all sweeps of each."""
    x, up, down = given["x"], given["up"], given["down"]
    flat = x.reshape(-1, x.shape[-1])
    inner = wide(oracle.matmul(flat, up, precision))
    inner = inner + wide(given["up_bias"]) if "up_bias" in given else inner
    if "gate" in given:
        gate = wide(oracle.matmul(flat, given["gate"], precision))
        layer = half(ACTIVATIONS[activation](gate) * inner)
    else:
        layer = half(ACTIVATIONS[activation](inner))
    acc = np.zeros((len(flat), len(down)), np.float32)
    for first in range(0, layer.shape[1], hidden):
        a, b = (v[:, first : first + hidden].astype(float) for v in (layer, down))
        lead = oracle.quantise(a), oracle.quantise(b)
        acc = oracle.sweep(acc, *lead)
        rest = [
            oracle.quantise(v - oracle.dequantise(*term, v.shape[1]))
            for v, term in zip((a, b), lead, strict=True)
        ]
        if precision == "high":
            acc = oracle.sweep(acc, lead[0], rest[1])
        if precision != "default":
            acc = oracle.sweep(acc, rest[0], lead[1])
    if "down_bias" not in given and "residual" not in given:
        return half(acc).reshape(*x.shape[:-1], -1)
    value = wide(half(acc))
    value = value + wide(given["down_bias"]) if "down_bias" in given else value
    if "residual" in given:
        value = value + wide(given["residual"]).reshape(value.shape)
    return half(value).reshape(*x.shape[:-1], -1)


def run(given: dict[str, Array], form: tuple[bool, bool, bool], **knobs: Any) -> Array:
    return kernel_for(*form)(*(ktpu.tensor(x) for x in given.values()), **knobs).numpy()


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (33, 40, 70, 20), (7, 100, 33, 50)])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_forms(machine: str, form: tuple[bool, bool, bool], shape: tuple[int, ...]) -> None:
    given = chosen(operands(*shape), form)
    with ktpu.device("golden", machine=machine, poison=True):
        ours = run(given, form, activation="silu", block=8, hidden=32, columns=32)
    oracle.assert_same_bits(ours, stated(given, "silu", 32))


@pytest.mark.parametrize("precision", ["default", "left", "high"])
@pytest.mark.parametrize("hidden", [32, 64, 96])
def test_blocks(hidden: int, precision: str) -> None:
    given = chosen(operands(20, 64, 100, 40, 2), (True, False, True))
    want = stated(given, "gelu", hidden, precision)
    for block, columns in ((4, 4), (16, 64), (32, 16)):
        knobs: dict[str, Any] = {"block": block, "columns": columns, "hidden": hidden}
        oracle.assert_same_bits(run(given, (True, False, True), precision=precision, **knobs), want)


@pytest.mark.parametrize("form", [(False, False, False), (True, True, True)])
@pytest.mark.parametrize("machine", ["small", "duo"])
def test_interleavings(machine: str, form: tuple[bool, bool, bool]) -> None:
    given = chosen(operands(17, 40, 70, 20), form)
    knobs: dict[str, Any] = {"block": 8, "hidden": 32, "columns": 16}
    want = stated(given, "gelu", 32)
    for seed in range(9):
        with ktpu.device("golden", machine=machine, poison=True, seed=seed) as session:
            oracle.assert_same_bits(run(given, form, **knobs), want)
            session.close()


SIZES = st.sampled_from([1, 3, 4, 7, 16, 17, 32, 33, 40, 65, 100])


@settings(max_examples=30, deadline=None)
@drawn(
    shape=st.tuples(SIZES, SIZES, SIZES, SIZES), form=st.sampled_from(FORMS),
    lead=st.sampled_from([(), (2,)]), activation=st.sampled_from(list(ACTIVATIONS)),
    precision=st.sampled_from(["default", "left", "high"]), block=st.sampled_from([4, 8, 20]),
    hidden=st.sampled_from([32, 64]), columns=st.sampled_from([4, 32, 100]),
    machine=st.sampled_from(["small", "quad"]), seed=st.integers(0, 1 << 16),
)  # fmt: skip
def test_anything(
    shape: tuple[int, int, int, int], form: tuple[bool, bool, bool], lead: tuple[int, ...],
    activation: str, precision: str, block: int, hidden: int, columns: int, machine: str, seed: int,
) -> None:  # fmt: skip
    given = chosen(operands(*shape, *lead), form)
    knobs: dict[str, Any] = {"block": block, "hidden": hidden, "columns": columns}
    with ktpu.device("golden", machine=machine, poison=True, seed=seed) as session:
        ours = run(given, form, activation=activation, precision=precision, **knobs)
        session.close()
    oracle.assert_same_bits(ours, stated(given, activation, hidden, precision))


def test_the_library_names_two() -> None:
    values = operands(9, 40, 50, 20)
    for kernel, form in ((mlp, (False, False, False)), (gated_mlp, (True, False, False))):
        given = chosen(values, form)
        ours = kernel(*(ktpu.tensor(x) for x in given.values()), activation="relu").numpy()
        oracle.assert_same_bits(ours, stated(given, "relu", 64))


# --------------------------------------------------------------------------------- tensors


@pytest.mark.parametrize("lead", [(), (2, 3)])
@pytest.mark.parametrize("machine", ["tiny", "small", "duo"])
def test_tensors(machine: str, lead: tuple[int, ...]) -> None:
    values = operands(30, 64, 130, 72, *lead)
    for names in ((), ("gate",), ("up_bias",), ("down_bias", "residual"), NAMES[1:2] + NAMES[4:]):
        given = {name: values[name] for name in ("x", "up", "down", *names)}
        with ktpu.device("golden", machine=machine, poison=True):
            tensors: dict[str, Any] = {name: ktpu.tensor(x) for name, x in given.items()}
            ours = ktpu.mlp(**tensors, activation="silu").numpy()
        zeros = {"up_bias": np.zeros(130, np.float16), "down_bias": np.zeros(72, np.float16)}
        if "up_bias" in names or "down_bias" in names:
            given = zeros | given
        oracle.assert_same_bits(ours, stated(given, "silu", HIDDEN))


def test_a_machine_that_holds_one_place_of_each_tile() -> None:
    """The windows of a first try, with two places, are not those of the second."""
    values = operands(30, 64, 130, 72)
    given = {name: values[name] for name in ("x", "up", "down", "up_bias", "down_bias")}
    want = stated(given, "silu", HIDDEN)
    for seed in range(5):
        with ktpu.device("golden", machine="tiny", poison=True, seed=seed) as session:
            tensors: dict[str, Any] = {name: ktpu.tensor(x) for name, x in given.items()}
            oracle.assert_same_bits(ktpu.mlp(**tensors, activation="silu").numpy(), want)
            session.close()


def test_the_hidden_layer_stays_off_memory(hostile: ktpu.Session) -> None:
    given = chosen(operands(96, 128, 512, 128), (True, False, True))
    tensors: dict[str, Any] = {name: ktpu.tensor(x) for name, x in given.items()}
    hostile.reset_stats()
    ours = ktpu.mlp(**tensors, activation="silu")
    stats = hostile.stats()
    assert stats.dispatches == 1
    assert stats.memory_written == 96 * 128 // 16
    x, gate, up, down, rest = (given[n].astype(float) for n in given)
    want = (oracle.silu(x @ gate.T) * (x @ up.T)) @ down.T + rest
    assert np.sqrt(np.mean((ours.numpy() - want) ** 2) / np.mean(want**2)) <= 1.3e-2


def test_what_fits_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    launch = fitting.launch

    def counted(kernel: Any, operands: Any, knobs: Any, out: Any = None) -> ktpu.Tensor:
        tried.append(knobs)
        return launch(kernel, operands, knobs, out)

    monkeypatch.setattr(fitting, "launch", counted)
    with ktpu.device("golden", machine="tiny", poison=True):
        tensors = [ktpu.zeros(shape) for shape in ((31, 64), (131, 64), (701, 131))]
        ktpu.mlp(*tensors)
        assert len(tried) > 1
        del tried[:]
        ktpu.mlp(*tensors)
        assert len(tried) == 1
        operands = [ktpu.zeros((70, 8)) for _ in range(3)]
        sizes = [{"block_q": rows, "block_k": 4096} for rows in (64, 4)]
        with pytest.raises(CapacityError):
            fitting.run([(attention, operands, knobs) for knobs in sizes])


def test_no_rows() -> None:
    assert ktpu.mlp(ktpu.zeros((0, 8)), ktpu.zeros((5, 8)), ktpu.zeros((3, 5))).shape == (0, 3)


@pytest.mark.parametrize(("shapes", "message"), [
    ({"x": (4, 7)}, r"up has shape \(5, 8\); x \(4, 7\) and down \(3, 5\) want \(5, 7\)"),
    ({"down": (3, 6)}, r"up has shape \(5, 8\)"),
    ({"gate": (5, 7)}, r"gate has shape \(5, 7\)"),
    ({"up_bias": (3,)}, r"up_bias has shape \(3,\).*want \(5,\)"),
    ({"down_bias": (5,)}, r"down_bias has shape \(5,\).*want \(3,\)"),
    ({"residual": (3,)}, r"residual has shape \(3,\).*want \(4, 3\)"),
    ({"up": (5,)}, r"not \(4, 8\), \(5,\) and \(3, 5\)"),
    ({"x": (4, 0), "up": (5, 0)}, "neither K nor F is 0"),
])  # fmt: skip
def test_refusals(shapes: dict[str, Any], message: str) -> None:
    every = {"x": (4, 8), "up": (5, 8), "down": (3, 5)} | shapes
    tensors: Any = {name: ktpu.zeros(shape) for name, shape in every.items()}
    with pytest.raises(CallError, match=message) as caught:
        ktpu.mlp(**tensors)
    assert caught.value.loc is not None
    assert "ktpu.mlp(" in caught.value.loc.text
