# SPDX-License-Identifier: Apache-2.0
"""Faults of faults/map.tsv that no machine of the lab can have: shown on a made host of two RNICs, before and after."""
import os
import tempfile

import exporter
import trees
from fault_map import crossed, load, total
from harness import Row, expect
from page import Page

DEVICE, SIBLING = "mlx5_0", "mlx5_1"
MOUNT = "/data"


def function_of(root, device):
    return os.path.realpath(os.path.join(root, "sys", "class", "infiniband", device, "device"))


def configuration(root, device, max_read_request):
    """The function's configuration space: its PCI Express capability stands at 0x60, device control 8 bytes on."""
    space = bytearray(256)
    space[0:4] = b"\xb3\x15\x21\x10"
    space[0x06] = 0x10  # has capabilities
    space[0x34] = 0x60
    space[0x60:0x64] = b"\x10\x00\x02\x00"
    code = (max_read_request // 128).bit_length() - 1
    space[0x68:0x6A] = (code << 12 | 0x0936).to_bytes(2, "little")
    space[0x6C:0x6E] = b"\x05\x01"  # a link of its own: 32 GT/s, 16 lanes
    with open(os.path.join(function_of(root, device), "config"), "wb") as f:
        f.write(space)


def ecn(root, device, off=()):
    for net in os.listdir(os.path.join(function_of(root, device), "net")):
        for priority in range(8):
            for point in ("roce_np", "roce_rp"):
                trees.write(os.path.join(function_of(root, device), "net", net, "ecn", point, "enable", str(priority)),
                            str(int(priority not in off or point == "roce_np")))


def mountstats(root, requests, transmissions, bad_replies):
    trees.write(os.path.join(root, "proc", "self", "mountstats"),
                f"device 192.0.2.7:/pool mounted on {MOUNT} with fstype nfs4 statvers=1.1\n"
                "\topts:\trw,vers=4.2,proto=rdma,port=20049,addr=192.0.2.7\n\tage:\t500\n"
                f"\txprt:\trdma 0 0 1 2 1 {transmissions} {requests} 0 10 3 1 1 1 100 200 0 0 0 0 {bad_replies} 0 1 0 5 6 1 0\n"
                f"\tper-op statistics\n\t        READ: {requests} {transmissions} 0 352 192 0 9 9 0")


def nvidia_fs(root, fallbacks):
    trees.write(os.path.join(root, "proc", "driver", "nvidia-fs", "stats"),
                "GDS Version: 1.11.1.6\nNVFS driver(version: 2.24.2)\nNVFS Driver(version: 2.24.2)\nIO stats: Enabled, peer IO stats: Enabled\n\n"
                "Active Shadow-Buffer (MiB): 0\nActive Process: 1\n"
                "Reads\t: n=9000 ok=8990 err=0 readMiB=900 io_state_err=0\n"
                f"Sparse Reads\t: n={fallbacks} io=0 holes=0 pages=0\n"
                "Writes\t: n=10 ok=10 err=0 writeMiB=1 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0")


def well(root):
    trees.make(root, 2)
    for device in (DEVICE, SIBLING):
        configuration(root, device, 4096)
        ecn(root, device)
    mountstats(root, 1000, 1000, 0)
    nvidia_fs(root, 12)
    trees.write(os.path.join(root, "profile.yml"), "devices:\n  - pci_address: \"0000:01:00.0\"\n  - pci_address: \"0000:01:01.0\"")


def all_ones(root):
    for folder in ("counters", "hw_counters"):
        path = os.path.join(root, "sys", "class", "infiniband", DEVICE, "ports", "1", folder)
        for name in os.listdir(path):
            trees.write(os.path.join(path, name), str(2**64 - 1))


def missing(root):
    os.remove(os.path.join(root, "sys", "class", "infiniband", DEVICE))


def firmware(root):
    trees.write(os.path.join(root, "sys", "class", "infiniband", DEVICE, "fw_ver"), "28.39.1002")


FAULTS = {
    "F21": missing,
    "F24": lambda root: ecn(root, DEVICE, off=(3,)),
    "F35": lambda root: configuration(root, DEVICE, 128),
    "F40": all_ones,
    "F43": firmware,
    "F44": lambda root: mountstats(root, 2000, 2400, 9),
    "F45": lambda root: nvidia_fs(root, 340),
}


def page(root):
    code, out, err = exporter.call("print", f"--path.sysfs={root}/sys", f"--path.procfs={root}/proc", f"--profile.file={root}/profile.yml")
    expect(code == 0, err)
    return Page(out)


def run(fault):
    table = load()
    mine = [r for r in table if r["fault"] == fault and r["seen_on"] == "made"]
    expect(mine and fault in FAULTS, f"{fault} has no row that is seen on a made host, or nothing that causes it")
    with tempfile.TemporaryDirectory() as root:
        well(root)
        before = page(root)
        for r in mine:
            family = r["series"].split(" / ")[0]
            expect(r["direction"] == "appears" or total(before, family, r, DEVICE) is not None, f"{family} is not on the page before the fault")
        FAULTS[fault](root)
        after = page(root)
    implied = {i for r in mine for i in r["implies"]} | {fault}
    told = []
    for r in table:
        ok, what = crossed(r, before, after, DEVICE)
        if r in mine:
            expect(ok, f"not told: {what}")
            told.append(what)
            if "device=RNIC" in r["labels"]:
                bad, what = crossed(r, before, after, SIBLING)
                expect(not bad, f"the sibling shows the fault too: {what}")
        elif r["fault"] not in implied:
            expect(not ok, f"{r['fault']} would be told too: {what}")
    return "; ".join(told)


def rows():
    faults = sorted({r["fault"] for r in load() if r["seen_on"] == "made"})
    return [Row(f"map-made-{f}", f"fault {f} moves its series and no other's, on a made host", lambda f=f: run(f)) for f in faults]
