"""Formulas that join the scores of several criteria into one, such as `sta * sim * (fluency >= source.fluency)`."""

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

_MAX_FORMULA_LENGTH = 1000
_MAX_NUMBER = 1e300

_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_COMPARISONS = {
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

_FUNCTIONS = {"min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Formula:
    """A valid formula."""

    text: str
    names: tuple[str, ...]  # the criteria or scores it uses, in order of first use, those of the source among them
    source_names: tuple[str, ...]  # the criteria it uses of the source
    compute: _Computation

    def evaluate(self, values: Values, source: Values | None = None) -> FloatArray:
        """Evaluate the formula; NaN for missing values, division by 0 and roots of negative numbers.

        >>> parse_formula("a * b").evaluate({"a": np.array([1.0, np.nan]), "b": np.array([0.5, 1.0])})
        array([0.5, nan])
        """
        with np.errstate(all="ignore"):
            result = np.asarray(self.compute(values, source or {}), dtype=np.float64)
        return np.where(np.isfinite(result), result, np.nan)


def parse_formula(text: str) -> Formula:
    """Parse a formula; raise OptionError for syntax or functions that are not allowed.

    >>> parse_formula("sta * sim * (fl >= source.fl)").names
    ('sta', 'sim', 'fl')
    """
    if len(text) > _MAX_FORMULA_LENGTH:
        raise OptionError(f"a formula of {len(text)} characters is too long; {_MAX_FORMULA_LENGTH} are the most")
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
    """Compiles syntax nodes into functions; raises OptionError for nodes that are not allowed."""

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
            case ast.Constant(int() | float() as number) if not isinstance(number, bool) and abs(number) < _MAX_NUMBER:
                return lambda _values, _source: np.asarray(number, dtype=np.float64)
            case ast.UnaryOp(ast.USub() | ast.UAdd() as sign, operand):
                inner = self.compile(operand)
                return (lambda *values: -inner(*values)) if isinstance(sign, ast.USub) else inner
            case ast.BinOp(left, operation, right) if type(operation) in _ARITHMETIC:
                return self._apply(_ARITHMETIC[type(operation)], left, right)
            case ast.BinOp(left, ast.Pow(), right):
                return self._apply(_propagate_missing(np.float_power), left, right)
            case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
                return self._apply(_propagate_missing(_COMPARISONS[type(comparison)]), left, right)
            case ast.Call(ast.Name("sqrt"), [argument], []):
                inner = self.compile(argument)
                return lambda *values: np.sqrt(inner(*values))
            case ast.Call(function, arguments, keywords):
                called = function.id if isinstance(function, ast.Name) else self.source_of(function)
                if called == "sqrt":
                    raise OptionError(f'formula "{self.text}": sqrt takes one part, e.g. sqrt(adequacy * fluency)')
                if called not in _FUNCTIONS:
                    raise OptionError(
                        f"formula \"{self.text}\": '{called}' is no function here; there are min, max and sqrt"
                    )
                if len(arguments) < 2 or keywords:
                    raise OptionError(
                        f'formula "{self.text}": {called} takes two or more parts, e.g. {called}(adequacy, fluency)'
                    )
                return self._apply(_FUNCTIONS[called], *arguments)
        raise OptionError(
            f"formula \"{self.text}\": '{self.source_of(node) or type(node).__name__}' is not allowed; use names, "
            "numbers, + - * / **, >= and the like, min, max and sqrt"
        )

    def _apply(self, operation: Callable[[FloatArray, FloatArray], FloatArray], *nodes: ast.expr) -> _Computation:
        parts = [self.compile(node) for node in nodes]
        return lambda *values: reduce(operation, (part(*values) for part in parts))

    def source_of(self, node: ast.expr) -> str | None:
        return ast.get_source_segment(self.text.strip(), node)


def _propagate_missing(
    operation: Callable[[FloatArray, FloatArray], FloatArray],
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return NaN where an operand is NaN, even if numpy gives a number (NaN >= 1 is False, NaN ** 0 is 1)."""
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, operation(a, b))
