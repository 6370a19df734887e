import json
import os
from pathlib import Path

import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from hw.sim import cache, toolchain
from hw.sim.model import verilog
from kohakuaccel.runtime.launch import Runtime
from kohakutpu.config import preset
from kohakutpu.devices.rtl import RtlDevice
from tests.devices.jobs import golden, job, runtime

pytestmark = pytest.mark.cocotb

ROOT = Path(__file__).parents[1]
SIM = ROOT / "hw" / "sim"
MACHINE = preset("tiny")
ARGUMENTS = """
    -Wno-fatal -Wno-lint -Wno-style -O3 -CFLAGS -O1 --x-assign fast --x-initial fast
    --no-public-flat-rw --noassert -LDFLAGS -rdynamic
""".split()
PORTS = ("clk", "rst", "finished", "host_*")
NAMES = ("images", "identity_and_registers", "a_memory_error_and_then_a_run")

CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "silu": ((3, 21),),
    "add": ((5, 33), (5, 33)),
    "matmul": ((9, 40), (6, 40)),
    "softmax": ((4, 37),),
    "linear_silu": ((13, 65), (10, 65)),
}


@pytest.fixture(scope="module")
def built() -> Path:
    """Return the folder of the simulator that cocotb drives."""
    tools = toolchain.find()
    text = verilog(MACHINE)
    visible = [f'public_flat_rw -module "top" -var "{name}"' for name in PORTS]
    control = "\n".join(["`verilator_config", *visible, ""])
    memory = {name: (SIM / name).read_text() for name in ("axi_ram.v", "ram.h", "ram.cpp")}

    def build(work: Path) -> None:
        for name, content in {"ports.vlt": control, "top.v": text, **memory}.items():
            (work / name).write_text(content)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(tools.verilator.parent), prepend=os.pathsep)
            patch.setenv("MAKEFLAGS", f"-j{os.cpu_count()} CFG_CXXFLAGS_PCH_I=-include")
            patch.delenv("VERILATOR_ROOT", raising=False)
            get_runner("verilator").build(
                sources=[work / "ports.vlt", work / "axi_ram.v", work / "top.v"],
                hdl_toplevel="top",
                build_args=[*ARGUMENTS, str(work / "ram.cpp")],
                build_dir=work,
                log_file=work / "build.log",
            )

    return cache.obtain("top", [tools.versions, text, control, *memory.values(), *ARGUMENTS], build)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of images, their inputs, and what they must leave."""
    folder = tmp_path_factory.mktemp("jobs")
    reference = golden(MACHINE)
    device = RtlDevice(MACHINE)
    for name in CASES:
        prepare(folder / name, name, reference, runtime(device))
    device.close()
    return folder


def prepare(folder: Path, name: str, reference: Runtime, device: Runtime) -> None:
    """Write one image: outputs are the golden machine's, the report is the device's."""
    folder.mkdir()
    work = job(MACHINE, name, CASES[name])
    (folder / "image.kai").write_bytes(work.image.to_bytes())
    names = [operand.name for operand in work.image.operands if operand.kind == "in"]
    for operand, content in zip(names, work.inputs, strict=True):
        (folder / f"{operand}.in").write_bytes(content)
    for operand, content in work.run(reference)[0].items():
        (folder / f"{operand}.out").write_bytes(content)
    report = work.run(device)[1]
    told = {
        "cycles": report.cycles,
        "instructions": [unit.instructions for unit in report.units],
    }
    (folder / "report.json").write_text(json.dumps(told))


@pytest.mark.parametrize("name", NAMES)
def test_top(built: Path, jobs: Path, tmp_path: Path, name: str) -> None:
    runner = get_runner("verilator")
    log = tmp_path / "log.txt"
    try:
        results = runner.test(
            test_module="cocotb_tests.tb_top",
            hdl_toplevel="top",
            hdl_toplevel_lang="verilog",
            test_filter=rf"\.{name}(/|$)",
            build_dir=built,
            test_dir=tmp_path,
            results_xml=str(tmp_path / "results.xml"),
            log_file=log,
            extra_env={
                "PYTHONPATH": str(ROOT),
                "KTPU_JOBS": str(jobs),
                "KTPU_MACHINE": MACHINE.name,
            },
        )
    except SystemExit:  # how the runner says that the simulator did
        pytest.fail(log.read_text())
    count, failed = get_results(results)
    assert count, log.read_text()
    assert not failed, log.read_text()
