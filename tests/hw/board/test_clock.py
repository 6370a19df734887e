"""Frequencies that the PLL of an ECP5 makes."""

import pytest

from hw.board.clock import COMPARED, OSCILLATOR, Dividers


@pytest.mark.parametrize(
    ("source", "wanted", "dividers"),
    [
        # By hand: the oscillator at 600 MHz, or as near as a whole multiple comes.
        (25_000_000, 50_000_000, Dividers(1, 2, 12)),
        (25_000_000, 62_500_000, Dividers(2, 5, 9)),
        (25_000_000, 100_000_000, Dividers(1, 4, 6)),
        (100_000_000, 50_000_000, Dividers(2, 1, 12)),
        (12_000_000, 48_000_000, Dividers(1, 4, 12)),
    ],
)
def test_dividers(source: int, wanted: int, dividers: Dividers) -> None:
    assert Dividers.of(source, wanted) == dividers
    assert source * dividers.feedback == wanted * dividers.reference


def test_every_divider_is_one_that_there_is() -> None:
    made = 0
    for source in (12_000_000, 25_000_000, 50_000_000, 100_000_000):
        for wanted in range(5_000_000, 150_000_000, 500_000):
            try:
                found = Dividers.of(source, wanted)
            except ValueError:
                continue
            made += 1
            assert source * found.feedback == wanted * found.reference
            assert COMPARED[0] <= source / found.reference <= COMPARED[1]
            assert OSCILLATOR[0] <= wanted * found.output <= OSCILLATOR[1]
            assert 1 <= found.feedback <= 80
            assert 1 <= found.output <= 128
    assert made > 50


@pytest.mark.parametrize("wanted", [26_000_001, 33_000_000, 1_000_000, 900_000_000])
def test_a_frequency_that_none_makes(wanted: int) -> None:
    with pytest.raises(ValueError, match=f"no PLL makes {wanted:,} Hz of 25,000,000 Hz"):
        Dividers.of(25_000_000, wanted)


@pytest.mark.parametrize(
    ("wanted", "offered"), [(51_000_000, 50_000_000), (900_000_000, 600_000_000), (1, 12_500_000)]
)
def test_the_frequency_that_is_offered_instead_can_be_made(wanted: int, offered: int) -> None:
    with pytest.raises(ValueError, match=f"as {offered:,}$"):
        Dividers.of(25_000_000, wanted)
    assert Dividers.of(25_000_000, offered)
