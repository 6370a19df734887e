"""`python -m hw.sim MACHINE...`: build simulators ahead, two at a time, so that nobody waits later.

Half of a build runs on one core: two builds beside each other leave none idle.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from hw.sim import model
from hw.sim.model import Variant
from kohakutpu.config import preset


def main(arguments: Sequence[str]) -> None:
    """Build what is named: presets; with ``--checked``, those that have assertions."""
    variant = Variant.CHECKED if "--checked" in arguments else Variant.FAST
    machines = [preset(name) for name in arguments if name != "--checked"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(model.build, variant=variant), machines))


if __name__ == "__main__":
    main(sys.argv[1:])
