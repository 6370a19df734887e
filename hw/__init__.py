"""The machine in Amaranth. Needs the extra `rtl`; the library itself never imports it."""
