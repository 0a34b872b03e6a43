# SPDX-License-Identifier: Apache-2.0
"""How the cost of a scrape grows with one thing that a host has much of, and that its limits hold."""
import json
import os
import tempfile

import exporter
import trees
from harness import expect
from subject import Http, take_turns

SERIES_PER_PORT = 250
SERIES_PER_HOST = 600


def functions(root, count):
    """One physical function with `count` virtual ones, each with all its counters."""
    trees.make(root, count + 1)
    pci = [os.path.realpath(os.path.join(root, "sys", "class", "infiniband", f"mlx5_{d}", "device")) for d in range(count + 1)]
    for name, value in (("sriov_totalvfs", count), ("sriov_numvfs", count), ("sriov_offset", 1), ("sriov_stride", 1)):
        trees.write(os.path.join(pci[0], name), str(value))
    for i, function in enumerate(pci[1:]):
        os.symlink(os.path.relpath(pci[0], function), os.path.join(function, "physfn"))
        os.symlink(os.path.relpath(function, pci[0]), os.path.join(pci[0], f"virtfn{i}"))
    return count + 1


def qps(root, count):
    """QPs of 64 processes on four devices."""
    trees.make(root, 4)
    os.makedirs(os.path.join(root, "rdma"))
    per_device = count // 4
    states = ("RTS", "RTS", "RTS", "INIT", "ERR")
    rows = [{"ifindex": d, "ifname": f"mlx5_{d}", "port": 1, "lqpn": 100 + n, "rqpn": n, "type": "RC", "state": states[n % 5], "rq-psn": 1, "sq-psn": 2,
             "path-mig-state": "MIGRATED", "pdn": 9, "pid": 1000 + n % 64, "comm": f"worker{n % 64}"} for d in range(4) for n in range(per_device)]
    listing = [{"ifindex": d, "ifname": f"mlx5_{d}", "pd": 1, "cq": 1, "qp": per_device, "cm_id": 0, "mr": 1, "ctx": 1, "srq": 0} for d in range(4)]
    for name, content in (("resource_qp", [[r] for r in rows]), ("resource", listing)):
        with open(os.path.join(root, "rdma", f"{name}.json"), "w", encoding="utf-8") as f:
            json.dump(content, f)
    return 4


def namespaces(root, count):
    """NVMe namespaces of one subsystem, each by two paths."""
    trees.make(root, 2)
    subsystem = os.path.join(root, "sys", "class", "nvme-subsystem", "nvme-subsys0")
    trees.write(os.path.join(subsystem, "subsysnqn"), "nqn.2026-01.example:pool")
    for c in range(2):
        controller = os.path.join(subsystem, f"nvme{c}")
        for name, value in (("cntlid", c + 1), ("cntrltype", "io"), ("ctrl_loss_tmo", 600), ("transport", "rdma"), ("state", "live"), ("reconnect_delay", 10),
                            ("address", f"traddr=192.0.2.{c + 1},trsvcid=4420"), ("subsysnqn", "nqn.2026-01.example:pool")):
            trees.write(os.path.join(controller, name), str(value))
        for n in range(1, count + 1):
            trees.write(os.path.join(controller, f"nvme0c{c}n{n}", "ana_state"), "optimized")
            trees.write(os.path.join(controller, f"nvme0c{c}n{n}", "stat"), "100 0 800 5 200 0 1600 9 0 14 14 0 0 0 0 0 0")
    for n in range(1, count + 1):
        trees.write(os.path.join(subsystem, f"nvme0n{n}", "size"), "1024")
    return 2


def processes(root, count):
    """Processes that hold RDMA contexts, as far as a recording tells."""
    trees.make(root, 2)
    for p in range(count):
        process = os.path.join(root, "proc", str(1000 + p))
        trees.write(os.path.join(process, "comm"), f"osd{p}")
        trees.write(os.path.join(process, "cgroup"), f"0::/system.slice/osd-{p}.service")
        trees.write(os.path.join(process, "limits"), "Limit                     Soft Limit           Hard Limit           Units     \n"
                                                     f"Max locked memory         {65536 * (1 + p % 7)}               655360               bytes     ")
        trees.write(os.path.join(process, "status"), f"Name:\tosd{p}\nUid:\t167\t167\t167\t167\nVmLck:\t       0 kB\nVmPin:\t    {p % 64} kB\nCapEff:\t0000000000000000")
    return 2


# what, how to make it, how many of it, how the exporter reads it
KINDS = (("virtual functions", functions, (64, 128, 256, 512), "tree"),
         ("QPs", qps, (512, 1024, 2048, 4096), "replay"),
         ("NVMe namespaces", namespaces, (125, 250, 500, 1000), "tree"),
         ("processes", processes, (250, 500, 1000, 2000), "replay"))


def slope(points):
    """Least squares: seconds for one more."""
    n, mean_x, mean_y = len(points), sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points) if n > 1 else None


def measure(scrapes):
    found = []
    for what, make, counts, how in KINDS:
        rows = []
        for count in counts:
            with tempfile.TemporaryDirectory(prefix="roce-growth-") as root:
                devices = make(root, count)
                source = [f"--replay={root}"] if how == "replay" else [f"--path.sysfs={root}/sys", f"--path.procfs={root}/proc"]
                subject = Http(what, [exporter.binary("release"), *source])
                try:
                    began = subject.cpu_seconds()  # with the first collection, in which sources that are read once a minute are
                    row = take_turns([subject], scrapes)[0]
                    del row["wall_seconds"]
                    row.update(count=count, devices=devices, first_cpu_seconds=began, **subject.memory())
                    limit = SERIES_PER_PORT * devices + SERIES_PER_HOST
                    expect(row["series"] <= limit, f"{count} {what}: {row['series']} series, at most {limit} are promised")
                    rows.append(row)
                finally:
                    subject.stop()
        found.append({"what": what, "rows": rows, "cpu_seconds_for_one_more": slope([(r["count"], r["cpu_seconds"]) for r in rows]),
                      "first_cpu_seconds_for_one_more": slope([(r["count"], r["first_cpu_seconds"]) for r in rows]),
                      "rss_bytes_for_one_more": slope([(r["count"], r["rss_bytes"]) for r in rows])})
    return found


def show(found):
    print("\n| what | how many | series | CPU a scrape | CPU with the first collection | RSS |\n|---|---|---|---|---|---|")
    for kind in found:
        for r in kind["rows"]:
            print(f"| {kind['what']} | {r['count']} | {r['series']} | {r['cpu_seconds'] * 1e3:.2f} ms | {r['first_cpu_seconds'] * 1e3:.0f} ms | {r['rss_bytes'] / 1e6:.1f} MB |")
        print(f"| {kind['what']} | one more | | {kind['cpu_seconds_for_one_more'] * 1e6:.1f} us | {kind['first_cpu_seconds_for_one_more'] * 1e6:.0f} us "
              f"| {kind['rss_bytes_for_one_more'] / 1e3:.2f} kB |", flush=True)
