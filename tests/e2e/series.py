# SPDX-License-Identifier: Apache-2.0
"""From made series to the person: every alert's smallest event, and what has to be told to nobody, each on hosts of its own and
all at once. A real Prometheus with the shipped rules has their past as blocks and scrapes their present, 15 s by 15 s; the real
Alertmanager with the shipped routes notifies a receiver. Each alert has to come on its objects, with its words, to who has to
have it, and nothing else may come.

The events are those of tests/alerts/cases and of alerts.benign(). Hosts that no machine of the lab can be are made trees with
the real exporter on them. What came, and when, is written to build/tests/e2e/series.tsv.

    tests/e2e/series.py ALERT...   plays the events of these alerts alone, until they came"""
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import urllib.request

if __name__ == "__main__":
    sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), folder) for folder in ("support", "lab/tests")]
import alert_routing
import alerts
import e2e
import exporter
import made_faults
import page_server
import trees
from harness import BUILD, ROOT, Row, command, expect
from score import Score

RESULTS = os.path.join(BUILD, "tests", "e2e", "series.tsv")
STEP = alerts.STEP
LEAD = 300           # seconds of the present before an alert's wait may begin
LEADS = {"RoceStorageReadFailing": 960,  # only the memory of its rules knows where the namespace was
         # Their days are looked at once an hour, at the full hour: when they fire depends on the minute at which this runs. Two
         # hours further on they do at any.
         "RoceProbeLossBurnSlow": -7200, "RoceProbeLatencyBurnSlow": -7200}
PRESENT = 19 * 60    # seconds: the longest wait of an alert and of the routes
WRITING = 240        # seconds for writing the past
WRITING_FEW = 45     # the same, of a few plays
PAST = 6 * 3600      # seconds of a healthy past before a case begins
# What needs a Prometheus of its own: promtool shows it.
ALONE = {"RoceExportersAbsent": "fires when no exporter is scraped at all"}
# What compares a host with its fleet has a fleet, and a Prometheus, of its own: among the hosts of all cases anything may differ.
FLEET = {"RoceProbeNodeOutlier", "RoceNodeLossOutlier"}


def counter(name):
    return name.endswith(("_total", "_bucket", "_count", "_sum"))


class Play:
    """Series of an event in time: sample i is at `start` + i * step. Before the first one all was as at the first."""

    def __init__(self, tag, data, step, live, past=PAST):
        self.tag, self.step, self.live, self.past = tag, step, live, past
        self.series = alerts.apart(tag, data)
        self.start = None
        self.fleet = tag in FLEET

    def begin(self, now):
        self.start = now - self.live * self.step

    def value(self, name, values, when):
        """The value at that time; None where the series is not there. Counters go on between two samples."""
        at = (when - self.start) / self.step
        last = len(values) - 1
        i = min(max(int(at), 0), last)
        low, high = values[i], values[min(i + 1, last)]
        if low is None:
            return None
        if name.endswith("_timestamp_seconds"):
            return low + self.start
        if not counter(name):
            return low
        pace = values[1] - values[0] if None not in values[:2] else 0
        step = pace if at < 0 else high - low if high is not None and high >= low else 0
        seen = [v for v in values[:i + 1] if v is not None]
        begun = 0 if any(b < a for a, b in zip(seen, seen[1:])) else pace * self.past / self.step  # in its past it may not be below 0
        return low + step * (at - i) + begun

    def targets(self):
        """{(job, instance, host): {(name, labels): values}}"""
        found = {}
        for (name, labels), values in self.series.items():
            labels = dict(labels)
            key = (labels.pop("job"), labels.pop("instance"), labels.pop("host", ""))
            found.setdefault(key, {})[(name, tuple(labels.items()))] = values
        return found


def line(name, labels, value, when=None):
    text = f"{name}{{{','.join(f'{k}={json.dumps(v)}' for k, v in labels)}}} {alerts.number(value) if abs(value) < 1e15 else repr(value)}"
    return text if when is None else f"{text} {when:.3f}"


