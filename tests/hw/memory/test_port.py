import os
import re
from pathlib import Path

import pytest
from amaranth.back import verilog
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from hw.memory.port import MemoryPort
from hw.sim import cache, toolchain
from tests.hw.memory.configuration import MACHINE, PORT

pytestmark = pytest.mark.cocotb

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NAMES = re.findall(
    r"@cocotb\.test\(\).*?async def (\w+)", (HERE / "tb_port.py").read_text(), re.DOTALL
)
ARGUMENTS = """
    -Wno-fatal -Wno-lint -Wno-style -O3 -CFLAGS -O1 --x-assign fast --x-initial fast
    --no-public-flat-rw --assert
""".split()
CONTROL = '`verilator_config\npublic_flat_rw -module "top" -var "*"\n'


@pytest.fixture(scope="module")
def built() -> Path:
    """Return the folder of the simulator of a memory port, with assertions."""
    tools = toolchain.find()
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    port = MemoryPort(MACHINE, PORT)
    text = verilog.convert(port, name="top", emit_src=False, strip_internal_attrs=True)

    def build(work: Path) -> None:
        (work / "top.v").write_text(text)
        (work / "ports.vlt").write_text(CONTROL)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(tools.verilator.parent), prepend=os.pathsep)
            patch.setenv("MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include")
            patch.delenv("VERILATOR_ROOT", raising=False)
            get_runner("verilator").build(
                sources=[work / "ports.vlt", work / "top.v"],
                hdl_toplevel="top",
                build_args=ARGUMENTS,
                build_dir=work,
                log_file=work / "build.log",
            )

    return cache.obtain("port", [tools.versions, text, CONTROL, *ARGUMENTS], build)


@pytest.mark.parametrize("name", NAMES)
def test_port(built: Path, tmp_path: Path, name: str) -> None:
    runner = get_runner("verilator")
    log = tmp_path / "log.txt"
    try:
        results = runner.test(
            test_module="tests.hw.memory.tb_port",
            hdl_toplevel="top",
            hdl_toplevel_lang="verilog",
            test_filter=rf"\.{name}(/|$)",
            build_dir=built,
            test_dir=tmp_path,
            results_xml=str(tmp_path / "results.xml"),
            log_file=log,
            extra_env={"PYTHONPATH": str(ROOT)},
        )
    except SystemExit:  # how the runner says that the simulator did
        pytest.fail(log.read_text())
    count, failed = get_results(results)
    assert count, log.read_text()
    assert not failed, log.read_text()
