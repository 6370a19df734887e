"""Simulating hardware under Verilator: tools, build cache, vectors through a component.

>>> simulator = Simulator(Adder())                                  # built once, then cached
>>> sums = simulator.stream(Adder.latency, a=a, b=b, op=0)["o"]      # some 10 M operands a second

`simulator` is for components whose inputs are known beforehand: a pipeline with arrays of
operands, or a state machine with a script of every cycle. What has to answer its surroundings is
stepped by `session`, or is a cocotb testbench. `machine` is a whole machine with its memory, and
`host` runs programs on it.
"""
