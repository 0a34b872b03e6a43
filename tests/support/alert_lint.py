# SPDX-License-Identifier: Apache-2.0
"""What can be said of rules and runbooks by reading them: names against the catalog, labels, texts, habits that hurt."""
import functools
import os
import re

import alerts
from harness import ROOT, expect

TARGET = {"job", "instance", "host"}
FOREIGN = {"up": set(), "scrape_duration_seconds": set(), "process_start_time_seconds": set(), "process_resident_memory_bytes": set(), "prometheus_rule_evaluation_failures_total": {"rule_group"}}
PAIR = {"device", "port", "peer"}
PROMISED_PROBES = {"roce_probe_peer_state": PAIR | {"state"}, "roce_probe_anomaly": PAIR | {"qos", "detector"}, "roce_probe_sent_total": PAIR | {"qos"},
                   "roce_probe_failures_total": PAIR | {"qos", "reason"}, "roce_probe_rtt_seconds_bucket": PAIR | {"qos", "le"}, "roce_probe_rtt_seconds_count": PAIR | {"qos"},
                   "roce_probe_baseline_rtt_seconds": PAIR | {"qos"}, "roce_prober_scheduler_lag_seconds_bucket": {"device", "port", "le"}, "roce_probe_corrupt_total": PAIR | {"qos"},
                   "roce_prober_key_not_after_timestamp_seconds": {"key"}, "roce_prober_responder_rejected_total": {"device", "port", "reason"}}
SEVERITIES = {"critical", "warning", "info"}
# Critical faults of the link: nothing may be waited for.
AT_ONCE = {"RoceProbeTargetUnreachable", "RoceProbeLocalFault", "RocePortDown", "RoceNvmeNoPath", "RoceRetriesExceeded", "RocePfcStorm", "RoceLosslessDrops", "RoceDeviceLost"}
FUNCTIONS = {"increase", "rate", "irate", "resets", "changes"}
WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool", "offset", "sum", "count", "min", "max", "avg", "topk", "group", "quantile",
         "inf", "Inf", "nan"}


def catalog():
    """{metric: labels} of the catalogs of both programs."""
    found = {}
    for folder, _, files in os.walk(os.path.join(ROOT, "exporter", "catalog")):
        for file in files:
            if file.endswith(".def"):
                with open(os.path.join(folder, file), encoding="utf-8") as f:
                    for m in re.finditer(r'^ROCE_METRIC\(\w+,\s*"(\w+)",\s*k\w+,\s*"[^"]*",\s*"([^"]*(?:"\s*"[^"]*)*)"', f.read(), re.M):
                        found[m.group(1)] = set(filter(None, re.sub(r'"\s*"', "", m.group(2)).split(",")))
    found.update(prober_catalog())
    return found


@functools.cache
def details():
    """Metrics that are the first to be left out where a port has more series than allowed."""
    found = set()
    for folder, _, files in os.walk(os.path.join(ROOT, "exporter", "catalog")):
        for file in files:
            if file.endswith(".def"):
                with open(os.path.join(folder, file), encoding="utf-8") as f:
                    for entry in f.read().split("\nROCE_METRIC(")[1:]:
                        if re.search(r",\s*kDetail\)\n", entry.split("\n\n")[0] + "\n"):
                            found.add(re.search(r'"(\w+)"', entry).group(1))
    return found


def prober_catalog():
    """{metric: labels} of the prober's catalog; histograms by the names of their series too."""
    path = os.path.join(ROOT, "probes", "catalog", "metrics.def")
    if not os.path.exists(path):
        return dict(PROMISED_PROBES)
    found = {}
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for m in re.finditer(r'^ROCE_PROBE_METRIC\(\w+,\s*"(\w+)",\s*k\w+,\s*"[^"]*",\s*"([^"]*)"', text, re.M):
        found[m.group(1)] = set(filter(None, m.group(2).split(",")))
    for m in re.finditer(r'^ROCE_PROBE_HISTOGRAM\(\w+,\s*"(\w+)",\s*"([^"]*)"', text, re.M):
        labels = set(filter(None, m.group(2).split(",")))
        for end, more in (("", set()), ("_bucket", {"le"}), ("_sum", set()), ("_count", set())):
            found[m.group(1) + end] = labels | more
    return found


