#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: tests/scale/fleet.py [--nodes 1000] [--hours 2] [--watch 180] [--json FILE]

A fleet in one Prometheus of Debian: what it costs to keep and how long the rules of alerts/ take. A node has the series
of a host with two RNICs, as a real kernel gave them (tests/recordings), and those of a prober with eight peers on each
RNIC, at 15 s. They are sent by remote write from two hours ago until a few minutes from now; then Prometheus loads the
rules and evaluates them by itself. (As text for promtool's backfill, 1,000 nodes would be 150 GB.)"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import board_data
import builds
import exporter
from harness import BUILD, ROOT, Failed, command, expect

STEP = 15
PEERS = 8
DEVICES = ("mlx5_0", "mlx5_1")
SETTLE = 60  # seconds after the last sample that a group's first evaluations may take until they count


def exporter_series():
    """(labels, value, growth a second) of a host, as its page shows them; counters move."""
    code, page, errors = exporter.call("print", f"--replay={ROOT}/tests/recordings/lab-6.1.tar.gz", program=exporter.binary("release"))
    expect(code == 0, errors)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", page, re.M):
        pairs = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
        moves = kinds.get(name) == "counter" and float(value) > 0
        yield {**pairs, "__name__": name}, float(value), zlib.crc32((name + labels).encode()) % 1000 + 1 if moves else 0


def prober_series():
    own_name = "node4"  # the one of that fleet to which nothing happens
    board_data.HOSTS = [own_name] + [f"@{k}" for k in range(1, PEERS + 1)]
    board_data.BOUNDS = [f"{b / 1e9:g}" for b in latency_bounds()] + ["+Inf"]
    found = board_data.Fleet()
    board_data.probe_series(found, {}, own_name)
    for (name, labels), (kind, value, _) in found.series.items():
        if name.startswith("roce_probe_connect_") and dict(labels)["peer"] != "@1":
            continue  # connections are set up seldom, and an endpoint has 700 series at most
        for device in DEVICES if "device" in dict(labels) else (None,):
            own = {**dict(labels), "__name__": name, **({"device": device} if device else {})}
            yield own, 1e6 if kind == "c" else value, value if kind == "c" else 0


def latency_bounds():
    with open(os.path.join(ROOT, "probes", "measure", "latency_histogram.h"), encoding="utf-8") as f:
        text = re.search(r"kLatencyBounds = \{(.*?)\};", f.read(), re.S).group(1)
    return [int(n.replace("'", "")) for n in re.findall(r"[\d']+", text)]


def write_template(path):
    lines = set()
    for series, job, port in ((exporter_series(), "roce", 14791), (prober_series(), "roce_prober", 14792)):
        target = {"job": job, "instance": f"@0:{port}", "host": "@0"}
        every = [*series, ({"__name__": "up"}, 1.0, 0), ({"__name__": "scrape_duration_seconds"}, 0.05, 0)]
        for labels, value, growth in every:
            flat = "\t".join(f"{k}\t{v}" for k, v in sorted({**labels, **target}.items()) if v != "")
            lines.add(f"{value:.17g}\t{growth:.17g}\t{flat}")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(sorted(lines)) + "\n")
    return len(lines)


