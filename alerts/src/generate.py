#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes alerts/rules and alerts/kubernetes of alerts/thresholds.yml and alerts/src/rules.

    alerts/src/generate.py                     writes them anew
    alerts/src/generate.py --check             exit 1 where a file is not what it would write
    alerts/src/generate.py --to DIR            writes rules and kubernetes into DIR instead
    alerts/src/generate.py --to DIR --set KEY=VALUE   the same with another setting or threshold of thresholds.yml,
                                               e.g. runbooks=https://... or 'latency_objective=0.0025,2.5 ms'
                                               (VALUE,TEXT; this one is a bound of the histogram)

What stands in << >> in the sources:
    s.NAME               a setting
    t.NAME, t.NAME.text  a threshold as PromQL takes it, and as a person reads it
    host, port, link     the object in a text: host name, device/port, device/port and its network device
    watched, watched by host   leaves out devices whose declared role is none of this team's
    active               leaves out ports that are not active: rates of a port that is down say nothing
    query: EXPR | FORMAT evidence looked up when the alert fires; {a,b} in EXPR stand for the alert's own labels
Every selector of a roce_ family gets the matcher of its job, unless it begins with one.
"""
import argparse
import glob
import os
import re
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ALERTS = os.path.dirname(HERE)
HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Made by alerts/src/generate.py of alerts/src and alerts/thresholds.yml; do not edit it.\n"

# Devices that the profile gives another team.
WATCHED = 'unless on (instance, device) last_over_time(roce_device_role_info{role=~"<<s.unwatched_roles>>"}[5m])'
ACTIVE = "unless on (instance, device, port) (roce_port_state < 4)"
TEXTS = {"host": "{{ or $labels.host $labels.instance }}",
         "port": "{{ $labels.device }}/{{ $labels.port }}",
         "link": "{{ $labels.device }}/{{ $labels.port }}{{ with $labels.netdev }} ({{ . }}){{ end }}"}
PLACES = {
    # The host that serves the path, by the address that the controller has: what inhibition compares with an alert of
    # that host. It looks back, so that a lost scrape makes no other alert of this one.
    "nvme_place": {
        # The port, of those that carry the subsystem; several that are all down each have their own alert.
        **{label: '{{ with printf "topk(1, count by (device, port) (last_over_time(instance_controller:roce_nvme_controller:link{instance=%q}[10m]) and on (instance, controller) '
                  'last_over_time(instance_controller:roce_nvme_controller:place{instance=%q,subsystem=%q}[10m])))" $labels.instance $labels.instance $labels.subsystem '
                  f'| query }}}}{{{{ . | first | label "{label}" }}}}{{{{ end }}}}' for label in ("device", "port")},
        "target_host": '{{ with printf "topk(1, count by (target_host) (last_over_time(instance_controller:roce_nvme_controller:place'
                                  '{instance=%q,subsystem=%q,target_host!=\\"\\"}[10m])))" $labels.instance $labels.subsystem | query }}{{ . | first | label "target_host" }}{{ end }}'},
    # Of a namespace that the storage probe reads.
    "read_place": {label: '{{ with printf "instance_namespace:roce_storage_probe:place{instance=%q,namespace=%q}" $labels.instance $labels.namespace '
                          f'| query }}}}{{{{ . | first | label "{label}" }}}}{{{{ end }}}}' for label in ("subsystem", "device", "port", "target_host")},
    # A peer that a lost controller of this port points to.
    "port_peer": {"target_host": '{{ with printf "topk(1, count by (target_host) (last_over_time(instance_controller:roce_nvme_controller:place{instance=%q,target_host!=\\"\\"}[10m]) '
                                 'and on (instance, controller) last_over_time(instance_controller:roce_nvme_controller:link{instance=%q,device=%q,port=%q}[10m])))" '
                                 '$labels.instance $labels.instance $labels.device $labels.port | query }}{{ . | first | label "target_host" }}{{ end }}'},
    "nvme_controller_place": {"target_host": '{{ with printf "last_over_time(instance_controller:roce_nvme_controller:place{instance=%q,controller=%q}[10m])" '
                                             '$labels.instance $labels.controller | query }}{{ . | first | label "target_host" }}{{ end }}'},
}
VARIABLES = {"fleet": [], "host": ["instance"], "port": ["instance", "device", "port"], "storage": ["instance"], "mesh": ["instance"], "exporter": ["instance"]}


class Bad(Exception):
    pass


def with_jobs(expr, settings):
    """The expression with the job's matcher in each selector of a roce_ family that has none. Names with a colon are recorded ones."""
    out, at = [], 0
    for m in re.finditer(r'"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*', expr):
        word = m.group(0)
        if word[0] == '"' or ":" in word or not word.startswith("roce_"):
            continue
        job = settings["prober_job"] if word.startswith(("roce_probe_", "roce_prober_")) else settings["storage_job"] if word.startswith("roce_storage_probe_") else settings["exporter_job"]
        out.append(expr[at:m.end()])
        at = m.end()
        if expr[at:].startswith("{job"):  # a family of several programs
            continue
        if expr[at:at + 1] == "{":
            out.append(f'{{job="{job}"' + ("," if expr[at + 1:at + 2] != "}" else ""))
            at += 1
        else:
            out.append(f'{{job="{job}"}}')
    return "".join(out) + expr[at:]


