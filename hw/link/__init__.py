"""The machine's end of the host link: a serial line to memory and registers."""
