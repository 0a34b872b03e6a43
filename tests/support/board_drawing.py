# SPDX-License-Identifier: Apache-2.0
"""Boards drawn in Chromium by Grafana's own panel packages: texts, colours, units. Pictures stay in build/tests/dashboards/drawn."""
import copy
import datetime
import json
import os
import re
import threading

import board_data
import board_queries
import dashboard_lint
from harness import ROOT, command, expect

TOOLS = os.path.join(ROOT, "tests", "dashboards")
DRAWN = os.path.join(TOOLS, "drawn.tsv")
WORK = os.path.join(board_data.WORK, "drawn")
BUNDLE = os.path.join(board_data.WORK, "bundle")
COLUMNS = ("healthy", "broken", "down")
PICKED = {"healthy": board_queries.CHOSEN, "broken": board_queries.CHOSEN, "down": board_queries.OTHER}
_lock = threading.Lock()


def bundle():
    with _lock:
        command("node", os.path.join(TOOLS, "draw", "build.mjs"), BUNDLE)


def moment(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(uid, column, seconds, suffix=""):
    picked = {k: v for k, v in PICKED[column].items() if k != "host"} if uid in board_queries.ONE_HOST else {}
    return {"name": f"{uid}-{column}{suffix}", "board": uid, "data": "healthy" if column == "healthy" else "broken", "vars": picked,
            "from": moment(board_data.END - seconds), "to": moment(board_data.END)}


def shoot(jobs, boards=dashboard_lint.BOARDS, long=False, out=WORK):
    """{name: facts}"""
    bundle()
    with board_data.Server(board_data.folder_of(False, long)) as healthy, board_data.Server(board_data.folder_of(True, long)) as broken:
        os.makedirs(out, exist_ok=True)
        path = os.path.join(out, "jobs.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"bundle": BUNDLE, "boards": boards, "prometheus": {"healthy": healthy.url, "broken": broken.url}, "out": out, "jobs": jobs}, f)
        command("node", os.path.join(TOOLS, "draw", "shoot.mjs"), path, timeout=1800)
    found = {}
    for j in jobs:
        with open(os.path.join(out, f"{j['name']}.json"), encoding="utf-8") as f:
            found[j["name"]] = json.load(f)
    return found


def colour(text):
    """good, warn, bad or none of a CSS colour: green, orange, red, or no colour at all."""
    m = re.match(r"rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)", text or "")
    if not m or m.group(4) and float(m.group(4)) < 0.1:
        return "none"
    r, g, b = (float(v) for v in m.groups()[:3])
    if max(r, g, b) - min(r, g, b) < 60:
        return "none"
    if g > r and g > b:
        return "good"
    if r > 180 and 100 < g < 200 and b < 100:
        return "warn"
    return "bad" if r > 180 and g < 100 else f"another colour {text}"


def thing(panel, kind, what):
    """(text, colour) of a thing in a drawn panel; None where it is not there."""
    values = panel["values"]
    if what == "value":
        return ("".join(v["text"] if re.match(r"[%]", v["text"]) or i == 0 else f" {v['text']}" for i, v in enumerate(values)), colour(values[0]["behind"])) if values else None
    if kind == "table":
        column, key = what.split("@")
        if column not in panel["headers"]:
            return None
        wide, at = len(panel["headers"]), panel["headers"].index(column)
        for i in range(0, len(values) - wide + 1, wide):
            if values[i]["text"] == key:
                return values[i + at]["text"], colour(values[i + at]["behind"])
        return None
    if kind == "bargauge":
        return next(((b["text"], colour(b["color"])) for b in panel["bars"] if b["name"] == what), None)
    for i, v in enumerate(values):  # a line's legend: its name, then its last value
        if v["text"] == what and i + 1 < len(values):
            return values[i + 1]["text"], "none"
    return None


def wanted():
    """[(board, panel, thing, {column: (text, colour) or None})]"""
    found = []
    with open(DRAWN, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#"):
                continue
            uid, panel, what, *cells = line.rstrip("\n").split("\t")
            found.append((uid, panel, what, {c: None if cell == "-" else tuple(cell.rsplit(" ", 1)) for c, cell in zip(COLUMNS, cells) if cell}))
    return found


def judge(facts, boards, columns=COLUMNS):
    """[what is wrong] of drawn boards {name: facts}, by drawn.tsv and by what holds of every panel."""
    bad = []
    for uid, board in boards.items():
        for column in columns:
            name = f"{uid}-{column}"
            if name not in facts:
                continue
            bad += general(name, board, facts[name])
            for want_uid, title, what, cells in wanted():
                if want_uid != uid or column not in cells:
                    continue
                kind = dashboard_lint.named(board, title)["type"]
                found, want = thing(facts[name]["panels"].get(title, {"values": [], "headers": [], "bars": []}), kind, what), cells[column]
                if found is None or want is None:
                    if found != want:
                        bad.append(f"{name}: {title}: {what} is {found}, not {want}")
                elif found[0] != want[0] or want[1] != "*" and found[1] != want[1]:
                    bad.append(f"{name}: {title}: {what} is {found[0]!r}, {found[1]}; not {want[0]!r}, {want[1]}")
    return bad


def general(name, board, facts):
    """No error, every panel there, no text cut off, no panel empty that has data."""
    bad = [f"{name}: {e}" for e in facts["errors"]]
    drawn = facts["panels"]
    for p in dashboard_lint.panels(board):
        if p["title"] not in drawn:
            bad.append(f"{name}: {p['title']} is not drawn")
            continue
        d = drawn[p["title"]]
        bad += [f"{name}: {p['title']}: {text!r} is cut off" for text in d["cut"]]
        bad += [f"{name}: {p['title']}: {v['text']!r} cannot be seen" for v in d["values"] if re.search(r", 0\)$", v["color"])]
        if not d["text"] and not d["canvases"]:
            bad.append(f"{name}: {p['title']} shows nothing at all")
        if p["type"] == "timeseries" and not d["nothing"] and not d["canvases"]:
            bad.append(f"{name}: {p['title']} has no graph")
        if re.search(r"\b(?:NaN|undefined|null|\[object)\b", d["text"]):
            bad.append(f"{name}: {p['title']} shows {d['text'][:80]!r}")
    return bad


def empty_panels(name, board, facts, column):
    """Panels that are empty though their queries give something, or the other way round: by what tests/dashboards/expected has."""
    with open(os.path.join(board_queries.EXPECTED, f"{board['uid']}.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f][1:]
    full = {r[0] for r in rows if r[3 + COLUMNS.index(column)] != "-"}
    return [f"{name}: {p['title']} is {'empty' if facts['panels'][p['title']]['nothing'] else 'not empty'}" for p in dashboard_lint.panels(board)
            if p["type"] not in ("stat", "heatmap") and p["title"] in facts["panels"] and facts["panels"][p["title"]]["nothing"] == (p["title"] in full)]


def all_jobs(seconds, suffix=""):
    return [job(uid, c, seconds, suffix) for uid in dashboard_lint.UIDS for c in COLUMNS if c != "down" or uid in board_queries.ONE_HOST]


def check():
    """All boards over one hour."""
    boards, jobs = dashboard_lint.boards(), all_jobs(3600)
    facts = shoot(jobs)
    bad = judge(facts, boards)
    for uid, board in boards.items():
        for column in COLUMNS:
            if f"{uid}-{column}" in facts:
                bad += empty_panels(f"{uid}-{column}", board, facts[f"{uid}-{column}"], column)
    expect(not bad, "\n".join(bad[:60]))
    return f"{len(jobs)} pictures, {sum(len(f['panels']) for f in facts.values())} panels, {sum(len(c) for *_, c in wanted())} texts"


def check_range(seconds, suffix, long):
    """All boards over another range: the same values now, no error, no empty graph."""
    boards, facts = dashboard_lint.boards(), {}
    for name, found in shoot(all_jobs(seconds, suffix), long=long).items():
        facts[name.removesuffix(suffix)] = found
    bad = [b for uid, board in boards.items() for c in COLUMNS if f"{uid}-{c}" in facts for b in general(f"{uid}-{c}{suffix}", board, facts[f"{uid}-{c}"])]
    now = [w for w in wanted() if dashboard_lint.named(boards[w[0]], w[1])["type"] in ("stat", "table")]
    for uid, title, what, cells in now:
        for column, want in cells.items():
            found = thing(facts[f"{uid}-{column}"]["panels"][title], dashboard_lint.named(boards[uid], title)["type"], what)
            if (found is None) != (want is None) or want and (found[1] != want[1] and want[1] != "*"):
                bad.append(f"{uid}-{column}{suffix}: {title}: {what} is {found}, not {want}")
    expect(not bad, "\n".join(bad[:60]))
    return f"{len(facts)} pictures"


def check_seeded():
    """Wrong colours, texts and units in a board are found when it is drawn."""
    sound = dashboard_lint.boards()["roce-port"]
    board = copy.deepcopy(sound)

    def mapping(title, value):
        return dashboard_lint.named(board, title)["fieldConfig"]["defaults"]["mappings"][0]["options"][value]
    mapping("State", "1")["color"] = "green"
    mapping("Physical state", "2")["text"] = "link up"
    dashboard_lint.named(board, "Rate of the link")["fieldConfig"]["defaults"]["unit"] = "Bps"
    dashboard_lint.named(board, "Stopped by PFC now")["fieldConfig"]["defaults"]["thresholds"]["steps"][2]["value"] = 5
    dashboard_lint.named(board, "Routable GIDs")["fieldConfig"]["defaults"]["color"]["mode"] = "palette-classic"
    dashboard_lint.named(board, "FEC")["fieldConfig"]["defaults"]["unit"] = "percent"
    for override in dashboard_lint.named(board, "Flow control and ECN by priority")["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] == "agree":
            for prop in override["properties"]:
                if prop["id"] == "mappings":
                    prop["value"][0]["options"]["0"]["text"] = "yes"
    dashboard_lint.named(board, "RDMA traffic")["targets"][0]["expr"] += " and"
    dashboard_lint.named(board, "What fires for this port")["title"] = "What fires"
    folder = os.path.join(board_data.WORK, "seeded")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "roce-port.json"), "w", encoding="utf-8") as f:
        json.dump(board, f)
    facts = shoot([job("roce-port", "broken", 3600), job("roce-port", "down", 3600)], boards=folder, out=folder)
    found = judge(facts, {"roce-port": sound})
    for want in ("roce-port-down: State: value is 'DOWN', good; not 'DOWN', bad", "roce-port-down: Physical state: value is 'link up', bad; not 'polling: no signal', bad",
                 "roce-port-broken: Rate of the link: value is '100 GB/s'", "roce-port-broken: Stopped by PFC now: value is '97.2%', warn; not '97.2%', bad",
                 "roce-port-down: Routable GIDs: value is '0', good; not '0', bad", "roce-port-broken: FEC: uncorrectable is '4.29%'",
                 "agree@3 is 'yes', bad; not 'NO', bad", "RDMA traffic: query_range", "What fires for this port is not drawn"):
        expect(any(want in text for text in found), lambda want=want: f"seeded `{want}` is not found in:\n" + "\n".join(found))
    return f"{len(found)} findings"
