# SPDX-License-Identifier: Apache-2.0
"""--compat.node-infiniband against Debian's prometheus-node-exporter on the same made trees, sample for sample."""
import os
import subprocess
import tempfile
import time
import urllib.request

import cases
import exporter
import trees
from harness import Failed, Row, expect
from page import Page, same_value

PREFIX = "node_infiniband_"
# Case trees that node_exporter 1.5.0 can read; on all others its one infiniband collector fails as a whole.
READABLE = {
    "AQ-01-never-cabled-port": ["t0", "t1"],
    "AQ-11-bond-device": [""],
    "PE-03-rate-without-width": [""],
    "PE-07-counters-ext-twins": [""],
    "SE-01-four-byte-words": [""],
    "SE-02-lifespan": [""],
    "SE-23-removed-device": ["t0", "t1"],
    "SY-08-hide-identity": [""],
}


def of_node_exporter(tree):
    port = exporter.free_port()
    process = subprocess.Popen(["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults", "--collector.infiniband",
                                f"--path.sysfs={tree}/sys", f"--path.procfs={tree}/proc"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    page = Page(answer.read().decode("utf-8"))
                    break
            except OSError:
                time.sleep(0.05)
        else:
            raise Failed("node_exporter does not answer")
    finally:
        process.terminate()
        process.wait()
    success = [s.value for s in page.series if s.name == "node_scrape_collector_success"]
    expect(success == ["1"], f"node_exporter cannot read this tree (success {success})")
    return page


def samples(page):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for s in page.series if s.name.startswith(PREFIX)}


def compare(tree, known):
    """`known`: names that this node_exporter version has at all."""
    code, out, err = exporter.call("print", "--compat.node-infiniband", f"--path.sysfs={tree}/sys", f"--path.procfs={tree}/proc")
    expect(code == 0, err)
    page = Page(out)
    ours, theirs = samples(page), samples(of_node_exporter(tree))
    differences = [f"missing: {k} {v}" for k, v in theirs.items() if k not in ours]
    differences += [f"differs: {k}: {ours[k]}, node_exporter {v}" for k, v in theirs.items() if k in ours and not same_value(str(float(ours[k])), str(float(v)))]
    differences += [f"more: {k} {v}" for k, v in ours.items() if k[0] in known and k not in theirs]
    types = {s.name for s in page.series if s.name.startswith(PREFIX)}
    their_page_types = of_node_exporter_types(tree)
    differences += [f"type: {n}: {page.types[n]}, node_exporter {their_page_types[n]}" for n in types if n in their_page_types and page.types[n] != their_page_types[n]]
    expect(not differences, lambda: "\n".join(differences[:40]))
    expect(theirs, "node_exporter publishes nothing here")
    return f"{len(theirs)} samples equal, {len(ours) - len(theirs)} of names that it does not have yet"


_types = {}


def of_node_exporter_types(tree):
    if tree not in _types:
        _types[tree] = of_node_exporter(tree).types
    return _types[tree]


def known_names():
    if "names" not in _types:
        with tempfile.TemporaryDirectory(prefix="roce-compat-") as tree:
            trees.make(tree, 1, twins=True)
            with open(os.path.join(tree, "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_discards"), "w", encoding="utf-8") as f:
                f.write("4\n")
            _types["names"] = {s.name for s in of_node_exporter(tree).series if s.name.startswith(PREFIX)}
    return _types["names"]


def on_made_tree(devices, ports, twins):
    with tempfile.TemporaryDirectory(prefix="roce-compat-") as tree:
        trees.make(tree, devices, ports, twins)
        return compare(tree, known_names())


def on_case(name, sub):
    return compare(os.path.join(cases.FOLDER, name, sub).rstrip("/"), known_names())


def rows():
    found = [Row("compat-16-devices", "16 devices, all counters", lambda: on_made_tree(16, 1, False)),
             Row("compat-twins", "2 devices, 2 ports, 64-bit twins beside", lambda: on_made_tree(2, 2, True))]
    for name, subs in READABLE.items():
        for sub in subs:
            found.append(Row(f"compat-{name}{'-' + sub if sub else ''}", "case tree", lambda n=name, s=sub: on_case(n, s)))
    return found
