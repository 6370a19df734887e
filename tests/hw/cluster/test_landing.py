from collections import defaultdict, deque
from collections.abc import Iterator
from random import Random

import pytest

from hw.cluster.entries import entry_write
from hw.cluster.landing import Landing
from hw.noc.flit import Buffer, Form, Kind
from hw.sim.session import Session
from kohakutpu.config import Machine
from tests.hw.cluster.reference import Landed, Source, Write
from tests.hw.flits import flit, parts, unpack
from tests.hw.memory.reference import Read

pytestmark = pytest.mark.cocotb

PORTS = [2, 3]
SENDERS = [0, 1, 2, 3]
REGION = 1 << 12  # entries that each sender owns
LOCAL = [(Form.ROWS, 6), (Form.COLUMNS, 4), (Form.ELEMENTS, 3), (Form.SCALES, 3)]


Rig = tuple[int, Session]


@pytest.fixture(scope="module", params=[4, 8, 32], ids=lambda k: f"k{k}")
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    machine = Machine("bench", "C V M\nM H .", k_per_cycle=request.param, l1_entries=1 << 14)
    with Session(Landing(machine)) as session:
        yield request.param, session


def fp16_word(random: Random) -> int:
    """Numbers of one magnitude, now and then zeros or specials."""
    top = random.randint(0, 30)
    codes = [
        random.getrandbits(1) << 15 | max(top - random.randint(0, 9), 0) << 10
        | random.getrandbits(10)
        for _ in range(16)
    ]  # fmt: skip
    if random.random() < 0.05:
        codes[random.randrange(16)] = random.choice([0x7C00, 0xFC00, 0x7E01, 0])
    return sum(code << 16 * n for n, code in enumerate(codes))


