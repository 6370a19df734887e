"""What a build says of itself, through JSON and as a page."""

from hw.board.flow import Step, Timing
from hw.board.process import Usage
from hw.board.report import Report, document, hops

SLOW = (
    Step("clk-to-q", "system.top.unit_1.front.pc", 0.5),
    Step("routing", "system.top.unit_1.front.pc[2]", 1.5),
    Step("logic", "system.top.unit_1.front.state", 0.25),
    Step("logic", "system.top.mesh.o__valid", 0.0),
    Step("routing", "system.top.mesh.o__valid", 2.0),
    Step("setup", "system.top.mesh.held", 0.0),
)


def report(*reached: float, unrouted: tuple[int, ...] = ()) -> Report:
    usage = Usage(600.0, 500.0, 3 << 30)
    timings = [Timing(n + 1, mhz, 25.0, SLOW, usage) for n, mhz in enumerate(reached)]
    used, limits = {"LUT4": 500}, {"LUT4": 2000}
    tools = {"amaranth": "0.5"}
    return Report("tiny", "h", "b", "d", 2048, used, limits, tools, usage, timings, [*unrouted])


def test_json_keeps_everything() -> None:
    built = report(26.0, 24.5)
    assert Report.from_json(built.as_json()) == built


def test_the_fastest_placement_counts() -> None:
    assert report(26.0, 31.0, 30.0).fastest.seed == 2
    page = document(report(26.0, 31.0, 24.0))
    assert "met by 2 of 3 placements." in page
    assert "Of seed 2, 31.0 MHz" in page
    assert "| 3 | 24.0 | 600 | 500 | 3.00 |" in page
    assert "| LUT4 | 500 | 2,000 | 25.0% |" in page
    assert "ktpu build --board b --machine tiny --json docs/timing.json" in page


def test_a_seed_without_a_route_counts() -> None:
    built = report(26.0, 31.0, unrouted=(3, 4))
    assert Report.from_json(built.as_json()) == built
    page = document(built)
    assert "met by 2 of 4 placements." in page
    assert "| 4 | no route |" in page
    assert "--seeds 4 --json" in page


def test_hops_of_a_module_are_one_row() -> None:
    assert hops(report(26.0).fastest) == [
        (0.5, "clk-to-q", "system.top.unit_1.front.pc"),
        (1.75, "logic and wires", "system.top.unit_1.front.state"),
        (2.0, "logic and wires", "system.top.mesh.o__valid"),
    ]
