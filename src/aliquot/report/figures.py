"""Figures with matplotlib: curves of a replay, of a plan and of the break-even of metrics, and the map of agreement.

Colours and dashes can be told apart by colour-blind readers; the same numbers give the same file, written whole or not
at all. matplotlib is an extra and slow to import, so it is imported only when something is drawn.
"""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from aliquot.annotation.agreement_result import Agreement, PairMatrix, pair_matrix
from aliquot.errors import DataError, MissingExtraError, OptionError, unknown_name
from aliquot.io.files import write_bytes
from aliquot.metric_eval.measures import MEASURES
from aliquot.stats.arrays import FloatArray

if TYPE_CHECKING:
    from aliquot.metric_eval.metric_errors import CurvePoint, Worth
    from aliquot.metric_eval.metrics import MetricReport
    from aliquot.planning.result import CampaignPlan
    from aliquot.simulation.simulate import Simulation
    from aliquot.simulation.units import Cell


ENDINGS = (".svg", ".png", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
_RANDOM, _RANDOM_COLOUR = "random", "#555555"


def require_figures(path: Path) -> None:
    """Refuse, before any work, an ending that cannot be drawn or a machine without matplotlib."""
    if path.suffix.lower() not in ENDINGS:
        raise OptionError(f"{path}: unknown ending of a picture; use .svg, .png or .pdf")
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtraError("pictures need matplotlib; install it with: pip install 'aliquot[report]'") from None


def new_figure(rows: int = 1, columns: int = 1, *, width: float = 7.0, height: float = 4.2) -> tuple[Any, Any]:
    """A figure and its axes (rows x columns), plain, without a window."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def save_figure(figure: Any, path: Path) -> None:
    """Write the picture; a fixed salt and no date make the same numbers the same file."""
    import matplotlib as mpl  # noqa: PLC0415

    buffer, kind = io.BytesIO(), path.suffix.lower().removeprefix(".")
    stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with mpl.rc_context({"svg.hashsalt": "aliquot", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, dpi=150, metadata=stamp)
    write_bytes(path, buffer.getvalue())


# -- A replay: a measure against the budget, a line for each method, a band for random -------------------------------

_COLUMNS = 3
_LETTERS = 34  # of a name on one line
_LETTER, _LINE = 0.068, 0.14  # inches of a letter and of a line of small print
_PANEL = (4.6, 4.2)


@dataclass(frozen=True, eq=False)
class Line:
    """One method's line and the label at its end."""

    name: str
    x: FloatArray
    y: FloatArray
    half: FloatArray
    colour: str
    dash: Any

    @property
    def label(self) -> list[str]:
        """The name in as many lines as it takes."""
        return [_literal(part) for part in textwrap.wrap(self.name, _LETTERS)]


def _literal(text: str) -> str:
    """Keep matplotlib from reading dollars as mathematics."""
    return text.replace("$", r"\$")


def draw_curves(result: Simulation, measure: str, path: str | Path) -> None:
    """Draw one panel for each set; lines are labelled at their ends, colours and dashes differ."""
    path = Path(path)
    require_figures(path)
    measured = list(dict.fromkeys(cell.measure for cell in result.cells))
    if measure not in measured:
        raise unknown_name("measure", measure, measured, "it must be among those that were replayed")
    sets = list(dict.fromkeys(cell.data for cell in result.cells))
    panels = [lines_of([cell for cell in result.cells if cell.data == data and cell.asked], measure) for data in sets]
    columns = min(_COLUMNS, len(sets))
    widest = max((len(part) for lines in panels for line in lines for part in line.label), default=0)
    labels = max((len(line.label) for lines in panels for line in lines), default=0) * max(map(len, panels))
    width, height = _PANEL[0] + _LETTER * widest, max(_PANEL[1], 1.2 * _LINE * labels)
    figure, axes = new_figure(-(-len(sets) // columns), columns, width=width, height=height)
    for axis, data, lines in zip(axes.ravel(), sets, panels, strict=False):
        _curve_panel(axis, lines, measure, height)
        axis.set_title(_literal(textwrap.fill(data, int(width / _LETTER / 1.3))), fontsize=10, loc="left")
    for axis in axes.ravel()[len(sets) :]:
        axis.set_visible(False)
    save_figure(figure, path)


def lines_of(cells: list[Cell], measure: str) -> list[Line]:
    """The lines of one panel, random first: what the others are compared with, which for spa_full is its spa."""
    against = MEASURES[measure].against
    if not any((cell.method, cell.measure) == (_RANDOM, against) for cell in cells):
        against = measure  # it was not asked for
    lines = []
    for place, method in enumerate([_RANDOM, *dict.fromkeys(c.method for c in cells if c.method != _RANDOM)]):
        wanted = against if method == _RANDOM else measure
        found = sorted((c for c in cells if (c.method, c.measure) == (method, wanted)), key=lambda c: c.share)
        if not found:
            continue
        freedom = np.maximum([c.repeats - 1 for c in found], 1)
        half = np.nan_to_num(stdtrit(freedom, 0.975) * np.array([c.error for c in found]))
        colour, dash = (_RANDOM_COLOUR, "-") if method == _RANDOM else _look(place - 1)
        name = f"{method} ({wanted})" if wanted != measure else method
        x, y = np.array([100 * c.share for c in found]), np.array([c.value for c in found])
        lines.append(Line(name, x, y, half, colour, dash))
    return lines


def _look(number: int) -> tuple[str, Any]:
    """Colour and dash of a line; grey is random's. All pairs differ before the first comes again."""
    colours = COLOURS[:-1]
    return colours[number % len(colours)], DASHES[(number + number // len(colours)) % len(DASHES)]


def _curve_panel(axis: Any, lines: list[Line], measure: str, height: float) -> None:
    for line in lines:
        axis.plot(line.x, line.y, color=line.colour, linestyle=line.dash, linewidth=1.8, marker="o", markersize=3)
        if line.colour == _RANDOM_COLOUR:
            axis.fill_between(
                line.x, line.y - line.half, line.y + line.half, color=_RANDOM_COLOUR, alpha=0.25, linewidth=0
            )
    axis.margins(x=0.02)
    _label_ends(axis, [line for line in lines if np.isfinite(line.y).any()], 0.8 * height)
    axis.set_xlabel("budget, % of judging everything")
    axis.set_ylabel(f"{measure}: {MEASURES[measure].about.split(';')[0]}", fontsize=8)


def _label_ends(axis: Any, lines: list[Line], inches: float) -> None:
    """Write each line's name to the right of its end, moved apart where they would cover each other."""
    low, high = axis.get_ylim()
    last = [np.flatnonzero(np.isfinite(line.y))[-1] for line in lines]
    lines_up = sorted(zip(lines, last, strict=True), key=lambda pair: pair[0].y[pair[1]])
    ends = np.array([(line.y[at] - low) / (high - low) for line, at in lines_up])
    places = apart(ends, np.array([1.2 * _LINE * len(line.label) / inches for line, _ in lines_up]))
    for (line, at), place in zip(lines_up, places.tolist(), strict=True):
        leader = {"arrowstyle": "-", "color": line.colour, "linestyle": line.dash, "linewidth": 0.9}
        axis.annotate(
            "\n".join(line.label), xy=(line.x[at], line.y[at]), xytext=(1.09, place), textcoords="axes fraction",
            fontsize=8, color=line.colour, va="center", annotation_clip=False,
            arrowprops={**leader, "relpos": (0.0, 0.5), "shrinkA": 1.0, "shrinkB": 3.0},
        )  # fmt: skip


def apart(wanted: FloatArray, sizes: FloatArray) -> FloatArray:
    """Centres in [0, 1], as near as can be to those wanted (ascending), of things that must not cover each other.

    >>> apart(np.array([0.5, 0.5]), np.array([0.2, 0.2])).round(3).tolist()
    [0.4, 0.6]
    """
    from sklearn.isotonic import isotonic_regression  # noqa: PLC0415  (slow to import)

    if not len(wanted):
        return wanted
    # Centre i lies at least (size i-1 + size i) / 2 above centre i-1: less these steps, centres must only not fall.
    steps = np.concatenate([[0.0], np.cumsum((sizes[1:] + sizes[:-1]) / 2)])
    lowest, highest = sizes[0] / 2, 1.0 - sizes[-1] / 2 - steps[-1]
    bounds = {"y_min": lowest, "y_max": highest} if lowest <= highest else {}
    return np.asarray(isotonic_regression(wanted - steps, **bounds) + steps, dtype=np.float64)


# -- A plan: what every budget promises, for a random sample and for the recommended method --------------------------

_PANELS = (
    ("width_difference", "width of the interval of a difference"),
    ("accuracy", "pairs of systems in the right order"),
    ("best", "probability that the best system comes first"),
    ("apart", "pairs told apart (expected)"),
)


def draw_plan(result: CampaignPlan, path: str | Path) -> None:
    """Draw four panels against the number of items, hours above where they are known; the recommendation is marked."""
    path = Path(path)
    require_figures(path)
    figure, axes = new_figure(2, 2, width=5.2, height=3.6)
    for axis, (name, words) in zip(axes.ravel(), _PANELS, strict=True):
        _plan_panel(axis, result, name)
        axis.set_title(words, fontsize=10, loc="left")
        axis.set_xlabel("items judged")
    axes[0, 0].legend(frameon=False, fontsize=9)
    for axis in axes[0]:
        _above(axis, result)
    save_figure(figure, path)


def _plan_panel(axis: Any, result: CampaignPlan, name: str) -> None:
    for place, method in enumerate(result.methods):
        points = result.curve(method)
        x, y = np.array([p.items for p in points]), np.array([getattr(p, name) for p in points])
        colour, dash = (_RANDOM_COLOUR, "--") if place == 0 else (COLOURS[0], "-")
        axis.plot(x, y, color=colour, linestyle=dash, linewidth=1.8, marker="o", markersize=3, label=method)
        if name == "accuracy":
            half = 1.96 * np.array([p.accuracy_error for p in points])
            axis.fill_between(x, y - half, y + half, color=colour, alpha=0.2, linewidth=0)
    advised = result.recommendation.point
    value = getattr(advised, name)
    axis.axvline(advised.items, color=COLOURS[1], linewidth=0.9, linestyle=":")
    axis.plot([advised.items], [value], marker="D", markersize=6, color=COLOURS[1], linestyle="none",
              clip_on=False,  # a probability of 100% lies on the edge
              label=f"recommended: {advised.items} items")  # fmt: skip
    _limits(axis, result, name)


def _limits(axis: Any, result: CampaignPlan, name: str) -> None:
    """Probabilities and shares may not pass 1, counts not the number of pairs; widths start at 0."""
    if name == "width_difference":
        axis.set_ylim(bottom=0)
    elif name == "apart":
        axis.set_ylim(0, len(result.pairs) * 1.03)
        axis.axhline(len(result.pairs), color="#aaaaaa", linewidth=0.8)
        axis.text(axis.get_xlim()[0], 0.99 * len(result.pairs), f" all {len(result.pairs)} pairs", fontsize=8,
                  color="#777777", ha="left", va="top")  # fmt: skip
    else:
        low = min(axis.get_ylim()[0], 0.98)
        axis.set_ylim(max(0.0, low), 1.005)
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")


def _above(axis: Any, result: CampaignPlan) -> None:
    """A second axis of hours and money, where they are known; by the recommended method's expected times."""
    points = result.curve(result.methods[-1])
    items, hours = np.array([p.items for p in points], dtype=float), np.array([p.hours for p in points])
    if not np.isfinite(hours).all() or len(points) < 2:
        return
    rate = float((hours / items).mean())
    top = axis.secondary_xaxis("top", functions=(lambda x: x * rate, lambda h: h / rate))
    top.spines["top"].set_visible(False)
    top.tick_params(labelsize=8)
    paid = points[-1].money / points[-1].hours if np.isfinite(points[-1].money) else None
    label = "hours" if paid is None else f"hours (at {paid:g} {result.currency} each)"
    top.set_xlabel(label, fontsize=8)


# -- Break-even: error against judgments per system, of people, of the perfect annotator, and the bias of each metric --

_LABELS = 24  # lines that can be labelled before labels cover each other
_NAMES = 3  # metrics of the same bias that are named before "and n more"


def draw_break_even(report: MetricReport, path: Path) -> None:
    """Draw one panel for each human score."""
    require_figures(path)
    humans = list(dict.fromkeys(row.human for row in report.breakeven))
    if not humans:
        raise DataError("the report has no break-even to draw (see its notes); it needs two systems that people judged")
    figure, axes = new_figure(len(humans), 1, width=8.6, height=5.0)
    for axis, human in zip(axes.ravel(), humans, strict=True):
        points = [point for point in report.curves if point.human == human]
        rows = [row for row in report.breakeven if row.human == human and math.isfinite(row.bias)]
        _break_even_panel(axis, points, rows)
        axis.set_title(f"error in telling the better of two systems, against '{human}'", fontsize=10, loc="left")
    save_figure(figure, path)


def _break_even_panel(axis: Any, points: list[CurvePoint], rows: list[Worth]) -> None:
    sizes = [point.judgments for point in points]
    axis.set_xscale("log")
    axis.plot(sizes, [point.people for point in points], color=COLOURS[0], linewidth=2.2, label="people", zorder=3)
    if any(math.isfinite(point.perfect) for point in points):
        axis.plot(sizes, [point.perfect for point in points], color=COLOURS[1], linewidth=2.2, linestyle="--",
                  label="perfect annotator", zorder=3)  # fmt: skip
    top = 1.15 * points[0].people
    lines: dict[float, list[Worth]] = {}
    for row in sorted(rows, key=lambda row: (row.bias, row.metric)):
        lines.setdefault(round(row.bias, 6), []).append(row)
    drawn = {bias: same for bias, same in lines.items() if bias <= top}
    for bias, same in drawn.items():
        axis.axhline(bias, color="#999999", linewidth=0.8, zorder=1)
        if 1 < same[0].judgments < math.inf:
            axis.plot([same[0].judgments], [bias], marker="o", markersize=4, color=COLOURS[0], zorder=4)
    axis.set_xlim(1, sizes[-1])
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_ylim(-0.02 * top, top)
    _label(axis, drawn, sizes[-1], top)
    beyond = [row for bias, same in lines.items() if bias > top for row in same]
    axis.set_xlabel("judgments per system" + (f"\n(beyond the picture: {_words(beyond)})" if beyond else ""))
    axis.set_ylabel("share of pairs of systems that are told wrongly")
    axis.legend(frameon=True, edgecolor="none", framealpha=1.0, loc="upper right")


def _label(axis: Any, lines: dict[float, list[Worth]], right: float, top: float) -> None:
    """Name the lines at the right, evenly moved apart; of many, those that are farthest from each other."""
    kept = _spread(list(lines), _LABELS)
    step = 1.02 * top / (_LABELS + 1)
    places: list[float] = []
    for bias in kept:
        places.append(max(bias, places[-1] + step) if places else bias)
    shift = max(0.0, places[-1] - 0.98 * top) if places else 0.0
    for bias, place in zip(kept, places, strict=True):
        axis.annotate(
            _words(lines[bias]), xy=(right, bias), xytext=(right * 1.25, place - shift), fontsize=7.5, va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6, "relpos": (0, 0.5)},
        )  # fmt: skip


def _spread(values: list[float], most: int) -> list[float]:
    """At most so many of ascending values, first and last among them: the closest neighbours are dropped one by one.

    >>> _spread([0.0, 0.1, 0.11, 0.5], 3)
    [0.0, 0.11, 0.5]
    """
    kept = list(values)
    while len(kept) > most:
        gaps = [kept[at + 1] - kept[at - 1] for at in range(1, len(kept) - 1)]
        kept.pop(1 + gaps.index(min(gaps)))
    return kept


def _words(rows: list[Worth]) -> str:
    names = ", ".join(row.metric for row in rows[:_NAMES])
    more = f" and {len(rows) - _NAMES} more" if len(rows) > _NAMES else ""
    biases = dict.fromkeys(f"{row.bias:.2f}" for row in (rows[0], rows[-1]))
    return f"{' to '.join(biases)}  {names}{more}"


NUMBERS = 15
"""Annotators up to which every cell shows its number."""
_MOST_NAMED_ANNOTATORS = 60  # annotators up to which everybody's name is shown
_PALETTE = "cividis"  # looks the same to colour-blind readers, and turns into an even grey in print


def heatmap(result: Agreement, path: str | Path, *, measure: str | None = None, title: str | None = None) -> None:
    """Draw the agreement of every pair of annotators, best-agreeing annotators first; grey where none is defined.

    `measure`: a column of `result.pairs`; by default kappa for labels, quadratic kappa for ordinal answers, Pearson's
    correlation otherwise.
    """
    path = Path(path)
    require_figures(path)
    matrix = pair_matrix(result, measure)
    if not np.isfinite(matrix.values).any():
        raise DataError(f"no pair of annotators has a defined {matrix.measure}; there is nothing to draw")
    save_figure(figure_of(matrix, title), path)


def figure_of(matrix: PairMatrix, title: str | None = None) -> Any:
    """Draw a heat map as a matplotlib figure."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    n = len(matrix.annotators)
    size = float(np.clip(2.2 + 0.48 * n, 4.0, 12.0))
    figure = Figure(figsize=(size + 1.0, size), layout="constrained")
    axes = figure.add_subplot()
    low, high = _ends(matrix.values)
    palette = mpl.colormaps[_PALETTE].with_extremes(bad="0.85")
    image = axes.imshow(np.ma.masked_invalid(matrix.values), cmap=palette, vmin=low, vmax=high)
    figure.colorbar(image, ax=axes, label=matrix.words, shrink=0.8)
    _name_axes(axes, matrix)
    if n <= NUMBERS:
        _write_numbers(axes, matrix.values, (low, high))
    axes.set_title(title or f"Agreement of {n} annotators", fontsize=11)
    return figure


def _ends(values: FloatArray) -> tuple[float, float]:
    """From 0 (or the lowest, if people disagree more than by chance) to 1, so that pictures can be compared."""
    return min(0.0, float(np.floor(np.nanmin(values) * 10) / 10)), 1.0


def _name_axes(axes: Any, matrix: PairMatrix) -> None:
    n = len(matrix.annotators)
    axes.set_xlabel("annotator")
    axes.set_ylabel("annotator")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    if n > _MOST_NAMED_ANNOTATORS:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    size = 9 if n <= 25 else 6
    axes.set_xticks(range(n), matrix.annotators, rotation=90 if n > 8 or _longest(matrix) > 6 else 0, fontsize=size)
    axes.set_yticks(range(n), matrix.annotators, fontsize=size)


def _longest(matrix: PairMatrix) -> int:
    return max(len(name) for name in matrix.annotators)


def _write_numbers(axes: Any, values: FloatArray, ends: tuple[float, float]) -> None:
    """Dark ink on bright cells, white on dark ones."""
    middle = ends[0] + 0.5 * (ends[1] - ends[0])
    for (row, column), value in np.ndenumerate(values):
        text, ink = _short(value), "black" if not value < middle else "white"
        if row != column:
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)


def _short(value: float) -> str:
    """Two decimals without a leading 0; a dash where undefined.

    >>> _short(0.456), _short(-0.001), _short(-0.25), _short(1.0), _short(float("nan"))
    ('.46', '.00', '-.25', '1.00', '–')
    """
    return "–" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("0.", ".")
