"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kohakutpu.api import session
from kohakutpu.config import PRESETS
from kohakutpu.devices import KINDS

Command = Callable[..., Any]


def device_option(function: Command) -> Command:
    """Add ``--device``."""
    return click.option("--device", metavar="NAME", help=f"One of: {', '.join(KINDS)}.")(function)


def machine_option(function: Command) -> Command:
    """Add ``--machine``."""
    return click.option("--machine", metavar="NAME", help=f"One of: {', '.join(PRESETS)}.")(
        function
    )


def select(device: str | None, machine: str | None) -> session.Session:
    """Select what the options, then the environment, name."""
    return session.device(device, machine=machine)
