# SPDX-License-Identifier: Apache-2.0
"""What can be said of dashboards by reading them: queries against the catalog, links, texts, habits that mislead."""
import copy
import json
import os
import re
import urllib.parse

import alert_lint
import alerts
from harness import ROOT, expect

BOARDS = os.path.join(ROOT, "dashboards")
UIDS = ["roce-exporter", "roce-fleet", "roce-host", "roce-mesh", "roce-port", "roce-storage"]
TYPES = {"timeseries", "stat", "gauge", "bargauge", "table", "heatmap"}
UNITS = {"none", "short", "percentunit", "s", "bytes", "Bps", "bps", "cps", "ops", "celsius"}
ANNOTATIONS = {"Link changes", "Restarts", "Firing alerts"}
# What Grafana fills in, as some value of it.
BUILT_IN = {"__rate_interval": "1m", "__interval": "15s", "__range": "1h", "__url_time_range": "from=1&to=2"}
# Series that Prometheus makes itself.
OWN = {"ALERTS": {"alertname", "alertstate", "severity", "component", "device", "port", "netdev", "priority", "reason", "peer", "target_host"}, "scrape_samples_scraped": set(),
       "process_cpu_seconds_total": set()}
# Numbers that no alert has: parts of a whole, and whether there is any.
COMMON = {0, 1, 0.9, 0.99}
# Two weeks, before a certificate ends.
OTHER_LIMITS = {("roce-exporter", "Certificates that end first"): {1209600}}


def boards():
    """{uid: board}"""
    found = {}
    for file in sorted(os.listdir(BOARDS)):
        if file.endswith(".json"):
            with open(os.path.join(BOARDS, file), encoding="utf-8") as f:
                found[file[:-len(".json")]] = json.load(f)
    return found


def panels(board):
    """Panels without rows."""
    return [p for p in board["panels"] if p["type"] != "row"]


def variables(board):
    return [v["name"] for v in board["templating"]["list"]]


def filled(expr, values=None):
    """A query with values for its variables."""
    values = {**BUILT_IN, "job": "roce", "prober_job": "roce_prober", "storage_job": "roce_storage_probe", **(values or {})}

    def one(m):
        name = m.group(1) or m.group(2)
        return values.get(name, "x")
    return re.sub(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)", one, expr)


def queries(board):
    """[(panel, target)]"""
    return [(p, t) for p in panels(board) for t in p.get("targets", [])]


def links_of(panel):
    found = [l["url"] for l in panel.get("links", [])] + [l["url"] for l in panel["fieldConfig"]["defaults"].get("links", [])]
    for override in panel["fieldConfig"].get("overrides", []):
        for prop in override["properties"]:
            if prop["id"] == "links":
                found += [l["url"] for l in prop["value"]]
    return found


def bad_links(board, every):
    bad = []
    for p in panels(board):
        if not links_of(p):
            bad.append((p["title"], "leads nowhere"))
        for url in links_of(p):
            m = re.match(r"\$\{runbooks\}/(.+)\.md$", url)
            if m:
                if m.group(1) != "${__data.fields.alert}" and not os.path.exists(os.path.join(alert_lint.RUNBOOKS, f"{m.group(1)}.md")):
                    bad.append((p["title"], f"there is no runbook {m.group(1)}"))
                continue
            m = re.match(r"/d/([\w-]+)\?(.*)$", url)
            if not m or m.group(1) not in every:
                bad.append((p["title"], f"links to {url}, which is no board"))
                continue
            known = variables(every[m.group(1)])
            bad += [(p["title"], f"links to {m.group(1)} with a variable {name} that it has not")
                    for name in re.findall(r"var-(\w+)=", m.group(2)) if name not in known]
            columns = {prop["matcher"]["options"] for prop in p["fieldConfig"].get("overrides", [])}
            if p["type"] == "table" and not any(t["id"] == "groupingToMatrix" for t in p["transformations"]):
                bad += [(p["title"], f"links by the column {c}, which it does not show") for c in re.findall(r"\$\{__data\.fields\.(\w+)\}", url)
                        if c not in columns | {v for t in p["transformations"] if t["id"] == "organize" for pair in t["options"]["renameByName"].items() for v in pair}]
    return bad