class Pages:
    """One server with a page for each target, by its number."""

    def __init__(self, plays):
        self.targets = {}
        for play in plays:
            for key, series in play.targets().items():
                expect(key not in self.targets, f"two plays have {key}")
                self.targets[key] = (play, series)

    def page(self, key):
        """The text, and how long it takes; None where the target does not answer."""
        play, series = self.targets[key]
        now, lines, wait = time.time(), [], 0
        for (name, labels), values in series.items():
            value = play.value(name, values, now)
            if name == "up":
                if not value:
                    return None, 0
            elif name == "scrape_duration_seconds":
                wait = value if value and value > 1 else 0
            elif value is not None:
                lines.append(line(name, labels, value))
        if key[0] == alerts.BASE["job"] and not any(name == "roce_exporter_build_info" for name, _ in series):
            lines.append('roce_exporter_build_info{version="1"} 1')
        return "\n".join(lines) + "\n", wait

    def jobs(self, fleet):
        out = {}
        for number, (job, instance, host) in enumerate(self.targets):
            if self.targets[job, instance, host][0].fleet != fleet:
                continue
            labels = {"instance": instance, "__metrics_path__": f"/{number}"}
            out.setdefault(job, []).append({"targets": [self.address], "labels": labels | ({"host": host} if host else {})})
        return out

    def __enter__(self):
        keys = list(self.targets)

        def answer(path):
            text, wait = self.page(keys[int(path[1:])])
            time.sleep(wait)
            return text
        self.server = page_server.PageServer(answer)
        self.address = self.server.address
        return self

    def __exit__(self, *_):
        self.server.close()