def selectors(expr):
    """[(metric, {label: matcher}, what follows)] of the instant and range selectors in an expression."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: '"' + "x" * (len(m.group(0)) - 2) + '"', expr)
    found = []
    for m in re.finditer(r"[a-zA-Z_:][\w:]*", bare):
        name = m.group(0)
        before = bare[:m.start()]
        if before.count("{") > before.count("}") or re.search(r"(?:\bby|\bwithout|\bon|\bignoring|\bgroup_left|\bgroup_right)\s*\([^()]*$", before) or before.endswith('"'):
            continue  # a label
        rest = bare[m.end():]
        if name in WORDS or re.match(r"\s*\(", rest) or re.match(r"[0-9.]$", before[-1:]) or re.search(r"\[[^\]]*$", before) or name in ("m", "h", "s"):
            continue
        labels, follow = {}, expr[m.end():]
        if rest.startswith("{"):
            end = rest.index("}")
            labels = dict(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"', expr[m.end() + 1:m.end() + end]))
            follow = expr[m.end() + end + 1:]
        if before.count('"') % 2 == 0:
            found.append((name, labels, follow, expr[:m.start()]))
    return found


def grouping_labels(expr):
    found = set()
    for m in re.finditer(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)", expr):
        found |= {w.strip() for w in m.group(1).split(",") if w.strip()}
    return found


def made_labels(expr):
    return set(re.findall(r',\s*"(\w+)",\s*"[^"]*",\s*"\w*",\s*"[^"]*"\s*\)', expr))


def recorded_labels(rules, known):
    """{recorded series: (group, labels that it may have)}; twice, for those that stand on others of another file."""
    found = {}
    for _ in range(2):
        for _, group, rule in rules:
            if "record" in rule:
                labels = set(TARGET) | made_labels(rule["expr"])
                for metric, _, _, _ in selectors(rule["expr"]):
                    labels |= found[metric][1] if metric in found else known.get(metric, set())
                found[rule["record"]] = (group, labels)
    return found


def lint(rules, known):
    """[(alert or record, what is wrong)]"""
    bad, recorded, earlier = [], recorded_labels(rules, known), {}
    for _, group, rule in rules:
        name = rule.get("record") or rule["alert"]

        def say(text):
            bad.append((name, text))
        expr = rule["expr"]
        labels = set(TARGET) | made_labels(expr)
        for metric, used, follow, before in selectors(expr):
            if ":" in metric:
                if metric == name:  # it goes on from itself
                    continue
                if metric not in recorded:
                    say(f"{metric} is recorded by no rule")
                    continue
                labels |= recorded[metric][1]
                if recorded[metric][0] == group and metric not in earlier.setdefault(group, set()):
                    say(f"{metric} is recorded later in the same group: one evaluation late")
                continue
            own = FOREIGN.get(metric, known.get(metric))
            if own is None:
                say(f"no metric is called {metric}")
                continue
            labels |= own
            for label in used:
                if label not in own | TARGET:
                    say(f"{metric} has no label {label}")
            if metric.startswith("roce_") and "job" not in used:
                say(f"{metric} has no matcher of a job")
            if metric.endswith("_total"):
                presence = re.search(r"\bunless\s*(?:on\s*\([^)]*\)\s*)?$", before)
                ranged = follow.startswith("[") and re.search(r"(\w+)\s*\(\s*$", before)
                if not presence and not (ranged and ranged.group(1) in FUNCTIONS):
                    say(f"{metric} is a counter and used as it stands")
            if metric.endswith("_info") and re.search(r"[*/]\s*(?:on|ignoring)?\s*(?:\([^)]*\))?\s*(?:group_left|group_right)?\s*(?:\([^)]*\))?\s*$", before):
                say(f"joins {metric} bare")
        for label in sorted(grouping_labels(expr) - labels):
            say(f"groups by {label}, which nothing in it has")
        if "record" in rule:
            earlier.setdefault(group, set()).add(name)
            if not re.fullmatch(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+", name) and not name.count(":") == 2:
                say("is not called level:metric:operations")
            continue
        if not re.fullmatch(r"Roce[A-Z][A-Za-z]+|Watchdog", name):
            say("is not called Roce...")
        given = rule.get("labels", {})
        if given.get("severity") not in SEVERITIES:
            say(f"severity is {given.get('severity')}")
        if not given.get("component"):
            say("has no component")
        for key, value in given.items():
            if "$value" in str(value):
                say(f"label {key} holds a value: each evaluation makes another alert")
        notes = rule.get("annotations", {})
        for key in ("summary", "description", "runbook_url", "dashboard_url"):
            if not notes.get(key):
                say(f"has no {key}")
        text = " ".join(notes.values())
        if not text.isascii():
            say("text is not ASCII")
        if not notes.get("runbook_url", "").endswith(f"/{name}.md"):
            say("runbook_url is not its own")
        if "Next: " not in notes.get("description", ""):
            say("description says no next step")
        if given.get("severity") != "info" and "$value" not in notes.get("description", "") and "query" not in notes.get("description", "") and name not in EVIDENT:
            say("description holds no evidence")
        for label in sorted(set(re.findall(r"\$labels\.(\w+)", text)) - labels - set(given)):
            say(f"text names label {label}, which the alert has not")
        hold = re.fullmatch(r"(\d+)([smh])", rule.get("for", "0s"))
        if not hold:
            say(f"for is {rule.get('for')}")
            continue
        wait = int(hold.group(1)) * {"s": 1, "m": 60, "h": 3600}[hold.group(2)]
        if name in AT_ONCE and (wait or given.get("severity") != "critical"):
            say("is a critical fault of the link: critical, for 0s")
        for window in re.findall(r"increase\([^()]*\[(\d+)m\]", expr):
            if wait > int(window) * 30:
                say(f"waits {wait} s on an increase over {window} m: one event is forgotten before")
        if "topk" in re.sub(r"topk by \([^)]*\) \(1,", "", expr):
            say("uses topk in an expression: its members change")
    return bad


# The evidence is the state itself.
EVIDENT = {"RoceExportersAbsent", "RoceConfigReloadFailed", "RoceCollectorLate", "RoceCollectorFailing", "RoceCounterSaturated", "RoceDeviceLost", "RoceDeviceGone",
           "RoceNicHealth", "RocePfcChanged", "RocePfcMismatch", "RoceEcnDisabled"}


def check_rules():
    bad = lint(alerts.rules(), catalog())
    expect(not bad, "\n".join(f"{n}: {t}" for n, t in bad))
    return f"{len(alerts.rules())} rules"


def check_seeded():
    """The lint finds what is seeded into a sound rule."""
    known, rules = catalog(), alerts.rules()
    seeds = [("severity", lambda r: r["labels"].pop("severity")),
             ("component", lambda r: r["labels"].pop("component")),
             ("runbook_url", lambda r: r["annotations"].pop("runbook_url")),
             ("next step", lambda r: r["annotations"].update(description="mlx5_0 {{ $value }}")),
             ("label holds a value", lambda r: r["labels"].update(now="{{ $value }}")),
             ("no metric is called", lambda r: r.update(expr=r["expr"].replace("roce_port_symbol_errors_total", "roce_symbol_errors_total"))),
             ("has no label lane", lambda r: r.update(expr=r["expr"].replace('roce_port_symbol_errors_total{', 'roce_port_symbol_errors_total{lane="0",'))),
             ("no matcher of a job", lambda r: r.update(expr=r["expr"].replace('roce_port_symbol_errors_total{job="roce"}', "roce_port_symbol_errors_total"))),
             ("used as it stands", lambda r: r.update(expr='roce_port_symbol_errors_total{job="roce"} > 10')),
             ("joins roce_port_info bare", lambda r: r.update(expr=r["expr"] + ' * on (instance, device, port) group_left (netdev) roce_port_info{job="roce"}')),
             ("is forgotten before", lambda r: r.update({"for": "14m"})),
             ("text names label lane", lambda r: r["annotations"].update(summary="lane {{ $labels.lane }}")),
             ("groups by lane", lambda r: r.update(expr="sum by (lane) (" + r["expr"] + ")"))]
    for want, seed in seeds:
        changed = []
        for file, group, rule in rules:
            if rule.get("alert") == "RoceSymbolErrors":
                rule = dict(rule, labels=dict(rule["labels"]), annotations=dict(rule["annotations"]))
                seed(rule)
            changed.append((file, group, rule))
        found = [t for n, t in lint(changed, known) if n == "RoceSymbolErrors"]
        expect(any(want in t or all(w in t for w in want.split()) for t in found), f"seeded `{want}`: the lint says {found}")
    return f"{len(seeds)} seeds"


def check_thresholds():
    """Sources of rules compare with thresholds.yml alone; what may stand there is a state or the bits of a byte, not a quantity."""
    bad, folder = [], os.path.join(alerts.ALERTS, "src", "rules")
    for file in sorted(os.listdir(folder)):
        for group in alerts.load(os.path.join(folder, file))["groups"]:
            for rule in group["rules"]:
                bad += [f"{rule.get('alert') or rule['record']}: compares with {n}" for n in re.findall(r"(?:[<>]=?|[!=]=)\s*(-?[\d.]+)(?![\d.]*>>)", rule["expr"])
                        if n not in ("0", "1", "2", "4", "8")]
    expect(not bad, "\n".join(bad))
    return f"{len(alerts.load(os.path.join(alerts.ALERTS, 'thresholds.yml'))['thresholds'])} thresholds, each with its reason"


# Runbooks ----------------------------------------------------------------------------------------------------------------

RUNBOOKS = os.path.join(alerts.ALERTS, "runbooks")
SECTIONS = ["Meaning", "Look at", "Causes, most likely first", "Fix", "Verify", "Escalate"]
CHANGES = [r"\bip\b.*\b(?:set|add|del|delete|replace|flush)\b", r"\bdcb\b.*\b(?:set|add|del|replace)\b", r"\bethtool\s+(?:-[AsGCKLXEfr]\b|--(?:set|reset|change|pause)\b)", r"\bmodprobe\b", r"\brmmod\b",
           r"\binsmod\b", r"\bsystemctl\s+(?:restart|stop|start|reload|kill|mask|disable)\b", r"\bsysctl\s+-w\b", r"(?<![2&])>\s*/", r"\bnvme\s+(?:connect|disconnect|reset|format)\b", r"\bdevlink\b.*\b(?:reload|set|recover)\b",
           r"\bipcrm\b", r"\brm\b", r"\bprlimit\b.*=", r"\bipmitool\s+chassis\s+power\s+(?:cycle|off|on|reset)\b", r"\breboot\b", r"\bkill\b", r"\bsetpci\b.*=", r"\bmlxconfig\b.*\bset\b", r"\biscsiadm\b.*(?:--login|--logout|-l\b|-u\b)",
           r"\brdma\b.*\b(?:set|add|del|delete|unset|bind|unbind)\b"]
CLEARING = [r"\bperfquery\b.*\s-[A-Za-z]*[rR]", r"\bmlxlink\b.*(?:--pc|--clear)", r"\bibclearcounters\b", r"\bibclearerrors\b", r"\bethtool\s+--?reset\b", r"\bnstat\b.*-r", r"\brdma\s+statistic\b.*\b(?:clear|reset)\b",
            r">\s*\S*/(?:hw_)?counters/", r"\bclear\s+counters\b", r"aer_dev_\w+\s*$(?<=>)"]
RELOADS = r"\bmodprobe\s+-r\b|\brmmod\b|\bdevlink\s+dev\s+reload\b|\bopenibd\b|/unbind\b"


# Words in capitals that are none to replace, or that a command explains itself.
AS_THEY_ARE = set("CHANGE ERR SQE ALL PFC RDMA MTU DRAIN ALERTS CAP_EXP IRQ CPUS NEW OLD FILE SHMID".split())


def unexplained(text, labels):
    """Words in capitals of a page's commands and queries that are no label of the alert, and of which it does not say what they are."""
    blocks = "".join(re.findall(r"^```\w+\n(.*?)^```", text, re.M | re.S))
    prose = re.sub(r"^```.*?^```$", "", text.split("## Look at")[1].split("## Causes")[0], flags=re.M | re.S)
    known = {label.upper() for label in labels} if "stand for its labels" in " ".join(prose.split()) else set()
    return sorted(set(re.findall(r"(?<![A-Za-z_])[A-Z][A-Z_]{2,}(?![a-z_A-Z])", blocks)) - AS_THEY_ARE - known - set(re.findall(r"[A-Z][A-Z_]{2,}", prose)))


