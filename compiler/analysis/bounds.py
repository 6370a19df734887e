"""Indices: affine, within their buffers, and cut to the size the statement works on."""

from __future__ import annotations

import numpy as np

from compiler.analysis.instances import Env, enumerate_instances
from compiler.analysis.sites import Axis, Site, axes, index_symbols
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Binary, Const, Expr
from kohakuaccel.ir.nodes import Store, View
from kohakutpu.lang.frames import ELEMENTS


def check_affine(sites: list[Site]) -> None:
    """Check that addresses move by a constant from one instance to the next.

    Raises
    ------
    KernelError
        If an index multiplies, divides or takes the remainder of grid or loop indices.
    """
    for site in sites:
        for view in views(site):
            for index in view.index:
                if not is_affine(index):
                    raise KernelError(
                        f"index `{index}` of `{view.buffer.name}` is no sum of indices times "
                        "constants",
                        loc=view.loc,
                        fix="give the grid one index for every step, instead of computing it with "
                        "`*`, `//` or `%` of indices",
                    )


def check_sizes(sites: list[Site], env: Env | None = None) -> None:
    """Check that an index cut in blocks of one size is not used where another is meant.

    Without ``env`` only sizes that are written as numbers are compared.

    Raises
    ------
    KernelError
        If the sizes differ.
    """
    for site in sites:
        for view in views(site):
            for axis in axes(view, site):
                tiling = axis.tiling
                if tiling is None:
                    continue
                scale = ELEMENTS[tiling.kind]
                found, wanted = tiling.size * scale, axis.block
                known = isinstance(found, Const) and isinstance(wanted, Const)
                beside_value = axis.what == "K" and tiling.kind != "chunks32"
                if env is None and (beside_value or not known):
                    continue  # or one block may be all there is
                sizes = found.evaluate(env or {}), wanted.evaluate(env or {})
                whole = env is not None and axis.extent.evaluate(env) <= min(sizes)
                if sizes[0] != sizes[1] and not whole:
                    _refuse_size(view, axis, *sizes, scale)


def check_bounds(sites: list[Site], env: Env) -> None:
    """Check that every index stays within its buffer.

    Raises
    ------
    KernelError
        If one does not.
    """
    for site in sites:
        counts = {index.symbol: index.count for index in site.indices}
        for view in views(site):
            for axis in axes(view, site):
                count = counts.get(axis.index)  # pyright: ignore[reportArgumentType]
                limit = axis.count.evaluate(env)
                if count is not None and not index_symbols(count) and count.evaluate(env) <= limit:
                    continue
                instances = enumerate_instances(site, env, (axis.index,))
                values = instances.evaluate(axis.index, env)
                outside = (values < 0) | (values >= limit)
                if outside.any():
                    place = int(np.argmax(outside))
                    _refuse_outside(view, axis, int(values[place]), instances.name(place), env)


def views(site: Site) -> list[View]:
    """Return every view of a statement, the written one first."""
    written = [site.statement.view] if isinstance(site.statement, Store) else []
    return written + site.reads


def is_affine(expr: Expr) -> bool:
    """Return whether ``expr`` is affine in its indices, whatever the dimensions are."""
    if not index_symbols(expr) or not isinstance(expr, Binary):
        return True
    if expr.op in ("+", "-"):
        return is_affine(expr.left) and is_affine(expr.right)
    if expr.op != "*" or (index_symbols(expr.left) and index_symbols(expr.right)):
        return False
    return is_affine(expr.left) and is_affine(expr.right)


def _refuse_size(view: View, axis: Axis, found: int, wanted: int, scale: int) -> None:
    tiling = axis.tiling
    assert tiling is not None
    unit = "elements" if tiling.kind in ("parts", "chunks32") else "rows"
    raise KernelError(
        f"`{axis.index}` counts blocks of {found} {unit}, but this statement works on blocks of "
        f"{wanted}",
        loc=view.loc,
        fix=f"use one size: {tiling.buffer.name}.{tiling.kind}({wanted // scale or 1})",
        notes=[(tiling.buffer.loc, f"`{axis.index}` counts blocks of `{tiling.buffer.name}`")],
    )


def _refuse_outside(view: View, axis: Axis, value: int, instance: str, env: Env) -> None:
    limit, extent = axis.count.evaluate(env), axis.extent.evaluate(env)
    block = axis.block.evaluate(env)
    what = {"parts": "stored elements", "K": "elements of K"}.get(axis.what, axis.what)
    where = f" ({instance})" if instance and instance != f"{axis.index} = {value}" else ""
    raise KernelError(
        f"`{axis.index}` reaches {value}{where}, but `{view.buffer.name}` has only {limit} "
        f"block{'s' * (limit != 1)} of {block} {what[:-1] if block == 1 else what}: "
        f"{extent} {what}",
        loc=view.loc,
        fix=f"stay within 0 to {limit - 1}; the count of a tiling is the number of its blocks",
        notes=[(view.buffer.loc, f"`{view.buffer.name}` is declared here")],
    )