def colours(panel):
    """What makes a panel tell by colour alone, or tell the wrong colour."""
    bad, defaults, options = [], panel["fieldConfig"]["defaults"], panel["options"]
    fields = [defaults] + [{p["id"]: p["value"] for p in o["properties"]} for o in panel["fieldConfig"].get("overrides", [])]
    if panel["type"] in ("stat", "gauge", "bargauge", "table") and defaults.get("color", {}).get("mode") != "thresholds":
        bad.append("has thresholds that give no colour")
    for f in fields:
        for mapping in f.get("mappings", []):
            results = mapping["options"].values() if mapping["type"] == "value" else [mapping["options"]["result"]]
            bad += ["has a state with a colour and no text"] * sum(1 for r in results if r.get("color") and not r.get("text"))
    if panel["type"] == "stat" and options.get("textMode") == "none" or panel["type"] == "bargauge" and options.get("valueMode") == "hidden":
        bad.append("hides its value: colour alone tells it")
    if panel["type"] == "timeseries" and not options["legend"].get("showLegend"):
        bad.append("has no legend: colour alone tells series apart")
    return bad


def numbers(panel):
    found = set()
    for steps in [panel["fieldConfig"]["defaults"].get("thresholds", {})] + [p["value"] for o in panel["fieldConfig"].get("overrides", []) for p in o["properties"] if p["id"] == "thresholds"]:
        found |= {s["value"] for s in steps.get("steps", []) if s["value"] is not None}
    return found


def labels_of(expr, known, recorded):
    """(labels that a result may have, [what is wrong with the selectors])"""
    labels, bad = set(alert_lint.TARGET) | alert_lint.made_labels(expr), []
    for metric, used, follow, before in alert_lint.selectors(expr):
        if metric in recorded:
            own = recorded[metric][1]
        else:
            own = OWN.get(metric, alert_lint.FOREIGN.get(metric, known.get(metric)))
        if own is None:
            bad.append(f"no series is called {metric}")
            continue
        labels |= own
        bad += [f"{metric} has no label {label}" for label in used if label not in own | alert_lint.TARGET]
        if metric.startswith("roce_") and "job" not in used:
            bad.append(f"{metric} has no matcher of a job")
        if metric.endswith("_total"):
            ranged = follow.startswith("[") and re.search(r"(\w+)\s*\(\s*$", before)
            if not (ranged and ranged.group(1) in alert_lint.FUNCTIONS):
                bad.append(f"{metric} is a counter and used as it stands")
    bad += [f"groups by {label}, which nothing in it has" for label in sorted(alert_lint.grouping_labels(expr) - labels)]
    return labels, bad


def lint_query(panel, target, known, recorded):
    expr = target["expr"]
    labels, bad = labels_of(filled(expr), known, recorded)
    in_time = panel["type"] in ("timeseries", "heatmap")
    for window in re.findall(r"(?:rate|increase|changes|delta)\([^()]*\[([^\]]+)\]", expr):
        if in_time and window != "$__rate_interval" and not (window == "$__range" and re.search(r"and (?:increase|changes)\([^()]*\[\$__range\]\) > 0", expr)):
            bad.append(f"a rate over [{window}] in a graph: gaps or steps that hide what is between")
        if not in_time and "$__" in window:
            bad.append(f"a value of now over [{window}], which grows with the time range")
    if in_time and target.get("instant") or not in_time and not target.get("instant"):
        bad.append("a graph asks for a range, all else for one moment")
    if in_time and re.search(r"\b(?:topk|bottomk)\b", expr):
        bad.append("topk in a graph: its members change from step to step")
    legend = target.get("legendFormat", "")
    bad += [f"legend names {label}, which the query has not" for label in re.findall(r"\{\{(\w+)\}\}", legend) if label not in labels]
    if panel["type"] in ("timeseries", "bargauge") and not legend:
        bad.append("has no legend")
    bad += [f"{name} is a detail, the first to be left out at a limit of series" for name in sorted(alert_lint.details()) if re.search(rf"\b{name}\b", expr)]
    return bad


def overlaps(board):
    taken, bad = {}, []
    for p in board["panels"]:
        g = p["gridPos"]
        if g["x"] + g["w"] > 24:
            bad.append((p["title"], "is wider than the board"))
        for x in range(g["x"], g["x"] + g["w"]):
            for y in range(g["y"], g["y"] + g["h"]):
                if taken.setdefault((x, y), p["title"]) != p["title"]:
                    bad.append((p["title"], f"lies over {taken[(x, y)]}"))
                    return bad
    return bad


