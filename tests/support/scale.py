# SPDX-License-Identifier: Apache-2.0
"""What has to hold in a large fleet, by simulation."""
import json
import os

import builds
from bench import results
from harness import BUILD, ROOT, Row, command, commit_id, expect


def probe_mesh():
    builds.build("debug", "probe_mesh")
    done = command(os.path.join(BUILD, "debug", "bin", "probe_mesh"), timeout=600)
    lines = done.stdout.splitlines()
    return "; ".join(l.strip() for l in lines if l.startswith("     ")) or f"{len(lines)} checks"


def fleet():
    builds.build("release", "roce_exporter")
    path = results("fleet", ".json")
    table = command(os.path.join(ROOT, "tests", "scale", "fleet.py"), "--json", path, timeout=5 * 3600).stdout
    with open(results("fleet", ".table.md"), "w", encoding="utf-8") as f:
        f.write(f"# A fleet in one Prometheus\n\n- commit: {commit_id()}\n- how: tests/scale/fleet.py, on a quiet machine\n\n{table}")
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    late = [f"{g['group']}: {g['share_of_interval']:.0%}" for g in report["rules"] if g["share_of_interval"] > 0.1]
    expect(not late and report["evaluations_missed"] == 0, lambda: f"{report['evaluations_missed']} evaluations missed; over 10 % of the interval: {late}")
    return f"{report['series']} series, {report['memory_bytes_per_series']:.0f} bytes each"


def rows():
    return [Row("scale-probe-mesh", "who probes whom among 10,000 endpoints", probe_mesh),
            Row("scale-fleet", "1,000 nodes in one Prometheus: ingestion, memory, disk, rules", fleet, full_only=True, alone=True)]
