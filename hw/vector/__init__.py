"""The vector core: VFILL, EXEC and VDRAIN over a banked L1 and a register file."""