def lint(every, known, rules):
    """[(board, panel, what is wrong)]"""
    bad, recorded = [], alert_lint.recorded_labels(rules, known)
    limits = {float(t["value"]) for t in alerts.load(os.path.join(alerts.ALERTS, "thresholds.yml"))["thresholds"].values() if isinstance(t["value"], (int, float))}
    if sorted(every) != UIDS:
        bad.append(("", "", f"boards are {sorted(every)}, not {UIDS}"))
    heat = [(uid, p) for uid, b in every.items() for p in panels(b) if p["type"] == "heatmap"]
    if len(heat) > 1:
        bad.append(("", "", "more than one heat map"))
    for uid, p in heat:
        g = p["gridPos"]
        if not any(q["type"] == "timeseries" and q["gridPos"]["y"] == g["y"] and "histogram_quantile" in q["targets"][0]["expr"] for q in panels(every[uid])):
            bad.append((uid, p["title"], "has no quantiles beside it"))
    for uid, board in every.items():
        def say(panel, text):
            bad.append((uid, panel, text))  # noqa: B023: used at once
        if board["uid"] != uid:
            say("", f"its uid is {board['uid']}")
        for key, value in (("editable", False), ("timezone", "browser"), ("refresh", "1m"), ("graphTooltip", 1), ("tags", ["roce"])):
            if board.get(key) != value:
                say("", f"{key} is {board.get(key)}, not {value}")
        if not board.get("description"):
            say("", "has no description")
        if {a["name"] for a in board["annotations"]["list"] if a.get("enable")} != ANNOTATIONS:
            say("", "lacks an annotation of link changes, restarts or firing alerts")
        for name in ("datasource", "job", "prober_job", "runbooks"):
            if name not in variables(board):
                say("", f"has no variable {name}")
        for v in board["templating"]["list"]:
            if v["type"] == "query" and v["refresh"] != 2:
                say("", f"variable {v['name']} stays when the time range changes")
            if v.get("includeAll") and v.get("allValue") != ".+":
                say("", f"All of variable {v['name']} matches series without the label")
        for a in board["annotations"]["list"]:
            for text in labels_of(filled(a["expr"]), known, recorded)[1]:
                say(f"annotation {a['name']}", text)
        for label, found in (("id", [p["id"] for p in board["panels"]]), ("title", [p["title"] for p in board["panels"]])):
            for twice in sorted({x for x in found if found.count(x) > 1}, key=str):
                say("", f"two panels have the {label} {twice}")
        bad += [(uid, *x) for x in overlaps(board)] + [(uid, *x) for x in bad_links(board, every)]
        for p in panels(board):
            title, defaults = p["title"], p["fieldConfig"]["defaults"]
            if p["type"] not in TYPES:
                say(title, f"is of type {p['type']}")
                continue
            for part in ("**Bad:** ", "**Empty:** ", "**Next:** "):
                if part not in p.get("description", ""):
                    say(title, f"its description does not say {part.strip('* :').lower()}")
            if defaults.get("unit") not in UNITS:
                say(title, f"its unit is {defaults.get('unit')}")
            if not defaults.get("noValue"):
                say(title, "does not say what no value is")
            if p.get("datasource", {}).get("uid") != "${datasource}" or any(t["datasource"]["uid"] != "${datasource}" for t in p["targets"]):
                say(title, "does not ask the data source that is chosen")
            if p.get("interval") != "15s":
                say(title, "has no least interval: empty where the data source's own is shorter than the scrapes'")
            for text in colours(p):
                say(title, text)
            for n in sorted(numbers(p) - limits - COMMON - OTHER_LIMITS.get((uid, title), set())):
                say(title, f"has a threshold {n} that no alert has")
            legends = [t.get("legendFormat") for t in p["targets"]]
            if p["type"] in ("timeseries", "bargauge") and len(set(legends)) < len(legends):
                say(title, "two queries have one legend")
            for t in p["targets"]:
                for text in lint_query(p, t, known, recorded):
                    say(title, f"{t['refId']}: {text}")
    return bad


def all_expressions():
    for uid, board in boards().items():
        for p, t in queries(board):
            yield f"{uid} {p['title']} {t['refId']}", t["expr"]
        for a in board["annotations"]["list"]:
            yield f"{uid} annotation {a['name']}", a["expr"]


def check():
    every = boards()
    bad = lint(every, alert_lint.catalog(), alerts.rules())
    expect(not bad, "\n".join(": ".join(x for x in b if x) for b in bad))
    path = os.path.join(alerts.WORK, "boards.yml")
    os.makedirs(alerts.WORK, exist_ok=True)
    found = list(all_expressions())
    with open(path, "w", encoding="utf-8") as f:
        alerts.yaml.safe_dump({"groups": [{"name": "boards", "rules": [{"record": f"board:{i}:of", "expr": filled(e)} for i, (_, e) in enumerate(found)]}]}, f)
    alerts.command("promtool", "check", "rules", path)
    return f"{len(every)} boards, {sum(len(panels(b)) for b in every.values())} panels, {len(found)} queries"