def lint_runbook(name, text, names):
    """[what is wrong] with one page."""
    bad = []
    if not text.startswith(f"# {name}\n"):
        bad.append("its title is not the alert's name")
    found = re.findall(r"^## (.*)$", text, re.M)
    if found != SECTIONS:
        bad.append(f"has the sections {found}, not {SECTIONS}")
    for section in re.split(r"^## .*$", text, flags=re.M)[1:]:
        if not section.strip():
            bad.append("has an empty section")
    if not text.isascii():
        bad.append("is not ASCII")
    for word in set(re.findall(r"\bRoce[A-Z]\w+", text)) - names:
        bad.append(f"names {word}, which is no alert")
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        head, *lines = block.splitlines()
        change = head.startswith("# CHANGE")
        if not change and head != "# read":
            bad.append(f"a block of commands begins with `{head}`, not with read or CHANGE")
        if change and not re.fullmatch(r"# CHANGE; interrupts: .+; undo: .+", head):
            bad.append(f"`{head}` does not say what it interrupts and how it is undone")
        for line in lines:
            masked = line.startswith("# ")
            body = line[2:] if masked else line.split("   # ")[0]
            changing = any(re.search(p, body) for p in CHANGES)
            if change and not masked:
                bad.append(f"`{line}` changes something and is not masked")
            if not change and (masked or changing):
                bad.append(f"`{line}` stands among commands that read")
            if any(re.search(p, body) for p in CLEARING):
                bad.append(f"`{line}` clears counters")
            if re.search(r"\bsetpci\b.*=", body) and not re.search(r"\bsetpci -s \S+ [A-Z_]+\+?[0-9a-f]*\.[bwl]=[0-9a-f]+:[0-9a-f]+$", body):
                bad.append(f"`{line}` writes a whole register: one address and value:mask are wanted")
            if re.search(RELOADS, body) and "drain" not in head:
                bad.append(f"`{line}` reloads a driver without a drain before")
        if re.search(RELOADS, head) and "drain" not in head:
            bad.append(f"`{head}` reloads a driver without a drain before")
    for place in re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S).split("\n\n"):
        if any(re.search(p, place) for p in CLEARING):
            bad.append("speaks of clearing counters")
        if re.search(RELOADS, place) and "drain" not in place:
            bad.append("speaks of a reload of a driver without a drain")
    return bad


