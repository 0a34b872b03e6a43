# SPDX-License-Identifier: Apache-2.0
"""From the fault to the person: a fault is injected into the lab; the real Prometheus with the shipped rules and the real
Alertmanager with the shipped routes notify a receiver. The alert that comes has to be the one of the cause, on its object,
and nothing comes that the fault does not imply. What came, and when, is written to build/tests/e2e/matrix.tsv.

Which alert tells which fault: tests/alerts/faults.tsv. Which faults imply others: tests/lab/faults/map.tsv. What is only of
this matrix: matrix.tsv beside this file."""
import contextlib
import csv
import os
import re
import statistics
import sys
import tempfile
import threading
import time

import alert_routing
import alerts
import core
import e2e
import fault_map
from harness import BUILD, ROOT, Row, command, expect

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(BUILD, "tests", "e2e", "matrix.tsv")
CRITICAL_SECONDS = 60  # from the fault to the receiver, at a scrape and an evaluation each 15 s
JOBS = {"roce": 14791, "roce_prober": 14792}
NODES = (1, 2)
# Round trips of an emulated lab are a thousand times those of a fabric, and its processes wait as long: what fleets that
# are slower than most would set, too.
THRESHOLDS = {"latency_objective": "1.28,1.28 s", "scheduler_lag": "1,1 s"}
# Tickets that are true of an emulated lab at any time: its machines stall for moments, and its simulated RNICs have every
# counter of the catalog at once.
EMULATED = {"RoceProbeLatencyShift", "RoceProbeTailLatency", "RoceSeriesDropped", "Watchdog"}


def table(path):
    with open(path, encoding="utf-8") as f:
        return list(csv.DictReader((l for l in f if not l.startswith("#")), delimiter="\t"))


def told_by():
    return {r["fault"]: (r["alerts"] or "").split(",") for r in table(os.path.join(ROOT, "tests", "alerts", "faults.tsv"))}


def expectations():
    return {r["fault"]: r for r in table(os.path.join(HERE, "matrix.tsv"))}


def implied(fault):
    """Alerts that a fault may bring: its own, and those of the faults that come with it."""
    own = told_by()
    faults = {fault} | {w for r in fault_map.load() if r["fault"] == fault for w in r["implies"]}
    row = expectations().get(fault)
    more = set((row["may_come"] or "").split(",")) if row else set()
    return {a for f in faults for a in own.get(f, [])} | more | EMULATED


class Alerting:
    """Prometheus, Alertmanager and a receiver over the lab. `interval` in seconds, of scrapes and of evaluations."""

    def __init__(self, interval=15):
        self.interval = interval

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="roce-rules-"))
        command(sys.executable, os.path.join(alerts.ALERTS, "src", "generate.py"), "--to", folder, *[w for k, v in THRESHOLDS.items() for w in ("--set", f"{k}={v}")])
        self.receiver = self.stack.enter_context(alert_routing.Receiver())
        self.manager = self.stack.enter_context(alert_routing.alertmanager(self.receiver.port, speed=1))
        config = {
            "global": {"scrape_interval": f"{self.interval}s", "scrape_timeout": f"{min(self.interval, 10)}s", "evaluation_interval": f"{self.interval}s"},
            "rule_files": [os.path.join(folder, "rules", "*.yml")],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [self.manager.removeprefix("http://")]}]}]},
            "scrape_configs": [
                {"job_name": job, "static_configs": [
                    {"targets": [core.lab("url", n, port).strip().removeprefix("http://")], "labels": {"host": f"node{n}"}} for n in NODES]}
                for job, port in JOBS.items()],
        }
        self.prometheus = self.stack.enter_context(e2e.Prometheus([], config=config))
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def firing(self):
        return sorted({(s["metric"]["alertname"], s["metric"].get("host", ""), s["metric"].get("device", ""))
                       for s in self.prometheus.query('ALERTS{alertstate="firing",alertname!="Watchdog"}')})

    def begin(self, scrapes=5):
        """Waits for a healthy past. Probers begin anew: an alarm of loss ends ten minutes after what brought it."""
        for node in NODES:
            core.inside(node, "systemctl restart roce-prober", timeout=90)
        core.until("all targets are scraped", lambda: len(self.prometheus.query(f"count_over_time(up[1h]) >= {scrapes} and up == 1")) == len(JOBS) * len(NODES),
                   scrapes * self.interval + 90)
        core.until("nothing fires", lambda: not [f for f in self.firing() if f[0] not in EMULATED], 90)

    def arrived(self):
        """[(seconds of the clock, receiver, labels, annotations)] in the order of arrival, each alert once each time that it fires."""
        out, seen = [], set()
        for receiver, body in list(self.receiver.got):
            for a in body["alerts"]:
                key = (a["startsAt"], *sorted(a["labels"].items()))
                if a["status"] == "firing" and key not in seen:
                    seen.add(key)
                    out.append((receiver, a["labels"], a["annotations"]))
        return out


@contextlib.contextmanager
def traffic():
    """Storage traffic of node 1, as long as the body runs."""
    stop = threading.Event()

    def loop():
        while not stop.is_set():
            with contextlib.suppress(Exception):
                fault_map.busy()
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(90)