def check_alert_links():
    """The board that each alert names is there, with the variables that its address sets."""
    every, bad = boards(), []
    for name, rule in alerts.alert_rules().items():
        url = urllib.parse.urlsplit(re.sub(r"\{\{.*?\}\}", "x", rule["annotations"]["dashboard_url"]))
        uid = url.path.rsplit("/", 1)[-1]
        if uid not in every:
            bad.append(f"{name}: no board {uid}")
            continue
        bad += [f"{name}: {uid} has no variable {key}" for key in urllib.parse.parse_qs(url.query) if key.removeprefix("var-") not in variables(every[uid])]
    expect(not bad, "\n".join(bad))
    return f"{len(alerts.alert_rules())} alerts"


def named(board, title):
    return next(p for p in panels(board) if p["title"] == title)


def check_seeded():
    """The lint finds what is seeded into sound boards."""
    known, rules, sound = alert_lint.catalog(), alerts.rules(), boards()
    port, ports = "roce-port", "State"

    def on(title, change, uid=port):
        return lambda b: change(named(b[uid], title))

    def target(title, old, new, uid=port):
        def change(p):
            t = next(t for t in p["targets"] if old in t["expr"])
            t["expr"] = t["expr"].replace(old, new)
        return on(title, change, uid)
    seeds = [
        ("no series is called roce_port_stat", target(ports, "roce_port_state", "roce_port_stat")),
        ("has no label rail", target(ports, "device=", "rail=")),
        ("has no matcher of a job", target(ports, 'job="$job",', "")),
        ("used as it stands", on("FEC", lambda p: p["targets"][0].update(expr='roce_fec_blocks_total{job="$job"}'))),
        ("a rate over [5m] in a graph", target("FEC", "$__rate_interval", "5m")),
        ("which grows with the time range", target("Stopped by PFC now", "2m", "$__rate_interval")),
        ("topk in a graph", on("FEC", lambda p: p["targets"][0].update(expr="topk(3, " + p["targets"][0]["expr"] + ")"))),
        ("legend names lane", on("FEC", lambda p: p["targets"][0].update(legendFormat="{{lane}}"))),
        ("is a detail", target("FEC", "roce_fec_blocks_total", "roce_cm_messages_total")),
        ("two queries have one legend", on("RDMA traffic", lambda p: p["targets"][0].update(legendFormat="sent"))),
        ("groups by lane", on("FEC", lambda p: p["targets"][0].update(expr="sum by (lane) (" + p["targets"][0]["expr"] + ")"))),
        ("its unit is events", on("FEC", lambda p: p["fieldConfig"]["defaults"].update(unit="events/s"))),
        ("thresholds that give no colour", on(ports, lambda p: p["fieldConfig"]["defaults"].update(color={"mode": "palette-classic"}))),
        ("a colour and no text", on(ports, lambda p: p["fieldConfig"]["defaults"]["mappings"][0]["options"]["1"].update(text=""))),
        ("colour alone tells it", on(ports, lambda p: p["options"].update(textMode="none"))),
        ("has a threshold 0.07", on("Stopped by PFC now", lambda p: p["fieldConfig"]["defaults"]["thresholds"]["steps"][1].update(value=0.07))),
        ("does not say empty", on(ports, lambda p: p.update(description=p["description"].replace("**Empty:**", "")))),
        ("does not say what no value is", on(ports, lambda p: p["fieldConfig"]["defaults"].pop("noValue"))),
        ("leads nowhere", on(ports, lambda p: p.update(links=[]))),
        ("there is no runbook", on(ports, lambda p: p["links"][1].update(url="${runbooks}/RoceNone.md"))),
        ("is no board", on(ports, lambda p: p["links"][0].update(url="/d/roce-rack?x"))),
        ("a variable rack that it has not", on(ports, lambda p: p["links"][0].update(url="/d/roce-host?var-rack=1"))),
        ("has no least interval", on(ports, lambda p: p.pop("interval"))),
        ("lies over", on(ports, lambda p: p["gridPos"].update(x=4))),
        ("two panels have the id", on(ports, lambda p: p.update(id=1))),
        ("is of type graph", on(ports, lambda p: p.update(type="graph"))),
        ("more than one heat map", on("FEC", lambda p: p.update(type="heatmap"))),
        ("lacks an annotation", lambda b: b[port]["annotations"]["list"].pop()),
        ("editable is True", lambda b: b[port].update(editable=True)),
        ("not ['roce-exporter'", lambda b: b.pop("roce-fleet")),
    ]
    for want, seed in seeds:
        changed = copy.deepcopy(sound)
        seed(changed)
        found = [": ".join(x) for x in lint(changed, known, rules)]
        expect(any(want in t for t in found), f"seeded `{want}`: the lint says {found[:5]}")
    return f"{len(seeds)} seeds"
