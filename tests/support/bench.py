# SPDX-License-Identifier: Apache-2.0
"""tests/bench/run as rows of the full tier; the tables go beside the results."""
import datetime
import json
import os

from harness import ROOT, Row, command, commit_id, expect

MEMORY_BASE = 24 << 20  # bytes that a host without devices may take, with what the kernel keeps for the program
MEMORY_PER_SERIES = 300


def results(kind, suffix):
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    os.makedirs(os.path.join(ROOT, "tests", "results"), exist_ok=True)
    return os.path.join(ROOT, "tests", "results", f"{date}-{kind}{suffix}")


def bench(only, *args):
    path = results(f"bench-{only}", ".json")
    table = command(os.path.join(ROOT, "tests", "bench", "run"), "--only", only, "--json", path, *args, timeout=3600).stdout
    with open(results(f"bench-{only}", ".table.md"), "w", encoding="utf-8") as f:
        f.write(f"# What a scrape costs: {only}\n\n- commit: {commit_id()}\n- how: tests/bench/run --only {only}; compare the ratios, the times belong to "
                f"the machine. Wall times count only where others used less than 5 % of it.\n\n{table}")
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def whole():
    """The promises, as far as this machine was quiet enough to judge them: CPU always, wall times only on a quiet one."""
    report = bench("whole")
    quiet = report["others_share_of_cpu"] < 0.05
    rows = {(r["devices"], r["subject"]): r for r in report["whole"]}
    ours, theirs = rows[256, "roce_exporter"], rows[256, "node_exporter"]
    expect(ours["series"] >= 2 * theirs["series"], f"{ours['series']} series, node_exporter {theirs['series']}")
    expect(ours["cpu_to_floor"] <= 1.3, f"CPU {ours['cpu_to_floor']:.2f} times the floor")
    expect(ours["cpu_per_series_to_node_exporter"] <= 1 / 3, f"CPU a series {ours['cpu_per_series_to_node_exporter']:.2f} of node_exporter's")
    for (devices, subject), r in rows.items():
        if subject == "roce_exporter" and r["cgroup_bytes"] is not None:
            limit = MEMORY_BASE + MEMORY_PER_SERIES * r["series"]
            expect(r["cgroup_bytes"] <= limit, f"{devices} devices: {r['cgroup_bytes']} bytes of memory, at most {limit} are promised")
    if quiet:
        expect(ours["wall_p99_to_node_exporter"] <= 0.5, f"wall p99 {ours['wall_p99_to_node_exporter']:.2f} of node_exporter's")
    return f"256 devices: CPU {ours['cpu_to_floor']:.2f} of the floor, a series {ours['cpu_per_series_to_node_exporter']:.2f} of node_exporter's" \
           + ("" if quiet else "; busy machine, wall times not judged")


def growth():
    report = bench("growth")
    return "; ".join(f"{k['what']}: {k['cpu_seconds_for_one_more'] * 1e6:.1f} us for one more" for k in report["growth"])


def micro():
    found = {b["run_name"]: 1e9 / b["items_per_second"] for b in bench("micro")["micro"]}
    expect(found["exposition"] <= 150, f"{found['exposition']:.0f} ns a sample")
    expect(found["exposition"] < found["exposition_by_prometheus_cpp"], f"{found}")
    return f"exposition {found['exposition']:.0f} ns a sample, prometheus-cpp {found['exposition_by_prometheus_cpp']:.0f} ns"


def rows():
    return [Row("bench-whole", "1 to 512 devices against node_exporter and a reader of the same files", whole, full_only=True, alone=True),
            Row("bench-growth", "hosts with many functions, QPs, namespaces, processes", growth, full_only=True, alone=True),
            Row("bench-micro", "single functions, prometheus-cpp's serializer beside ours", micro, full_only=True, alone=True)]
