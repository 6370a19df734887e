import itertools
from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray

from hw.noc.arbiter import RoundRobin
from hw.noc.router import Router
from hw.noc.routes import Direction, behind, memory_of, towards
from hw.sim.simulator import Simulator
from kohakutpu.config import Machine, preset

pytestmark = pytest.mark.cocotb

# The picture around the router under test: nine nodes, the fifth is its own.
MACHINE = Machine("square", "C V C\nV M H\nC V .")
X, Y = 1, 1
PORTS = list(Direction)
NODES = {node.id: towards(node, X, Y) for node in MACHINE.nodes}


def payload(dest: NDArray[np.int64], ident: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Flits for sets of nodes, with numbers in the lowest and in the highest bits of the word."""
    words = np.zeros((len(dest), 11), np.uint32)
    words[:, 0] = dest
    words[:, 2] = ident << 20  # bit 84 on
    words[:, 10] = ident & 0xFFFFF
    return words


def read(words: NDArray[np.uint32]) -> tuple[int, int]:
    """Return set and number of a flit."""
    low, high = int(words[2]) >> 20, int(words[10])
    assert low == high & 0xFFF
    return int(words[0]) & 0xFFFF, high


def legal(port: Direction) -> list[int]:
    """Return the nodes that flits from `port` may still be for."""
    return [node for node, output in NODES.items() if port in output.sources]


def subsets(nodes: list[int]) -> list[int]:
    return [
        sum(1 << node for node in chosen)
        for count in range(1, len(nodes) + 1)
        for chosen in itertools.combinations(nodes, count)
    ]


@pytest.fixture(scope="module")
def router() -> Simulator:
    return Simulator(Router(behind(MACHINE, X, Y)))


def outputs(result: dict[str, NDArray], port: Direction, ready: NDArray) -> list[tuple[int, int]]:
    """Return set and number of what left by `port`, in order."""
    left = result[f"o_{port.value}__valid"].astype(bool) & ready.astype(bool)
    return [read(words) for words in result[f"o_{port.value}__payload"][left]]


def test_every_set_from_every_input(router: Simulator) -> None:
    spacing = 4
    for port in PORTS:
        sets = subsets(legal(port))
        cycles = spacing * len(sets) + 8
        valid, dest = np.zeros(cycles, int), np.zeros(cycles, int)
        valid[: spacing * len(sets) : spacing] = 1
        dest[: spacing * len(sets) : spacing] = sets
        inputs: dict[str, object] = {}
        for other in PORTS:
            inputs[f"i_{other.value}__valid"] = valid if other is port else 0
            inputs[f"i_{other.value}__payload"] = payload(dest, np.arange(cycles))
            inputs[f"o_{other.value}__ready"] = 1
        result = router.cycles(cycles, **inputs)
        assert result[f"i_{port.value}__ready"].all()
        for output in PORTS:
            mine = sum(1 << node for node, to in NODES.items() if to is output)
            expected = [(s & mine, spacing * i) for i, s in enumerate(sets) if s & mine]
            assert outputs(result, output, np.ones(cycles)) == expected, (port, output)


@pytest.mark.parametrize("seed", range(4))
def test_random_traffic(router: Simulator, seed: int) -> None:
    random = np.random.default_rng(seed)
    cycles, drain = 5000, 100
    offered = [0.9, 0.3, 1.0, 0.6][seed]
    inputs: dict[str, NDArray] = {}
    dests: dict[Direction, NDArray] = {}
    for port in PORTS:
        sets = np.array(subsets(legal(port)))
        dests[port] = dest = random.choice(sets, cycles)
        ident = np.arange(cycles) | PORTS.index(port) << 16
        inputs[f"i_{port.value}__valid"] = random.random(cycles) < offered
        inputs[f"i_{port.value}__payload"] = payload(dest, ident)
        ready = random.random(cycles + drain) < random.choice([0.3, 0.8, 1.0])
        ready[cycles:] = True
        inputs[f"o_{port.value}__ready"] = ready
    result = router.cycles(**inputs)
    taken = {
        port: np.flatnonzero(
            inputs[f"i_{port.value}__valid"] & (result[f"i_{port.value}__ready"][:cycles] == 1)
        )
        for port in PORTS
    }
    assert min(len(t) for t in taken.values()) > 100
    for output in PORTS:
        mine = sum(1 << node for node, to in NODES.items() if to is output)
        arrived: dict[Direction, list[tuple[int, int]]] = defaultdict(list)
        for dest, ident in outputs(result, output, inputs[f"o_{output.value}__ready"]):
            arrived[PORTS[ident >> 16]].append((dest, ident & 0xFFFF))
        for port in PORTS:
            expected = [
                (int(dests[port][t]) & mine, int(t)) for t in taken[port] if dests[port][t] & mine
            ]
            assert arrived[port] == expected, (port, output)
        # What was offered and not taken was offered again, unchanged.
        valid = result[f"o_{output.value}__valid"].astype(bool)
        words = result[f"o_{output.value}__payload"]
        waited = np.flatnonzero(valid & ~inputs[f"o_{output.value}__ready"])
        assert valid[waited + 1].all()
        assert (words[waited] == words[waited + 1]).all()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_round_robin(count: int) -> None:
    arbiter = Simulator(RoundRobin(count))
    everybody = (1 << count) - 1
    grant = arbiter.cycles(4 * count, requests=everybody, taken=1)["grant"]
    assert list(grant) == [1 << i % count for i in range(4 * count)]
    random = np.random.default_rng(count)
    requests, waits = [], np.zeros(count, int)
    # Replay against a model in numpy: who was granted, in which order.
    now, last, held = 0, count - 1, None
    taken = random.integers(0, 2, 500)
    expected = []
    for take in taken:
        now |= int(random.integers(1 << count)) & int(random.integers(1 << count))
        requests.append(now)
        order = [(last + 1 + i) % count for i in range(count)]
        winner = held if held is not None else next((i for i in order if now >> i & 1), None)
        expected.append(0 if winner is None else 1 << winner)
        held = winner
        if take and winner is not None:
            now, last, held = now & ~(1 << winner), winner, None
            waits += 1
            waits[winner] = 0
            assert max(waits[i] for i in range(count) if now >> i & 1 or i == winner) < 10 * count
    used = taken & (np.array(expected) != 0)
    assert list(arbiter.cycles(requests=requests, taken=used)["grant"]) == expected


@pytest.mark.usefixtures("refused")
def test_a_router_refuses_overlapping_sets() -> None:
    with pytest.raises(ValueError, match=r"nodes 0x2 lie behind east"):
        Router({Direction.LOCAL: 3, Direction.EAST: 6})
    with pytest.raises(ValueError, match=r"count must be at least 1, not 0"):
        RoundRobin(0)


@pytest.mark.parametrize("name", ["tiny", "small", "duo", "quad"])
def test_paths_are_xy_and_link_numbers_rise(name: str) -> None:
    """The order of the proof: every step of every path goes to a link of a larger number."""
    machine = preset(name)
    width, height = machine.width, len(machine.rows)

    def number(x: int, y: int, port: Direction) -> int:
        return {
            Direction.EAST: x,
            Direction.WEST: width - x,
            Direction.SOUTH: 100 + y,
            Direction.NORTH: 100 + height - y,
            Direction.LOCAL: 1000,
        }[port]

    for start in machine.nodes:
        for end in machine.nodes:
            x, y, path, arrived = start.x, start.y, [], Direction.LOCAL
            while True:
                port = towards(end, x, y)
                assert behind(machine, x, y)[port] >> end.id & 1
                assert arrived in port.sources
                path.append(number(x, y, port))
                if port is Direction.LOCAL:
                    break
                arrived = port.opposite
                x, y = x + port.step[0], y + port.step[1]
            assert (x, y) == (end.x, end.y)
            assert path == sorted(set(path))


def test_ports_of_memory() -> None:
    quad = preset("quad")
    assert {node.id: memory_of(quad, node).id for node in quad.nodes} == {
        0: 4, 1: 4, 2: 7, 3: 7, 4: 4, 5: 4, 6: 7, 7: 7, 8: 4, 9: 4, 10: 7,
    }  # fmt: skip
