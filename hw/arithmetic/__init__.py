"""The machine's arithmetic: pipelines without stalls, each with a stated latency.

Every component takes new operands in every cycle. ``latency`` is the number of clock edges from
operands to their result; what travels with them (a valid bit, an address) is delayed by whoever
needs it. Results equal `kohakutpu.numerics.scalar` to the bit.

==============  ==============================================================
`adder`         FP32 sum; maximum and minimum through the same stages
`multiplier`    FP32 product
`comparator`    FP32 order, truth values and choice
`converters`    FP16 to FP32 and back
`dot`           integer sum of a block pair, and the FP32 partial it makes
`quantiser`     FP16 words to MXINT8 blocks, leading term or residual
`multiply_add`  integers: ``left * right + plus``, at once or bit by bit
`seeds`         ``exp2 log2 recip rsqrt`` from the shared tables
`reduction`     row sums, maxima and minima, the same bits for any lanes
`formats`       FP16 and FP32 as layouts; how a result is packed
`bits`          shifting, normalising, rounding, trees
`pipeline`      registers between stages
==============  ==============================================================
"""
