"""Powers with a known exponent, as products, quotients and roots where those are exact."""

from __future__ import annotations

from compiler.scalar import Const, Expr, apply

_MOST_FACTORS = 4


def power(base: Expr, exponent: float) -> Expr:
    """The power base ** exponent; multiples of 1/4 become roots, for which -0 and -inf count as numbers below 0."""
    size = abs(float(exponent))
    if size == 0:
        return Const(1.0)
    if size > _MOST_FACTORS or not (size * 4).is_integer():
        return apply("pow", base, Const(exponent))
    if exponent < 0 and not size.is_integer():
        halves, odd = divmod(int(size * 4), 2)
        fourth = [apply("inverse_fourth_root", base)] * odd
        return _product(*(fourth * 3 if odd and halves == 1 else [apply("rsqrt", base)] * halves + fourth))
    root = apply("sqrt", base)
    roots = {0.0: (), 0.25: (apply("sqrt", root),), 0.5: (root,), 0.75: (root, apply("sqrt", root))}
    result = _product(*[base] * int(size), *roots[size % 1])
    return result if exponent > 0 else apply("div", Const(1.0), result)


def _product(first: Expr, *others: Expr) -> Expr:
    result = first
    for factor in others:
        result = apply("mul", result, factor)
    return result
