# SPDX-License-Identifier: Apache-2.0
"""faults/map.tsv on real kernels: a fault moves its series on its object, not on the sibling's, and no other fault's."""
import csv
import os
import time

import core
from harness import ROOT, Failed, Row, expect
from page import Pattern

MAP = os.path.join(ROOT, "tests", "lab", "faults", "map.tsv")
TARGET_FAULTS = ("F08", "F10")  # injected at the storage target, node 2
SECONDS = 40


def load():
    with open(MAP, encoding="utf-8") as f:
        rows = list(csv.DictReader((l for l in f if not l.startswith("#")), delimiter="\t"))
    for row in rows:
        row["implies"] = [w for w in (row["implies"] or "").split(",") if w]
        row["labels"] = [w for w in row["labels"].split(",") if w]
    return rows


def pattern(family, row, device):
    """The series of a row, as on `device` where the row names a simulated RNIC or the soft-RoCE device."""
    parts = []
    for pair in row["labels"]:
        name, text = pair.split("=", 1)
        parts.append(f'{name}="{device if text in ("RNIC", "SOFT") else text}"')
    return Pattern(f"{family}{{{','.join(parts)}}}" if parts else family)


def own_device(row):
    return core.SOFT if "device=SOFT" in row["labels"] else "mlx5_0"


def total(page, family, row, device):
    found = page.find(pattern(family, row, device))
    return sum(float(s.value) for s in found) if found else None


def crossed(row, before, after, device):
    """Whether the row's series says its fault of `device` between two pages, and what it did."""
    families = row["series"].split(" / ")
    least = float(row["minimum"] or 0)
    was, now = ([total(p, f, row, device) for f in families] for p in (before, after))
    told = f"{row['series']} on {device}: {was} then {now}"
    kind = row["direction"]
    if kind == "appears":
        return (was[0] is None or was[0] < least) and now[0] is not None and now[0] >= least, told
    if kind == "vanishes":
        return was[0] is not None and now[0] is None, told
    if None in was or None in now:
        return False, told
    grown = [b - a for a, b in zip(was, now)]
    if kind == "mean":
        return grown[1] > 0 and grown[0] / grown[1] >= least, told
    return (grown[0] >= least if kind == "up" else -grown[0] >= least), told


def restart(node):
    """What is read once a minute is read anew by a program that has just begun."""
    core.inside(node, "systemctl restart roce-exporter")
    core.until("the exporter is back", lambda: core.fresh(node).find(Pattern("roce_rdma_devices")))


def busy():
    """A little storage traffic, so that what only traffic shows is there."""
    core.inside(1, "timeout 20 dd if=/dev/nvme0n1 of=/dev/null bs=64k count=40 iflag=direct 2>/dev/null || true", timeout=60)


def prepare(fault, node):
    """What has to be there before a fault can be."""
    if fault == "F14":  # a pool to use up
        core.inside(node, "sysctl -qw vm.nr_hugepages=8")
    if fault == "F44":  # a mount to lose
        core.inside(2, "lab-nfs serve")
        core.inside(1, "lab-nfs mount 10.77.0.2")


def clear(fault):
    if fault == "F44":
        core.inside(1, "lab-nfs umount")
        core.inside(2, "lab-nfs unserve")


def run(fault, rows):
    mine = [r for r in rows if r["fault"] == fault and r["seen_on"] != "made"]
    node = 2 if fault in TARGET_FAULTS else 1
    seen = 1 if mine[0]["seen_on"] == "host" else node
    slow = any(r["cadence"] == "slow" for r in mine)
    prepare(fault, node)
    if slow:
        restart(seen)
    before = core.fresh(seen)
    for r in mine:
        family = r["series"].split(" / ")[0]
        expect(r["direction"] == "appears" or total(before, family, r, own_device(r)) is not None,
               f"{family} of {own_device(r)} is not on the page before the fault")
    core.lab("fault", fault, node, "on")
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            if fault in ("F01", "F10"):
                busy()
            if slow:
                restart(seen)
            after = core.fresh(seen)
            results = [crossed(r, before, after, own_device(r)) for r in mine]
            if all(ok for ok, _ in results):
                break
            expect(time.monotonic() < deadline, lambda: "not within the time: " + "; ".join(t for ok, t in results if not ok))
    finally:
        core.lab("fault", fault, node, "off")
    for r in mine:
        if own_device(r) == core.SOFT or "device=RNIC" not in r["labels"]:
            continue
        bad, told = crossed(r, before, after, "mlx5_1")
        expect(not bad, f"the sibling shows the fault too: {told}")
    implied = {i for r in mine for i in r["implies"]} | {fault}
    for r in rows:
        if r["fault"] in implied or (r["cadence"] == "slow" and not slow):
            continue
        bad, told = crossed(r, before, after, own_device(r))
        expect(not bad, f"{r['fault']} would be told too: {told}")
    clear(fault)
    settle(fault, seen)
    return "; ".join(t for _, t in results)


def settle(fault, node):
    """The next fault begins on a lab that is well; where this one leaves something behind, as a kernel whose NVMe host waits for
    ever for an event of the connection manager, on machines that are started again."""
    def well():
        page = core.fresh(node)
        active = all(core.value(page, f'roce_port_state{{device="{d}",port="1"}}') == 4 for d in (core.SOFT, "mlx5_0", "mlx5_1"))
        return active and (node != 1 or core.value(page, "roce_nvme_subsystem_paths_live") >= 1)
    try:
        core.until(f"the lab is well after {fault}", well, 90)
    except Failed:
        core.anew()
        raise


def rows(tag, full_only=False):
    table = load()
    faults = sorted({r["fault"] for r in table if r["seen_on"] != "made"})
    return [Row(f"{tag}-map-{f}", f"fault {f} moves its series and no other's", lambda f=f: run(f, table), full_only=full_only, alone=True)
            for f in faults]
