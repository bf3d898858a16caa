"""Device code: writes the gradient of logits, or log-softmax, from statistics of rows."""

from __future__ import annotations

from collections import namedtuple

from ..language import constant, exp, jit, tl
from ..vectors import first_element, offsets_of, vectors_of
from .forward import Elements, Rows, Target, Tile, elements_of, product, sum_of_weights

HALF_LOG2E = constant(0.7213475204444817)

# The numbers of a row that its results follow from. With e = exp(z − shift), and onehot 1 at the
# target's column, the gradient is
#
#     (of_exp − of_log·(z − shift))·e − of_target·onehot − of_weight·w
#
# and 0 in rows that do not count; log-softmax is (z − shift) − logarithm. The shift is m or lse.
# `of_log` is for the entropy, `of_weight` for label smoothing. What is not used is 0.
Factors = namedtuple("Factors", "counts column shift logarithm of_exp of_log of_target of_weight")


@jit
def factors_of(rows: Rows, target: Target, shift: tl.tensor, summed: tl.tensor) -> tl.tuple:
    """The factors of rows from the ``shift`` of z and Σ exp(z − shift).

    Where ``summed`` is None, the shift is the lse. Otherwise p = exp(z − m) / Σ exp(z − m) has half
    the error of a p computed from a rounded lse.
    """
    if rows.how.kind == "loss":
        return _factors_of_loss(rows, target, shift, summed)
    elif rows.how.kind == "numbers":
        return _factors_of_numbers(rows, target, shift)
    else:
        none = tl.zeros_like(shift)
        return Factors(target.counts, target.column, shift, tl.log(summed), none, none, none, none)


@jit
def _factors_of_loss(rows: Rows, target: Target, shift: tl.tensor, summed: tl.tensor) -> Factors:
    """With s = ``smoothing``, w of the target t and N classes: dloss / temperature times

    p·((1 − s)·w[t] + s/N·Σw + 2·z_loss·lse) − (1 − s)·w[t]·onehot − s/N·w
    """
    none, lse = tl.zeros_like(shift), shift if summed is None else shift + tl.log(summed)
    of_target, of_weight = target.weight, none
    of_exp = of_target
    if rows.how.further == "added":
        of_target = (1 - rows.smoothing) * target.weight
        of_weight = rows.smoothing / rows.length + tl.zeros_like(target.weight)
        of_exp = of_target + of_weight * sum_of_weights(rows)
    if rows.how.squared:
        of_exp += 2 * rows.z_loss * lse
    scale = _incoming(rows)
    of_exp *= scale
    if summed is not None:
        of_exp *= 1 / summed
    of_target, of_weight = of_target * scale, of_weight * scale
    return Factors(target.counts, target.column, shift, none, of_exp, none, of_target, of_weight)


@jit
def _factors_of_numbers(rows: Rows, target: Target, lse: tl.tensor) -> Factors:
    """dlogprob·(onehot − p) − dentropy·p·(log p + entropy); its first term dlse·p if no target."""
    none = tl.zeros_like(lse)
    first = target.weight * 0.0 if rows.dloss is None else target.weight * _incoming(rows)
    of_exp, of_log = (first if rows.target is None else -first), none
    if rows.dentropy is not None:
        of_log = tl.load(rows.dentropy + rows.number, mask=rows.exists, other=0.0)
        if rows.how.scaled:
            of_log *= rows.inverse
        of_exp -= of_log * tl.load(rows.entropy + rows.number, mask=rows.exists, other=0.0)
    return Factors(target.counts, target.column, lse, none, of_exp, of_log, -first, none)


@jit
def _incoming(rows: Rows) -> tl.tensor:
    """The incoming gradient, divided by the temperature."""
    scale = tl.full((), 1.0, rows.how.statistics)
    if rows.dloss is not None:
        dloss = rows.dloss + rows.number * rows.sizes.dloss_stride
        scale *= tl.load(dloss, mask=rows.exists, other=0.0).to(rows.how.statistics)
    if rows.how.mean:
        scale *= tl.load(rows.lse + rows.sizes.rows)
    if rows.how.scaled:
        scale *= rows.inverse
    return scale


@jit
def _result(rows: Rows, factors: Factors, of: Elements, COMMON: tl.constexpr = False) -> tl.tensor:
    """The gradient, or log-softmax, of elements; see `Factors`.

    ``COMMON`` promises that no row is ignored and that no element is its row's target.
    """
    difference = of.z - factors.shift
    if rows.how.kind == "lse":
        result = difference - factors.logarithm
    elif rows.dentropy is not None:  # where p is 0, 0·−inf is no NaN
        # exp2 gives 0 for a subnormal p, but p times a hundred may be normal: square the root
        if rows.how.statistics == tl.float64:
            root = tl.exp(difference * 0.5)
        else:
            root = tl.exp2(difference * HALF_LOG2E)
        result = (factors.of_exp - product(factors.of_log, difference)) * root * root
    else:
        result = factors.of_exp * exp(difference)
    if rows.how.further == "added":
        of_weight = factors.of_weight
        if rows.weight is not None:
            of_weight *= tl.load(rows.weight + of.columns, mask=of.inside, other=0.0)
        result -= of_weight
    if rows.target is not None and not COMMON:
        result -= tl.where(of.columns == factors.column, factors.of_target, 0.0)
    if rows.how.capped:  # the derivative of cap is 1 − tanh²
        u = of.z / rows.softcap
        if rows.how.scaled:
            u = u / rows.inverse
        result *= 1 - u * u
    return result if COMMON else tl.where(factors.counts, result, 0.0)


@jit
def store_tile(
    rows: Rows, aim: tl.tensor, factors: Factors, tile: Tile, COMMON: tl.constexpr = False
) -> None:
    """Writes the gradient, or log-softmax, of a tile, behind ``aim``; see `_result`."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    STORES: tl.constexpr = rows.how.stores
    wide = Factors(*[each[None, :, None] for each in factors])
    for piece in tl.static_range(PIECES):
        elements = elements_of(rows, tile, piece)
        result = _result(rows, wide, elements, COMMON)
        vector = vectors_of(tile.number * PIECES + piece, rows.how.cut.lanes)
        places = aim + offsets_of(vector, rows.y_at.col_stride, rows.how.vector)
        result = result.to(aim.dtype.element_ty)
        tl.store(places, result, mask=elements.inside, eviction_policy=STORES)


@jit
def store_ends(rows: Rows, factors: Factors, ends: Elements) -> None:
    """Writes the gradient, or log-softmax, of the ends of rows."""
    wide = Factors(*[each[None, :] for each in factors])
    begin = first_element(rows.y, rows.y_at, rows.number, rows.how)
    result = _result(rows, wide, ends)
    tl.store(begin[None, :] + ends.columns, result.to(begin.dtype.element_ty), mask=ends.inside)
