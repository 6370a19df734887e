"""Cut a loop of the vector core's half in two, of which the second runs a pass behind the first.

The first half computes with tiles that need nothing of this core and sends operands; the second
waits for the tiles that are contracted from these. One pass apart, neither unit waits for the
other. What the second half needs of the first is one scalar a row, and is held in registers for a
pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kohakuaccel.ir.nodes import Repeat, Statement, Store, Value
from kohakutpu.lang.ir import Assign, Read, Send, State, Tile, TileDecl, value_of, walk


@dataclass(frozen=True, slots=True)
class Hold:
    """A scalar a row that the first half computes (``made``) and the second reads (``kept``)."""

    made: State
    kept: State


@dataclass(frozen=True, slots=True)
class Halves:
    """Statements of a pass: ``early``, then ``late``; ``moves`` hand on what is held."""

    early: list[Statement]
    late: list[Statement]
    moves: list[Statement]
    holds: list[Hold]


def halves(repeat: Repeat) -> Halves | None:
    """Return both halves of a loop, ``None`` if it does not come apart."""
    body = repeat.body
    if any(isinstance(statement, Repeat) for statement in body):
        return None
    sent = {s.tile for s in body if isinstance(s, Send)}
    late = _late(body, sent)
    if not sent or not late or any(isinstance(s, Send) for s in late):
        return None
    early = [s for s in body if s not in late and value_of(s) is not None]
    born = {s.tile for s in body if isinstance(s, TileDecl)} - sent
    splitter = _Splitter(sent, _assigned(late), born, _assigned(early))
    rewritten: list[Statement] = []
    for statement in late:
        assert isinstance(statement, (Store, Assign))
        value = splitter.rewritten(statement.value)
        if value is None:
            return None
        rewritten.append(replace(statement, value=value))
    declared = [s for s in body if isinstance(s, TileDecl)]
    holds = [hold for hold, _ in splitter.holds.values()]
    made = [Assign(v.loc, hold.made, v) for hold, v in splitter.holds.values()]
    moves = [Assign(h.made.loc, h.kept, _read(h.made)) for h in holds]
    return Halves(
        [*(s for s in declared if s.tile not in sent), *early, *made],
        [*(s for s in declared if s.tile in sent), *rewritten],
        [*moves],
        holds,
    )


def _late(body: Sequence[Statement], tiles: set[Tile]) -> list[Statement]:
    """Return the statements that need one of ``tiles``, by way of states too."""
    late: list[Statement] = []
    while True:
        states = _assigned(late)
        found = [s for s in body if s in late or _needs(value_of(s), tiles, states)]
        if len(found) == len(late):
            return found
        late = found


def _needs(value: Value | None, tiles: set[Tile], states: set[State]) -> bool:
    return value is not None and any(
        node.tile in tiles or (node.state is not None and node.state.state in states)
        for node in walk(value)
    )


def _assigned(statements: Sequence[Statement]) -> set[State]:
    return {s.state for s in statements if isinstance(s, Assign)}


def _read(state: State) -> Value:
    return Value("state", (), state.extent, state.loc, state=Read(state, [], 0))


class _Splitter:
    """Rewrites values of the second half so that they need nothing else of the first."""

    def __init__(
        self, sent: set[Tile], late: set[State], born: set[Tile], early: set[State]
    ) -> None:
        self.holds: dict[Value, tuple[Hold, Value]] = {}
        self._late = sent, late
        self._early = born, early

    def rewritten(self, value: Value) -> Value | None:
        """Return ``value`` with reads of what is held, ``None`` if that is more than a scalar."""
        if _needs(value, *self._late):
            args = [self.rewritten(arg) for arg in value.args]
            found = tuple(arg for arg in args if arg is not None)
            return replace(value, args=found) if len(found) == len(args) else None
        if not _needs(value, *self._early):
            return value
        if value.extent != "row":
            return None
        if value not in self.holds:
            number = len(self.holds)
            made, kept = (
                State(f"held{number}{suffix}", value, None, value.loc) for suffix in ("", " before")
            )
            self.holds[value] = Hold(made, kept), value
        return _read(self.holds[value][0].kept)
