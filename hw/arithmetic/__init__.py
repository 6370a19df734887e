"""The machine's arithmetic: pipelines without stalls, each with a stated latency.

Every component takes new operands in every cycle. ``latency`` is the number of clock edges from
operands to their result; what travels with them (a valid bit, an address) is delayed by whoever
needs it. Results equal `kohakutpu.numerics.scalar` to the bit.
"""
