# SPDX-License-Identifier: BSD-3-Clause
"""The page of bench/report: one file of HTML that needs no other."""

from html import escape

from plots import where

STYLE = """
body { font: 16px/1.5 Helvetica, Arial, sans-serif; color: #1a1a1a; background: #f4f5f3;
       margin: 0 auto; padding: 1.5rem; max-width: 58rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 0; }
section { background: #fff; border: 1px solid #d9dcd6; border-radius: 6px; padding: 1rem 1.25rem;
          margin: 1.25rem 0; }
svg { width: 100%; height: auto; } p { margin: .5rem 0; } .dim { color: #555; font-size: .9rem; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { text-align: right; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid #eceeea; }
th:first-child, td:first-child { text-align: left; } summary { cursor: pointer; color: #2f7d3a; }
.paper { color: #7a4fa0; } nav { columns: 2; font-size: .95rem; } nav a { color: #2b62a8; }
"""


def table(header, rows):
    def cells(kind, row):
        return "<tr>" + "".join(f"<{kind}>{escape(str(cell))}</{kind}>" for cell in row) + "</tr>"
    return ("<table><thead>" + cells("th", header) + "</thead><tbody>"
            + "".join(cells("td", row) for row in rows) + "</tbody></table>")


def sources(chart):
    """Where the papers' points are from."""
    lines = sorted({f"{plot} at {point.x:g}: {point.y:.4g} ({point.source})"
                    for plot, points in chart.sources for point in points})
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def section(chart):
    parts = [f'<section id="{chart.name}">', f"<h2>{escape(chart.title)}</h2>",
             f"<figure style='margin:0'>{chart.svg()}"
             f"<figcaption class='dim'>{escape(chart.caption)}</figcaption></figure>"]
    if chart.sources:
        parts.append("<p class='paper'>The hollow and hatched points are papers', of another "
                     "machine: compare shapes and ratios, not heights.</p>")
    parts.append("<details><summary>The numbers</summary>"
                 + table(["series", chart.x, chart.y], chart.rows)
                 + (sources(chart) if chart.sources else "") + "</details></section>")
    return "\n".join(parts)


def measured(saved):
    rows = [(each.head["command"], each.head["date"][:16].replace("T", " ") + " UTC",
             f"{each.head['seconds']:.0f} s, {each.head['rounds']} rounds", where(each.head))
            for each in saved]
    return table(["command", "begun", "took", "where"], rows)


def page(saved, charts, missing):
    busy = any(each.head["load"] > 0.5 for each in saved)
    parts = ["<!DOCTYPE html>", "<!-- SPDX-License-Identifier: BSD-3-Clause. Made by bench/report. "
             "-->", '<html lang="en"><head><meta charset="utf-8"/>',
             '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
             f"<title>MemcachedSR: what was measured</title><style>{STYLE}</style></head><body>",
             "<h1>MemcachedSR: what was measured</h1>",
             "<p>Clients and server share one machine, and all network devices are virtual: a "
             "figure says what a request costs a CPU, not what a network card can carry. Compare "
             "ratios, and only within one plot.</p>", measured(saved)]
    if busy:
        parts.append("<p><b>The machine was busy with other work</b> when this was measured: "
                     "what is a multiple of a server without the kernel path says little.</p>")
    parts.append("<nav><ul>" + "".join(f'<li><a href="#{chart.name}">{escape(chart.title)}</a></li>'
                                       for chart in charts) + "</ul></nav>")
    parts += [section(chart) for chart in charts]
    if missing:
        parts.append("<p class='dim'>Not in these files: " + escape(", ".join(
            f"{name} (bench/{bench})" for name, bench in missing)) + ".</p>")
    return "\n".join(parts) + "\n</body></html>\n"
