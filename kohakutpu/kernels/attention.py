# pyright: basic
# Parameters of a kernel are defaults and not annotations: they are values, like M and N.
"""Flash attention: ``softmax(q @ k.T * scale) @ v`` block by block, no score ever in memory.

A unit holds a block of queries with their running maximum, denominator and output, and goes over
the keys: scores come from the accumulator, their powers of two go back to it as the operand of the
second contraction. Only the result is written.

Scores and the products with ``v`` are rounded to FP16 as they leave the accumulator; powers are
rounded to FP16 as they go back, the denominator sums them before that; all else is FP32.
"""

from functools import cache
from inspect import Parameter, Signature

import numpy as np

from kohakuaccel.errors import KernelError
from kohakuaccel.lang import dims, sweep, units
from kohakuaccel.source import caller
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel

Q, T, D, E = dims("Q, T, D, E")
LOG2_E = 1.4426950408889634
HIDDEN = float("-inf")
LOWEST = -1e30  # below any score: a block of keys that are all hidden leaves no NaN


@cache
def kernel_for(keys: bool = False, bias: bool = False, positions: bool = False) -> Kernel:
    """Return the kernel with these operands after ``q``, ``k`` and ``v``.

    Its knobs are the block of queries, ``block_q``, a multiple of 4, and of keys, ``block_k``, a
    multiple of 32; ``scale``, a positive number or ``"auto"`` for ``D**-0.5``; the precisions of
    the contractions, ``scores`` and ``values``; ``nk`` as in `contraction`; and ``table``, an array
    ``(Q, T)`` that is known when the kernel is compiled, goes with it, and is added to the scaled
    scores. Bits depend neither on ``block_q`` nor on ``nk``.

    With ``causal`` query ``m`` sees keys up to ``m + offset``, the last query the last key, and
    blocks of keys that a block of queries does not see are left out. Both blocks are then the same
    and ``offset`` is a multiple of them. Beside ``keys``, or with an ``offset``, it needs
    `positions`.

    Parameters
    ----------
    keys : bool
        ``keys``, shape ``(..., T)``: a key counts where it is not zero.
    bias : bool
        ``bias``, shape ``(..., Q, T)``: added to the scaled scores; -Inf hides.
    positions : bool
        ``after`` and ``at``, shapes ``(Q,)`` and ``(T,)``, FP32: a key counts for a query where
        ``at <= after``.
    """
    tensors = {"q": L.In(..., Q, D), "k": L.In(..., T, D), "v": L.In(..., T, E)}
    if keys:
        tensors["keys"] = L.In(..., T)
    if bias:
        tensors["bias"] = L.In(..., Q, T)
    if positions:
        tensors["after"], tensors["at"] = L.In(Q, dtype="fp32"), L.In(T, dtype="fp32")
    tensors["o"] = L.Out(..., Q, E)

    def attention(*operands, block_q, block_k, nk, scale, causal, offset, table, scores, values):
        if causal and not positions and (keys or offset):
            raise KernelError(
                "a causal mask beside `keys` or with an offset needs the positions of both sides",
                loc=caller(),
                fix="use kernel_for(..., positions=True)",
            )
        given = dict(zip(tensors, operands, strict=True))
        q, k, v, o = (given[name] for name in "qkvo")
        tabled = np.size(table) > 0
        added = L.table(np.asarray(table, float) * LOG2_E) if tabled else None
        factor = (D**-0.5 if scale == "auto" else scale) * LOG2_E
        with units(q.rows(block_q)) as i:
            top, total, out = L.state(LOWEST), L.state(0.0), L.state(0.0, E)

            def go_over(j, visible=None):
                nonlocal top, total, out
                s = L.tile(nk=nk, precision=scores)
                for c in sweep(q.chunks32(nk)):
                    s += q[i, c] @ k[j, c]
                # The maximum of scaled scores is the scaled maximum, so scaling costs no pass.
                score, rest = (s * factor, 1) if bias or added is not None else (s, factor)
                if bias:
                    score = score + given["bias"][i, j] * LOG2_E
                if added is not None:
                    score = score + added[i, j]
                if keys:
                    score = L.where(given["keys"][j], score, HIDDEN)
                if positions:
                    score = L.where(given["at"][j] <= given["after"][i], score, HIDDEN)
                if visible is not None:
                    score = L.where(visible, score, HIDDEN)
                new = L.maximum(top, L.row_max(score) * rest)
                power = L.exp2(score * rest - new)
                shrink = L.exp2(top - new)
                part = L.tile(precision=values)
                part += power @ v[j]
                total <<= total * shrink + L.row_sum(power)
                out <<= out * shrink + part
                top <<= new

            if causal and positions:  # what no query of the block sees is left out
                for j in sweep(i + (offset // block_k + 1)):
                    go_over(j)
            elif causal:
                for j in sweep(i):
                    go_over(j)
                go_over(i, L.table(np.tril(np.ones((block_k, block_k)))))
            else:
                for j in sweep(k.rows(block_k)):
                    go_over(j)
            o[i] <<= out * L.recip(L.maximum(total, 1.0))

    knobs = {
        "block_q": 16,
        "block_k": 64,
        "nk": None,
        "scale": "auto",
        "causal": False,
        "offset": 0,
        "table": (),
        "scores": "default",
        "values": "default",
    }
    attention.__signature__ = Signature(
        [
            *(Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in tensors.items()),
            *(Parameter(n, Parameter.KEYWORD_ONLY, default=d) for n, d in knobs.items()),
        ]
    )
    return kernel(attention)


attention = kernel_for()
