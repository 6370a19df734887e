"""The machine's numbers: formats, FP32 rules, MX blocks, seed functions, row reductions.

Every operation exists twice. `kohakutpu.numerics.scalar` is the reference: plain Python
integers, one element at a time, written to be read. The modules next to it are the fast
vectorised twins the golden machine runs on; tests hold the two equal, bit for bit.

=================  ==========================================================
module             what it holds
=================  ==========================================================
`fp16`             FP16 <-> FP32 conversion
`fp32`             FP32 arithmetic as the machine does it
`mx`               MXINT8 quantisation, the packed order, contraction
`seeds`            ``exp2 log2 recip rsqrt``
`reduction`        row sum, max and min in the machine's order
`quadratic`        what one seed table is and how it is evaluated
`seed_tables`      the coefficients (generated; the ROMs come from them too)
=================  ==========================================================
"""
