# SPDX-License-Identifier: Apache-2.0
"""Rules, runbooks and routing. Series of a case go through promtool; routing and inhibition through a real Alertmanager."""
import concurrent.futures
import csv
import functools
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib

import yaml

import exporter
from harness import BUILD, JOBS, ROOT, Failed, Row, command, expect

ALERTS = os.path.join(ROOT, "alerts")
CASES = os.path.join(ROOT, "tests", "alerts", "cases")
EXPECTED = os.path.join(ROOT, "tests", "alerts", "expected")
VERDICTS = os.path.join(ROOT, "tests", "alerts", "verdicts.tsv")
WORK = os.path.join(BUILD, "tests", "alerts")
STEP = 15  # seconds between scrapes and between evaluations
SAMPLES = 160  # of a case that says no other number
BASE = {"job": "roce", "instance": "node1:14791", "host": "node1"}
TOP32 = 2 ** 32 - 1


def load(path):
    """A YAML file; read once, so leave it as it is."""
    return _load(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=None)
def _load(path, _):
    with open(path, encoding="utf-8") as f:
        return yaml.load(f, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def rules():
    """[(file, group, rule)] of all files of rules, in order."""
    found = []
    for path in sorted(glob.glob(os.path.join(ALERTS, "rules", "*.yml"))):
        for group in load(path)["groups"]:
            found += [(os.path.basename(path), group["name"], r) for r in group["rules"]]
    return found


def alert_rules():
    return {r["alert"]: r for _, _, r in rules() if "alert" in r}


def cases():
    """{alert: case}, each with the file that it stands in."""
    found = {}
    for path in sorted(glob.glob(os.path.join(CASES, "*.yml"))):
        for name, case in load(path).items():
            expect(name not in found, f"{path}: {name} is in {found.get(name, {}).get('file')} too")
            found[name] = dict(case, file=os.path.basename(path))
    return found


def expected():
    found = {}
    for path in sorted(glob.glob(os.path.join(EXPECTED, "*.yml"))):
        found.update(load(path) or {})
    return found


def needed(expr_and_texts, records):
    """Recorded series that these texts name, and those that those name, in the order of their rules."""
    wanted, todo = set(), [expr_and_texts]
    while todo:
        for name in re.findall(r"[a-zA-Z_][\w]*:[\w:]+", todo.pop()):
            if name in records and name not in wanted:
                wanted.add(name)
                todo.append(records[name])
    return wanted


def subset(name, change=None):
    """A file of rules with one alert and the recordings that it stands on; `change` alters the alert's rule."""
    every = rules()
    records = {r["record"]: r["expr"] for _, _, r in every if "record" in r}
    rule = next(dict(r) for _, _, r in every if r.get("alert") == name)
    if change:
        rule = change(rule)
    wanted = needed(rule["expr"] + " " + " ".join([*rule.get("annotations", {}).values(), *rule["labels"].values()]), records)
    return {"groups": [{"name": "roce", "rules": [r for _, _, r in every if r.get("record") in wanted] + [rule]}]}


# Series ------------------------------------------------------------------------------------------------------------------

def series_key(text):
    """`name{dev/port/netdev,label=value}` -> (name, labels); the label `instance=node2` sets the host too."""
    m = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?", text)
    expect(m, f"series `{text}`")
    labels = dict(BASE)
    port = ":14791"
    if "job=roce_prober" in text or m.group(1).startswith(("roce_probe_", "roce_prober_")):
        labels.update(job="roce_prober", instance="node1:14792")
        port = ":14792"
    if m.group(1).startswith("roce_storage_probe_"):
        labels.update(job="roce_storage_probe", instance="node1:14793")
        port = ":14793"
    for part in (m.group(2) or "").split(","):
        if not part:
            continue
        if "=" not in part:
            labels.update(zip(("device", "port", "netdev"), part.split("/")))
            continue
        key, value = part.split("=", 1)
        labels[key] = value
        if key == "instance" and ":" not in value:
            labels["instance"], labels["host"] = value + port, value
    return m.group(1), {k: v for k, v in labels.items() if v != "" or k not in ("host",)}


def expand(text, count):
    """Values in time: blank-separated parts VALUE[+STEP|-STEP][*COUNT]; `~` goes on from the last value, `-` is absent; the
    last part goes on to the end. -> [float or None]"""
    out = []
    for part in str(text).split():
        m = re.fullmatch(r"(~|-|[+-]?Inf|-?[\d.]+(?:e\d+)?)(?:([+-])([\d.]+))?(?:\*(\d+))?", part)
        expect(m, f"values `{text}`: what is `{part}`?")
        left = count - len(out)
        n = min(int(m.group(4)), left) if m.group(4) else left
        if m.group(1) == "-":
            out += [None] * n
            continue
        step = float((m.group(2) or "+") + (m.group(3) or "0"))
        last = next((v for v in reversed(out) if v is not None), 0.0)
        start = last + step if m.group(1) == "~" else float(m.group(1))
        out += [start + step * i for i in range(n)]
    expect(len(out) == count, f"values `{text}` give {len(out)} of {count}")
    return out


def number(value):
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(round(value, 9))


def promtool_values(values):
    """As promtool writes them. What is absent after it was there goes stale, as with a scrape that lacks it."""
    words, before = [], None
    for v in values:
        words.append(number(v) if v is not None else ("stale" if before is not None else "_"))
        before = v
    out, i = [], 0
    while i < len(words):
        j = i
        while j + 1 < len(words) and words[j + 1] == words[i]:
            j += 1
        if words[i] in ("stale", "+Inf", "-Inf") or j == i:
            out += words[i:j + 1]
        elif words[i] == "_":
            out.append(f"_x{j - i + 1}")
        else:
            out.append(f"{words[i]}x{j - i}")
        i = j + 1
    return " ".join(out)


def series_of(case, *changes):
    """{(name, labels): [values]} of a case's healthy series with these changes, and `up` for each target."""
    count = case.get("samples", SAMPLES)
    merged = dict(case["healthy"])
    for change in changes:
        merged.update({k: v for k, v in change.items() if k not in ("until", "by")})
    out = {}
    for key, text in merged.items():
        name, labels = series_key(key)
        out[(name, tuple(sorted(labels.items())))] = expand(text, count)
    targets = {tuple(sorted((k, dict(labels).get(k)) for k in BASE if k in dict(labels))) for _, labels in out} or {tuple(sorted(BASE.items()))}
    named = {labels for name, labels in out if name == "up"}
    for target in targets:
        if not named or (target not in named and not any(dict(target).items() <= dict(n).items() or dict(n).get("instance") == dict(target).get("instance") for n in named)):
            out[("up", target)] = [1.0] * count
    return out


def input_series(data):
    lines = []
    for (name, labels), values in data.items():
        inner = ",".join(f"{k}={json.dumps(v)}" for k, v in labels)
        lines.append({"series": f"{name}{{{inner}}}", "values": promtool_values(values)})
    return lines


def counters(data):
    return [key for key in data if key[0].endswith("_total")]


def lose(data, index):
    """The scrape of that moment fails: all series go stale, up is 0."""
    out = {}
    for (name, labels), values in data.items():
        values = list(values)
        if values[index] is not None:
            values[index] = 0.0 if name == "up" else None
        out[(name, labels)] = values
    return out


def restarted(data):
    """All counters start again at 0 half-way, as after a reload of the driver."""
    out = dict(data)
    for key in counters(data):
        values = data[key]
        half = len(values) // 2
        if values[half] is not None:
            # From a high total: whoever forgets that counters restart sees a large change.
            raised = [None if v is None else v + 5000 for v in values]
            out[key] = raised[:half] + [None if v is None else v - values[half] for v in values[half:]]
    return out


def wrapped(data):
    """All counters pass 2^32 within the case, as the exporter widens them."""
    out = dict(data)
    for key in counters(data):
        seen = [v for v in data[key] if v is not None]
        if seen:
            out[key] = [None if v is None else v + TOP32 - seen[0] for v in data[key]]
    return out


def saturated(data):
    """All counters stick at the top of their fields."""
    return {key: ([None if v is None else float(TOP32) for v in values] if key[0].endswith("_total") else values) for key, values in data.items()}


def managed(data):
    """The devices are declared to be for management: none of this team's."""
    out = dict(data)
    for _, labels in data:
        labels = dict(labels)
        if labels.get("device"):
            role = {"job": BASE["job"], "instance": labels["instance"].split(":")[0] + ":14791", "host": labels["host"], "device": labels["device"], "role": "management"}
            out[("roce_device_role_info", tuple(sorted(role.items())))] = [1.0] * len(next(iter(data.values())))
    return out


def without(data):
    return {key: values for key, values in data.items() if key[0] == "up"}


# promtool ----------------------------------------------------------------------------------------------------------------

def clock(seconds):
    return f"{int(seconds)}s"


def run_promtool(folder, name, rule_file, tests, interval=STEP):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.rules.yml"), "w", encoding="utf-8") as f:
        json.dump(rule_file, f)
    path = os.path.join(folder, f"{name}.test.yml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"rule_files": [f"{name}.rules.yml"], "evaluation_interval": clock(interval), "tests": tests}, f)
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def apart(tag, data):
    """The same series on hosts of their own, so that many cases share one run of promtool."""
    def other(labels):
        return tuple((k, f"{tag}.{v}" if k in ("instance", "host", "traddr", "peer") and v and v != "rotating" else v) for k, v in labels)
    return {(name, other(labels)): values for (name, labels), values in data.items()}


def spoken(tag, text):
    return re.sub(r"(?<![\w.])node(\d)", rf"{tag}.node\1", text)


class Checks:
    """What one alert is tested with. A kind of test is a set of series and what holds of the alert on them: all kinds in one
    run of promtool, each on hosts of its own; or, where rules look at the fleet, each in a run of its own."""

    def __init__(self, name, case):
        self.name, self.case, self.tests, self.kinds = name, case, [], []
        self.count, self.step = case.get("samples", SAMPLES), case.get("step", STEP)
        self.end = (self.count - 1) * self.step
        self.separate = case.get("separate", False)

    def add(self, kind, data, check):
        self.kinds.append(kind)
        tag = "" if self.separate else re.sub(r"\W+", "-", kind)
        if tag:
            data = apart(tag, data)
        one = {"name": f"{self.name}: {kind}", "interval": clock(self.step), "input_series": input_series(data), **check(tag)}
        if self.separate or not self.tests:
            self.tests.append(one)
            return
        self.tests[0]["input_series"] += one["input_series"]
        for key in ("alert_rule_test", "promql_expr_test"):
            self.tests[0].setdefault(key, []).extend(one.get(key, []))

    def alerts(self, tag, state="firing"):
        where = f',instance=~"{tag}[.].*"' if tag else ""
        return f'ALERTS{{alertname="{self.name}",alertstate="{state}"{where}}}'

    def ever(self, tag):
        return f"max_over_time({self.alerts(tag)}[{self.count * self.step}s])"

    def never(self, tag):
        return {"promql_expr_test": [{"expr": self.ever(tag), "eval_time": clock(self.end), "exp_samples": []}]}

    def firing(self, tag, at, number):
        return {"expr": f"count({self.alerts(tag)})", "eval_time": clock(at), "exp_samples": [{"labels": "{}", "value": number}] if number else []}

    def quiet(self):
        case, healthy = self.case, series_of(self.case)
        kinds = [("healthy", healthy), ("reset", restarted(healthy)), ("wrap", wrapped(healthy)), ("saturated", saturated(healthy)), ("lost", lose(healthy, self.count // 2))]
        if not case.get("absent_fires"):
            kinds.append(("absent", without(healthy)))
        if "roce_device_role_info" in alert_rules()[self.name]["expr"]:
            kinds.append(("role", managed(series_of(case, case["event"]))))
        kinds += [(f"quiet {label}", series_of(case, change)) for label, change in case.get("quiet", {}).items()]
        for kind, data in kinds:
            self.add(kind, data, self.never)

    def fires(self, found):
        case, name = self.case, self.name
        data = series_of(case, case["event"])
        first, last, n = found["first"], found.get("last"), len(found["alerts"])

        def words(tag):
            alerts = [{"exp_labels": {k: spoken(tag, v) if tag else v for k, v in a["labels"].items()},
                       "exp_annotations": {k: spoken(tag, v) if tag else v for k, v in a.items() if k != "labels"}} for a in found["alerts"]]
            return {"eval_time": clock(first), "alertname": name, "exp_alerts": alerts}

        def event(tag):
            values = [self.firing(tag, first, n)]
            if first >= self.step:
                values.append(self.firing(tag, first - self.step, 0))
            values += [self.firing(tag, last, n), self.firing(tag, last + self.step, 0)] if last is not None else [self.firing(tag, self.end, n)]
            return {"promql_expr_test": values}
        self.add("fires", data, event)
        # The words are compared alone: promtool names all alerts that fire at a time.
        self.tests.append({"name": f"{name}: words", "interval": clock(self.step), "input_series": input_series(data), "alert_rule_test": [words("")]})
        if counters(data):
            self.add("fires across a wrap", wrapped(data), lambda tag: {"promql_expr_test": [self.firing(tag, first, n), self.firing(tag, first - self.step, 0)]})
        if case.get("lost_matters", True) and not case.get("always"):
            index = first // self.step
            ends = (last if last is not None else self.end) // self.step
            hit = index + 2 if index + 4 <= ends else index
            self.add("fires on through a lost scrape", lose(data, hit),
                     lambda tag: {"promql_expr_test": [self.firing(tag, hit * self.step, n), self.firing(tag, (hit + 1) * self.step, n)]})
            if index > 41:
                self.add("fires though a scrape is lost before", lose(data, index - 1), lambda tag: {"promql_expr_test": [self.firing(tag, (index + 4) * self.step, n)]})
        for label, change in case.get("fires_too", {}).items():
            self.add(f"fires {label}", series_of(case, change), lambda tag: {"promql_expr_test": [
                {"expr": f"count({self.ever(tag)}) >= bool 1", "eval_time": clock(self.end), "exp_samples": [{"labels": "{}", "value": 1}]}]})
        for label, change in case.get("holds", {}).items():
            self.add(f"holds {label}", series_of(case, change), lambda tag, at=seconds(change["until"]): {"promql_expr_test": [self.firing(tag, at, n)]})
        for label, change in case.get("ends", {}).items():
            self.add(f"ends {label}", series_of(case, change), lambda tag, at=seconds(change["by"]): {"promql_expr_test": [
                self.firing(tag, at, 0), {"expr": f"count({self.ever(tag)})", "eval_time": clock(self.end), "exp_samples": [{"labels": "{}", "value": n}]}]})


def seconds(text):
    m = re.fullmatch(r"(\d+)([smh])", str(text))
    expect(m, f"time `{text}`")
    return int(m.group(1)) * {"s": 1, "m": 60, "h": 3600}[m.group(2)]


def checks_of(name, case, found):
    checks = Checks(name, case)
    if not case.get("always"):
        checks.quiet()
    checks.fires(found)
    return checks


def parse_labels(text):
    return {k: json.loads(f'"{v}"') for k, v in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', text)}


def observe(name, case):
    """Runs the event and tells when the alert fires and with what: what tests/alerts/expected holds."""
    count, step = case.get("samples", SAMPLES), case.get("step", STEP)
    at = [{"eval_time": clock(i * step), "alertname": name, "exp_alerts": []} for i in range(count)]
    _, out = run_promtool(os.path.join(WORK, "observe"), name, subset(name), [{"interval": clock(step), "input_series": input_series(series_of(case, case["event"])), "alert_rule_test": at}], step)
    seen = {}
    for block in re.split(r"(?=    alertname: )", out):
        m = re.match(r"    alertname: \w+, time: (\S+),", block)
        if not m:
            continue
        when = sum(int(v) * {"h": 3600, "m": 60, "s": 1}[u] for v, u in re.findall(r"(\d+)([hms])", m.group(1)))
        seen[when] = [{"labels": parse_labels(a), "annotations": parse_labels(b)} for a, b in re.findall(r"Labels:\{(.*)\}\n\s*Annotations:\{(.*)\}", block)]
    if not seen:
        raise Failed(f"{name}: the event does not fire it\n{out[-1500:]}")
    first, last = min(seen), max(seen)
    broken = [i * step for i in range(first // step, last // step) if i * step not in seen]
    if broken:
        raise Failed(f"{name}: fires from {first} s to {last} s, but not at {broken[:5]}")
    alerts = []
    for a in seen[first]:
        labels = {k: v for k, v in a["labels"].items() if k != "alertname"}
        alerts.append({"labels": labels, **a["annotations"]})
    found = {"first": first, **({"last": last} if last < (count - 1) * step else {}), "alerts": alerts}
    return found


def update(files=()):
    """Writes tests/alerts/expected anew, of all files or of those named. Read the difference: it is what people will be told."""
    by_file, every = {}, {n: c for n, c in cases().items() if not files or c["file"] in files}

    def one(name):
        try:
            return observe(name, every[name])
        except Failed as e:
            return e
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, found in zip(every, pool.map(one, every)):
            if isinstance(found, Failed):
                print(found)
            else:
                by_file.setdefault(every[name]["file"], {})[name] = found
    os.makedirs(EXPECTED, exist_ok=True)
    for file, found in by_file.items():
        with open(os.path.join(EXPECTED, file), "w", encoding="utf-8") as f:
            f.write("# SPDX-License-Identifier: Apache-2.0\n# When the event of tests/alerts/cases fires the alert (seconds), until when, and what it says. Made by\n"
                    "# `tests/support/alerts.py --update`; read each change.\n")
            yaml.safe_dump(found, f, sort_keys=False, width=110, allow_unicode=False)
    return 0


def check_alert(name):
    case, found = cases()[name], expected().get(name)
    expect(found, f"{name}: not in tests/alerts/expected")
    code, out = run_promtool(os.path.join(WORK, "rules"), name, subset(name), checks_of(name, case, found).tests, case.get("step", STEP))
    expect(code == 0, lambda: f"{name}:\n{out[-3500:]}")


def generated():
    program = ("python3", "-B", os.path.join(ALERTS, "src", "generate.py"))
    done = command(*program, "--check", check=False)
    expect(done.returncode == 0, lambda: f"run alerts/src/generate.py:\n{done.stdout}")
    with tempfile.TemporaryDirectory() as folder:
        command(*program, "--to", folder, "--set", "latency_objective=0.0025,2.5 ms", "--set", "runbooks=https://wiki/roce")
        with open(os.path.join(folder, "rules", "probes.yml"), encoding="utf-8") as f:
            text = f.read()
        expect('le="0.0025"' in text and "longer than 2.5 ms," in text and "https://wiki/roce/" in text and 'le="0.00125"' not in text, "--set changes no rule")
        for bad, said in (("nonsense=1", "no threshold `nonsense`"), ("latency_objective=0.0025", "VALUE,TEXT"), ("latency_objective=0.002,2 ms", "no bound"),
                          ("latency_objective=0,0025,2.5 ms", "no bound"), ("storage_stuck=abc,10 s", "not a number"), ("storage_stuck=,", "VALUE,TEXT"), ("nonsense", "KEY=VALUE")):
            done = command(*program, "--to", folder, "--set", bad, check=False)
            expect(done.returncode == 2 and said in done.stdout and done.stdout.count("\n") == 1, f"{bad}: exit {done.returncode}: {done.stdout}")
        with open(os.path.join(ROOT, "probes", "measure", "latency_histogram.h"), encoding="utf-8") as f:
            bounds = re.search(r"kLatencyBounds = \{(.*?)\}", f.read(), re.S).group(1)
        published = [f"{int(b.replace(chr(39), '')) / 1e9:.10g}" for b in re.findall(r"[0-9']+", bounds)]
        said = command(*program, "--to", folder, "--set", "latency_objective=1,1 s", check=False).stdout
        known = said.rsplit(": ", 1)[-1].strip().split(", ")
        expect(known == published[16:], f"generate.py knows {known}, not the bounds of the histogram from there on: {published}")


def syntax():
    command("promtool", "check", "rules", *sorted(glob.glob(os.path.join(ALERTS, "rules", "*.yml"))))


def faults():
    """{fault: ([alert], reason)} of tests/alerts/faults.tsv."""
    found = {}
    with open(os.path.join(ROOT, "tests", "alerts", "faults.tsv"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or line.startswith("fault\t"):
                continue
            fault, names, reason = line.rstrip("\n").split("\t")
            found[fault] = ([n for n in names.split(",") if n != "-"], reason)
    return found


WANTED = ("healthy", "reset", "wrap", "saturated", "lost", "absent", "fires")


def coverage():
    """Each alert has a case with all kinds of series and its words written down; each fault has an alert or a reason."""
    bad, every, known, words = [], alert_rules(), cases(), expected()
    lines = []
    for name, rule in every.items():
        if name not in known:
            bad.append(f"{name}: no case in tests/alerts/cases")
            continue
        if name not in words:
            bad.append(f"{name}: its words are not in tests/alerts/expected")
            continue
        case = known[name]
        kinds = checks_of(name, case, words[name]).kinds
        if not case.get("always"):
            missing = [k for k in WANTED if k not in kinds and not (k == "absent" and case.get("absent_fires"))]
            if missing:
                bad.append(f"{name}: not tested: {', '.join(missing)}")
            if "keep_firing_for" in rule and "last" not in words[name]:
                bad.append(f"{name}: its event does not end, so that keep_firing_for is not tested")
        lines.append(f"{name}: {len(kinds)} kinds")
    bad += [f"{n}: a case of no alert" for n in known if n not in every] + [f"{n}: words of no alert" for n in words if n not in every]
    rows = faults()
    for fault in [f"F{i:02}" for i in range(1, 48)]:
        names, reason = rows.get(fault, ([], ""))
        if not names and not reason:
            bad.append(f"{fault}: neither an alert nor a reason")
        bad += [f"{fault}: no alert is called {n}" for n in names if n not in every]
    told = {n for names, _ in rows.values() for n in names}
    expect(not bad, "\n".join(bad))
    return f"{len(every)} alerts; {sum(bool(n) for n, _ in rows.values())} faults have alerts, {len(told)} alerts tell of faults, {len(every) - len(told)} of the rest"


def verdicts():
    """What `check` calls a fault has an alert or a reason why not; so has each series that it reads."""
    code, page, err = exporter.call("checks-reference")
    expect(code == 0, err)
    checks = re.findall(r"^\| \[([\w-]+)\]\(#.*?\) \| (\w+) \|", page, re.M)
    expect(checks, "the page of checks-reference has no table")
    reads = {name: re.findall(r"`(roce_\w+)", "".join(re.findall(r"^- reads: (.*)", text, re.M))) for name, text in re.findall(r"^## ([\w-]+)\n(.*?)(?=^## |\Z)", page, re.M | re.S)}
    with open(VERDICTS, encoding="utf-8") as f:
        rows = {r["check"]: r for r in csv.DictReader((l for l in f if not l.startswith("#")), delimiter="\t")}
    every, all_rules, bad = alert_rules(), " ".join(r["expr"] for _, _, r in rules()), []
    faults = [name for name, kind in checks if kind == "fault"]
    for name in faults:
        row = rows.get(name, {"alerts": "", "reason": ""})
        names, reason = [a for a in row["alerts"].split(",") if a != "-"], row["reason"] or ""
        if not any(names) and not reason:
            bad.append(f"{name}: neither an alert nor a reason")
        bad += [f"{name}: no alert is called {a}" for a in names if a not in every]
        bad += [f"{name}: no rule and no reason names {m}" for m in reads[name] if not re.search(rf"\b{m}\b", all_rules + reason)]
    bad += [f"{name}: no check of class fault" for name in rows if name not in faults]
    expect(not bad, "\n".join(bad))
    return f"{len(faults)} verdicts, {sum(r['alerts'] == '-' for r in rows.values())} of them without an alert"


def alert_tests():
    names = list(alert_rules())
    bad = []

    def one(name):
        try:
            check_alert(name)
            return ""
        except Failed as e:
            return str(e)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        bad = [e for e in pool.map(one, names) if e]
    expect(not bad, "\n".join(bad))
    return f"{len(names)} alerts"


# All rules together -------------------------------------------------------------------------------------------------------

COMPANIONS = os.path.join(ROOT, "tests", "alerts", "companions.yml")
WHOLE = 200  # samples of a host in these tests


def all_rules():
    groups = {}
    for file, group, rule in rules():
        groups.setdefault((file, group), []).append(rule)
    return {"groups": [{"name": g, "rules": r} for (_, g), r in groups.items()]}


def together(hosts):
    """Runs all rules on hosts side by side, {tag: series}; -> {tag: alerts that fired, those of level info apart}."""
    count = max(len(v) for data in hosts.values() for v in data.values())
    series = []
    for tag, data in hosts.items():
        data = dict(data)
        for key in [k for k in data if k[0] == "up" and dict(k[1])["job"] == BASE["job"]]:  # every exporter says what it is
            if not any(k[0] == "roce_exporter_build_info" and dict(k[1])["instance"] == dict(key[1])["instance"] for k in data):
                data[("roce_exporter_build_info", key[1])] = [1.0 if v else None for v in data[key]]
        series += input_series(apart(tag, data))
    expr = f'max by (alertname, host) (max_over_time(ALERTS{{alertstate="firing",severity!="info"}}[{count * STEP}s]))'
    _, out = run_promtool(os.path.join(WORK, "together"), f"all{len(hosts)}", all_rules(),
                          [{"interval": clock(STEP), "input_series": series, "promql_expr_test": [{"expr": expr, "eval_time": clock((count - 1) * STEP), "exp_samples": []}]}])
    expect("error" not in out.lower() or "got:" in out, lambda: out[-2000:])
    fired = {tag: set() for tag in hosts}
    for found in re.findall(r"\{(alertname=[^}]*)\} 1E\+00", out):
        labels = parse_labels(found)
        tag = labels.get("host", "").rsplit(".", 1)[0]
        if tag in fired:
            fired[tag].add(labels["alertname"])
    return fired


def alone():
    """Each alert's event, with all rules: what fires beside it is written down with the reason why it may."""
    allowed, hosts = load(COMPANIONS), {}
    every = alert_rules()
    for name, case in cases().items():
        if not case.get("separate") and "step" not in case and every[name]["labels"]["severity"] != "info":
            hosts[name] = series_of(dict(case, samples=max(case.get("samples", SAMPLES), WHOLE)), case["event"])
    # Those that compare hosts see all of these at once.
    fleet = {n for n, c in cases().items() if c.get("separate")}
    bad = []
    for name, fired in together(hosts).items():
        also = set((allowed.get(name) or {}).keys())
        if name not in fired:
            bad.append(f"{name}: does not fire among all rules")
        if fired - {name} - also - fleet:
            bad.append(f"{name}: {', '.join(sorted(fired - {name} - also - fleet))} fires with it")
        if also - fired:
            bad.append(f"{name}: {', '.join(sorted(also - fired))} does not fire with it any more")
    expect(not bad, "\n".join(bad))
    return f"{len(hosts)} events; {sum(1 for n in hosts if not allowed.get(n))} fire one alert alone"


def whole_page():
    """A healthy host with all series of all cases."""
    out = {}
    for case in cases().values():
        if case.get("separate") or "step" in case or case.get("whole") is False:
            continue
        for key, values in series_of({"healthy": {**case["healthy"], **case.get("whole", {})}, "samples": WHOLE}).items():
            out.setdefault(key, values)
    # A link that is there and counters that go on.
    for key in list(out):
        if all(v is None for v in out[key]):
            del out[key]
    return out


def benign_hosts():
    """What has to page nobody (B rows of the fault matrix), on hosts with all series: {event: series}."""
    page, half = whole_page(), WHOLE // 2

    def edit(change):
        return {key: change(key[0], dict(key[1]), list(values)) for key, values in page.items()}

    def gone(values, start, end):
        return [None if start <= i < end else v for i, v in enumerate(values)]

    def counter(name):
        return name.endswith(("_total", "_bucket", "_count"))

    def from_zero(values, at):
        return [v if i < at or v is None else v - (values[at] or 0) for i, v in enumerate(values)]

    def device_of(labels):
        return bool(labels.get("device"))

    def reload(name, labels, values):
        if name == "up" or not device_of(labels) or name.startswith("roce_prober_key"):
            return values
        if counter(name):
            values = from_zero(values, half)
        values = gone(values, half - 2, half)
        if name == "roce_port_state":
            values[half] = 1.0  # the link still trains
        return values

    def reboot(name, labels, values):
        if name == "up":
            return [0.0 if half - 20 <= i < half else v for i, v in enumerate(values)]
        if counter(name):
            values = from_zero(values, half)
        if name == "process_start_time_seconds":
            values = [v + 900 if i >= half else v for i, v in enumerate(values)]
        return gone(values, half - 20, half)

    def restart(name, labels, values):
        if name == "process_start_time_seconds":
            return [v + 900 if i >= half else v for i, v in enumerate(values)]
        if name == "up":
            values[half] = 0.0
            return values
        return gone(values, half, half + 1)

    def disconnect(name, labels, values):
        return gone(values, half, WHOLE) if name.startswith("roce_nvme_") else values

    def pfc_bursts(name, labels, values):
        if name != "roce_pfc_pause_seconds_total":
            return values
        return [v + 2.0 * ((i + 10) // 20) for i, v in enumerate(values)]

    per_second = {"roce_port_receive_packets_total": 1e6, "roce_port_transmit_packets_total": 1e6, "roce_receive_ecn_marked_packets_total": 4000,
                  "roce_cnp_sent_total": 1000, "roce_cnp_handled_total": 4000}

    def few_notifications(name, labels, values):
        return [values[0] + per_second[name] * STEP * i for i in range(WHOLE)] if name in per_second and values[0] is not None else values

    def slow_but_declared(name, labels, values):
        return [12.5e9] * WHOLE if name == "roce_port_rate_bytes_per_second" else values

    def idle(name, labels, values):
        return [values[0]] * WHOLE if counter(name) and not name.startswith("roce_probe") and values[0] is not None else values

    never_cabled = {(n, tuple(sorted({**BASE, "device": "mlx5_9", "port": "1"}.items()))): [v] * WHOLE
                    for n, v in (("roce_port_state", 1.0), ("roce_port_physical_state", 3.0), ("roce_port_rate_bytes_per_second", 1.25e9), ("roce_port_symbol_errors_total", 7.0))}
    no_rdma = {key: values for key, values in page.items() if not any(l in dict(key[1]) for l in ("device", "controller", "subsystem", "mount", "session", "gpu", "check"))
               and (key[0] in ("up", "process_start_time_seconds", "scrape_duration_seconds") or key[0].startswith(("roce_exporter", "roce_config")))}
    no_counters = {key: values for key, values in page.items() if not (key[0].endswith("_total") and device_of(dict(key[1])) and key[0].startswith("roce_") and not key[0].startswith("roce_probe"))}
    return {
        "healthy": page,
        "B01-reboot": edit(reboot),
        "B02-driver-reload": edit(reload),
        "B03-wrap": wrapped(page),
        "B04-lost-scrape": lose(page, half),
        "B04-prometheus-restart": edit(lambda n, l, v: gone(v, half, half + 8)),
        "B06-pfc-bursts": edit(pfc_bursts),
        "B07-notifications": edit(few_notifications),
        "B08-idle": edit(idle),
        "B09-no-rdma": no_rdma,
        "B10-no-counters": no_counters,
        "B11-disconnect": edit(disconnect),
        "B12-declared-lower-rate": edit(slow_but_declared),
        "B13-exporter-restart": edit(restart),
        "B14-never-cabled": {**page, **never_cabled},
    }


def benign():
    """With all rules nothing fires on them."""
    hosts = benign_hosts()
    # A host that is away for five minutes is told as a ticket; whoever plans it silences it.
    allowed = {"B01-reboot": {"RoceExporterDown"}}
    fleet = {n for n, c in cases().items() if c.get("separate")} - {"RoceProbeTargetUnreachable"}
    bad = [f"{tag}: {', '.join(sorted(fired - allowed.get(tag, set()) - fleet))} fires" for tag, fired in together(hosts).items() if fired - allowed.get(tag, set()) - fleet]
    expect(not bad, "\n".join(bad))
    return f"{len(hosts)} hosts with {len(hosts['healthy'])} series each, {len(alert_rules())} alerts"


# Mutations ---------------------------------------------------------------------------------------------------------------

OTHER = {">": "<", "<": ">", ">=": "<", "<=": ">", "==": "!=", "!=": "=="}


def strings_blanked(expr):
    return re.sub(r'\{[^}]*\}|"(?:[^"\\]|\\.)*"', lambda m: "_" * len(m.group(0)), expr)


def mutants(rule):
    """[(what, changed rule)]: comparisons turned, thresholds times ten, waits dropped or put in, labels changed."""
    out, expr, bare = [], rule["expr"], strings_blanked(rule["expr"])

    def changed(**more):
        return {**rule, **more}
    for i, m in enumerate(re.finditer(r">=|<=|==|!=|>|<", bare)):
        out.append((f"comparison {i + 1}: {m.group(0)} to {OTHER[m.group(0)]}", changed(expr=expr[:m.start()] + OTHER[m.group(0)] + expr[m.end():])))
    for i, m in enumerate(re.finditer(r"(?:>=|<=|==|!=|>|<)\s*(?:bool\s*)?(?:on\s*\([^)]*\)\s*)?(?:group_left\s*\([^)]*\)\s*)?(?:\(\s*1\s*-\s*)?(\d+(?:\.\d+)?)(?![\w.\[])", bare)):
        value = float(m.group(1))
        if bare[:m.start(1)].rstrip().endswith("-"):
            other = str(1 - (1 - value) / 10)  # the share that is left, a tenth of it
        else:
            other = number(value * 10) if value else "10"
        out.append((f"threshold {i + 1}: {m.group(1)} to {other}", changed(expr=expr[:m.start(1)] + other + expr[m.end(1):])))
    hold = rule.get("for", "0s")
    out.append(("for: dropped", changed(**{"for": "0s"})) if seconds(hold) else ("for: 5m", changed(**{"for": "5m"})))
    if seconds(hold):
        out.append(("for: ten times", changed(**{"for": f"{seconds(hold) * 10}s"})))
    if "keep_firing_for" in rule:
        out.append(("keep_firing_for: dropped", {k: v for k, v in rule.items() if k != "keep_firing_for"}))
    labels = rule["labels"]
    out.append(("label severity", changed(labels={**labels, "severity": "warning" if labels["severity"] == "critical" else "critical"})))
    out.append(("label component: dropped", changed(labels={k: v for k, v in labels.items() if k != "component"})))
    for label in labels:
        if label not in ("severity", "component"):
            out.append((f"label {label}: dropped", changed(labels={k: v for k, v in labels.items() if k != label})))
    return out


# Mutants that change nothing that can be seen, and why.
NATIVE = "promtool makes no native histograms; e2e-histograms-native asks a Prometheus for theirs"
EQUAL = {("RoceModuleHot", "threshold 1: 0 to 10"): "a limit of a sensor is 0, which says that there is none, or far above 10 degrees",
         ("RoceStorageReadFailing", "comparison 3: > to <"): NATIVE, ("RoceStorageReadFailing", "threshold 3: 0 to 10"): NATIVE}


def kill(name, every=True):
    """Runs an alert's tests on its mutants, or on one of them; -> (killed, [what survived])."""
    case, found = cases()[name], expected()[name]
    tests = checks_of(name, case, found).tests
    killed, alive = 0, []
    chosen = [m for m in mutants(alert_rules()[name]) if (name, m[0]) not in EQUAL]
    if not every:  # another one for each alert, the same in each run
        chosen = [chosen[zlib.crc32(name.encode()) % len(chosen)]]
    for what, rule in chosen:
        code, _ = run_promtool(os.path.join(WORK, "mutants"), name, subset(name, lambda _, r=rule: r), tests, case.get("step", STEP))
        if code:
            killed += 1
        else:
            alive.append(f"{name}: {what}")
    return killed, alive


def mutations(every, names=None):
    """Mutants are killed: all, or one of each alert; the list of what was tried goes to build/tests/alerts."""
    names = names or list(alert_rules())
    total, alive, lines = 0, [], []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, (killed, left) in zip(names, pool.map(lambda n: kill(n, every), names)):
            total += killed
            alive += left
            if every:
                lines += [f"{name}: {what}: {'SURVIVED' if f'{name}: {what}' in left else EQUAL.get((name, what), 'killed')}" for what, _ in mutants(alert_rules()[name])]
    if every:
        os.makedirs(WORK, exist_ok=True)
        with open(os.path.join(WORK, "mutants.txt"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    expect(not alive, f"{len(alive)} of {total + len(alive)} mutants survive:\n" + "\n".join(alive))
    return f"{total} mutants of {len(names)} alerts killed" + (", list in build/tests/alerts/mutants.txt" if every else "")


def rows():
    import alert_lint
    import alert_routing
    import series
    return [Row("alerts-generated", "rules and Kubernetes objects are what their sources make", generated),
            Row("alerts-syntax", "promtool check rules", syntax),
            Row("alerts-lint", "names, labels, texts and habits of the rules", alert_lint.check_rules),
            Row("alerts-lint-seeded", "the lint finds seeded faults", alert_lint.check_seeded),
            Row("alerts-thresholds", "rules compare with thresholds.yml", alert_lint.check_thresholds),
            Row("alerts-coverage", "each alert tested in all kinds, each fault told or explained", coverage),
            Row("alerts-verdicts", "what check calls a fault has an alert, or a reason", verdicts),
            Row("alerts-runbooks", "a page for each alert, with commands that are safe to paste", alert_lint.check_runbooks),
            Row("alerts-runbook-queries", "queries of the pages parse and name what exists", alert_lint.check_runbook_queries),
            Row("alerts-runbooks-seeded", "the lint of runbooks finds seeded faults", alert_lint.check_runbooks_seeded),
            *alert_routing.rows(),
            Row("alerts-rules", "each alert: fires on the smallest event with its words, silent on all else", alert_tests),
            Row("alerts-alone", "each event among all rules: nothing else fires, or it is written down why", alone),
            Row("alerts-benign", "reboots, reloads, wraps, lost scrapes, idle hosts: no alert among all rules", benign),
            Row("alerts-mutants-one", "one mutant of each rule is killed", lambda: mutations(False)),
            Row("alerts-mutants", "every mutant of every rule is killed", lambda: mutations(True), full_only=True),
            *series.rows()]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--update"]:
        sys.exit(update(sys.argv[2:]))
    bad = 0
    names = sys.argv[1:] or list(cases())
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        def one(n):
            try:
                check_alert(n)
                return None
            except Failed as e:
                return str(e)
        for n, e in zip(names, pool.map(one, names)):
            if e:
                bad += 1
                print("FAIL", e)
    print(len(names) - bad, "ok", bad, "failed")
