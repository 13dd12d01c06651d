"""A tiny language for joint scores: `sta * sim * (fluency >= source.fluency)`, item by item.

Names are criteria (or scores); numbers, + - * /, comparisons (1 where true, 0 where not), min, max and parentheses. A
name that is no word is quoted: `'data coverage' * fluency`. `source.NAME` is the same criterion on the source, judged
like a system. The text is parsed, checked node by node and computed; it is never run as Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray

SOURCE = "source"
_LONGEST, _LARGEST = 1000, 1e300
_ARITHMETIC: dict[type, Callable[[FloatArray, FloatArray], FloatArray]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_COMPARISONS: dict[type, Callable[[FloatArray, FloatArray], FloatArray]] = {
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {"min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Formula:
    """A formula that was checked.

    Attributes:
        text: as it was written.
        names: the criteria or scores it uses, in order of first use, those of the source among them.
        source_names: the criteria it uses of the source.
    """

    text: str
    names: tuple[str, ...]
    source_names: tuple[str, ...]
    tree: ast.expr

    def evaluate(self, values: Mapping[str, FloatArray], source: Mapping[str, FloatArray] | None = None) -> FloatArray:
        """Compute it; whatever rests on a missing value, or on a division by 0, is NaN.

        >>> parse_formula("a * b").evaluate({"a": np.array([1.0, np.nan]), "b": np.array([0.5, 1.0])})
        array([0.5, nan])
        """
        with np.errstate(all="ignore"):
            result = np.asarray(_compute(self.tree, values, source or {}), dtype=np.float64)
        return np.where(np.isfinite(result), result, np.nan)


def parse_formula(text: str) -> Formula:
    """Check a formula and say which names it uses.

    >>> parse_formula("sta * sim * (fl >= source.fl)").names
    ('sta', 'sim', 'fl')
    >>> parse_formula("__import__('os')")
    Traceback (most recent call last):
        ...
    aliquot.errors.OptionError: formula "__import__('os')": '__import__' is no function here; there are min and max
    """
    if len(text) > _LONGEST:
        raise OptionError(f"a formula of {len(text)} characters is too long; {_LONGEST} are the most")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise OptionError(f'formula "{text}": cannot be read; write e.g. "sta * sim * fluency"') from None
    names: dict[str, None] = {}
    of_source: dict[str, None] = {}
    try:
        _check(tree, text, names, of_source)
    except RecursionError:
        raise OptionError(f'formula "{text[:60]}...": is nested too deeply') from None
    if not names:
        raise OptionError(f'formula "{text}": names no criterion')
    return Formula(text.strip(), tuple(names), tuple(of_source), tree)


def _source_name(node: ast.expr) -> str | None:
    """The criterion in `source.NAME` or `source['NAME']`; None for anything else."""
    if not isinstance(node, ast.Attribute | ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    if node.value.id != SOURCE:
        return None
    if isinstance(node, ast.Attribute):
        return node.attr
    inside = node.slice
    return inside.value if isinstance(inside, ast.Constant) and isinstance(inside.value, str) else None


def _check(node: ast.expr, text: str, names: dict[str, None], of_source: dict[str, None]) -> None:
    """Refuse whatever is not of the language; collect names."""
    parts: list[ast.expr] = []
    named = _source_name(node)
    if named is not None:
        names[named] = of_source[named] = None
    elif isinstance(node, ast.Name):
        names[node.id] = None
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        names[node.value] = None
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and abs(node.value) < _LARGEST:  # type: ignore[arg-type]
        pass
    elif isinstance(node, ast.BinOp) and (type(node.op) in _ARITHMETIC or isinstance(node.op, ast.Div)):
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        parts = [node.operand]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Call):
        parts = _arguments(node, text)
    else:
        written = ast.get_source_segment(text.strip(), node) or type(node).__name__
        raise OptionError(
            f"formula \"{text}\": '{written}' is not allowed; use names, numbers, + - * /, >= and the like, min and max"
        )
    for part in parts:
        _check(part, text, names, of_source)


def _arguments(node: ast.Call, text: str) -> list[ast.expr]:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.get_source_segment(text.strip(), node.func)
    if name not in _FUNCTIONS:
        raise OptionError(f"formula \"{text}\": '{name}' is no function here; there are min and max")
    if len(node.args) < 2 or node.keywords:
        raise OptionError(f'formula "{text}": {name} takes two or more parts, e.g. {name}(adequacy, fluency)')
    return list(node.args)


def _compute(node: ast.expr, values: Mapping[str, FloatArray], source: Mapping[str, FloatArray]) -> FloatArray:
    named = _source_name(node)
    if named is not None:
        return source[named]
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        return values[node.value] if isinstance(node.value, str) else np.float64(node.value)  # type: ignore[arg-type,return-value]
    if isinstance(node, ast.UnaryOp):
        inner = _compute(node.operand, values, source)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp):
        left, right = _compute(node.left, values, source), _compute(node.right, values, source)
        return left / right if isinstance(node.op, ast.Div) else _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Compare):
        left, right = _compute(node.left, values, source), _compute(node.comparators[0], values, source)
        truth = _COMPARISONS[type(node.ops[0])](left, right)
        return np.where(np.isnan(left) | np.isnan(right), np.nan, truth)
    call = node if isinstance(node, ast.Call) else None
    if call is None or not isinstance(call.func, ast.Name):
        raise OptionError("this formula was not checked; make it with parse_formula")
    parts = [_compute(part, values, source) for part in call.args]
    result = parts[0]
    for part in parts[1:]:
        result = _FUNCTIONS[call.func.id](result, part)
    return result
