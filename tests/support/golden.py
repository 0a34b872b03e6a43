# SPDX-License-Identifier: Apache-2.0
"""Golden pages: what each collector makes of each case, word for word, without what differs from run to run."""
import contextlib
import difflib
import json
import os
import re
import tempfile

import cases
import exporter
from harness import ROOT, Row, expect
from page import Page

FOLDER = os.path.join(ROOT, "tests", "golden")
RECORDINGS = [os.path.join(ROOT, *folder) for folder in (("tests", "recordings"), ("packaging", "demo"))]  # most are made by rows of the lab
SAMPLER = "sampler"  # no collector: it reads between scrapes
OWN = "exporter"  # metrics of the program itself: their values are checked where they have a meaning


def collectors():
    code, out, err = exporter.call("metrics-reference", "--format", "json")
    expect(code == 0, err)
    reference = json.loads(out)
    owner = {m["name"]: m["collector"] for m in reference["metrics"]}
    return owner


def stable(page, owner):
    """The families that collectors publish; of the program's own only what says how the collection went."""
    keep = {"roce_collector_success", "roce_collector_failure", "roce_counter_support", "roce_counters", "roce_counter_regressions_total"}
    lines = []
    for line in page.stable_text().split("\n"):
        if not line:
            continue
        words = line.split(" ", 3)
        name = words[2] if line.startswith("#") else line.split("{", 1)[0].split(" ", 1)[0]
        if name.startswith("node_infiniband_") or name in keep or owner.get(name, OWN) != OWN:
            lines.append(line)
    # Digests of hidden names differ from boot to boot.
    return re.sub(r'"(mount|cgroup)-[0-9a-f]{16}"', r'"\1-DIGEST"', "\n".join(lines)) + "\n"


@contextlib.contextmanager
def on_tree(case, tree, program):
    """A copy of the case at that tree, and the flags that make the program read it."""
    with tempfile.TemporaryDirectory(prefix="roce-golden-") as top:
        runner = cases.Runner(case, os.path.realpath(top), program)
        if tree:
            runner.switch(tree)
        yield runner, [f"--replay={runner.root}"] if mode_of(case) == "replay" else runner.source()


def trees(case):
    return [d for d in ("t0", "t1") if os.path.isdir(os.path.join(case.folder, d))] or [""]


def pages(case, owner):
    """(file name, text) for each collector on each tree of a case."""
    program = exporter.binary()
    args = [a.replace("@CASE@", case.folder) for n, l in case.lines if l.startswith("args ") for a in l.split()[1:]]
    for tree in trees(case):
        with on_tree(case, tree, program) as (runner, source):
            for name in sorted(set(owner.values()) - {OWN, SAMPLER}) + ["node_infiniband"]:
                chosen = ["--compat.node-infiniband"] if name == "node_infiniband" else ["--collector.disable-defaults", f"--collector.{name}"]
                runner.one_call("print", *source, *args, *chosen)
                expect(runner.code == 0, lambda: f"print: exit {runner.code}: {runner.err[:800]}")
                page = Page(runner.out)
                text = stable(page, owner)
                if name == "node_infiniband":
                    text = "".join(l + "\n" for l in text.split("\n") if "node_infiniband_" in l.split("{")[0])
                elif not any(tells(s.name, owner, name) for s in page.series) and "roce_collector_failure{" not in text:
                    text = ""
                yield f"{name}/{case.name}{'-' + tree if tree else ''}.prom", text


def tells(metric, owner, collector):
    """A family of the collectors; those that say what the host is stand on every page."""
    return owner.get(metric) not in (None, OWN, SAMPLER) and (collector == owner[metric] or metric not in ON_EVERY_PAGE)


ON_EVERY_PAGE = ("roce_rdma_devices", "roce_rdma_netns_mode_info")


def mode_of(case):
    """How the case makes a page; None for those without one, or whose steps or delays make it."""
    if any(l.startswith("set ") for n, l in case.lines) or "DELAY" in faults_of(case):
        return None
    return next((l.split()[1] for n, l in case.lines if l.startswith("run ")), None)


def faults_of(case):
    path = os.path.join(case.folder, "faults.tsv")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def differences(name, text):
    """Between that golden file and what is there now; none after --update."""
    path = os.path.join(FOLDER, name)
    if text:
        cases.promtool_accepts(text)
    found = None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            found = f.read()
    if os.environ.get("ROCE_UPDATE_GOLDEN") == "1":
        if text:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif found is not None:
            os.remove(path)
        return []
    if (found or "") == text:
        return []
    return list(difflib.unified_diff((found or "").split("\n"), text.split("\n"), f"golden/{name}", "now", lineterm="", n=1))


def run(case):
    owner = collectors()
    found = [line for name, text in pages(case, owner) for line in differences(name, text)]
    expect(not found, lambda: "\n".join(found[:60]))


def recordings():
    """Path by name."""
    return {n[:-len(".tar.gz")]: os.path.join(folder, n) for folder in RECORDINGS for n in sorted(os.listdir(folder)) if n.endswith(".tar.gz")}


def run_recording(name):
    """The whole page of a recorded machine."""
    code, out, err = exporter.call("print", f"--replay={recordings()[name]}")
    expect(code == 0, err)
    found = differences(f"recordings/{name}.prom", stable(Page(out), collectors()))
    expect(not found, lambda: "\n".join(found[:60]))


def complete():
    """Every golden file belongs to a case and a collector, or to a recording; every family of the collectors is in one."""
    owner = collectors()
    known = {c.name for c in cases.all_cases()}
    wrong, held = [], set()
    for folder, _, files in os.walk(FOLDER):
        for name in files:
            collector = os.path.basename(folder)
            stem = name[: -len(".prom")]
            of_case = (collector in owner.values() or collector == "node_infiniband") and (stem in known or stem[:-3] in known)
            if not of_case and not (collector == "recordings" and stem in recordings()):
                wrong.append(f"{collector}/{name}")
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                held.update(l.split()[2] for l in f if l.startswith("# TYPE "))
    expect(not wrong, f"no case or no collector: {wrong}")
    wanted = {n for n, c in owner.items() if c not in (OWN, SAMPLER) and c not in UNSHOWN}
    lost = sorted(wanted - held - set(UNSHOWN))
    expect(not lost, f"in no golden file: {lost}")
    needless = sorted(set(UNSHOWN) & held)
    expect(not needless, f"in a golden file all the same: {needless}")
    return f"{len(held)} families"


# What neither a made tree nor a recording can show, by family or collector, and where it is seen instead.
UNSHOWN = {
    "devlink": "generic netlink: unit tests of messages of the kernel",
    "kernel_log": "/dev/kmsg: unit tests",
    "qp_counters": "netlink: unit tests, and the lab against rdma statistic qp",
    "roce_optional_counters_enabled": "netlink: the lab against rdma statistic mode",
    "roce_rdma_resource_limit": "netlink: the lab against rdma resource",
    "roce_pfc_peer_enabled": "netlink: unit tests of messages of the kernel",
}


def rows():
    found = [Row(f"golden-{c.name}", "page per collector", lambda c=c: run(c)) for c in cases.all_cases() if mode_of(c)]
    found += [Row(f"golden-recording-{n}", "page of a recorded machine", lambda n=n: run_recording(n)) for n in recordings()]
    found.append(Row("golden-complete", "every file belongs to a case or a recording, every family is in one", complete, alone=True))
    return found
