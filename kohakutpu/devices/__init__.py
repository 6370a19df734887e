"""What can play the machine: devices by name, their options, and how a fault is explained."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kohakuaccel.errors import CallError
from kohakuaccel.runtime.device import Device
from kohakuaccel.source import caller, mark_internal
from kohakutpu.config import Machine
from kohakutpu.devices import board, golden, rtl
from kohakutpu.devices.faults import MachineFault, explain

mark_internal(__name__)

__all__ = ["DEFAULT", "KINDS", "Kind", "MachineFault", "check_options", "create", "explain"]


@dataclass(frozen=True)
class Kind:
    """A sort of device.

    Attributes
    ----------
    summary : str
        One line for people.
    make : callable
        The device for a machine and options.
    options : mapping of str to type
        The options it takes.
    from_environment : callable
        Those that environment variables set.
    """

    summary: str
    make: Callable[..., Device]
    options: Mapping[str, type]
    from_environment: Callable[[Mapping[str, str]], dict[str, Any]]


KINDS: dict[str, Kind] = {
    "golden": Kind(
        "the golden machine, in this process",
        golden.GoldenDevice,
        {"poison": bool, "seed": int},
        golden.options,
    ),
    "rtl": Kind(
        "the hardware's description, simulated by Verilator",
        rtl.RtlDevice,
        {
            "stalls": int,
            "latency": int,
            "errors": tuple,
            "watchdog": int,
            "limit": int,
            "checked": bool,
            "waves": str,
            "waves_scope": str,
            "waves_from": int,
            "waves_to": int,
        },
        rtl.options,
    ),
    "board": Kind(
        "a machine on an FPGA board, over a serial port",
        board.BoardDevice,
        {"port": str, "baud": int, "watchdog": int, "limit": int},
        board.options,
    ),
}
DEFAULT = "golden"


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a device, those from the environment included.

    Raises
    ------
    CallError
        If there is no such device or option, or a value is of the wrong type.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise CallError(
            f"no device is called {name!r}; there are {', '.join(KINDS)}",
            loc=caller(),
            fix=f"use ktpu.device({DEFAULT!r}) or KTPU_DEVICE={DEFAULT}",
        )
    try:
        found = kind.from_environment(os.environ)
    except ValueError as error:
        raise CallError(str(error), loc=caller(), fix="correct or unset it") from None
    found.update(options)
    for option, value in found.items():
        wanted = kind.options.get(option)
        if wanted is None:
            raise CallError(
                f"the device {name} has no option {option!r}; there are {', '.join(kind.options)}",
                loc=caller(),
                fix="leave it out, or correct its name",
            )
        if type(value) is not wanted:
            raise CallError(
                f"the option {option} of the device {name} is {value!r}",
                loc=caller(),
                fix=f"give it a value of type {wanted.__name__}, or leave it out",
            )
    return found


def create(name: str, machine: Machine, options: Mapping[str, Any]) -> Device:
    """Return a new device of a name and options that `check_options` has accepted."""
    return KINDS[name].make(machine, **options)
