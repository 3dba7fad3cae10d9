# SPDX-License-Identifier: BSD-3-Clause
"""One plot of bench/report: series of ours, points that papers have published, and the numbers."""

import io
import re
from html import escape

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

INK, DIM, GRID, PAPER = "#1a1a1a", "#555555", "#dddddd", "#7a4fa0"
# Each has the same colour and mark in all plots.
LOOKS = {"floor": ("#8c8c8c", "D"), "in-place": ("#2f7d3a", "o"),
         "in-place-tcp": ("#1f9d9a", "h"), "chain": ("#c8811a", "s"),
         "chain-debian": ("#e0b060", "P"), "chain-few": ("#8a5a10", "X"), "sr": ("#2b62a8", "^"),
         "vanilla": ("#7fa8d8", "v"), "debian": ("#b3423a", "x"), "paper-sr": ("#444444", "<"),
         "paper-vanilla": ("#999999", ">"), "misses": ("#74b87e", "o"), "other": (DIM, ".")}
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "bench/report", "font.size": 11,
            "font.family": ["DejaVu Sans"],
            "axes.edgecolor": DIM, "axes.labelcolor": INK, "text.color": INK,
            "xtick.color": DIM, "ytick.color": DIM, "axes.spines.top": False,
            "axes.spines.right": False, "path.simplify": False}
OTHERS = " (another machine)" # behind what papers have published
LICENSE = "<!-- SPDX-License-Identifier: BSD-3-Clause. Made by bench/report. -->"


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def short(value, _=None):
    """A number as a tick has it."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}" if value / size < 5 else f"{value / size:.0f}{unit}"
    return f"{value:g}"


def plain(value):
    """A number as a table has it."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class Chart:
    """`name` is its file's; `relative` has no unit that depends on the machine alone."""

    def __init__(self, name, title, x, y, caption, log=""):
        self.name, self.title, self.x, self.y, self.caption = name, title, x, y, caption
        self.rows, self.sources, self.points, self.text = [], [], [], None
        self.log = log
        with matplotlib.rc_context(SETTINGS):
            self.figure = Figure(figsize=(8.4, 4.5))
            FigureCanvasSVG(self.figure)
            self.axes = self.figure.add_axes((0.09, 0.17, 0.61, 0.73))
        self.set_up(log)

    def set_up(self, log):
        axes = self.axes
        self.figure.text(0.012, 0.945, self.title, fontsize=12, fontweight="bold")
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        axes.grid(True, color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        for which, axis, scale in (("x", axes.xaxis, axes.set_xscale),
                                   ("y", axes.yaxis, axes.set_yscale)):
            if which in log:
                scale("log")
                axis.set_minor_formatter(NullFormatter())
            axis.set_major_formatter(FuncFormatter(short))

    def ticks(self, xs):
        self.axes.set_xticks(xs)
        self.axes.minorticks_off()

    def series(self, label, look, points, dashed=False):
        """Of ours: (x, y) or (x, y, least, most). A zero has no place on a logarithmic axis."""
        points = [point for point in points if point[1] is not None]
        self.rows += [(label, plain(point[0]), plain(point[1])) for point in points]
        points = [point for point in points if point[1] > 0 or "y" not in self.log]
        if not points:
            return
        colour, mark = LOOKS[look]
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        line, = self.axes.plot(xs, ys, color=colour, marker=mark, markersize=5.5, linewidth=1.8,
                               linestyle="--" if dashed else "-", label=label, clip_on=False)
        line.set_gid(f"series-{slug(label)}")
        if len(points[0]) == 4:
            self.axes.vlines(xs, [point[2] for point in points], [point[3] for point in points],
                             color=colour, linewidth=1, alpha=0.6)
        self.points += zip(xs, ys)

    def published(self, label, points, line=True):
        """Of a paper, on another machine: hollow, and marked so."""
        label += OTHERS
        xs, ys = [point.x for point in points], [point.y for point in points]
        drawn, = self.axes.plot(xs, ys, color=PAPER, marker="os^vDP"[len(self.sources) % 6],
                                markersize=8, markerfacecolor="none", markeredgewidth=1.6,
                                linewidth=1, linestyle=":" if line else "none", clip_on=False,
                                label=label.replace(" (", "\n("))
        drawn.set_gid(f"series-{slug(label)}")
        self.points += zip(xs, ys)
        self.sources += [(label, points)]
        self.rows += [(label, plain(x), plain(y)) for x, y in zip(xs, ys)]

    def bars(self, bars):
        """(label, look or None for a paper's, value, text), from top to bottom."""
        self.axes.set_position((0.43, 0.17, 0.47, 0.73))
        for place, (label, look, value, text) in enumerate(bars):
            colour = LOOKS[look][0] if look else PAPER
            bar, = self.axes.barh(-place, value, height=0.66, edgecolor=colour, linewidth=1.4,
                                  color=colour if look else "none", hatch=None if look else "//")
            bar.set_gid(f"series-{slug(label)}")
            self.axes.annotate(text, (value, -place), (5, 0), textcoords="offset points",
                               va="center", fontsize=10)
            self.rows.append((label, "", plain(value)))
        self.axes.set_yticks([-place for place in range(len(bars))], [bar[0] for bar in bars],
                             fontsize=10)
        self.axes.grid(False, axis="y")

    def cite(self, label, points):
        """A paper's, where it is drawn as bars."""
        self.sources.append((label, points))

    def note(self, text):
        """What machine it was, beneath the plot."""
        self.figure.text(0.01, 0.012, text, fontsize=8, color=DIM)

    def limit(self):
        """Around the points, where no other limits were set: releases of the library differ."""
        for which, place, automatic, limit in (
                ("x", 0, self.axes.get_autoscalex_on(), self.axes.set_xlim),
                ("y", 1, self.axes.get_autoscaley_on(), self.axes.set_ylim)):
            if which in self.log and automatic and self.points:
                values = [point[place] for point in self.points]
                limit(min(values) / 1.3, max(values) * 1.3)

    def svg(self):
        """The text of a file that needs no other."""
        if self.text:
            return self.text
        self.limit()
        if self.axes.get_legend_handles_labels()[0]:
            self.axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.02), frameon=False,
                             fontsize=9, labelspacing=0.9)
        out = io.StringIO()
        with matplotlib.rc_context(SETTINGS):
            self.figure.savefig(out, format="svg", facecolor="white",
                                metadata={"Date": None, "Creator": None, "Format": None,
                                          "Type": None})
        text = out.getvalue()
        text = text[text.index("<svg"):]
        text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
        # Several are in one page: no id of one may be another's.
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        # Drawn with a font that comes with the library; read with what a browser has.
        text = re.sub(r"'DejaVu Sans'[^;\"]*", "'DejaVu Sans', Verdana, sans-serif", text)
        head, rest = text.split(">", 1)
        self.text = (f'{head} role="img">\n{LICENSE}\n<title>{escape(self.title)}</title>'
                     + re.sub(r"[ \t]+\n", "\n", rest))
        return self.text
