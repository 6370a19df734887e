"""Print the ISA reference."""

from kohakutpu.isa.document import document

print(document(), end="")
