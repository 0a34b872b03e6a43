# SPDX-License-Identifier: Apache-2.0
"""alerts/alertmanager.yml in a real Alertmanager: which receiver gets what, and what is held back."""
import contextlib
import http.server
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import alerts
import page_server
from harness import Failed, Row, command, expect

CONFIG = os.path.join(alerts.ALERTS, "alertmanager.yml")
RECEIVER = {"critical": "page", "warning": "ticket", "info": "nobody"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Receiver:
    """Takes what Alertmanager sends: [(path, notification)]."""

    def __enter__(self):
        self.got, got, lock = [], None, threading.Lock()
        got = self.got

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    got.append((self.path.strip("/"), body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def alertmanager(receiver_port, speed=10, drop=None):
    """The shipped configuration with its receivers here and its waits shortened; yields the base URL."""
    config = dict(alerts.load(CONFIG))
    if drop is not None:
        config["inhibit_rules"] = config["inhibit_rules"][:drop] + config["inhibit_rules"][drop + 1:]
    text = alerts.yaml.safe_dump(config)
    text = text.replace("localhost:9095", f"127.0.0.1:{receiver_port}")
    text = re.sub(r"group_wait: (\d+)s", lambda m: f"group_wait: {int(m.group(1)) * 1000 // speed}ms", text)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "alertmanager.yml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        url = f"127.0.0.1:{free_port()}"
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(["prometheus-alertmanager", f"--config.file={path}", f"--storage.path={folder}/data", f"--web.listen-address={url}",
                                        "--cluster.listen-address="], stdout=log, stderr=log)
            try:
                for _ in range(200):
                    try:
                        urllib.request.urlopen(f"http://{url}/-/ready", timeout=2).close()
                        break
                    except (urllib.error.URLError, OSError):
                        if process.poll() is not None:
                            break
                        time.sleep(0.1)
                else:
                    raise Failed("Alertmanager did not come up")
                if process.poll() is not None:
                    raise Failed("Alertmanager ended: " + open(os.path.join(folder, "log"), encoding="utf-8").read()[-800:])
                yield f"http://{url}"
            finally:
                process.terminate()
                process.wait(20)


def post(url, labels):
    body = json.dumps([{"labels": l, "annotations": {"summary": l["alertname"]}} for l in labels]).encode()
    request = urllib.request.Request(f"{url}/api/v2/alerts", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()


def real(name, **changes):
    """The labels that the alert has in its test, some of them changed."""
    labels = {"alertname": name, **alerts.expected()[name]["alerts"][0]["labels"]}
    labels.update({k: v for k, v in changes.items() if v is not None})
    return {k: v for k, v in labels.items() if not (k in changes and changes[k] is None)}


def scenarios():
    """[(name, what fires at once, {receiver: alerts that arrive})]"""
    here = {"host": "node1", "device": "mlx5_0", "port": "1"}
    there = {"host": "node2", "instance": "node2:14791", "target_host": "node2"}
    return [
        ("port-down", [real("RocePortDown"), real("RocePortInactive"), real("RoceNvmeNoPath", **here), real("RoceNvmeControllerDown", **here), real("RoceRetriesExceeded", **here),
                       real("RoceFecUncorrectable"), real("RocePathMtuLowered"), real("RoceGidMissing")],
         {"page": ["RocePortDown"]}),
        ("port-down-at-the-target", [real("RocePortDown", **there), real("RoceNvmeNoPath"), real("RoceNvmeControllerDown"), real("RoceRetriesExceeded", target_host="node2")],
         {"page": ["RocePortDown"]}),
        ("before-the-page", [real("RocePortInactive", **there), real("RoceNvmeNoPath"), real("RoceRetriesExceeded", target_host="node2")], {}),
        ("another-target", [real("RocePortDown", **there), real("RoceNvmeNoPath", target_host="node3"), real("RoceRetriesExceeded", target_host=None, device="mlx5_7")],
         {"page": ["RocePortDown", "RoceNvmeNoPath", "RoceRetriesExceeded"]}),
        ("target-not-known", [real("RocePortDown", **there), real("RoceNvmeNoPath", target_host=None)], {"page": ["RocePortDown", "RoceNvmeNoPath"]}),
        ("another-port", [real("RocePortDown"), real("RoceNvmeNoPath", device="mlx5_1", target_host=None), real("RoceSymbolErrors", device="mlx5_1")],
         {"page": ["RocePortDown", "RoceNvmeNoPath"], "ticket": ["RoceSymbolErrors"]}),
        ("another-host", [real("RocePortDown"), real("RoceSymbolErrors", host="node3", instance="node3:14791")], {"page": ["RocePortDown"], "ticket": ["RoceSymbolErrors"]}),
        ("host-alerts-stay", [real("RocePortDown"), real("RoceMemlockNearLimit"), real("RoceExporterDown", host="node1"), real("RoceHugepagesExhausted")],
         {"page": ["RocePortDown"], "ticket": ["RoceMemlockNearLimit", "RoceExporterDown", "RoceHugepagesExhausted"]}),
        ("device-lost", [real("RoceDeviceLost"), real("RoceDeviceGone"), real("RocePortDown"), real("RocePcieWidthReduced"), real("RoceNvmeNoPath", **here),
                         real("RoceMaxReadReqLowered")],
         {"page": ["RoceDeviceLost"]}),
        ("device-gone", [real("RoceDeviceGone"), real("RocePcieWidthReduced"), real("RoceNvmeNoPath", **here)], {"page": ["RoceDeviceGone"]}),
        ("device-gone-while-its-port-is-told-down", [real("RoceDeviceGone"), real("RocePortDown")], {"page": ["RoceDeviceGone"]}),
        ("device-lost-and-storage", [real("RoceDeviceLost"), real("RoceNvmeNoPath", **here)], {"page": ["RoceDeviceLost"]}),
        ("device-lost-and-gone", [real("RoceDeviceLost"), real("RoceDeviceGone")], {"page": ["RoceDeviceLost"]}),
        ("responder-down-and-paths", [real("RoceProberDown"), real("RoceProbePathDown", host="node3", target_host="node1")], {"ticket": ["RoceProberDown"]}),
        ("flapping", [real("RoceLinkFlapping"), real("RoceLinkFlap"), real("RoceWireErrors")], {"page": ["RoceLinkFlapping"]}),
        ("storm", [real("RocePfcStorm"), real("RocePfcPauseReceived"), real("RocePortDiscards")], {"page": ["RocePfcStorm"]}),
        ("target-removed", [real("RoceNvmeNoPath"), real("RoceNvmeControllerDown"), real("RoceNvmeReconnects")], {"page": ["RoceNvmeNoPath"]}),
        ("one-path-of-two", [real("RoceNvmeControllerDown"), real("RoceNvmeReconnects")], {"ticket": ["RoceNvmeControllerDown"]}),
        # Reads of the storage probe: held back by what explains them, at this end and at the far one, and by nothing else.
        ("target-removed-and-reads", [real("RoceNvmeNoPath", target_host=None), real("RoceStorageReadStuck"), real("RoceStorageReadFailing")], {"page": ["RoceNvmeNoPath"]}),
        ("one-path-of-two-and-reads", [real("RoceNvmeControllerDown"), real("RoceStorageReadStuck"), real("RoceStorageReadFailing")],
         {"ticket": ["RoceNvmeControllerDown", "RoceStorageReadStuck", "RoceStorageReadFailing"]}),
        ("no-path-to-the-namespace-and-reads", [real("RoceNvmeNamespaceNoPath"), real("RoceStorageReadStuck"), real("RoceStorageReadFailing")],
         {"page": ["RoceNvmeNamespaceNoPath"]}),
        ("port-down-and-reads", [real("RocePortDown"), real("RoceStorageReadStuck", **here), real("RoceStorageReadFailing", **here)], {"page": ["RocePortDown"]}),
        ("port-down-at-the-target-and-reads", [real("RocePortDown", **there), real("RoceStorageReadStuck"), real("RoceStorageReadFailing")], {"page": ["RocePortDown"]}),
        ("peer-dead-and-reads", [real("RoceProbeTargetUnreachable", host="node2", target_host="node2"), real("RoceStorageReadStuck"), real("RoceStorageReadFailing")],
         {"page": ["RoceProbeTargetUnreachable"]}),
        ("my-side-and-reads", [real("RoceProbeLocalFault"), real("RoceStorageReadStuck", **here), real("RoceStorageReadFailing", **here)], {"page": ["RoceProbeLocalFault"]}),
        ("reads-of-another-subsystem", [real("RoceNvmeNoPath"), real("RoceStorageReadStuck", subsystem="nvme-subsys2"), real("RoceStorageReadFailing", subsystem=None),
                                        real("RoceStorageProbeDown")],
         {"page": ["RoceNvmeNoPath"], "ticket": ["RoceStorageReadStuck", "RoceStorageReadFailing", "RoceStorageProbeDown"]}),
        ("reads-of-another-host", [real("RocePortDown", **there), real("RoceNvmeNoPath", host="node3", instance="node3:14791", target_host=None), real("RoceStorageReadStuck", target_host=None)],
         {"page": ["RocePortDown", "RoceNvmeNoPath"], "ticket": ["RoceStorageReadStuck"]}),
        ("firmware-hangs", [real("RoceKernelCallStuck"), real("RoceCollectorLate"), real("RoceScrapeIncomplete"), real("RoceScrapeSlow")], {"ticket": ["RoceKernelCallStuck"]}),
        ("hang-on-another-host", [real("RoceKernelCallStuck"), real("RoceCollectorLate", host="node3", instance="node3:14791")],
         {"ticket": ["RoceKernelCallStuck", "RoceCollectorLate"]}),
        ("exporter-down", [real("RoceExporterDown"), real("RoceScrapeSlow"), real("RoceExporterRestarts")], {"ticket": ["RoceExporterDown"]}),
        # The host at the far end is dead: its exporter, paths to it and connections to it follow.
        ("peer-dead", [real("RoceProbeTargetUnreachable", host="node2", target_host="node2"), real("RoceProbeTargetSuspect", host="node2", target_host="node2"),
                       real("RoceExporterDown", host="node2", instance="node2:14791", target_host="node2"), real("RoceNvmeNoPath"), real("RoceRetriesExceeded", target_host="node2"),
                       real("RoceProbePathDown", peer="node2", target_host="node2")],
         {"page": ["RoceProbeTargetUnreachable"]}),
        ("peer-suspect", [real("RoceProbeTargetSuspect", host="node2", target_host="node2"), real("RoceNvmeNoPath"), real("RoceRetriesExceeded", target_host="node2")], {}),
        ("port-down-and-probes", [real("RocePortDown", **there), real("RoceProbeTargetUnreachable", host="node2", target_host="node2"),
                                  real("RoceProbeLatencyShift", peer="node2", target_host="node2")],
         {"page": ["RocePortDown"]}),
        ("my-side", [real("RoceProbeLocalFault"), real("RoceProbeTargetUnreachable", host="node1", target_host="node1"), real("RoceProbeLoss"), real("RoceNvmeNoPath", **here),
                     real("RoceRetriesExceeded")],
         {"page": ["RoceProbeLocalFault"]}),
        ("responder-down", [real("RoceProberDown"), real("RoceProbeTargetSuspect", host="node1", target_host="node1"), real("RoceProbePathDown", host="node3", target_host="node1")],
         {"ticket": ["RoceProberDown"]}),
        ("busy-host", [real("RoceProberHostDelay"), real("RoceProbeLatencyShift"), real("RoceProbeTailLatency")], {"ticket": ["RoceProberHostDelay"]}),
        ("versions", [real("RoceFirmwareDiffers"), real("RoceFirmwareDiffers", host="node2", instance="node2:14791"), real("RoceDriverDiffers")],
         {"ticket": ["RoceFirmwareDiffers", "RoceDriverDiffers"]}),
        ("info", [real("RocePortInactive", host="node9"), real("RoceCountersUnreadable")], {}),
    ]


def failing_scenarios(drop=None):
    """All scenarios at once, each on hosts of its own; -> what did not arrive as it should."""
    cases = scenarios()
    with Receiver() as receiver, alertmanager(receiver.port, drop=drop) as url:
        batch = [real("Watchdog")]
        for i, (_, fired, _) in enumerate(cases):
            batch += [{k: f"s{i}.{v}" if k in ("host", "target_host", "instance") else v for k, v in labels.items()} for labels in fired]
        post(url, batch)
        def arrived():
            return {(path, alert["labels"]["alertname"], alert["labels"].get("host", "").split(".")[0]) for path, note in list(receiver.got) for alert in note["alerts"]}
        due = {(path, name, f"s{i}") for i, (_, _, wanted) in enumerate(cases) for path, names in wanted.items() for name in names} | {("watchdog", "Watchdog", "")}
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and not due <= arrived():
            time.sleep(0.2)
        time.sleep(4)  # the longest wait of a group is 3 s here: what has to be held back would have come by then
        bad = []
        for i, (name, _, wanted) in enumerate(cases):
            found = {}
            for path, note in receiver.got:
                for alert in note["alerts"]:
                    if alert["labels"].get("host", "").startswith(f"s{i}."):
                        found.setdefault(path, set()).add(alert["labels"]["alertname"])
            if found != {k: set(v) for k, v in wanted.items()}:
                bad.append(f"{name}: arrived {({k: sorted(v) for k, v in found.items()})}, expected {wanted}")
        together = [len(note["alerts"]) for path, note in receiver.got if any(alert["labels"]["alertname"] == "RoceFirmwareDiffers" for alert in note["alerts"])]
        if max(together, default=0) < 2:
            bad.append(f"hosts whose firmware differs come one by one: {together}")
        if not any(path == "watchdog" for path, _ in receiver.got):
            bad.append("the Watchdog did not arrive")
    return bad


def inhibition():
    bad = failing_scenarios()
    expect(not bad, "\n".join(bad))
    return f"{len(scenarios())} scenarios"


def inhibition_mutants():
    """Without any one of the inhibitions a scenario fails."""
    count = len(alerts.load(CONFIG)["inhibit_rules"])
    alive = [str(alerts.load(CONFIG)["inhibit_rules"][i]) for i in range(count) if not failing_scenarios(i)]
    expect(not alive, "no scenario needs:\n" + "\n".join(alive))
    return f"{count} inhibitions, each needed"


def routes():
    command("amtool", "check-config", CONFIG)
    for name, found in alerts.expected().items():
        labels = found["alerts"][0]["labels"]
        want = "watchdog" if name == "Watchdog" else RECEIVER[labels["severity"]]
        words = [f"{k}={v}" for k, v in {"alertname": name, **labels}.items() if v and " " not in v and ";" not in v]
        command("amtool", "config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={want}", *words)
    return f"{len(alerts.expected())} alerts"


def sources_have_what_is_compared():
    """Every alert that an inhibition takes as its source has all labels that it compares: two missing ones count as equal."""
    bad, words = [], alerts.expected()
    for rule in alerts.load(CONFIG)["inhibit_rules"]:
        expect(rule.get("equal"), f"an inhibition compares nothing: {rule}")
        patterns = [re.fullmatch(r'alertname(=~|=)"(.*)"', m) for m in rule["source_matchers"]]
        names = [n for n in words if any(p and re.fullmatch(p.group(2) if p.group(1) == "=~" else re.escape(p.group(2)), n) for p in patterns)]
        for name in names:
            labels = words[name]["alerts"][0]["labels"]
            bad += [f"{name} has no label {l}, which an inhibition by it compares" for l in rule["equal"] if not labels.get(l)]
    expect(not bad, "\n".join(bad))


def no_circles():
    """No alert is held back by one that it holds back itself, by whatever way: both would be silent."""
    def matches(matchers, labels):
        for m in matchers:
            name, how, value = re.fullmatch(r'(\w+)(=~|!~|!=|=)"(.*)"', m).groups()
            same = re.fullmatch(value, labels.get(name, "")) is not None if "~" in how else labels.get(name, "") == value
            if same == how.startswith("!"):
                return False
        return True
    every = {n: {"alertname": n, **f["alerts"][0]["labels"]} for n, f in alerts.expected().items()}
    edges = {n: set() for n in every}
    for rule in alerts.load(CONFIG)["inhibit_rules"]:
        sources = [n for n, l in every.items() if matches(rule["source_matchers"], l)]
        targets = [n for n, l in every.items() if matches(rule["target_matchers"], l)]
        for s in sources:
            # Those that have all that is compared, at least.
            edges[s] |= {t for t in targets if t != s and all(every[t].get(l) for l in rule["equal"])}

    def reached(start):
        seen, todo = set(), list(edges[start])
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo += edges[n]
        return seen
    bad = sorted(n for n in every if n in reached(n))
    expect(not bad, f"these hold each other back: {', '.join(bad)}; " + "; ".join(f"{n} -> {sorted(edges[n] & set(bad))}" for n in bad))
    return f"{sum(len(e) for e in edges.values())} pairs"


def examples():
    command("promtool", "check", "config", os.path.join(alerts.ALERTS, "prometheus.yml"))


class Target:
    """A page with a case's series: healthy until the fault begins, then as the case says."""

    def __init__(self, name, host):
        self.name, self.host, self.since = name, host, None
        case = alerts.cases()[name]
        self.series = {k: v for k, v in alerts.series_of(case, case["event"]).items() if k[0] != "up" and dict(k[1]).get("host") == "node1"}
        self.server = page_server.PageServer(lambda _: self.page())
        self.address = self.server.address

    def page(self):
        """Counters go on between the samples of the case, states do not."""
        at = 39.0 if self.since is None else min(40 + (time.time() - self.since) / alerts.STEP, 60)
        lines = ['roce_exporter_build_info{version="1"} 1']
        for (name, labels), values in self.series.items():
            low, high = values[int(at)], values[int(at) + 1]
            if low is None:
                continue
            value = low + (high - low) * (at - int(at)) if name.endswith("_total") and high is not None else low
            inner = ",".join(f"{k}={json.dumps(v)}" for k, v in labels if k not in alerts.BASE)
            lines.append(f"{name}{{{inner}}} {value!r}")
        return "\n".join(lines) + "\n"


def latency():
    """From the fault to the webhook, with the shipped rules and configurations, scrapes and evaluations of 15 s. Each critical
    fault on three hosts, which are scraped at different moments."""
    names = ["RocePortDown", "RoceNvmeNoPath", "RoceRetriesExceeded", "RocePfcStorm", "RoceLosslessDrops", "RoceDeviceLost"]
    targets = [Target(name, f"{name}-{i}") for i in range(3) for name in names]
    with Receiver() as receiver, alertmanager(receiver.port, speed=1) as manager, tempfile.TemporaryDirectory() as folder:
        config = dict(alerts.load(os.path.join(alerts.ALERTS, "prometheus.yml")))
        config["rule_files"] = [os.path.join(alerts.ALERTS, "rules", "*.yml")]
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [manager[len("http://"):]]}]}]}
        config["scrape_configs"] = [{"job_name": "roce", "static_configs": [{"targets": [t.address], "labels": {"host": t.host}} for t in targets]}]
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as f:
            alerts.yaml.safe_dump(config, f)
        url = f"127.0.0.1:{free_port()}"
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={url}"],
                                       stdout=log, stderr=log)
            try:
                time.sleep(75)  # four healthy samples of each
                began = time.time()
                for target in targets:
                    target.since = began
                arrived, pages = {}, {}
                while time.time() < began + 100 and len(arrived) < len(targets):
                    for path, note in list(receiver.got):
                        for alert in note["alerts"]:
                            if path == "page":
                                arrived.setdefault(alert["labels"]["host"], (time.time() - began, alert["labels"]["alertname"]))
                    time.sleep(0.2)
                for path, note in receiver.got:
                    for alert in note["alerts"]:
                        pages.setdefault(alert["labels"].get("host"), set()).add((path, alert["labels"]["alertname"]))
            finally:
                process.terminate()
                process.wait(30)
                for target in targets:
                    target.server.close()
        bad = [f"{t.host}: no page; prometheus: {open(os.path.join(folder, 'log'), encoding='utf-8').read()[-300:]}" for t in targets if t.host not in arrived]
        bad += [f"{t.host}: the page says {arrived[t.host][1]}" for t in targets if t.host in arrived and arrived[t.host][1] != t.name]
        bad += [f"{t.host}: {sorted(a for p, a in pages[t.host] if p == 'page')} were paged" for t in targets if t.host in arrived and sum(p == "page" for p, _ in pages[t.host]) > 1]
        expect(not bad, "\n".join(bad))
    took = sorted(s for s, _ in arrived.values())
    slowest = max(arrived.items(), key=lambda kv: kv[1][0])
    expect(took[-1] <= 60, f"{slowest[0]} took {took[-1]:.0f} s")
    return f"{len(took)} faults: median {took[len(took) // 2]:.0f} s, maximum {took[-1]:.0f} s ({slowest[0]})"


def rows():
    return [Row("alerts-prometheus", "promtool takes the example of Prometheus", examples),
            Row("alerts-routes", "each alert reaches its receiver (amtool)", routes),
            Row("alerts-inhibit-labels", "sources of inhibition have the labels that it compares", sources_have_what_is_compared),
            Row("alerts-inhibit-circles", "no two alerts hold each other back", no_circles),
            Row("alerts-inhibition", "one page for one root cause, in a real Alertmanager", inhibition),
            Row("alerts-inhibition-mutants", "without any one inhibition a scenario fails", inhibition_mutants, full_only=True),
            Row("alerts-latency", "critical faults reach the webhook within 60 s through a real Prometheus", latency, full_only=True, alone=True)]