def runbooks():
    found = {}
    for file in sorted(os.listdir(RUNBOOKS)):
        with open(os.path.join(RUNBOOKS, file), encoding="utf-8") as f:
            found[os.path.splitext(file)[0]] = f.read()
    return found


def check_runbooks():
    pages, names = runbooks(), set(alerts.alert_rules())
    bad = [f"{n}: no runbook" for n in names - set(pages)] + [f"{n}: a runbook of no alert" for n in set(pages) - names]
    for name, text in pages.items():
        bad += [f"{name}: {t}" for t in lint_runbook(name, text, names)]
        bad += [f"{name}: does not say what {w} is" for w in unexplained(text, alerts.expected()[name]["alerts"][0]["labels"])]
    for name, rule in alerts.alert_rules().items():
        bad += [f"{name}: its text names {w}, which is no alert" for w in set(re.findall(r"\bRoce[A-Z]\w+", " ".join(rule["annotations"].values()))) - names]
    expect(not bad, "\n".join(bad))
    return f"{len(pages)} pages"


def check_runbook_queries():
    """Queries of the pages parse, and name series and labels that exist."""
    known, bad, rules = catalog(), [], []
    recorded = recorded_labels(alerts.rules(), known)
    known = {**known, "scrape_samples_scraped": set(), "ALERTS": {"alertname"}}
    for name, text in runbooks().items():
        for block in re.findall(r"^```promql\n(.*?)^```$", text, re.M | re.S):
            for query in block.splitlines():
                rules.append({"record": f"query:{len(rules)}:of", "expr": query})
                for metric, used, _, _ in selectors(query):
                    own = recorded[metric][1] if metric in recorded else FOREIGN.get(metric, known.get(metric))
                    if own is None:
                        bad.append(f"{name}: `{query}`: no series is called {metric}")
                    else:
                        bad += [f"{name}: `{query}`: {metric} has no label {l}" for l in used if l not in own | TARGET]
    expect(not bad, "\n".join(bad))
    os.makedirs(alerts.WORK, exist_ok=True)
    path = os.path.join(alerts.WORK, "queries.yml")
    with open(path, "w", encoding="utf-8") as f:
        alerts.yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}, f)
    alerts.command("promtool", "check", "rules", path)
    return f"{len(rules)} queries"


