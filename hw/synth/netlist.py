"""A design as RTLIL text, cut into the modules that are synthesised apart from each other.

Amaranth writes one module for every component, however often a component is there. A module is
*kept*, as a unit of synthesis and as a row of the table, if it is near the top or if there are
several of it with the same contents; what stands below a kept module and is not kept itself is
part of it. Kept modules see each other as boxes with ports: no logic moves between them.

Modules have the same contents if their texts are the same once they are *canonical*: ports in order
of their names, nameless ports (`port$NUMBER$BIT`, counted through the whole design) numbered by
their first use, and instances called by the contents of what is instantiated.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

KEPT_DEPTH = 3

MODULE = re.compile(
    r"^(?:attribute [^\n]*\n)*module (\\\S+)\n(.*?)^end\n", re.MULTILINE | re.DOTALL
)
CELL = re.compile(r"^  cell (\\\S+) (\\\S+)\n(.*?)^  end\n", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"^  wire (.*)(input|output) \d+ +(signed )?(\\\S+)\n\n?", re.MULTILINE)
MARKED = re.compile(r"^  attribute \\no_rw_check 1\n\s*memory .* (\\\S+)$", re.MULTILINE)
READ = re.compile(r"^  cell \$memrd_v2 .*?^  end\n", re.MULTILINE | re.DOTALL)
NAMELESS = re.compile(r"\\port\$\d+\$\d+")


@dataclass(frozen=True)
class Module:
    """A module of the design.

    Parameters
    ----------
    path : str
        Of the first of its copies, from the top.
    digest : str
        Of the contents, with everything below.
    text : str
        Canonical RTLIL.
    ports : Mapping of str to str
        What ports are called in `text`, by their names in the design.
    children : tuple of (str, Module)
        Instances: the name in this module, and what is instantiated.
    """

    path: str
    digest: str
    text: str = field(repr=False)
    ports: Mapping[str, str] = field(repr=False)
    children: tuple[tuple[str, "Module"], ...] = field(repr=False)

    @property
    def synonym(self) -> str:
        """What the module is called in canonical text."""
        return f"\\m{self.digest}"

    @cached_property
    def box(self) -> str:
        """The text with the ports alone."""
        ports = "".join(match[0] for match in PORT.finditer(self.text))
        return f"attribute \\blackbox 1\nmodule {self.synonym}\n{ports}end\n"


@dataclass(frozen=True)
class Netlist:
    """A design and which of its modules are kept.

    Parameters
    ----------
    top : Module
        The design.
    kept : frozenset of str
        Digests of the kept modules.
    """

    top: Module
    kept: frozenset[str]

    def parts(self, module: Module) -> tuple[list[Module], list[tuple[str, Module]]]:
        """Return what is synthesised together with a kept module, and the kept ones below it.

        Returns
        -------
        inside : list of Module
            Each contents once, `module` first.
        below : list of (str, Module)
            Instances with their path from `module`.
        """
        inside = {module.digest: module}
        below: list[tuple[str, Module]] = []

        def visit(parent: Module, path: str) -> None:
            for name, child in parent.children:
                if child.digest in self.kept:
                    below.append((path + name, child))
                else:
                    inside[child.digest] = child
                    visit(child, f"{path}{name}.")

        visit(module, "")
        return list(inside.values()), below

    def text(self, module: Module) -> str:
        """Return the RTLIL that a kept module is synthesised from."""
        inside, below = self.parts(module)
        boxes = {child.digest: child for _, child in below}
        return "".join([m.text for m in inside] + [m.box for m in boxes.values()])

    def modules(self) -> list[Module]:
        """Return every kept module once, in order of first appearance."""
        found: dict[str, Module] = {}

        def visit(module: Module) -> None:
            if module.digest not in found:
                found[module.digest] = module
                for _, child in self.parts(module)[1]:
                    visit(child)

        visit(self.top)
        return list(found.values())


def read(rtlil: str, kept_depth: int = KEPT_DEPTH) -> Netlist:
    """Return the design that Amaranth wrote.

    Parameters
    ----------
    rtlil : str
        The whole design, with a module called ``top``.
    kept_depth : int
        Levels below the top that are kept whatever they are.
    """
    bodies = {match[1]: match[2] for match in MODULE.finditer(rtlil)}
    known: dict[str, Module] = {}
    depths: dict[str, int] = {}
    copies: Counter[str] = Counter()

    def build(kind: str, depth: int) -> tuple[Module, Mapping[str, str]]:
        children: list[tuple[str, Module]] = []

        def instance(cell: re.Match[str]) -> str:
            child, names = build(cell[1], depth + 1)
            children.append((cell[2].removeprefix("\\"), child))
            lines = [line.split(" ", 6) for line in cell[3].splitlines()]
            connects = sorted(f"    connect {names[line[5]]} {line[6]}\n" for line in lines)
            return f"  cell {child.synonym} {cell[2]}\n{''.join(connects)}  end\n"

        text, ports = canonical(unguarded(CELL.sub(instance, bodies[kind])))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        text = f"module \\m{digest}\n{text}end\n"
        path = kind.removeprefix("\\")
        module = known.setdefault(digest, Module(path, digest, text, ports, tuple(children)))
        depths[digest] = min(depth, depths.get(digest, depth))
        copies[digest] += 1
        return module, ports

    top, _ = build("\\top", 0)
    kept = frozenset(d for d in known if depths[d] <= kept_depth or copies[d] > 1)
    return Netlist(top, kept)


def unguarded(body: str) -> str:
    """Return a module's body without the promise of marked memories to read what was there before.

    A block RAM does not keep it where a word is read and written in one cycle, so Yosys builds
    logic around it: as much as a register and a multiplexer a bit. A memory whose reader does not
    want such a word says so with the attribute ``no_rw_check``, as in Verilog for Yosys.
    """
    names = {f'"\\{name}"' for name in MARKED.findall(body)}

    def relaxed(port: re.Match[str]) -> str:
        memory = re.search(r"parameter \\MEMID (.*)", port[0])
        if memory is None or memory[1] not in names:
            return port[0]
        return re.sub(r"(\\COLLISION_X_MASK \d+')(\d+)", lambda m: m[1] + "1" * len(m[2]), port[0])

    return READ.sub(relaxed, body)


def relaxed(design: str) -> str:
    """Return a whole design's RTLIL with every module's body `unguarded`."""
    return MODULE.sub(lambda module: module[0].replace(module[2], unguarded(module[2])), design)


def canonical(body: str) -> tuple[str, Mapping[str, str]]:
    """Return a module's body in canonical form, and the names that its ports have there."""
    declared = [
        (width + (signed or ""), kind, name)
        for width, kind, signed, name in (match.groups() for match in PORT.finditer(body))
    ]
    body = PORT.sub("", body)
    used = dict.fromkeys(NAMELESS.findall(body))
    unused = [name for _, _, name in declared if NAMELESS.fullmatch(name) and name not in used]
    numbers = {name: f"\\port.{number}" for number, name in enumerate([*used, *unused])}
    names = {name: numbers.get(name, name) for _, _, name in declared}
    body = NAMELESS.sub(lambda match: numbers[match[0]], body)
    ordered = sorted((names[name], kind, width) for width, kind, name in declared)
    ports = "".join(
        f"  wire {width}{kind} {number} {name}\n"
        for number, (name, kind, width) in enumerate(ordered)
    )
    return ports + body, names