def query(text, settings):
    expr, form = (part.strip() for part in text.rsplit("|", 1))
    names = []

    def matchers(m):
        parts = []
        for part in m.group(1).split(","):
            if "=" in part:
                name, value = part.split("=", 1)
                value = value.strip('"')
                parts.append(f'{name}=\\"{value}\\"')
            else:
                names.append(part)
                parts.append(f"{part}=%q")
        return "{" + ",".join(parts) + "}"
    expr = re.sub(r"\{([^}]*)\}", matchers, expr)
    expr = with_jobs(expr.replace('\\"', '"'), settings).replace('"', '\\"')
    if form.startswith("label "):
        show = f'. | first | {form.split()[0]} "{form.split()[1]}"'
    elif form.startswith("%"):
        show = f'. | first | value | printf "{form}"'
    else:
        show = f". | first | value | {form}"
    return f'{{{{ with printf "{expr}" {" ".join("$labels." + n for n in names)} | query }}}}{{{{ {show} }}}}{{{{ else }}}}unknown{{{{ end }}}}'


# Bounds of roce_probe_rtt_seconds from a quarter of a millisecond on; another number names no bucket. A test holds them
# against probes/measure/latency_histogram.h.
LATENCY_BOUNDS = ("0.000256", "0.000384", "0.000625", *(f"{0.00125 * 2 ** i:.10g}" for i in range(11)))


