# SPDX-License-Identifier: Apache-2.0
"""`check` on real kernels: on a healthy lab it finds nothing; a fault it calls by its name, on its object, with evidence."""
import json
import time

import core
from fault_map import TARGET_FAULTS, restart, settle
from harness import Row, expect

PROGRAM = "/run/roce/roce_exporter"
SECONDS = 60

# fault, id of the finding, what its object begins with (SOFT, RNIC: that device), what was found
FAULTS = [
    ("F04", "port-down", "SOFT", "down"),
    ("F05", "link-flapping", "SOFT", "times down"),
    ("F08", "nvme-path-lost", "nvme", "connecting"),
    ("F11", "mtu", "SOFT", "1500 bytes"),
    ("F12", "gid-missing", "SOFT", "0 routable"),
    ("F13", "memlock-headroom", "pid", "of 64 KiB pinned"),
    ("F14", "hugepages-exhausted", "2MB", "0 of 8"),
    ("F23", "pfc-priorities", "RNIC", ""),
    ("F26", "pause-storm", "RNIC", "paused"),
    ("F27", "pause-sent", "RNIC", "paused"),
    ("F29", "cnp-ignored", "RNIC", "notifications ignored"),
    ("F30", "receiver-not-ready", "RNIC", "no posted receive"),
    ("F31", "lossless-drops", "RNIC", "packets dropped"),
    ("F32", "link-errors", "RNIC", "lost"),
    ("F33", "rate-uneven", "RNIC", "Gb/s"),
    ("F34", "pcie-degraded", "RNIC", "x8"),
    ("F36", "kernel-call-stuck", "RNIC", "has waited"),
    ("F39", "counter-saturated", "RNIC", "symbol_error"),
]
SLOW = ("F12", "F13", "F23", "F34")  # read once a minute: the exporter begins anew
PROFILE = ("F11", "F23")             # only a profile knows what is right


def ask(node):
    """The running exporter's verdict, asked as the exporter's own user."""
    out = core.inside(node, f"{PROGRAM} check --format=json --window=3s; true")
    expect(out.startswith("{"), out[:500])
    return json.loads(out)


def told(verdict):
    return [(f["id"], f["object"], f["found"]) for f in verdict["findings"]]


def healthy(node):
    # The slot of an emulated card is worth 2 Gb/s and is told so; the simulated one carries its port.
    for n in range(core.RNICS):
        core.inside(node, f"rnicctl pcie mlx5_{n} max_read_req 512")
    restart(node)

    def well():
        core.fresh(node)
        verdict = ask(node)
        return verdict if not verdict["findings"] else None
    try:
        verdict = core.until("no finding", well, 120)
    except Exception:
        expect(False, f"findings on a healthy lab: {told(ask(node))}")
    expect(verdict["status"] == "ok", verdict["status"])
    code = core.inside(node, f"{PROGRAM} check > /run/check.txt; echo $?").strip()
    expect(code == "0", f"exit {code}: " + core.inside(node, "cat /run/check.txt"))


def alone():
    """Without a running exporter: two readings, and what could not be judged is said."""
    out = core.inside(1, f"systemctl stop roce-exporter; {PROGRAM} check --window=2s; echo code $?; systemctl start roce-exporter")
    core.until("the exporter is back", lambda: core.fresh(1).find(core.Pattern("roce_rdma_devices")))
    expect("no running exporter answers" in " ".join(out.split()), out)
    expect("code 0" in out, out)


def with_profile(node):
    """The exporter runs with a profile of this host as it is now."""
    core.inside(node, f"{PROGRAM} profile init > /etc/roce-profile.yml; chmod 644 /etc/roce-profile.yml; "
                      "echo ARGS=--profile.file=/etc/roce-profile.yml > /etc/default/roce-exporter; systemctl restart roce-exporter", timeout=60)
    core.until("the exporter is back", lambda: core.fresh(node).find(core.Pattern("roce_rdma_devices")))


def without_profile(node):
    core.inside(node, "rm -f /etc/default/roce-exporter /etc/roce-profile.yml; systemctl restart roce-exporter")
    core.until("the exporter is back", lambda: core.fresh(node).find(core.Pattern("roce_rdma_devices")))


def fault(name, check, where, found):
    node = 2 if name in TARGET_FAULTS else 1
    seen = 1
    device = {"SOFT": core.SOFT, "RNIC": "mlx5_0"}.get(where, where)
    if name == "F14":
        core.inside(node, "sysctl -qw vm.nr_hugepages=8")
    if name in PROFILE:
        with_profile(node)
    core.fresh(seen)
    before = told(ask(seen))
    expect(check not in [b[0] for b in before], f"before the fault: {before}")
    core.lab("fault", name, node, "on")
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            if name in SLOW:
                restart(seen)
            core.fresh(seen)
            time.sleep(2)
            core.fresh(seen)
            verdict = ask(seen)
            mine = [f for f in verdict["findings"] if f["id"] == check and f["object"].startswith(device) and found in f["found"]]
            if mine:
                break
            expect(time.monotonic() < deadline, lambda: f"findings: {told(verdict)}")
        page = core.fetch(seen, "/")[0]
        expect(check in page, "the status page says nothing of it")
        sibling = [f for f in verdict["findings"] if where == "RNIC" and f["id"] == check and f["object"].startswith("mlx5_1")]
        expect(not sibling, f"the sibling too: {sibling}")
    finally:
        core.lab("fault", name, node, "off")
        if name in PROFILE:
            without_profile(node)
    settle(name, seen)
    return f"{mine[0]['severity']} {mine[0]['object']}: {mine[0]['found']}"


def rows(tag, full_only=False):
    def row(name, what, run):
        return Row(f"{tag}-{name}", what, run, full_only=full_only, alone=True)
    return ([row("healthy", "check finds nothing on a healthy lab", lambda: [healthy(n) for n in (1, 2)] and None),
             row("alone", "check without a running exporter", alone)]
            + [row(f, f"check calls fault {f} {c}", lambda f=f, c=c, w=w, t=t: fault(f, c, w, t)) for f, c, w, t in FAULTS])
