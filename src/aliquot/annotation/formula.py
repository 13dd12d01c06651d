"""A small language for joint scores: `sta * sim * (fluency >= source.fluency)`, item by item.

Names are criteria (or scores); numbers, + - * /, comparisons (1 where true, 0 where not), min, max and parentheses. A
name that is not a word is quoted: `'data coverage' * fluency`. `source.NAME` is the same criterion on the source,
judged like a system. The text is parsed and turned into array operations node by node; it is never run as Python.
Polars' SQL expressions (`pl.sql_expr`) do not fit: quotes mean texts there, min and max aggregate, NaN compares as the
largest number, and hundreds of other functions would have to be refused one by one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray

Values = Mapping[str, FloatArray]
_Computation = Callable[[Values, Values], FloatArray]
"""From the values of the systems and those of the source to a result."""

_LONGEST, _LARGEST = 1000, 1e300
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_COMPARISONS = {
    ast.GtE: operator.ge, ast.Gt: operator.gt, ast.LtE: operator.le, ast.Lt: operator.lt, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_FUNCTIONS = {"min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Formula:
    """A formula that was checked."""

    text: str
    names: tuple[str, ...]  # the criteria or scores it uses, in order of first use, those of the source among them
    source_names: tuple[str, ...]  # the criteria it uses of the source
    compute: _Computation

    def evaluate(self, values: Values, source: Values | None = None) -> FloatArray:
        """Compute it; whatever rests on a missing value, or on a division by 0, is NaN.

        >>> parse_formula("a * b").evaluate({"a": np.array([1.0, np.nan]), "b": np.array([0.5, 1.0])})
        array([0.5, nan])
        """
        with np.errstate(all="ignore"):
            result = np.asarray(self.compute(values, source or {}), dtype=np.float64)
        return np.where(np.isfinite(result), result, np.nan)


def parse_formula(text: str) -> Formula:
    """Check a formula and collect the names it uses; any other function or syntax is an OptionError.

    >>> parse_formula("sta * sim * (fl >= source.fl)").names
    ('sta', 'sim', 'fl')
    """
    if len(text) > _LONGEST:
        raise OptionError(f"a formula of {len(text)} characters is too long; {_LONGEST} are the most")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise OptionError(f'formula "{text}": cannot be read; write e.g. "sta * sim * fluency"') from None
    compiler = _Compiler(text)
    try:
        compute = compiler.compile(tree)
    except RecursionError:
        raise OptionError(f'formula "{text[:60]}...": is nested too deeply') from None
    if not compiler.names:
        raise OptionError(f'formula "{text}": names no criterion')
    return Formula(text.strip(), tuple(compiler.names), tuple(compiler.source_names), compute)


class _Compiler:
    """Turns nodes that belong to the language into computations, and refuses all others."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, None] = {}  # dicts keep the order of first use
        self.source_names: dict[str, None] = {}

    def compile(self, node: ast.expr) -> _Computation:
        match node:
            case ast.Attribute(ast.Name("source"), str(name)) | ast.Subscript(
                ast.Name("source"), ast.Constant(str(name))
            ):
                self.names[name] = self.source_names[name] = None
                return lambda _values, source: source[name]
            case ast.Name(str(name)) | ast.Constant(str(name)):
                self.names[name] = None
                return lambda values, _source: values[name]
            case ast.Constant(int() | float() as number) if not isinstance(number, bool) and abs(number) < _LARGEST:
                return lambda _values, _source: np.asarray(number, dtype=np.float64)
            case ast.UnaryOp(ast.USub() | ast.UAdd() as sign, operand):
                inner = self.compile(operand)
                return (lambda *given: -inner(*given)) if isinstance(sign, ast.USub) else inner
            case ast.BinOp(left, operation, right) if type(operation) in _ARITHMETIC:
                return self._apply(_ARITHMETIC[type(operation)], left, right)
            case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
                return self._apply(_comparison(_COMPARISONS[type(comparison)]), left, right)
            case ast.Call(function, arguments, keywords):
                called = function.id if isinstance(function, ast.Name) else self._written(function)
                if called not in _FUNCTIONS:
                    raise OptionError(f"formula \"{self.text}\": '{called}' is no function here; there are min and max")
                if len(arguments) < 2 or keywords:
                    raise OptionError(
                        f'formula "{self.text}": {called} takes two or more parts, e.g. {called}(adequacy, fluency)'
                    )
                return self._apply(_FUNCTIONS[called], *arguments)
        raise OptionError(
            f"formula \"{self.text}\": '{self._written(node) or type(node).__name__}' is not allowed; use names, "
            "numbers, + - * /, >= and the like, min and max"
        )

    def _apply(self, operation: Callable[[FloatArray, FloatArray], FloatArray], *nodes: ast.expr) -> _Computation:
        parts = [self.compile(node) for node in nodes]
        return lambda *given: reduce(operation, (part(*given) for part in parts))

    def _written(self, node: ast.expr) -> str | None:
        return ast.get_source_segment(self.text.strip(), node)


def _comparison(
    holds: Callable[[FloatArray, FloatArray], FloatArray],
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """1 where it holds, 0 where not, NaN where a side is missing."""
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, holds(a, b))
