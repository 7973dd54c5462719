# SPDX-License-Identifier: Apache-2.0
"""One HTML file of a run: the table, and of every row where its samples lie. Nothing is loaded."""
import html
import math

import host
import report

WIDTH, LANE, LEFT, RIGHT = 720, 54, 12, 12
BINS = 80
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6672; --paper: #ffffff;
  --line: #d9dee4; --ours: #0b6bcb; --theirs: #b3541e; --yes: #1a7f37; --no: #c11c28; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa5b1; --paper: #14171a;
  --line: #2c3238; --ours: #5aa9f7; --theirs: #e39a68; --yes: #56c271; --no: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1rem; margin: 0 0 .2rem; }
p, figcaption { color: var(--soft); margin: .2rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
td:first-child { white-space: normal; min-width: 12rem; }
section { border-top: 1px solid var(--line); padding: .8rem 0; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.ours { color: var(--ours); } .theirs { color: var(--theirs); }
.yes { color: var(--yes); font-weight: 600; } .no { color: var(--no); font-weight: 600; }
@media (max-width: 40rem) { body { font-size: 15px; padding: .6rem; }
  svg text { font-size: 20px; } }
"""


def scale_of(groups):
    """A function from a value to an x, logarithmic where values are far apart, and its ends."""
    values = [value for group in groups for value in group if value > 0] or [1]
    low, high = min(values), max(values)
    if high <= low:
        low, high = low * 0.9, high * 1.1
    room = WIDTH - LEFT - RIGHT
    if high / low > 5:
        span = math.log(high / low)
        return (lambda v: LEFT + room * math.log(max(v, low) / low) / span), low, high, True
    return (lambda v: LEFT + room * (v - low) / (high - low)), low, high, False


def ticks_of(low, high, logarithmic):
    if not logarithmic:
        return [low + (high - low) * i / 4 for i in range(5)]
    found, power = [], math.floor(math.log10(low))
    while 10 ** power <= high:
        found += [m * 10 ** power for m in (1, 2, 5) if low <= m * 10 ** power <= high]
        power += 1
    return found[::math.ceil(len(found) / 5)] if found else [low, high]


def shape(samples, x, top, color):
    """How many lie where, as a filled outline; the highest place has the whole height."""
    room = WIDTH - LEFT - RIGHT
    counts = [0] * BINS
    for sample in samples:
        place = int((x(sample) - LEFT) / room * BINS) if sample > 0 else 0
        counts[min(max(place, 0), BINS - 1)] += 1
    most = max(counts)
    floor, height = top + LANE - 20, LANE - 26
    points = [f"{LEFT:.1f},{floor}"]
    for i, count in enumerate(counts):
        level = floor - height * count / most
        points += [f"{LEFT + room * i / BINS:.1f},{level:.1f}",
                   f"{LEFT + room * (i + 1) / BINS:.1f},{level:.1f}"]
    points.append(f"{WIDTH - RIGHT:.1f},{floor}")
    return (f'<polygon points="{" ".join(points)}" fill="var(--{color})" fill-opacity=".35" '
            f'stroke="var(--{color})" stroke-width="1"/>')


def marks(told, x, top, color):
    """The middle half as a bar, the median and p99 as lines across it."""
    floor = top + LANE - 20
    if told["count"] < 2:
        return ""
    begin, end = x(told["p25"]), x(told["p75"])
    text = (f'<rect x="{begin:.1f}" y="{floor + 2}" width="{max(end - begin, 1):.1f}" height="5" '
            f'fill="var(--{color})"/>')
    for p, dash in (("p50", ""), ("p99", ' stroke-dasharray="3 3"')):
        at = x(told[p])
        text += (f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top + 4}" y2="{floor + 9}" '
                 f'stroke="var(--{color})" stroke-width="1.5"{dash}><title>{p} '
                 f'{report.value_in_words(told[p], told["unit"])}</title></line>')
    return text


def plot(lanes):
    """`lanes`: (color, series as in the JSON)."""
    x, low, high, logarithmic = scale_of([told["samples"] for _, told in lanes])
    height = LANE * len(lanes) + 22
    text = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="distribution">']
    for i, (color, told) in enumerate(lanes):
        text += [shape(told["samples"], x, i * LANE, color), marks(told, x, i * LANE, color)]
    bottom = LANE * len(lanes)
    text.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" '
                'stroke="var(--line)"/>')
    unit = lanes[0][1]["unit"]
    for value in ticks_of(low, high, logarithmic):
        at = x(value)
        anchor = "start" if at < 60 else "end" if at > WIDTH - 60 else "middle"
        text.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="{anchor}">'
                    f'{html.escape(report.value_in_words(value, unit))}</text>')
    return "".join(text) + "</svg>"


def caption(color, name, told):
    words = ", ".join(f"{p} {report.value_in_words(told[p], told['unit'])}"
                      for p in ("p50", "p95", "p99"))
    return (f'<p><span class="{color}">■ {html.escape(name)}</span> {told["count"]} samples: '
            f'{html.escape(words)}</p>')


def section(row, series):
    lanes = [("ours", row["ours"])] + ([("theirs", row["theirs"])] if row["theirs"] else [])
    told = [(color, series[name]) for color, name in lanes]
    held = {True: '<span class="yes">held</span>', False: '<span class="no">missed</span>',
            None: ""}[row["held"]]
    asked = report.asked_in_words(row)
    noise = report.noise_in_words(row)
    words = [f"<b>{html.escape(report.measure_in_words(row))}</b> by {row['statistic']}"]
    words += [f"95 of 100 draws: {html.escape(noise)}"] if noise else []
    words += [f"asked {html.escape(asked)} {held}"] if asked else []
    return (f'<section id="{row["id"]}"><h2>{html.escape(row["title"])}</h2><p>'
            + "; ".join(words) + "</p>"
            + (plot(told) if any(one["count"] > 1 for _, one in told) else "")
            + "".join(caption(color, name, series[name]) for color, name in lanes) + "</section>")


def unique(rows):
    """One picture for rows of the same series."""
    seen = set()
    for row in rows:
        if (row["ours"], row["theirs"]) not in seen:
            seen.add((row["ours"], row["theirs"]))
            yield row


def table(rows):
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in report.HEADS) + "</tr>"]
    for row in rows:
        kind = {True: "yes", False: "no", None: ""}[row["held"]]
        inner = [html.escape(cell) for cell in report.cells(row)]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in inner[:-1])
                     + f'<td class="{kind}">{inner[-1]}</td></tr>')
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def to_html(result):
    told, rows = result["machine"], result["rows"]
    skipped = "".join(f"<p>Left out: {html.escape(one['what'])}: {html.escape(one['why'])}</p>"
                      for one in result["skipped"])
    sections = "".join(section(row, result["series"]) for row in unique(rows))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Threadbox, measured {html.escape(told["date"][:10])}</title>
<style>{STYLE}</style></head><body>
<h1>Threadbox beside the bare host and others</h1>
<p>{html.escape(host.in_words(told))}; revision {html.escape(told["revision"])}; load before the
run {told["load_before"]}; {html.escape(told["date"])}. {html.escape(report.summary(result))}.</p>
<p>Every row alternates with its counterpart in one run: compare ratios, not times of two runs. The
outlines show where samples lie, the bars their middle half, the lines p50 and (dashed) p99; scales
are logarithmic where samples are far apart.</p>
{table(rows)}{skipped}{sections}</body></html>
"""
