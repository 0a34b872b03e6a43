# SPDX-License-Identifier: Apache-2.0
"""The groups of tests/run in the order in which they run. To add one: a module with rows(), one line here."""
import os
import sys

import alerts
import attacks
import bench
import builds
import cases
import compat
import dashboards
import e2e
import fuzz
import golden
import scale
import health
import robust
import package
import soak
import sources
from harness import ROOT, Group

sys.path[:0] = [os.path.join(ROOT, "tests", "lab", "tests"), os.path.join(ROOT, "tests", "e2e")]
import core  # noqa: E402: the lab's tests stand beside the lab
import plan  # noqa: E402

ALL = [
    Group("format", "style of the sources", sources.format_rows),
    Group("includes", "layers, heavy headers, headers that stand alone", sources.include_rows),
    Group("build", "presets, without warnings", builds.rows),
    Group("unit", "unit tests, under ASan+UBSan and TSan", builds.unit_rows),
    Group("cases", "field cases on the release build", cases.rows, workers=4),
    Group("golden", "exact pages per collector and case", golden.rows, workers=2),
    Group("e2e", "the serving program from outside", lambda: e2e.rows() + attacks.rows() + robust.rows() + soak.rows(), workers=3),
    Group("health", "check, its control socket, profiles, schedulers", health.rows, workers=3),
    Group("compat", "equal to Debian's prometheus-node-exporter", compat.rows),
    Group("alerts", "rules, runbooks, routing", alerts.rows),
    Group("dashboards", "boards: sources, queries, what is drawn", dashboards.rows, prepare=dashboards.install),
    Group("reference", "generated documents are fresh", sources.reference_rows),
    Group("package", "units, Debian packages, images, Kubernetes manifests", package.rows),
    Group("scale", "large fleets, by simulation", scale.rows),
    Group("sanitizers", "the cases again under ASan+UBSan and TSan", builds.sanitizer_rows, workers=1),
    Group("tidy", "clang-tidy 19", sources.tidy_rows),
    Group("fuzz", "corpus replay, then fuzzing", fuzz.rows),
    Group("lab", "real kernels: soft-RoCE and simulated RNICs in virtual machines", plan.rows, finish=core.clean_up),
    Group("lab-sanitizers", "the lab again with the program under ASan+UBSan and TSan", plan.sanitizer_rows, finish=core.clean_up),
    Group("lab-probes", "probes between two virtual machines", plan.probe_rows, finish=core.clean_up),
    Group("lab-install", "the packages on machines with systemd and RDMA", plan.install_rows, finish=core.clean_up),
    Group("lab-check", "check and the status page on the lab's faults", plan.check_rows, prepare=dashboards.install, finish=core.clean_up),
    Group("lab-pages", "the lab's faults through Prometheus and Alertmanager to the receiver, and the boards on them", plan.page_rows, finish=core.clean_up),
    Group("bench", "cost of a scrape", bench.rows),
]
