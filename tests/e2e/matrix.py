# SPDX-License-Identifier: Apache-2.0
"""From the fault to the person: a fault is injected into the lab; the real Prometheus with the shipped rules and the real
Alertmanager with the shipped routes notify a receiver. The alert that comes has to be the one of the cause, on its object,
and nothing comes that the fault does not imply. What came, and when, is written to build/tests/e2e/matrix.tsv.

Which alert tells which fault: tests/alerts/faults.tsv. Which faults imply others: tests/lab/faults/map.tsv. What is only of
this matrix: matrix.tsv beside this file."""
import contextlib
import csv
import os
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
from score import Score

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(BUILD, "tests", "e2e", "matrix.tsv")
CRITICAL_SECONDS = 60  # from the fault to the receiver, at a scrape and an evaluation each 15 s
CRITICAL = ("F04", "F08", "F18", "F26", "F31", "F40")  # whose alerts wait for nothing but a second bad scrape
SET_UP_FIRST = ("F18",)  # makes a connection first; the fault is the last that the script does
JOBS = {"roce": 14791, "roce_prober": 14792}
FEW, MANY = 2, 3  # machines: enough for most faults; of two that do not reach each other none can tell which one is to blame
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


def needs(fault):
    return [w for w in (expectations()[fault]["needs"] or "").split(",") if w]


class Alerting:
    """Prometheus, Alertmanager and a receiver over the lab. `interval` in seconds, of scrapes and of evaluations."""

    def __init__(self, interval=15, nodes=FEW):
        self.interval, self.nodes = interval, range(1, nodes + 1)

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
                    {"targets": [core.lab("url", n, port).strip().removeprefix("http://")], "labels": {"host": f"node{n}"}} for n in self.nodes]}
                for job, port in JOBS.items()],
        }
        self.prometheus = self.stack.enter_context(e2e.Prometheus([], config=config))
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def firing(self):
        return sorted({(s["metric"]["alertname"], s["metric"].get("host", ""), s["metric"].get("device", ""))
                       for s in self.prometheus.query('ALERTS{alertstate="firing",alertname!="Watchdog"}')})

    def begin(self, fault=None, scrapes=5):
        """Waits for a healthy past. Probers begin anew: an alarm of loss ends ten minutes after what brought it."""
        for node in self.nodes:
            core.inside(node, "systemctl restart roce-prober", timeout=90)
        targets = len(JOBS) * len(self.nodes)
        core.until("all targets are scraped", lambda: len(self.prometheus.query(f"count_over_time(up[1h]) >= {scrapes} and up == 1")) == targets, scrapes * self.interval + 90)
        causes = expectations()[fault]["alert"].split("|") if fault and expectations()[fault]["alert"] else []
        if any("[6h:5m]" in text for c in causes for text in [alerts.alert_rules()[c]["expr"]]):
            # What is compared with its past is so at each fifth minute of the clock.
            core.until("the past has a fifth minute", lambda: len(self.prometheus.query("count_over_time((up offset 1m == 1)[1h:5m]) >= 1")) == targets, 360)
        if fault and "learned" in needs(fault):
            core.until("probers know what is usual", lambda: self.prometheus.query('roce_probe_baseline_rtt_seconds{host="node1",qos="storage"} > 0'), 3600)
        core.until("nothing fires", lambda: not [f for f in self.firing() if f[0] not in EMULATED - set(causes)], 600 if fault and "learned" in needs(fault) else 90)

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


@contextlib.contextmanager
def prepared(fault):
    """What a fault needs to show, before it comes and while it is there."""
    fault_map.prepare(fault, int(expectations()[fault]["node"]))
    try:
        with traffic() if "traffic" in needs(fault) else contextlib.nullcontext():
            yield
    finally:
        fault_map.clear(fault)


score = Score()


