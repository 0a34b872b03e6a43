# SPDX-License-Identifier: Apache-2.0
"""Every query of every panel, asked of a real Prometheus that holds a healthy and a broken fleet."""
import os
import re

import board_data
import dashboard_lint
from harness import ROOT, expect

EXPECTED = os.path.join(ROOT, "tests", "dashboards", "expected")
# What is chosen at the head of each board; boards that choose several hosts show all.
CHOSEN = {"instance": "node1:14791", "host": "node1", "device": "mlx5_0", "port": "1"}
ALL = {"roce-mesh": {"instance": ".+", "peer": ".+"}, "roce-exporter": {"instance": ".+"}}
# Of boards of one host: the one whose port is down, too.
OTHER = {**CHOSEN, "instance": "node2:14791", "host": "node2"}
# Queries without data here, and why.
SILENT = {("roce-port", "Pause frames", "B"): "for drivers whose pause frames DCB alone counts; the ports here have them from ethtool"}
ONE_HOST = ("roce-host", "roce-port", "roce-storage")
HOUR = 3600


def chosen(uid):
    return {**CHOSEN, **ALL.get(uid, {})}


def ask(server, uid, panel, target, values):
    """{labels: last value} of a query, as its panel asks it for an hour; `before`: the series has ended."""
    expr = dashboard_lint.filled(target["expr"], values)
    if target.get("instant"):
        found = [(s["metric"], s["value"][1]) for s in server.now(expr)]
    else:
        end = board_data.END // board_data.STEP * board_data.STEP
        found = [(s["metric"], s["values"][-1]) for s in server.range(expr, end - HOUR, end, board_data.STEP)]
        found = [(metric, value if at >= end - board_data.STEP else f"{value} before") for metric, (at, value) in found]
    # Rows of several queries become one only where their labels are the same.
    expect(panel["type"] != "table" or len(panel["targets"]) == 1 or not any("__name__" in metric for metric, _ in found), f"{uid} {panel['title']} {target['refId']}: its rows have a name, so that none joins them")
    out = {}
    for metric, value in found:
        labels = ",".join(f"{k}={v}" for k, v in sorted(metric.items()) if k not in ("job", "instance", "host") or uid not in ONE_HOST)
        expect(labels not in out, f"{uid} {panel['title']}: two series {labels}")
        out[labels] = short(value)
    return out


def short(text):
    number, *rest = text.split()
    value = float(number)
    return " ".join(["NaN" if value != value else f"{value:.3g}", *rest])


def table(healthy, broken):
    """{uid: text}: a line a series; what it is while all is well, while all is broken, and there on the host whose port is down."""
    out, bad = {}, []
    for uid, board in dashboard_lint.boards().items():
        lines = ["panel\tquery\tseries\thealthy\tbroken\tport down"]
        for panel, target in dashboard_lint.queries(board):
            found = [ask(healthy, uid, panel, target, chosen(uid)), ask(broken, uid, panel, target, chosen(uid)), ask(broken, uid, panel, target, OTHER) if uid in ONE_HOST else {}]
            for labels in sorted(set().union(*found)):
                lines.append("\t".join([panel["title"], target["refId"], labels, *(f.get(labels, "-") for f in found)]))
            if any(found) == ((uid, panel["title"], target["refId"]) in SILENT):
                bad.append(f"{uid} {panel['title']} {target['refId']}: {'has' if any(found) else 'no'} data, healthy or broken: {target['expr']}")
        out[uid] = "\n".join(lines) + "\n"
    expect(not bad, "\n".join(bad))
    return out


def annotations(server):
    """[what is wrong]: each kind of mark is somewhere in the last hour of the broken fleet, on each board that can show it."""
    bad = []
    for uid, board in dashboard_lint.boards().items():
        choices = [{**CHOSEN, "instance": f"{host}:14791", "host": host} for host in board_data.HOSTS] if uid in ONE_HOST else [chosen(uid)]
        for a in board["annotations"]["list"]:
            found = [s for values in choices for s in server.range(dashboard_lint.filled(a["expr"], values), board_data.END - HOUR, board_data.END, 60)]
            if not found:
                bad.append(f"{uid}: no annotation of {a['name']}: {a['expr']}")
            label = re.findall(r"\{\{(\w+)\}\}", a["titleFormat"] + a["textFormat"])
            bad += [f"{uid}: annotation {a['name']} names {x}, which {s['metric']} has not" for s in found[:1] for x in label if x not in s["metric"] and x != "host"]
    return bad


def without_rules(server):
    """[what is wrong]: a number that stands on what rules make is not there where a Prometheus has no rules, least of all as 0."""
    bad, seen = [], set()
    for uid, board in dashboard_lint.boards().items():
        for panel, target in dashboard_lint.queries(board):
            if panel["type"] == "stat" and re.search(r"\bALERTS\b|[a-z]:\w+:[a-z]", target["expr"]):
                seen.add(f"{uid} {panel['title']}")
                bad += [f"{uid} {panel['title']}: says {found} without any rule" for found in [ask(server, uid, panel, target, chosen(uid))] if found]
            # Nor is a list of what fires empty then, where no number beside it tells.
            if panel["title"] in ("What fires for this host", "What fires for this port"):
                found = ask(server, uid, panel, target, chosen(uid))
                seen.add(f"{uid} {panel['title']}")
                bad += [f"{uid} {panel['title']}: says {found} without any rule"] if found != {"severity=none": "1"} else []
    named = {"roce-host What fires for this host", "roce-port What fires for this port", "roce-fleet Critical alerts", "roce-fleet Warnings", "roce-fleet Ports down", "roce-fleet Hosts nobody reaches", "roce-mesh Hosts nobody reaches", "roce-mesh Ports that reach nobody"}
    return bad + [f"{name} does not stand on rules" for name in sorted(named - seen)]


def check(update=False):
    with board_data.Server(board_data.folder_of(False)) as healthy, board_data.Server(board_data.folder_of(True)) as broken:
        made, bad = table(healthy, broken), annotations(broken)
    with board_data.Server(board_data.folder_of(True, ruled=False)) as blind:
        bad += without_rules(blind)
    for uid, text in made.items():
        path = os.path.join(EXPECTED, f"{uid}.tsv")
        if update:
            os.makedirs(EXPECTED, exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            continue
        with open(path, encoding="utf-8") as f:
            want = f.read()
        if text != want:
            old, new = set(want.splitlines()), set(text.splitlines())
            bad += [f"{uid}: -{line}" for line in sorted(old - new)] + [f"{uid}: +{line}" for line in sorted(new - old)]
    expect(not bad, "\n".join(bad[:50]))
    return f"{sum(t.count(chr(10)) - 1 for t in made.values())} series"