def inject(watch, fault, linger=20, left=()):
    """Injects one fault, waits for its alert, heals it. Tickets in `left` are what earlier faults may leave behind. Returns
    the seconds it took and all that came."""
    row = expectations()[fault]
    causes = row["alert"].split("|")
    node = int(row["node"])
    severity = alerts.alert_rules()[causes[0]]["labels"]["severity"]
    wanted = {}
    for pair in filter(None, (row["labels"] or "").split(",")):
        name, text = pair.split("=", 1)
        wanted[name] = {"SOFT": core.SOFT, "RNIC": "mlx5_0"}.get(text, text)
    before = len(watch.arrived())
    with contextlib.ExitStack() as stack:
        if row["needs"] == "traffic":
            stack.enter_context(traffic())
        start = time.monotonic()
        core.lab("fault", fault, node, "on")
        try:
            def cause():
                for receiver, labels, annotations in watch.arrived()[before:]:
                    if labels["alertname"] in causes and all(labels.get(k) == v for k, v in wanted.items()):
                        return receiver, labels, annotations
                return None
            deadline = start + float(row["seconds"] or 180)
            while (found := cause()) is None:
                expect(time.monotonic() < deadline, lambda: f"{fault}: {causes} on {wanted} did not come; came: "
                       f"{[(r, l['alertname'], l.get('host'), l.get('device')) for r, l, _ in watch.arrived()[before:]]}; firing: {watch.firing()}")
                time.sleep(0.5)
            took = time.monotonic() - start
            time.sleep(linger)
        finally:
            core.lab("fault", fault, node, "off")
    receiver, labels, annotations = found
    came = watch.arrived()[before:]
    expect(receiver == alert_routing.RECEIVER[severity], f"{fault}: {labels['alertname']} went to {receiver}")
    text = annotations["summary"] + " " + annotations["description"]
    for fragment in [f"node{row['shown'] or node}"] + ([wanted["device"]] if "device" in wanted else []) + [t for t in (row["text"] or "").split("|") if t]:
        expect(fragment in text, f"{fault}: the text does not say {fragment}: {text}")
    expect("{{" not in text and "<no value>" not in text and "%!" not in text, f"{fault}: {text}")
    others = [(r, l["alertname"], l.get("host", ""), l.get("device", "")) for r, l, _ in came
              if l["alertname"] not in implied(fault) and (r != "ticket" or l["alertname"] not in left)]
    expect(not others, f"{fault}: what it does not imply came too: {others}")
    pages = [l["alertname"] for r, l, _ in came if r == "page"]
    if severity == "critical":
        expect(pages[:1] and pages[0] in causes + told_by()[fault], f"{fault}: the first page was {pages[:1]}")
    note(fault, labels, took, came)
    return severity, took, came


def note(fault, labels, took, came):
    os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
    new = not os.path.exists(RESULTS)
    with open(RESULTS, "a", encoding="utf-8") as f:
        if new:
            f.write("fault\talert\tobject\tseconds\tall that came\n")
        where = "/".join(labels.get(k, "") for k in ("host", "device", "port"))
        all_came = ", ".join(sorted({f"{r}:{l['alertname']}" for r, l, _ in came}))
        f.write("\t".join([fault, labels.get("alertname", ""), where, f"{took:.0f}", all_came]) + "\n")


def benign(watch, event, seconds=60):
    """An event that pages nobody, and brings no ticket either unless matrix.tsv allows it."""
    row = expectations()[event]
    before = len(watch.arrived())
    start = time.monotonic()
    core.lab("fault", event, int(row["node"]), "on")
    try:
        time.sleep(seconds)
    finally:
        core.lab("fault", event, int(row["node"]), "off")
    time.sleep(seconds / 2)
    allowed = implied(event)
    came = watch.arrived()[before:]
    bad = [(r, l["alertname"], l.get("host", ""), l.get("device", "")) for r, l, _ in came if l["alertname"] not in allowed or r == "page"]
    expect(not bad, f"{event}: came: {bad}")
    note(event, {}, time.monotonic() - start, came)


def several(faults, interval):
    """Faults one after the other under one Prometheus; each alert counts from its own fault on."""
    with Alerting(interval) as watch:
        watch.begin()
        took, left = {}, set()
        for fault in faults:
            if fault.startswith("B"):
                benign(watch, fault, 30)
            else:
                took[fault] = inject(watch, fault, linger=3 * interval, left=left)[1]
                fault_map.settle(fault, 1)
                left |= implied(fault)
    return ", ".join(f"{f} {s:.0f} s" for f, s in took.items())


_times = {}


def one(fault):
    """A fault under a Prometheus of its own, at the intervals of a fleet."""
    with Alerting() as watch:
        watch.begin()
        if fault.startswith("B"):
            benign(watch, fault, 120)
            return None
        severity, took, came = inject(watch, fault)
    fault_map.settle(fault, 1)
    if severity == "critical":
        _times[fault] = took
    return f"{took:.0f} s, {len(came)} alerts came"


def in_time():
    """Critical faults reach the receiver within a minute."""
    expect(_times, "no critical fault was injected")
    slow = {f: t for f, t in _times.items() if t > CRITICAL_SECONDS}
    expect(not slow, f"too late: {slow}")
    return f"{len(_times)} critical faults: median {statistics.median(_times.values()):.0f} s, maximum {max(_times.values()):.0f} s"


SMOKE = ("B02", "F26", "F36", "F01", "F08", "F04")


def rows(tag, full_only=False):
    def row(name, what, run, only_full=False):
        return Row(f"{tag}-{name}", what, run, full_only=full_only or only_full, alone=True)
    out = [row("smoke", f"{' '.join(SMOKE)} reach the receiver, or nobody", lambda: several(SMOKE, 5))]
    for fault in expectations():
        what = "pages nobody" if fault.startswith("B") else "reaches the receiver as the right alert on the right object"
        out.append(row(fault, f"{fault} {what}", lambda f=fault: one(f), only_full=True))
    out.append(row("in-time", "critical faults arrive within a minute", in_time, only_full=True))
    return out
