"""The simulated memory catches an initiator that breaks AXI4, and only such a one."""

import os
import subprocess
from pathlib import Path

import pytest

from hw.sim import cache, runtime, toolchain
from hw.sim.model import DRIVER, FLAGS, Variant
from hw.sim.runtime import COMPILER

pytestmark = pytest.mark.cocotb

SIM = Path(toolchain.__file__).parent

# The initiator: by its scenario it is right, or wrong in one way. It prints what it read.
INITIATOR = r"""
#include <cstdio>
#include <cstdlib>
#include "Vaxi_ram.h"
#include "ram.h"
extern "C" void ram_use(Ram *);
static uint8_t bytes[1 << 14];
static Ram ram = {bytes, sizeof bytes / 32, 100, 101, 0, 5};

int main(int, char **arguments) {
    const int scenario = atoi(arguments[1]), seed = atoi(arguments[2]);
    ram.seed = seed;
    for (unsigned i = 0; i < sizeof bytes; ++i) bytes[i] = i / 32;
    ram_use(&ram);
    VerilatedContext context;
    context.fatalOnError(false);
    Vaxi_ram top{&context};
    auto clock = [&] { top.clk = 1; top.eval(); top.clk = 0; top.eval(); };
    top.rst = 1; clock(); clock(); top.rst = 0;
    top.rready = top.bready = 1;
    int first = scenario == 1 ? 120 : scenario == 2 ? 98 : 8;  // 120 + 16 crosses a page
    int asked = 0, beats = 0, cycle = 0, answered = 0;
    bool waited = false;
    for (; beats < 32 && cycle < 500; ++cycle) {
        top.arvalid = asked < 2;
        if (scenario == 3 && waited) top.arvalid = 0;      // withdrawn
        top.araddr = 32 * (first + (scenario == 4 && waited ? 1 : 0));  // changed
        top.arlen = 15;
        top.eval();
        waited = top.arvalid && !top.arready;
        asked += top.arvalid && top.arready;
        if (top.rvalid) {
            if (!answered) answered = cycle;
            printf("%d%s%s ", top.rdata[0] & 255, top.rresp ? "!" : "", top.rlast ? "." : "");
            ++beats;
        }
        clock();
    }
    int sent = 0;
    for (int more = 0; more < 300 && !top.bvalid; ++more, ++cycle) {
        const int length = scenario == 5 ? 1 : 3;  // announced, of 3 or 4 beats
        top.awvalid = sent < 1; top.awaddr = 32 * 40; top.awlen = length;
        top.wvalid = sent >= 1 && sent < 5;
        for (int i = 0; i < 8; ++i) top.wdata[i] = 0x01010101u * (200 + sent);
        top.wstrb = sent == 2 ? 0xff : ~0u;
        top.wlast = sent == 4;
        top.eval();
        sent += (top.awvalid && top.awready) || (top.wvalid && top.wready);
        clock();
    }
    printf("| %d %d %d %d %d", bytes[32 * 40], bytes[32 * 41], bytes[32 * 41 + 8], bytes[32 * 43],
           top.bresp);
    printf(" | %d %d\n", answered, cycle);
    const bool failed = context.gotError();
    top.final();
    return failed ? 1 : 0;
}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    """Return an executable of initiator and memory, with assertions."""
    tools = toolchain.find()
    sources = {name: (SIM / name).read_text() for name in ("axi_ram.v", *DRIVER[:2])}
    sources["initiator.cpp"] = INITIATOR
    flags = ["--cc", "--top-module", "axi_ram", "--no-timing", "-Wno-fatal", "-Wno-lint"]
    flags += FLAGS[Variant.CHECKED]

    def build(work: Path) -> None:
        for name, content in sources.items():
            (work / name).write_text(content)
        environment = {**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)}
        command = [str(tools.verilator), *flags, "--Mdir", ".", "axi_ram.v"]
        toolchain.run(command, cwd=work, env=environment)
        files = [path.name for path in work.glob("*.cpp")] + runtime.objects(tools)
        includes = ["-I.", *runtime.includes(tools)]
        command = [tools.compiler, *COMPILER, *includes, *files, "-o", "initiator"]
        toolchain.run([*command, "-pthread", "-latomic"], cwd=work)

    contents = [tools.versions, *sources.values(), *flags, *COMPILER]
    return cache.obtain("initiator", contents, build) / "initiator"


def run(program: Path, scenario: int, seed: int = 0) -> tuple[bool, str]:
    done = subprocess.run(
        [str(program), str(scenario), str(seed)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 0, done.stdout.splitlines()[-1]


def test_two_reads_and_a_write(program: Path) -> None:
    fine, said = run(program, 0)
    assert fine
    beats = " ".join([*(str(word) for word in range(8, 23)), "23."])
    # Word 41 was written in its lowest quarter alone: strobes.
    assert said.startswith(f"{beats} {beats} | 201 202 41 204 0 | ")
    first = int(said.rsplit("|", 1)[1].split()[0])
    assert first == 5 + 1  # the latency, and the register of the answer


def test_stalls_change_times_and_nothing_else(program: Path) -> None:
    told = [run(program, 0, seed) for seed in (0, 1, 1, 2)]
    assert all(fine for fine, _ in told)
    words, times = zip(*(said.rsplit("|", 1) for _, said in told), strict=True)
    assert len(set(words)) == 1
    assert times[1] == times[2]
    assert len(set(times)) == 3


def test_words_that_fail(program: Path) -> None:
    fine, said = run(program, 2)
    assert fine
    assert said.startswith("98 99 255! 101 ")


@pytest.mark.parametrize("scenario", [1, 3, 4, 5])
def test_what_is_no_axi(program: Path, scenario: int) -> None:
    seeds = range(1, 6)  # a stall must meet the request
    assert not all(run(program, scenario, seed)[0] for seed in seeds)
