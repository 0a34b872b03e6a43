# SPDX-License-Identifier: Apache-2.0
"""tests/bench/run as a row of the full tier; the table goes beside the results."""
import datetime
import os

from harness import ROOT, Row, command, commit_id


def run():
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    os.makedirs(os.path.join(ROOT, "tests", "results"), exist_ok=True)
    table = command(os.path.join(ROOT, "tests", "bench", "run"), "--json", os.path.join(ROOT, "tests", "results", f"{date}-bench.json"), timeout=1800).stdout
    with open(os.path.join(ROOT, "tests", "results", f"{date}-bench-table.md"), "w", encoding="utf-8") as f:
        f.write(f"# Cost of a scrape\n\n- commit: {commit_id()}\n- how: tests/bench/run; compare the ratios, the times belong to the machine\n\n{table}")
    return next(l for l in table.splitlines() if l.startswith("| 16 | roce_exporter |"))


def rows():
    return [Row("bench-devices", "1, 16 and 256 devices against node_exporter and a reader of the same files", run, full_only=True, alone=True)]
