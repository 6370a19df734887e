from random import Random

import pytest

from hw.arithmetic.multiply_add import MultiplyAdd
from hw.sim.session import Session

pytestmark = pytest.mark.cocotb

LEFT, RIGHT = 10, 14


@pytest.mark.parametrize("serial", [False, True], ids=["at once", "bit by bit"])
def test_values_and_times(serial: bool) -> None:
    random = Random(1)
    with Session(MultiplyAdd(LEFT, RIGHT, serial=serial)) as session:
        for n in range(2000):
            left = random.getrandbits(random.randint(0, LEFT)) if n else (1 << LEFT) - 1
            right = random.getrandbits(RIGHT) if n else (1 << RIGHT) - 1
            plus = random.getrandbits(LEFT + RIGHT) if n else (1 << LEFT + RIGHT) - 1
            session["left"], session["right"], session["plus"] = left, right, plus
            session["start"] = 1
            session.settle()
            session.advance()
            for operand in ("left", "right", "plus"):
                session[operand] = random.getrandbits(LEFT)
            session["start"] = 0
            session.settle()
            if random.random() < 0.1:  # forgotten
                continue
            cycles = 0
            while not session["done"]:
                session.advance()
                session.settle()
                cycles += 1
            assert session["o"] == left * right + plus
            assert cycles == (left.bit_length() if serial else 0)
            session.advance()
            session.settle()
            assert not session["done"]