def write_past(pages, fleet, until, data, more):
    """What Prometheus knows when it begins: blocks of all that was until then. `more`: {(name, labels): [(time, value)]}"""
    by_name = {}
    for (job, instance, host), (play, series) in pages.targets.items():
        if play.fleet != fleet:
            continue
        whole = [("job", job), ("instance", instance)] + ([("host", host)] if host else [])
        begin = play.start - play.past
        every = 60 if play.past <= PAST else 240
        times = [begin + every * i for i in range(int((until - 600 - begin) / every))]
        times += [until - 600 + STEP * i for i in range(600 // STEP)]
        up = next((v for (name, _), v in series.items() if name == "up"), None)
        there = [t for t in times if up is None or play.value("up", up, t)]
        for (name, labels), values in series.items():
            if name == "up":
                samples = [(t, play.value(name, values, t)) for t in times]
            else:
                samples = [(t, play.value(name, values, t)) for t in there]
            by_name.setdefault(name, []).append((whole + list(labels), [(t, v) for t, v in samples if v is not None]))
    for (name, labels), samples in more.items():
        by_name.setdefault(name, []).append((list(labels), samples))
    path = os.path.join(data, "past.om")
    os.makedirs(data, exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        for name, rows in by_name.items():
            for labels, samples in rows:
                f.writelines(line(name, labels, v, t) + "\n" for t, v in samples)
        f.write("# EOF\n")
    command("promtool", "tsdb", "create-blocks-from", "openmetrics", path, data, timeout=900)
    os.remove(path)
    # Recorded series that alerts look at far back.
    every = {r["record"]: r for _, _, r in alerts.rules() if "record" in r}
    wanted = {n for r in alerts.alert_rules().values() for n in re.findall(r"([a-z_]+:[\w:]+)\[\d+[hd]:", r["expr"])}
    path = os.path.join(data, "records.yml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"groups": [{"name": "past", "interval": "60s", "rules": [every[n] for n in sorted(wanted)]}]}, f)
    begin = min(play.start - play.past for play, _ in pages.targets.values() if play.fleet == fleet and play.past <= PAST)
    with e2e.Prometheus([], config={}, data=data) as server:
        command("promtool", "tsdb", "create-blocks-from", "rules", f"--start={begin:.0f}", f"--end={until:.0f}", f"--url=http://127.0.0.1:{server.port}",
                "--eval-interval=60s", f"--output-dir={data}", path, timeout=900)
    os.remove(path)


# What is played ----------------------------------------------------------------------------------------------------------


class Told:
    """An alert that has to come: its labels, and its words; of hosts as its case calls them."""

    def __init__(self, name, alert):
        self.name = name
        self.labels = {"alertname": name, **alert["labels"]}
        self.words = {k: v for k, v in alert.items() if k != "labels"}
        self.receiver = "watchdog" if name == "Watchdog" else alert_routing.RECEIVER[alerts.alert_rules()[name]["labels"]["severity"]]


def told_by():
    """{alert: faults that it tells}"""
    found = {}
    for fault, (names, _) in alerts.faults().items():
        for name in names:
            found.setdefault(name, []).append(fault)
    return found


def events():
    """[(play, [Told])] of each alert's event; and those that have been pending for all but five minutes when Prometheus begins,
    as after its restart: {Told: seconds}."""
    out, pending = [], {}
    for name, case in alerts.cases().items():
        if name in ALONE:
            continue
        found, step, hold = alerts.expected()[name], case.get("step", STEP), alerts.seconds(alerts.alert_rules()[name].get("for", "0s"))
        long = hold > 600
        live = max(0, (found["first"] - (0 if long else hold) - LEADS.get(name, LEAD)) / step) if not case.get("always") else 0
        # Cases of days hold their own past: they are about how much of it is bad.
        play = Play(name, alerts.series_of(case, case["event"]), step, live, past=0 if "step" in case else PAST)
        wanted = [Told(name, a) for a in found["alerts"]]
        pending.update({told: hold - LEAD for told in wanted if long})
        out.append((play, wanted))
    return out, pending


def benign():
    """What has to be told to nobody, with every series of every case. A restart of Prometheus itself is the lab's."""
    live = alerts.WHOLE // 2 - 25
    return [Play(tag, data, STEP, live, past=24 * 3600 if tag.startswith("B08") else 3600) for tag, data in alerts.benign_hosts().items() if tag != "B04-prometheus-restart"]


# Made trees, with the real exporter --------------------------------------------------------------------------------------


def no_counters(root):
    for device in (made_faults.DEVICE, made_faults.SIBLING):
        for folder in ("counters", "hw_counters"):
            shutil.rmtree(os.path.join(root, "sys", "class", "infiniband", device, "ports", "1", folder))


def slower(root):
    for device in (made_faults.DEVICE, made_faults.SIBLING):
        trees.write(os.path.join(root, "sys", "class", "infiniband", device, "ports", "1", "rate"), "200 Gb/sec (4X HDR)")
    profile(root, "rate: 200")


def profile(root, *lines):
    devices = "".join(f'  - pci_address: "0000:01:0{n}.0"\n' + "".join(f"    {l}\n" for l in lines) for n in range(2))
    trees.write(os.path.join(root, "profile.yml"), f"devices:\n{devices}")


def never_cabled(root):
    port = os.path.join(root, "sys", "class", "infiniband", made_faults.SIBLING, "ports", "1")
    trees.write(os.path.join(port, "state"), "1: DOWN")
    trees.write(os.path.join(port, "phys_state"), "3: Disabled")
    net = os.path.join(made_faults.function_of(root, made_faults.SIBLING), "net", "eth1")
    for name in ("carrier_changes", "carrier_up_count", "carrier_down_count"):
        trees.write(os.path.join(net, name), "0")
    trees.write(os.path.join(port, "counters", "link_downed"), "0")
    profile(root, "ports: []")


# fault: (how the tree is before, what happens to it, the alerts that tell it). Of these no machine of the lab can be made, or
# not with all that they need. A rule that compares with the past needs a fifth minute of it: so long they are well first.
WELL = 400
TREES = {
    "F21": (None, made_faults.FAULTS["F21"], {"RoceDeclaredDeviceMissing"}),
    "F24": (None, made_faults.FAULTS["F24"], {"RoceEcnDisabled"}),
    "F35": (None, made_faults.FAULTS["F35"], {"RoceMaxReadReqLowered"}),
    "F44": (None, made_faults.FAULTS["F44"], {"RoceNfsRetransmissions"}),
    "F45": (None, made_faults.FAULTS["F45"], {"RoceGdsFallback"}),
    "B10": (no_counters, None, set()),
    "B12": (slower, None, set()),
    "B14": (never_cabled, None, set()),
}


def exporters(stack):
    """{fault: (address, root)} of exporters on made trees, and on a recording of a host without RDMA."""
    found = {}
    for fault, (before, _, _) in TREES.items():
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"roce-{fault}-"))
        made_faults.well(root)
        for device in (made_faults.DEVICE, made_faults.SIBLING):  # a kind of its own: the fleet's cards are compared
            trees.write(os.path.join(root, "sys", "class", "infiniband", device, "hca_type"), f"MT-{fault}")
        if before:
            before(root)
        server = stack.enter_context(exporter.Server([f"--path.sysfs={root}/sys", f"--path.procfs={root}/proc", f"--profile.file={root}/profile.yml"]))
        found[fault] = (f"127.0.0.1:{server.port}", root)
    server = stack.enter_context(exporter.Server([f"--replay={ROOT}/packaging/demo/no-rdma.tar.gz"]))
    found["B09"] = (f"127.0.0.1:{server.port}", None)
    return found


# The run -----------------------------------------------------------------------------------------------------------------


def shape(text):
    """Words without their numbers, which are those of the moment."""
    return re.sub(r"(?:#\s?(?:ns|µs|us|ms|s|m|h|d|k|M|G)?(?![a-zA-Z])\s?)+", "# ", re.sub(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", "#", text))


def silence(manager, seconds, **labels):
    """Whoever plans something says so."""
    begin = time.time()
    stamps = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t)) for t in (begin - 5, begin + seconds)]
    body = {"matchers": [{"name": k, "value": v, "isRegex": True} for k, v in labels.items()], "startsAt": stamps[0], "endsAt": stamps[1], "createdBy": "tests", "comment": "planned"}
    request = urllib.request.Request(f"{manager}/api/v2/silences", json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()


class Arrivals:
    """A receiver that knows when each alert came."""

    def __init__(self, receiver):
        self.receiver, self.seen, self.found = receiver, 0, {}

    def look(self):
        got = self.receiver.got[self.seen:]
        self.seen += len(got)
        for receiver, note in got:
            for a in note["alerts"]:
                if a["status"] == "firing":
                    self.found.setdefault((receiver, tuple(sorted(a["labels"].items()))), (time.time(), a["annotations"]))


def companions(name):
    return set((alerts.load(alerts.COMPANIONS).get(name) or {}).keys())


def check(only=()):
    score = Score()
    plays, pending = events()
    if only:
        unknown = sorted(set(only) - {p.tag for p, _ in plays})
        expect(not unknown, f"no event of {', '.join(unknown)} is played")
        plays = [(p, wanted) for p, wanted in plays if p.tag in only]
        pending = {told: spent for told, spent in pending.items() if told.name in only}
    quiet = [p for p in benign() if not only or p.tag == "healthy"]  # without any exporter RoceExportersAbsent fires
    writing = WRITING_FEW if only else WRITING
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="roce-series-"))
        made = {} if only else exporters(stack)
        pages = stack.enter_context(Pages([p for p, _ in plays] + quiet))
        receiver = stack.enter_context(alert_routing.Receiver())
        manager = stack.enter_context(alert_routing.alertmanager(receiver.port, speed=1))
        now = time.time()
        everyone = [p for p, _ in plays] + quiet
        for play in everyone:
            play.begin(now + writing)  # while the past is written, the present waits at its door
        remembered = {}
        for told, spent in pending.items():
            labels = {k: alerts.spoken(told.name, v) for k, v in told.labels.items()}
            remembered[("ALERTS_FOR_STATE", tuple(labels.items()))] = [(now - 60 * i, float(int(now - spent))) for i in range(spent // 60, -1, -1)]
        silence(manager, PRESENT + 900, host="B01-reboot[.].*", alertname="RoceExporterDown")
        servers = []
        for fleet in sorted({p.fleet for p in everyone}):
            data = f"{folder}/{'fleet' if fleet else 'all'}"
            write_past(pages, fleet, now, data, {} if fleet else remembered)
            jobs = pages.jobs(fleet)
            for fault, (address, _) in () if fleet else made.items():
                jobs[alerts.BASE["job"]].append({"targets": [address], "labels": {"instance": f"made-{fault}:14791", "host": f"made-{fault}"}})
            config = {"global": {"scrape_interval": f"{STEP}s", "scrape_timeout": "10s", "evaluation_interval": f"{STEP}s"},
                      "rule_files": [os.path.join(alerts.ALERTS, "rules", "*.yml")],
                      "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager.removeprefix("http://")]}]}]},
                      "scrape_configs": [{"job_name": job, "static_configs": entries} for job, entries in jobs.items()]}
            # What was pending goes on to be: a restart takes two minutes at least.
            servers.append(e2e.Prometheus([], config=config, data=data, flags=("--rules.alert.for-grace-period=2m",)))
        for server in servers:
            stack.enter_context(server)
        began, arrivals, broken = max(time.time(), now + writing), Arrivals(receiver), False
        awaited = {(told.receiver, told.name) for _, wanted in plays for told in wanted} if only else None
        while time.time() < began + PRESENT:
            if awaited is not None and awaited <= {(receiver, dict(labels)["alertname"]) for receiver, labels in arrivals.found}:
                break
            if not broken and time.time() > began + WELL:
                broken = True
                for fault, (_, root) in made.items():
                    if fault in TREES and TREES[fault][1]:
                        TREES[fault][1](root)
            arrivals.look()
            time.sleep(0.5)
        arrivals.look()
        fired = {tuple(sorted((k, v) for k, v in s["metric"].items() if k not in ("__name__", "alertstate")))
                 for server in servers for s in server.query(f'max_over_time(ALERTS{{alertstate="firing"}}[{PRESENT + WRITING}s])')}
        for server in servers:
            with open(os.path.join(server.folder.name, "log"), encoding="utf-8") as f:
                bad = [l for l in f if "Evaluating rule failed" in l]
            expect(not bad, lambda: f"rules fail: {bad[:3]}")
    return judge(score, plays, quiet, made, arrivals.found, fired)


def plain(tag, text):
    """Names of a play's hosts as its case has them."""
    return text.replace(f"{tag}.", "")


def judge(score, plays, quiet, made, came, fired):
    faults, lines, left = told_by(), [], dict(came)
    bad = []
    for play, wanted in plays:
        of_play = {k for k in left if any(v.startswith(f"{play.tag}.") for _, v in k[1])} | {k for k in left if k[0] == "watchdog" and play.tag == "Watchdog"}
        by_labels = {(k[0], tuple(sorted((n, plain(play.tag, v)) for n, v in k[1]))): k for k in of_play}
        firing = {tuple(sorted((n, plain(play.tag, v)) for n, v in f)) for f in fired if any(v.startswith(f"{play.tag}.") for _, v in f)}
        all_well, right = True, 0
        for told in wanted:
            key, when = tuple(sorted(told.labels.items())), None
            if told.receiver == "nobody":
                found = key in firing
                if not found:
                    bad.append(f"{told.name}: {told.labels} does not fire; fires: {[dict(f) for f in firing][:3]}")
            else:
                arrived = by_labels.get((told.receiver, key))
                found = arrived is not None
                if found:
                    of_play.discard(arrived)
                    when, words = left.pop(arrived)
                    right += 1
                    for what in ("summary", "description"):
                        if shape(plain(play.tag, words[what])) != shape(told.words[what]):
                            found = False
                            bad.append(f"{told.name}: the {what} is\n  {words[what]}\nnot\n  {told.words[what]}")
                else:
                    bad.append(f"{told.name}: {told.labels} did not come to {told.receiver}; came: {[(r, dict(k)) for r, k in by_labels][:3]}; fires: {[dict(f) for f in firing][:3]}")
            all_well = all_well and found
            for fault in faults.get(told.name, ["-"]):
                lines.append((fault, told.name, told.labels.get("host", ""), told.receiver, "" if when is None else f"{when - play.start - alerts.expected()[told.name]['first']:.0f}", "ok" if found else "WRONG"))
        # The rest that came of these hosts.
        wrong = []
        for k in of_play:
            name = dict(k[1])["alertname"]
            if name == play.tag or name in companions(play.tag) or play.fleet is False and name in FLEET:
                right += 1
            else:
                wrong.append(f"{k[0]}: {name} on {dict(k[1]).get('host')}")
            left.pop(k)
        score.fault(play.tag, all_well, right, wrong)
    for play in quiet:
        mine = [k for k in left if dict(k[1]).get("host", "").startswith(f"{play.tag}.")]
        wrong = [f"{k[0]}: {dict(k[1])['alertname']}" for k in mine if dict(k[1])["alertname"] not in FLEET]
        score.event(play.tag, 0, wrong)
        lines.append((play.tag.split("-")[0], "", f"{play.tag}.node1", "", "", "told: " + ", ".join(wrong) if wrong else "ok"))
        for k in mine:
            left.pop(k)
    own = {f: set(names) for f, (names, _) in alerts.faults().items()}
    for fault in made:
        mine = [k for k in left if dict(k[1]).get("host") == f"made-{fault}"]
        names = {dict(k[1])["alertname"] for k in mine}
        wanted = TREES[fault][2] if fault in TREES else set()
        wrong = [f"{k[0]}: {dict(k[1])['alertname']}" for k in mine if dict(k[1])["alertname"] not in own.get(fault, set())]
        if fault.startswith("B"):
            score.event(f"{fault} (made tree)", 0, wrong)
        else:
            score.fault(f"{fault} (made tree)", wanted <= names, len(mine) - len(wrong), wrong)
        if not wanted <= names:
            bad.append(f"{fault} on a made tree: {wanted - names} did not come; came: {names}")
        lines.append((fault, ", ".join(sorted(names)), f"made-{fault}", "", "", "ok" if wanted <= names and not wrong else "WRONG"))
        for k in mine:
            left.pop(k)
    left = [k for k in left if dict(k[1])["alertname"] != "Watchdog"]
    if left:
        score.event("hosts of no play", 0, [f"{r}: {dict(k)}" for r, k in left])
    os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
    with open(RESULTS, "w", encoding="utf-8") as f:
        f.write("fault\talert\tobject\treceiver\tseconds after promtool's\tresult\n")
        f.writelines("\t".join(l) + "\n" for l in sorted(lines))
    expect(not bad, lambda: "\n".join([score.text(), *score.wrong, *bad[:40]]))
    return score.check()


def rows():
    return [Row("alerts-series", "every alert's event and what pages nobody, by series and made hosts, through Prometheus and Alertmanager to the receiver", check, full_only=True, alone=True)]


if __name__ == "__main__":
    print(check(sys.argv[1:]))