def others(came, allowed, left=()):
    """Of what came, what nothing explains: [text]."""
    return [f"{receiver}: {l['alertname']} {l.get('host', '')} {l.get('device', '')}".rstrip() for receiver, l, _ in came
            if l["alertname"] not in allowed and (receiver != "ticket" or l["alertname"] not in left)]


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

    def cause():
        for receiver, labels, annotations in watch.arrived()[before:]:
            if labels["alertname"] in causes and all(labels.get(k) == v for k, v in wanted.items()):
                return receiver, labels, annotations
        return None
    start = time.monotonic()
    core.lab("fault", fault, node, "on")
    if fault in SET_UP_FIRST:
        start = time.monotonic()
    try:
        while (found := cause()) is None and time.monotonic() < start + float(row["seconds"] or 180):
            time.sleep(0.5)
        took = time.monotonic() - start
        firing = watch.firing()
        time.sleep(linger if found else 0)
    finally:
        core.lab("fault", fault, node, "off")
    came = watch.arrived()[before:]
    wrong = others(came, implied(fault), left)
    bad = [f"what it does not imply came too: {wrong}"] if wrong else []
    if found is None:
        bad.append(f"{causes} on {wanted} did not come; came: {others(came, ())}; firing: {firing}")
    else:
        receiver, labels, annotations = found
        text = annotations["summary"] + " " + annotations["description"]
        said = [f"node{row['shown'] or node}"] + ([wanted["device"]] if "device" in wanted else []) + [t for t in (row["text"] or "").split("|") if t]
        bad += [f"the text does not say {fragment}: {text}" for fragment in said if fragment not in text]
        bad += [f"the text is {text}"] if any(w in text for w in ("{{", "<no value>", "%!")) else []
        bad += [f"{labels['alertname']} went to {receiver}"] if receiver != alert_routing.RECEIVER[severity] else []
        pages = [l["alertname"] for r, l, _ in came if r == "page"]
        if severity == "critical" and (not pages or pages[0] not in causes + told_by()[fault]):
            bad.append(f"the first page was {pages[:1]}")
        note(fault, labels, took, came)
    score.fault(fault, found is not None and not [b for b in bad if not b.startswith("what it")], len(came) - len(wrong), wrong)
    expect(not bad, f"{fault}: " + "\n".join(bad))
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
        if "restart" in needs(event):  # Prometheus itself is away for two minutes
            watch.prometheus.stop()
            time.sleep(120)
            watch.prometheus.start()
        time.sleep(seconds)
    finally:
        core.lab("fault", event, int(row["node"]), "off")
    time.sleep(seconds / 2)
    came = watch.arrived()[before:]
    wrong = others([c for c in came if c[0] == "page"], ()) + others([c for c in came if c[0] != "page"], implied(event))
    score.event(event, len(came) - len(wrong), wrong)
    expect(not wrong, f"{event}: came: {wrong}")
    note(event, {}, time.monotonic() - start, came)


def several(faults, interval):
    """Faults one after the other under one Prometheus; each alert counts from its own fault on."""
    with Alerting(interval) as watch:
        watch.begin()
        took, left = {}, set()
        for fault in faults:
            if not expectations()[fault]["alert"]:
                benign(watch, fault, 30)
            else:
                with prepared(fault):
                    took[fault] = inject(watch, fault, linger=3 * interval, left=left)[1]
                fault_map.settle(fault, 1)
                left |= implied(fault)
    return ", ".join(f"{f} {s:.0f} s" for f, s in took.items())


_times = {}


def one(fault, nodes=FEW):
    """A fault under a Prometheus of its own, at the intervals of a fleet."""
    with prepared(fault), Alerting(nodes=nodes) as watch:
        watch.begin(fault)
        if not expectations()[fault]["alert"]:
            benign(watch, fault, 240)
            return None
        severity, took, came = inject(watch, fault)
    fault_map.settle(fault, 1)
    if fault in CRITICAL:
        _times[fault] = took
    return f"{severity}, {took:.0f} s, {len(came)} alerts came"


def again_and_again(fault, nodes=FEW, times=20):
    """Each time the first and only page is the root cause."""
    row, took, bad = expectations()[fault], [], []
    with prepared(fault), Alerting(nodes=nodes) as watch:
        for n in range(times):
            watch.begin(fault)
            before = len(watch.arrived())
            took.append(inject(watch, fault, linger=60)[1])
            fault_map.settle(fault, 1)
            pages = [l["alertname"] for r, l, _ in watch.arrived()[before:] if r == "page"]
            if len(pages) != 1 or pages[0] not in row["alert"].split("|"):
                bad.append(f"run {n + 1}: {pages}")
            time.sleep(70)  # the group is told that it is over; what comes then begins a new one
    expect(not bad, f"{fault}: pages other than one of {row['alert']}:\n" + "\n".join(bad))
    return f"{times} runs, one page each: median {statistics.median(took):.0f} s, maximum {max(took):.0f} s"


def in_time():
    """Critical faults reach the receiver within a minute."""
    expect(_times, f"none of {' '.join(CRITICAL)} was told")
    slow = {f: t for f, t in _times.items() if t > CRITICAL_SECONDS}
    expect(not slow, f"too late: {slow}")
    return f"{' '.join(_times)}: median {statistics.median(_times.values()):.0f} s, maximum {max(_times.values()):.0f} s"


SMOKE = ("B02", "F26", "F08", "F04")


AGAIN = ("F04", "F06")


def rows(tag, full_only=False, nodes=FEW):
    """Rows of the faults that so many machines can show; the last ones judge all that ran."""
    def row(name, what, run, only_full=False):
        return Row(f"{tag}-{name}", what, run, full_only=full_only or only_full, alone=True)
    out = [row("smoke", f"{' '.join(SMOKE)} reach the receiver, or nobody", lambda: several(SMOKE, 5))] if nodes == FEW else []
    mine = [f for f in expectations() if ("three" in needs(f)) == (nodes == MANY)]
    for fault in mine:
        what = "reaches the receiver as the right alert on the right object" if expectations()[fault]["alert"] else "pages nobody"
        out.append(row(fault, f"{fault} {what}", lambda f=fault: one(f, nodes), only_full=True))
    for fault in AGAIN:
        if fault in mine:
            out.append(row(f"{fault}-20", f"{fault} twenty times: the first and only page is the cause", lambda f=fault: again_and_again(f, nodes), only_full=True))
    return out


def verdict_rows(tag):
    return [Row(f"{tag}-in-time", "critical faults of links arrive within a minute", in_time, full_only=True, alone=True),
            Row(f"{tag}-score", "over all rows: recall and precision", score.check, full_only=True, alone=True)]