def read(random: Random, node: int) -> list[int]:
    """Return the DATA of one READ from a port."""
    form = random.choices([f for f, _ in LOCAL], [w for _, w in LOCAL])[0]
    nk = random.choice([1, 2, 3, 5, 9])
    g = random.choice([1, 2, 3])
    base, stride = random.randrange(300), random.choice([0, 1, nk, nk + 1, 13])
    if form is Form.ROWS:
        rows, elements = random.randint(1, 4 * g), random.randint(1, 32 * nk)
    elif form is Form.COLUMNS:
        rows, elements = random.choice([1, 31, 32, random.randint(1, 32)]), random.randint(1, 16)
    elif form is Form.ELEMENTS:
        rows, elements = g, 64 * nk
    else:
        rows, elements = 1, 2 * g * nk
    words = -(-elements // 16)
    memory = b"".join(fp16_word(random).to_bytes(32, "little") for _ in range(rows * words))
    return Read(
        address=0, rows=rows, elements=elements, stride=words, nodes=1, form=form,
        buffer=random.choice([Buffer.L1A, Buffer.L1B]), residual=bool(random.getrandbits(1)),
        offset=REGION * node + base, l1_stride=stride, nk=nk if form is Form.SCALES else 0,
        ack=random.random() < 0.7, tag=random.randrange(8),
    ).answer(bytearray(memory), node, node)  # fmt: skip


def drain(random: Random, node: int) -> list[int]:
    """Return ROWS as a DRAIN sends them, the four rows of a group side by side."""
    words = random.randint(1, 5)
    offset, stride = REGION * node + random.randrange(300), random.randint(0, 9)
    residual, buffer = bool(random.getrandbits(1)), random.choice([Buffer.L1A, Buffer.L1B])
    flits = []
    groups = random.randint(1, 3)
    for g in range(groups):
        for w in range(words):
            for lane in range(4):
                last = (g, w, lane) == (groups - 1, words - 1, 3)
                completes = w % 2 == 1 or w == words - 1
                place = {
                    "buffer": buffer, "form": Form.ROWS, "residual": residual,
                    "offset": offset + g * stride + w // 2, "stride": stride,
                    "detail": lane + 4 * (w % 2),
                }  # fmt: skip
                fields = {
                    "landing": place, "last_element": 15, "first": 0,
                    "row_last": w == words - 1, "last": last,
                    "ack": last or (completes and random.random() < 0.1), "requester": node,
                    "tag": random.randrange(8),
                }  # fmt: skip
                flits.append(
                    flit(
                        dest=1,
                        source=node,
                        kind=Kind.DATA,
                        fields={"data": fields},
                        word={"raw": fp16_word(random)},
                    )
                )
    return flits


def clear(random: Random, node: int) -> list[int]:
    place = {
        "buffer": random.choice([Buffer.L1A, Buffer.L1B]), "form": Form.ROWS, "residual": 0,
        "offset": REGION * node + random.randrange(300), "stride": random.randint(0, 20),
        "detail": 0,
    }  # fmt: skip
    fields = {
        "landing": place, "last_element": 15, "first": 0, "row_last": 0, "last": 0,
        "ack": random.random() < 0.7, "requester": node, "tag": random.randrange(8),
    }  # fmt: skip
    word = {
        "rows": random.randint(1, 9),
        "words": random.randint(1, 9),
        "lanes": random.randint(1, 15),
    }
    return [
        flit(dest=1, source=node, kind=Kind.CLEAR, fields={"data": fields}, word={"clear": word})
    ]


def send(
    rig: Rig, seed: int, queues: dict[int, deque[int]], offer: float
) -> tuple[dict[int, list[Write | Landed]], int]:
    """Send the queues mixed at random; return what happened, by owner, and the cycles it took."""
    k, session = rig
    random = Random(seed)
    happened: dict[int, list[Write | Landed]] = {node: [] for node in queues}
    lanes: dict[tuple[bool, int, int], list[int]] = defaultdict(list)
    session.restart()
    offered: int | None = None
    quiet = 0
    while quiet < 400:
        quiet += 1
        if offered is None and random.random() < offer:
            waiting = [node for node, queue in queues.items() if queue]
            if waiting:
                offered = random.choice(waiting)
                session["i__payload"] = queues[offered][0]
        session["i__valid"] = offered is not None
        session.settle()
        if offered is not None:
            quiet = 0
            if session["i__ready"]:
                queues[offered].popleft()
                offered = None
        observe(session, k, lanes, happened)
        session.advance()
    assert not any(lanes.values())
    return happened, session.cycle - quiet


def observe(
    session: Session,
    k: int,
    lanes: dict[tuple[bool, int, int], list[int]],
    happened: dict[int, list[Write | Landed]],
) -> None:
    """Note what is written, once all pieces of a lane are, and what has landed."""
    members = unpack(entry_write(k), session["write"])
    entry, elements, scales = members["entry"], members["elements"], members["scales"]
    in_b = bool(session["in_b"])
    if elements:
        lane = lanes[in_b, entry, elements]
        assert members["position"] == len(lane) * k // 4
        lane.append(members["piece"])
    else:
        lane = [0] * (32 // k)
    if elements | scales and len(lane) == 32 // k:
        block = sum(piece << 8 * k * n for n, piece in enumerate(lane))
        lane.clear()
        kept = sum(0xFF << 8 * n for n in range(4) if scales >> n & 1)
        write = Write(in_b, entry, elements, scales, block, members["scale"] & kept)
        happened[entry // REGION].append(write)
    landed = session["landed"]
    if landed & 1:
        happened[landed >> 1 & 15].append(Landed(landed >> 1 & 15, landed >> 5))


def check(happened: dict[int, list[Write | Landed]], flits: dict[int, list[int]]) -> None:
    for node, sent in flits.items():
        source = Source()
        expected = [event for bits in sent for event in source.events(parts(bits))]
        for n, (actual, wanted) in enumerate(zip(happened[node], expected, strict=False)):
            assert actual == wanted, f"node {node}, event {n} of {len(expected)}"
        assert len(happened[node]) == len(expected)


@pytest.mark.parametrize(("seed", "offer"), [(1, 1.0), (2, 1.0), (3, 0.5), (4, 0.9)])
def test_everything_mixed(rig: Rig, seed: int, offer: float) -> None:
    random = Random(seed)
    flits: dict[int, list[int]] = {node: [] for node in SENDERS}
    for node in SENDERS:
        for _ in range(25):
            kinds = [read] if node in PORTS else [drain, clear]
            flits[node] += random.choice(kinds)(random, node)
    queues = {node: deque(queue) for node, queue in flits.items()}
    happened, _ = send(rig, seed, queues, offer)
    check(happened, flits)


@pytest.mark.parametrize("offer", [1.0, 0.9])
def test_a_block_waits_while_columns_are_turned_out(rig: Rig, offer: float) -> None:
    # The words behind it are for its place.
    random = Random(6)
    flits: dict[int, list[int]] = {2: [], 3: []}
    in_turn: list[int] = []
    for n, (node, form, rows, elements) in enumerate(
        [(2, Form.COLUMNS, 32, 16), (3, Form.ROWS, 1, 32 * 9)] * 6
    ):
        words = rows * -(-elements // 16)
        memory = b"".join(fp16_word(random).to_bytes(32, "little") for _ in range(words))
        answer = Read(
            address=0, rows=rows, elements=elements, stride=1, nodes=1, form=form,
            buffer=Buffer.L1A, offset=REGION * node + 16 * n, l1_stride=1, ack=True,
        ).answer(bytearray(memory), node, node)  # fmt: skip
        flits[node] += answer
        in_turn += answer
    happened, _ = send(rig, 1, {2: deque(in_turn), 3: deque()}, offer)
    check(happened, flits)


def run_of(form: Form, random: Random) -> list[int]:
    """Return about 512 DATA flits of one form from node 2."""
    shapes = {
        Form.ROWS: (16, 512), Form.ELEMENTS: (4, 64 * 32), Form.SCALES: (1, 2 * 1024),
        Form.COLUMNS: (32, 16),
    }  # fmt: skip
    rows, elements = shapes[form]
    memory = bytearray(fp16_word(random).to_bytes(32, "little") * (rows * -(-elements // 16)))
    flits = []
    for n in range(16 if form is Form.COLUMNS else 1):
        flits += Read(
            address=0, rows=rows, elements=elements, stride=elements // 16, nodes=1, form=form,
            buffer=Buffer.L1A, offset=2 * REGION + n, l1_stride=32, nk=32, ack=True,
        ).answer(memory, 2, 2)  # fmt: skip
    return flits


@pytest.mark.parametrize("form", [Form.ROWS, Form.COLUMNS, Form.ELEMENTS], ids=lambda f: f.name)
def test_full_rate(rig: Rig, form: Form) -> None:
    pieces = 32 // rig[0]
    flits = run_of(form, Random(5))
    happened, cycles = send(rig, 1, {2: deque(flits)}, 1.0)
    check(happened, {2: flits})
    # The quantiser and, for COLUMNS, a buffer that fills and one that is turned out.
    behind = {Form.ROWS: 22 + 6 * pieces, Form.COLUMNS: 22 + 48 * pieces, Form.ELEMENTS: 5}[form]
    assert cycles <= len(flits) * pieces + behind
