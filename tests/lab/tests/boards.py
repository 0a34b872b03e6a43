# SPDX-License-Identifier: Apache-2.0
"""Dashboards on what real kernels show: a Prometheus scrapes both machines, and every panel has data or a reason why not."""
import os
import time
import urllib.parse

import alerts
import board_data
import core
import dashboard_lint
from harness import ROOT, Failed, Row, expect

REASONS = os.path.join(ROOT, "tests", "dashboards", "no_lab_data.tsv")
SECONDS = 100  # of scrapes: rates over a minute have all of it
NODES = (1, 2)


def reasons():
    """{(board, panel): why it is empty in the lab}"""
    found = {}
    with open(REASONS, encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                uid, panel, why = line.rstrip("\n").split("\t")
                found[(uid, panel)] = why
    return found


def configuration():
    jobs = []
    for job, port in (("roce", 14791), ("roce_prober", 14792)):
        entries = [{"targets": [urllib.parse.urlsplit(core.lab("url", node, port).strip()).netloc], "labels": {"host": f"node{node}", "instance": f"node{node}:{port}"}} for node in NODES]
        jobs.append({"job_name": job, "static_configs": entries})
    return {"global": {"scrape_interval": "10s", "scrape_timeout": "9s", "evaluation_interval": "10s"}, "rule_files": [os.path.join(alerts.ALERTS, "rules", "*.yml")], "scrape_configs": jobs}


def values(server):
    """What can be chosen at the head of a board: each port of each node; of boards of several hosts: all."""
    ports = server.now("roce_port_state", time.time())
    expect(ports, "no port is scraped")
    one = [{"instance": p["metric"]["instance"], "host": p["metric"]["host"], "device": p["metric"]["device"], "port": p["metric"]["port"]} for p in ports]
    return one, [{"instance": ".+", "peer": ".+"}]


def silent(server):
    """[(board, panel)] without any data, whatever is chosen."""
    one, every = values(server)
    now, found = time.time(), []
    for uid, board in dashboard_lint.boards().items():
        choices = one if "roce-host roce-port roce-storage".find(uid) >= 0 else every
        for panel in dashboard_lint.panels(board):
            if not any(server.now(dashboard_lint.filled(t["expr"], chosen), now) for t in panel["targets"] for chosen in choices):
                found.append((uid, panel["title"]))
    return found


def check():
    with board_data.Server(config=configuration()) as server:
        time.sleep(SECONDS)
        up = server.now("up", time.time())
        bad = [s["metric"] for s in up if s["value"][1] != "1"]
        expect(len(up) == 2 * len(NODES) and not bad, f"targets: {up}; not up: {bad}")
        found, known = silent(server), reasons()
    total = sum(len(dashboard_lint.panels(b)) for b in dashboard_lint.boards().values())
    bad = [f"{uid}: {panel}: no data from the lab, and no reason in tests/dashboards/no_lab_data.tsv" for uid, panel in found if (uid, panel) not in known]
    bad += [f"{uid}: {panel}: no such panel" for uid, panel in known if uid not in dashboard_lint.UIDS or panel not in [p["title"] for p in dashboard_lint.panels(dashboard_lint.boards()[uid])]]
    if bad:
        raise Failed("\n".join(bad))
    return f"{total - len(found)} of {total} panels have data, {len(found)} a reason why not"


def rows(tag, **more):
    return [Row(f"{tag}-boards", "every panel of the boards has data from these machines, or a reason why not", check, **more)]