def check_runbooks_seeded():
    names = set(alerts.alert_rules())
    page = runbooks()["RocePortDown"]
    seeds = [("writes a whole register", "```sh\n# CHANGE; interrupts: a; undo: b\n# setpci -s 0000:3b:00.0 68.w=5936\n```"),
             ("writes a whole register", "```sh\n# CHANGE; interrupts: a; undo: b\n# setpci -s 0000:3b:00.0 -s 0000:3b:00.1 CAP_EXP+8.w=5000:7000\n```"),
             ("stands among commands that read", "```sh\n# read\nsetpci -s 0000:3b:00.0 CAP_EXP+8.w=5000:7000\n```"),
             ("clears counters", "```sh\n# CHANGE; interrupts: a; undo: b\n# perfquery -R -C mlx5_0\n```"),
             ("clears counters", "```sh\n# read\necho 0 > /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error\n```"),
             ("clearing counters", "Run `mlxlink -d mlx5_0 --pc` first."),
             ("without a drain", "```sh\n# CHANGE; interrupts: all; undo: none\n# modprobe -r mlx5_ib\n```"),
             ("without a drain", "Load the driver anew with `/etc/init.d/openibd restart`."),
             ("is not masked", "```sh\n# CHANGE; interrupts: a; undo: b\nip link set ens1 down\n```"),
             ("stands among commands that read", "```sh\n# read\nip link set ens1 down\n```"),
             ("how it is undone", "```sh\n# CHANGE; interrupts: a\n# ip link set ens1 down\n```"),
             ("not with read or CHANGE", "```sh\nip link\n```"),
             ("is no alert", "See RoceNoSuchThing.")]
    for want, seed in seeds:
        found = lint_runbook("RocePortDown", page.replace("## Verify", seed + "\n\n## Verify"), names)
        expect(any(want in t for t in found), f"seeded `{seed}`: the lint says {found}")
    expect(any("sections" in t for t in lint_runbook("RocePortDown", page.replace("## Escalate", "## More"), names)), "a missing section is not found")
    labels = alerts.expected()["RocePortDown"]["alerts"][0]["labels"]
    expect(unexplained(page.replace("# read\n", "# read\nping -c 1 PEER\n"), labels) == ["PEER"], "a word that nothing explains is not found")
    expect(unexplained(page.replace("stand for its labels", "are plain"), labels) == ["INSTANCE"], "labels that the page does not speak of are not found")
    return f"{len(seeds) + 3} seeds"
