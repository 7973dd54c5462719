# SPDX-License-Identifier: Apache-2.0
"""A run as JSON, as a table for a terminal, and as one for docs/performance.md."""
import host
import rows as rows_of

FORMAT = 1
BEGIN, END = "<!-- bench table begins -->", "<!-- bench table ends -->"


def to_json(measured, options, described, took):
    judged = [rows_of.judged(row, measured.series, options)
              for row in rows_of.all_rows(options, described["cgroup"])]
    return {"format": FORMAT, "machine": described, "took_seconds": round(took, 1),
            "options": vars(options), "rows": [row for row in judged if row],
            "skipped": measured.skipped, "details": measured.details,
            "series": {name: series.to_json() for name, series in measured.series.items()
                       if series.samples}}


def value_in_words(value, unit):
    if value is None:
        return "–"
    if unit == "us":
        return f"{value / 1000:.2f} ms" if value < 1e6 else f"{value / 1e6:.2f} s"
    if unit == "KiB":
        return f"{value:,.0f} KiB" if abs(value) < 10240 else f"{value / 1024:,.1f} MiB"
    return f"{value:,.0f} {unit}"


def number(value):
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def measure_in_words(row, value=None):
    value = row["measure"] if value is None else value
    if row["kind"] in ("limit", "count"):
        return value_in_words(value, row["unit"])
    if row["kind"] == "share":
        return f"{100 * value:.0f} %"
    return f"{number(value)}×" + (" better" if row["kind"] == "factor" else "")


def asked_in_words(row):
    if row["asked"] is None:
        return ""
    sign = "≤" if rows_of.KINDS[row["kind"]][1] else "≥"
    return f"{sign} {measure_in_words(row, row['asked'])}"


def noise_in_words(row):
    if not row["interval"]:
        return ""
    low, high = row["interval"]
    if row["kind"] in ("limit", "count"):
        return f"{value_in_words(low, row['unit'])} … {value_in_words(high, row['unit'])}"
    if row["kind"] == "share":
        return f"{100 * low:.0f} … {100 * high:.0f} %"
    return f"{number(low)} … {number(high)}"


def held_in_words(row):
    return {True: "yes", False: "NO", None: ""}[row["held"]]


HEADS = ("row", "by", "ours", "theirs", "ratio", "95 of 100", "asked", "held")


def cells(row):
    return (row["title"], row["statistic"], value_in_words(row["ours_value"], row["unit"]),
            value_in_words(row["theirs_value"], row["unit"]), measure_in_words(row),
            noise_in_words(row), asked_in_words(row),
            held_in_words(row) + (f" ({row['note']})" if row["note"] and not row["held"] else ""))


def summary(result):
    judged = [row for row in result["rows"] if row["held"] is not None]
    held = sum(row["held"] for row in judged)
    return f"{held} of {len(judged)} asked rows held"


def to_text(result):
    table = [HEADS, *map(cells, result["rows"])]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
             for line in table]
    lines += [f"left out: {one['what']}: {one['why']}" for one in result["skipped"]]
    lines += [f"{host.in_words(result['machine'])}; revision {result['machine']['revision']}; "
              f"load before {result['machine']['load_before']}", summary(result)]
    return "\n".join(lines) + "\n"


def to_markdown(result):
    told = result["machine"]
    lines = [f"Measured {told['date'][:10]} at revision {told['revision']} on "
             f"{host.in_words(told)}, load before the run {told['load_before']}, "
             f"{result['options']['rounds']} rounds of each latency row. {summary(result)}.", "",
             "| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in result["rows"]]
    if result["skipped"]:
        lines += ["", "Left out: "
                  + "; ".join(f"{one['what']} ({one['why'][:100]})" for one in result["skipped"])
                  + "."]
    return "\n".join(lines)


def write_docs(result, path):
    """Puts the table between the two marks; what stands around them is written by hand."""
    text = path.read_text()
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    path.write_text(f"{before}{BEGIN}\n{to_markdown(result)}\n{END}{after}")