def another_threshold(name, text, old):
    """The value and text of NAME=VALUE,TEXT; what rules compare stays a number or a time, as it was."""
    value, comma, said = text.partition(",")
    if not comma or not said.strip():
        raise Bad(f"--set {name}={text}: a threshold is VALUE,TEXT: as PromQL takes it, and as a person reads it, e.g. 0.0025,2.5 ms")
    kind, example = (r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", "a number") if isinstance(old, (int, float)) else (r"([0-9]+(ms|[smhdwy]))+(:([0-9]+(ms|[smhdwy]))+)?", "a time as 90s, 1h30m or 6h:5m")
    if not re.fullmatch(kind, value):
        raise Bad(f"--set {name}={text}: `{value}` is not {example}; thresholds.yml has {old}")
    if name == "latency_objective" and value not in LATENCY_BOUNDS:
        raise Bad(f"--set {name}={text}: {value} is no bound of roce_probe_rtt_seconds; there are: {', '.join(LATENCY_BOUNDS)}")
    return {"value": value, "text": said.strip()}


class Source:
    def __init__(self, thresholds, overrides=()):
        with open(thresholds, encoding="utf-8") as f:
            data = yaml.safe_load(f)
        self.settings = data["settings"]
        self.thresholds = data["thresholds"]
        for name, t in self.thresholds.items():
            if set(t) != {"value", "text", "why"}:
                raise Bad(f"{thresholds}: threshold `{name}` has keys {sorted(t)}, not value, text, why")
        for key, value in overrides:
            if key in self.settings:
                self.settings[key] = value
            elif key in self.thresholds:
                self.thresholds[key] |= another_threshold(key, value, self.thresholds[key]["value"])
            else:
                raise Bad(f"{thresholds}: no setting and no threshold `{key}`; there are: {', '.join([*self.settings, *self.thresholds])}")
        self.used = set()

    def fill(self, text, where, in_text=False):
        def one(m):
            word = m.group(1).strip()
            if word.startswith("query:"):
                return query(word[6:].strip(), self.settings)
            if word.startswith("s."):
                return self.settings[word[2:]]
            if word.startswith("t."):
                parts = word[2:].split(".")
                if parts[0] not in self.thresholds:
                    raise Bad(f"{where}: no threshold `{parts[0]}`")
                t = self.thresholds[parts[0]]
                if len(parts) == 2:
                    return t["text"]
                self.used.add(parts[0])
                return str(t["value"])
            if in_text and word in TEXTS:
                return TEXTS[word]
            if not in_text and word in ("watched", "watched by host"):
                # What a prober says carries another instance than what the exporter of its host says.
                return self.fill(WATCHED, where).replace("on (instance,", "on (host," if "host" in word else "on (instance,")
            if not in_text and word == "active":
                return ACTIVE
            raise Bad(f"{where}: nothing is called <<{word}>>")
        return re.sub(r"<<(.+?)>>", one, text, flags=re.S)


def rule(source, component, raw, group):
    raw = dict(raw)
    name = raw.get("record") or raw.get("alert")
    where = f"{group}: {name}"
    expr = with_jobs(source.fill(raw.pop("expr"), where), source.settings)
    expr = "\n".join(line.rstrip() for line in expr.strip().splitlines() if line.strip())
    if "record" in raw:
        raw.pop("record")
        if raw:
            raise Bad(f"{where}: unknown keys {sorted(raw)}")
        return {"record": name, "expr": expr}
    raw.pop("alert")
    board = raw.pop("dashboard")
    if board == "storage of the host":
        # What the storage probe says carries another instance than what the exporter of its host says.
        board, variables = "storage", ('var-instance={{ with printf "up{job=\\"%s\\",host=%%q}" $labels.host | query }}{{ . | first | label "instance" | urlquery }}{{ end }}' % source.settings["exporter_job"])
    else:
        variables = "&".join(f"var-{v}={{{{ urlquery $labels.{v} }}}}" for v in VARIABLES[board])
    out = {"alert": name, "expr": expr}
    hold = raw.pop("for", "0s")
    out["for"] = source.fill(hold, where)
    # One lost scrape, or two, must not resolve an alert and send it again.
    keep = raw.pop("keep_firing_for", "2m")
    if keep != "0s":
        out["keep_firing_for"] = source.fill(keep, where)
    labels = raw.pop("labels", {})
    if isinstance(labels, str):
        labels = PLACES[labels.strip("<>")]
    out["labels"] = {"severity": raw.pop("severity"), "component": component, **{k: source.fill(v, where, True) for k, v in labels.items()}}
    out["annotations"] = {
        "summary": source.fill(raw.pop("summary"), where, True),
        "description": source.fill(raw.pop("description"), where, True),
        "runbook_url": f"{source.settings['runbooks']}/{name}.md",
        "dashboard_url": f"{source.settings['dashboards']}/d/roce-{board}" + (f"?{variables}" if variables else "")}
    slow = raw.pop("slow", False)
    if raw:
        raise Bad(f"{where}: unknown keys {sorted(raw)}")
    out["_slow"] = slow
    return out


class Text(str):
    pass


def _text(dumper, data):
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(data), style="|" if "\n" in data else None)


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


Dumper.add_representer(str, _text)


def dump(data):
    return yaml.dump(data, Dumper=Dumper, sort_keys=False, width=100000, allow_unicode=False)