class Prometheus:
    def __init__(self, folder):
        self.folder, self.port = folder, exporter.free_port()
        self.configure(rules=False)
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}",
             "--web.enable-remote-write-receiver", "--web.enable-admin-api", "--web.enable-lifecycle", "--query.timeout=10m"],
            stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w", encoding="utf-8"))
        for _ in range(600):
            try:
                self.get("/-/ready")
                return
            except OSError:
                time.sleep(0.2)
        raise Failed("prometheus is not ready")

    def configure(self, rules):
        with open(f"{self.folder}/prometheus.yml", "w", encoding="utf-8") as f:
            f.write("global: {scrape_interval: 15s, evaluation_interval: 15s}\n")
            if rules:
                f.write(f"rule_files: ['{ROOT}/alerts/rules/*.yml']\n")

    def get(self, path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read().decode()

    def own(self):
        """Its metrics about itself, those without labels by name."""
        return {n: float(v) for n, v in re.findall(r"^(\w+) (\S+)$", self.get("/metrics"), re.M)}

    def groups(self):
        return json.loads(self.get("/api/v1/rules"))["data"]["groups"]

    def cpu_seconds(self):
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def rss(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files)


def measure(nodes, hours, watch):
    builds.build("release", "fleet_writer")
    with tempfile.TemporaryDirectory(prefix="roce-fleet-", dir=BUILD) as folder:
        template = os.path.join(folder, "template")
        per_node = write_template(template)
        server = Prometheus(folder)
        try:
            cpu = server.cpu_seconds()
            sent = command(os.path.join(BUILD, "release", "bin", "fleet_writer"), template, f"http://127.0.0.1:{server.port}/api/v1/write", str(nodes),
                           str(hours), str(watch + 2 * SETTLE), str(STEP), timeout=4 * 3600).stdout
            samples, seconds = map(int, re.search(r"(\d+) samples (\d+) seconds", sent).groups())
            cpu = server.cpu_seconds() - cpu
            report = {"nodes": nodes, "series_per_node": per_node, "series": per_node * nodes, "samples": samples, "ingest_seconds": seconds,
                      "ingest_samples_per_cpu_second": samples / cpu, "needed_samples_per_second": per_node * nodes / STEP}
            expect(server.own()["prometheus_tsdb_head_series"] == per_node * nodes, lambda: f"{server.own()['prometheus_tsdb_head_series']} series in the head")
            report["rss_before_rules_bytes"] = server.rss()
            server.configure(rules=True)
            server.get("/-/reload", "POST")
            cpu, began, slowest = server.cpu_seconds(), time.monotonic(), {}
            while time.monotonic() < began + watch:
                time.sleep(5)
                for g in server.groups():
                    if g["evaluationTime"]:
                        slowest.setdefault(g["name"], [g["interval"], []])[1].append(g["evaluationTime"])
            report["rules_cpu_share"] = (server.cpu_seconds() - cpu) / (time.monotonic() - began)
            report["rules"] = [{"group": name, "interval_seconds": interval, "seconds_median": sorted(times)[len(times) // 2], "seconds_max": max(times),
                                "share_of_interval": sorted(times)[len(times) // 2] / interval} for name, (interval, times) in sorted(slowest.items())]
            report["rss_bytes"] = server.rss()
            report["series_recorded"] = int(server.own()["prometheus_tsdb_head_series"]) - per_node * nodes
            missed = re.findall(r"^prometheus_rule_group_iterations_missed_total\{.*\} (\d+)$", server.get("/metrics"), re.M)
            report["evaluations_missed"] = sum(map(int, missed))
            snapshot = json.loads(server.get("/api/v1/admin/tsdb/snapshot", "POST"))["data"]["name"]
            block = folder_bytes(os.path.join(folder, "data", "snapshots", snapshot))
            report["disk_bytes_per_sample"] = block / samples
            report["disk_bytes_per_day"] = block / samples * report["needed_samples_per_second"] * 86400
            report["memory_bytes_per_series"] = report["rss_bytes"] / report["series"]
            return report
        finally:
            server.stop()
            shutil.rmtree(os.path.join(folder, "data"), ignore_errors=True)


def table(r):
    lines = ["| what | value |", "|---|---|",
             f"| nodes, series | {r['nodes']}, {r['series']} ({r['series_per_node']} a node) and {r['series_recorded']} that rules record |",
             f"| samples a second at {STEP} s | {r['needed_samples_per_second']:.0f}; one CPU takes {r['ingest_samples_per_cpu_second']:.0f} |",
             f"| memory | {r['rss_bytes'] / 2**30:.2f} GiB, {r['memory_bytes_per_series']:.0f} bytes a series |",
             f"| disk | {r['disk_bytes_per_sample']:.2f} bytes a sample, {r['disk_bytes_per_day'] / 2**30:.1f} GiB a day |",
             f"| rules | {r['rules_cpu_share']:.2f} of a CPU, {r['evaluations_missed']} evaluations missed |", "",
             "| rule group | interval | median | longest | share of interval |", "|---|---|---|---|---|"]
    for g in r["rules"]:
        lines.append(f"| {g['group']} | {g['interval_seconds']:.0f} s | {g['seconds_median']:.3f} s | {g['seconds_max']:.3f} s | {g['share_of_interval']:.1%} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--watch", type=int, default=180)
    parser.add_argument("--json", default=os.path.join(BUILD, "fleet.json"))
    args = parser.parse_args()
    report = measure(args.nodes, args.hours, args.watch)
    print(table(report))
    with open(args.json, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
