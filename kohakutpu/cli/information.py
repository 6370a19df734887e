"""`ktpu info`: versions, devices and machines."""

from __future__ import annotations

import platform
from importlib import metadata

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from kohakutpu.config import PRESETS, WORD_BYTES, Machine
from kohakutpu.devices import DEFAULT, KINDS


@click.command()
def info() -> None:
    """Show versions, devices and the machines there are presets for."""
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 100)  # the hashes, whole
    console.print(
        f"kohakutpu {metadata.version('kohakutpu')}, Python {platform.python_version()}, "
        f"numpy {np.__version__}"
    )
    for name, kind in KINDS.items():
        default = ", the default" if name == DEFAULT else ""
        options = ", ".join(kind.options)
        console.print(f"device {name}: {kind.summary}{default}; options {options}")
    table = Table("", *PRESETS)
    for row in zip(*(description(machine) for machine in PRESETS.values()), strict=True):
        table.add_row(row[0][0], *(value for _, value in row))
    console.print(table)


def description(machine: Machine) -> list[tuple[str, str]]:
    """Return what people want to know of a machine, as names and texts."""
    clusters = len(machine.of_kind("C"))
    return [
        ("mesh", machine.mesh),
        ("clusters", str(clusters)),
        ("vector cores", str(len(machine.of_kind("V")))),
        ("memory ports", str(len(machine.of_kind("M")))),
        ("MAC/cycle", f"{clusters * machine.macs_per_cycle:,}"),
        ("FP32 lanes a core", str(machine.lanes)),
        ("L1A, L1B each", f"{machine.l1_entries:,} entries"),
        ("accumulator", f"{machine.acc_subtiles:,} sub-tiles"),
        ("vector L1", f"{machine.vl1_words * WORD_BYTES // 1024:,} KiB"),
        ("registers", f"{machine.registers:,} beats"),
        ("memory", f"{machine.dram_words * WORD_BYTES >> 20:,} MiB"),
        ("hash", machine.hash),
    ]