def render(source, raw):
    """One file of rules: its quick groups, then the rules that look hours back in a group of their own."""
    groups = []
    for g in raw["groups"]:
        rules = [rule(source, raw["component"], r, g["name"]) for r in g["rules"]]
        slow = [r for r in rules if g.get("slow") or r.pop("_slow", False)]
        quick = [r for r in rules if not any(r is s for s in slow)]
        for r in rules:
            r.pop("_slow", None)
        if quick:
            groups.append({"name": g["name"], "interval": source.settings["interval"], "rules": quick})
        if slow:
            groups.append({"name": g["name"] + ("" if not quick else "_slow"), "interval": source.settings["slow_interval"], "rules": slow})
    return {"groups": groups}


def prometheus_rules(files):
    """PrometheusRule objects of all files of rules, those too that are written by hand."""
    parts = []
    for name, text in sorted(files.items()):
        groups = yaml.safe_load(text)["groups"]
        parts.append(dump({"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
                           "metadata": {"name": "roce-" + os.path.splitext(os.path.basename(name))[0].replace("_", "-"),
                                        "labels": {"app.kubernetes.io/name": "roce-exporter", "role": "alert-rules"}},
                           "spec": {"groups": groups}}))
    return HEAD + "---\n".join([""] + parts).lstrip("\n") if parts else HEAD


def monitors(source):
    """Which Services are scraped, and how: the job names and the label host that the rules compare."""
    def monitor(name, job, port):
        return {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
                "metadata": {"name": name, "labels": {"app.kubernetes.io/name": name}},
                "spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": name}},
                         "endpoints": [{"port": port, "interval": "15s", "scrapeTimeout": "10s",
                                        "relabelings": [
                                            {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "host"},
                                            {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"},
                                            {"targetLabel": "job", "replacement": job}]}]}}
    return HEAD + dump(monitor("roce-exporter", source.settings["exporter_job"], "metrics")) + "---\n" + dump(
        monitor("roce-prober", source.settings["prober_job"], "metrics"))


def generate(overrides=()):
    """{path below alerts/: text}"""
    source = Source(os.path.join(ALERTS, "thresholds.yml"), overrides)
    made = {}
    for path in sorted(glob.glob(os.path.join(HERE, "rules", "*.yml"))):
        with open(path, encoding="utf-8") as f:
            raw = yaml.safe_load(f)
        made[f"rules/{os.path.basename(path)}"] = HEAD + dump(render(source, raw))
    unused = sorted(set(source.thresholds) - source.used)
    if unused:
        raise Bad(f"thresholds.yml: no rule uses {', '.join(unused)}")
    rules = dict(made)
    for path in glob.glob(os.path.join(ALERTS, "rules", "*.yml")):
        with open(path, encoding="utf-8") as f:
            rules.setdefault(f"rules/{os.path.basename(path)}", f.read())
    made["kubernetes/prometheusrules.yaml"] = prometheus_rules(rules)
    made["kubernetes/servicemonitors.yaml"] = monitors(source)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file differs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting or threshold; needs --to")
    parser.add_argument("--to", metavar="DIR", help="folder to write to; default: alerts/ of this checkout")
    words = parser.parse_args()
    if words.set and not words.to:
        parser.error("--set needs --to DIR: the files of this checkout keep what thresholds.yml says, which is the place to change them")
    words.to = words.to or ALERTS
    try:
        pairs = [s.partition("=") for s in words.set]
        without = [key for key, equals, _ in pairs if not equals]
        if without:
            raise Bad(f"--set {without[0]}: KEY=VALUE is wanted")
        made = generate([(key, value) for key, _, value in pairs])
    except (Bad, yaml.YAMLError, KeyError) as e:
        print(f"generate.py: {e}", file=sys.stderr)
        return 2
    stale = []
    for name, text in made.items():
        path = os.path.join(words.to, name)
        try:
            with open(path, encoding="utf-8") as f:
                same = f.read() == text
        except OSError:
            same = False
        if same:
            continue
        stale.append(name)
        if not words.check:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    for name in stale:
        print(("differs: " if words.check else "written: ") + name)
    return 1 if words.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
