# SPDX-License-Identifier: Apache-2.0
"""The commands of the lab."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import agent, artefacts, machine, probes
from .common import (EXPORTER_PORT, LAB_DIR, PROBER_PORT, REPO_DIR, RNIC_DIR, LabError, run, say)

FAULTS_DIR = LAB_DIR / "faults"
MAX_NODES = 4


def _in_parallel(*tasks):
    """Runs the functions side by side; returns their results, raises the first failure."""
    results = [None] * len(tasks)
    failures = []

    def work(index, task):
        try:
            results[index] = task()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def _shape(lab):
    return {key: lab[key] for key in ("node_count", "series", "rnic", "rdma")}


def _without_debug_information(folder):
    """A folder with the programs as the machines get them: a tenth of the size, since each keeps a copy in memory."""
    slim = machine.STATE_DIR / "bin"
    slim.mkdir(parents=True, exist_ok=True)
    for program in folder.glob("roce_*"):
        run("objcopy", "--strip-debug", program, slim / program.name)
    return slim


def up(args):
    binaries = Path(args.bin).resolve() if args.bin else REPO_DIR / "build" / "release" / "bin"
    exporter = (binaries / "roce_exporter").exists()
    prober = (binaries / "roce_prober").exists()
    with machine.lab_lock():
        wanted = {"node_count": args.nodes, "series": args.kernel, "rnic": args.rnic,
                  "rdma": "off" if args.no_rdma else "on"}
        lab = machine.load()
        if lab is not None and all(machine.alive(n) for n in lab["nodes"]):
            if _shape(lab) != wanted:
                raise LabError("a lab of another shape is up (nodes %(node_count)s, kernel %(series)s,"
                               " rnic %(rnic)s); take it down first" % lab, 2)
            print(f"the lab is already up: {args.nodes} nodes, kernel {args.kernel}")
            return 0
        if not exporter and not args.no_exporter:
            raise LabError(f"no exporter to run: {binaries}/roce_exporter is missing"
                           " (build it, name its folder with --bin, or give --no-exporter)", 2)
        if lab is not None:
            say("a lab whose machines are gone was left behind; clearing it")
        machine.stop_all(keep_logs=False)
        artefacts.install_host_packages()
        kernel = artefacts.kernel(args.kernel)
        first_stage = artefacts.initramfs(kernel)
        image, accel, rnic = _in_parallel(
            lambda: artefacts.root_image(kernel),
            lambda: artefacts.accelerator(kernel, first_stage),
            lambda: artefacts.rnic_module(kernel) if args.rnic else None)
        artefacts.prune()
        rnic_args = []
        if args.rnic:
            rnic_args = run(RNIC_DIR / "qemu-args", args.rnic).split()
        lab = dict(wanted, kernel=kernel.release, accel=accel, cpus=args.cpus, memory=args.memory,
                   image=str(image), vmlinuz=str(kernel.vmlinuz), initramfs=str(first_stage),
                   bin=str(_without_debug_information(binaries)) if binaries.is_dir() else "",
                   rnic_folder=str(rnic) if rnic else "",
                   probe_folder=str(probes.make(machine.STATE_DIR / "probe", args.nodes)) if prober else "",
                   ports=[EXPORTER_PORT, PROBER_PORT], exporter=exporter and not args.no_exporter,
                   prober=prober and not args.no_exporter, nodes={})
        try:
            _boot(lab, rnic_args)
        except BaseException:
            if args.keep:
                print("lab: the machines are left as they are (--keep)", file=sys.stderr)
            else:
                machine.stop_all(keep_logs=True)
                print(f"lab: logs of the machines: {machine.STATE_DIR}/last-logs", file=sys.stderr)
            raise
    say(f"up: {args.nodes} nodes, kernel {kernel.release}, {accel}")
    return 0


def _boot(lab, rnic_args):
    say(f"booting {lab['node_count']} machines with {lab['kernel']} ({lab['accel']})")
    machine.start_hub(lab["node_count"])
    numbers = range(1, lab["node_count"] + 1)
    for node in numbers:
        lab["nodes"][str(node)] = machine.start_node(node, lab, rnic_args)
    machine.save(lab)
    _in_parallel(*[lambda n=node: _await_node(lab, n) for node in numbers])


def _await_node(lab, node, timeout=420):
    deadline = time.monotonic() + timeout
    folder = machine.node_dir(node)

    def guest(script, limit):
        try:
            return agent.capture(folder, ["/bin/bash", "-c", script], timeout=limit,
                                 answer_limit=limit)
        except (TimeoutError, ConnectionError):
            if not machine.alive(node):
                raise LabError(f"node{node} ended: {_tail(folder / 'qemu.log')}") from None
            raise LabError(f"node{node} does not boot; its console ends with:\n"
                           + _tail(folder / "console.log", 15)) from None

    # The machine may end at once (a QEMU option it does not take): then nothing answers at all.
    time.sleep(0.5)
    if not machine.alive(node):
        raise LabError(f"node{node} did not start: {_tail(folder / 'qemu.log')}")
    booted, resets = threading.Event(), []
    threading.Thread(target=_restart_dead, args=(node, booted, resets), daemon=True).start()
    try:
        while True:
            before = len(resets)
            try:
                _, state, _ = guest("until [ -e /run/lab/state ]; do sleep 0.3; done; cat /run/lab/state",
                                    max(deadline - time.monotonic(), 1))
                break
            except LabError:
                if len(resets) == before:  # else what was asked went down with the machine
                    raise
    finally:
        booted.set()
    if state.strip() != "ready":
        _, log, _ = guest("journalctl -o cat -u lab-node -t lab-node | head -8", 30)
        raise LabError(f"node{node} could not be set up: {log.strip()}")
    say(f"node{node} is set up")
    if node == 1 and lab["node_count"] > 1 and lab["rdma"] == "on":
        code, out, _ = guest("until [ \"$(cat /sys/class/nvme/nvme0/state 2>&1)\" = live ]; do"
                             " systemctl -q is-failed lab-nvme-host && { cat /run/lab/nvme.log;"
                             " exit 1; }; sleep 0.3; done", max(deadline - time.monotonic(), 1))
        if code != 0:
            raise LabError(f"node1 has no storage: {out.strip()}")
        say("node1 is connected to the storage of node2")
    for name, port in (("exporter", EXPORTER_PORT), ("prober", PROBER_PORT)):
        if not lab[name]:
            continue
        while not machine.answers(lab, node, port):
            if time.monotonic() > deadline:
                _, log, _ = guest(f"journalctl -o cat -u roce-{name} | tail -5", 30)
                raise LabError(f"the {name} of node{node} does not answer: {log.strip()}")
            time.sleep(0.3)
        say(f"node{node}: the {name} answers")


def _restart_dead(node, booted, resets):
    """An emulated machine with several processors sometimes dies early on an instruction that the kernel was patching at
    that moment; it starts again then, twice at most."""
    console = machine.node_dir(node) / "console.log"
    looked_at = 0
    while not booted.wait(1) and len(resets) < 2:
        text = console.read_bytes() if console.exists() else b""
        if b"Kernel panic" in text[looked_at:]:
            resets.append(node)
            say(f"node{node}: the kernel died while it booted, the machine starts again")
            with contextlib.suppress(LabError):  # gone meanwhile: whoever waits for it says so
                machine.qmp(node, "system_reset")
            looked_at = console.stat().st_size  # it may have gone on writing until then


def _tail(path, lines=3):
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "no log"


def down(_args):
    with machine.lab_lock():
        there = machine.load() is not None
        ended = machine.stop_all(keep_logs=False)
    print("the lab is down" if there or ended else "no lab was up")
    return 0


def _node_status(lab, node):
    entry = {"name": f"node{node}", "node": node, "kernel": lab["kernel"], "accel": lab["accel"],
             "state": "stopped", "rnic": 0,
             **{name: "no answer" if lab[name] else "absent" for name in ("exporter", "prober")},
             "url": f"http://127.0.0.1:{lab['nodes'][str(node)]['forwards'][str(EXPORTER_PORT)]}"}
    if not machine.alive(node):
        return entry
    try:
        entry["state"] = machine.qmp(node, "query-status")["status"]
    except LabError:
        entry["state"] = "unknown"
    if entry["state"] != "running":
        return entry
    try:
        _, out, _ = agent.capture(
            machine.node_dir(node),
            ["/bin/bash", "-c", "uname -r; cat /run/lab/state || echo booting;"
             " if [ -x /host/rnic/rnicctl ]; then rnicctl list | grep -c .; else echo 0; fi"],
            timeout=15, answer_limit=15)
        entry["kernel"], state, rnic = out.split()
        entry["rnic"] = int(rnic)
        if state != "ready":
            entry["state"] = state
    except (TimeoutError, ConnectionError, ValueError):
        entry["state"] = "no answer"
    for name, port in (("exporter", EXPORTER_PORT), ("prober", PROBER_PORT)):
        if machine.answers(lab, node, port):
            entry[name] = "ok"
    return entry


def status(args):
    lab = machine.load()
    nodes = []
    if lab is not None:
        nodes = _in_parallel(*[lambda n=int(n): _node_status(lab, n) for n in lab["nodes"]])
    if args.format == "json":
        print(json.dumps({"up": lab is not None, "nodes": nodes}, indent=1))
    elif lab is None:
        print("no lab is up")
    else:
        for n in nodes:
            print("{name}  {state}  kernel {kernel}  {accel}  exporter {exporter}  prober {prober}"
                  "  rnic {rnic}  {url}".format(**n))
    return 0


def _exec(node, argv, timeout, stdin=b""):
    """Runs a command in the machine with this process's stdout and stderr; returns its code."""
    machine.need(node)
    if not machine.alive(node):
        raise LabError(f"node{node} does not run")
    out = {b"out": sys.stdout.buffer, b"err": sys.stderr.buffer}

    def show(kind, data):
        out[kind].write(data)
        out[kind].flush()

    try:
        code = agent.execute(machine.node_dir(node), argv, show, timeout, stdin)
    except (TimeoutError, ConnectionError) as error:
        raise LabError(f"node{node} does not answer" + (f": {error}" if str(error) else ""),
                       agent.TIMED_OUT) from None
    if code == agent.TIMED_OUT:
        print(f"lab: the command took longer than {timeout:g} s", file=sys.stderr)
    return code


def execute(args):
    if not args.command:
        raise LabError("exec needs a command", 2)
    # One word is a shell line, as with ssh; several are an argument list and are not read again.
    argv = args.command if len(args.command) > 1 else ["/bin/bash", "-c", args.command[0]]
    stdin = sys.stdin.buffer.read() if args.stdin else b""
    return _exec(args.node, argv, args.timeout, stdin)


def url(args):
    with machine.lab_lock():
        lab = machine.need(args.node)
        print(f"http://127.0.0.1:{machine.forward(lab, args.node, args.port)}")
    return 0


def rnic(args):
    lab = machine.need(args.node)
    if not lab["rnic"]:
        raise LabError("this lab has no simulated RNIC; start it with --rnic N", 2)
    return _exec(args.node, ["/usr/local/sbin/rnicctl", *args.command], 60)


def fault(args):
    """Runs on() or off() of faults/Fnn: in the machine, or here where the file says so."""
    name = args.fault.upper()
    script = FAULTS_DIR / name
    if not script.exists():
        known = " ".join(sorted(p.name for p in FAULTS_DIR.glob("[FB][0-9][0-9]")))
        raise LabError(f"no fault {name} can be injected; there are {known}", 2)
    machine.need(args.node)
    text = script.read_text()
    if "\n# where: host\n" in text:
        common = (FAULTS_DIR / "host.sh").read_text()
        return subprocess.run(["bash", "-c", f"{common}\n{text}\n{args.switch}\n"],
                              env=dict(os.environ, LAB=str(LAB_DIR / "lab"), FAULT=name,
                                       NODE=str(args.node))).returncode
    common = (FAULTS_DIR / "common.sh").read_text()
    program = f"FAULT={name}\n{common}\n{text}\n{args.switch}\n"
    return _exec(args.node, ["/bin/bash", "-c", program], 180)


def pause(args):
    machine.need(args.node)
    machine.qmp(args.node, "stop" if args.verb == "pause" else "cont")
    return 0


def link(args):
    """The cable of a node's fabric NIC. Better than `ip link set down` in the machine: what rxe
    sends meanwhile gets lost and is no error, which its QP 1 would not survive."""
    machine.need(args.node)
    machine.qmp(args.node, "set_link", name="fabric", up=args.state == "up")
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    commands = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    p = commands.add_parser("up", help="start the machines; return when all of them serve")
    p.add_argument("--nodes", type=int, default=2, choices=range(1, MAX_NODES + 1), metavar="N")
    p.add_argument("--kernel", default="6.1", choices=["6.1", "6.12"])
    p.add_argument("--rnic", type=int, default=0, metavar="N", help="simulated RNICs per node")
    p.add_argument("--bin", metavar="DIR", help="folder of the programs (build/release/bin)")
    p.add_argument("--no-exporter", action="store_true", help="do not wait for the programs")
    p.add_argument("--no-rdma", action="store_true", help="load no RDMA module at boot")
    p.add_argument("--keep", action="store_true", help="leave the machines up after a failure")
    p.add_argument("--cpus", type=int, default=2, metavar="N")
    p.add_argument("--memory", type=int, default=1024, metavar="MB")
    p.set_defaults(run=up)

    commands.add_parser("down", help="end the machines, remove their state").set_defaults(run=down)

    p = commands.add_parser("status", help="what runs and what answers")
    p.add_argument("--format", choices=["text", "json"], default="text")
    p.set_defaults(run=status)

    p = commands.add_parser("exec", help="run a command in a machine, as root")
    p.add_argument("--stdin", "-i", action="store_true", help="pass on standard input")
    p.add_argument("--timeout", type=float, default=600.0, metavar="S",
                   help="kill the command after S seconds (exit 124)")
    p.add_argument("node", type=int)
    p.add_argument("command", nargs=argparse.REMAINDER)
    p.set_defaults(run=execute)

    p = commands.add_parser("url", help="a URL on 127.0.0.1 that reaches a port of a machine")
    p.add_argument("node", type=int)
    p.add_argument("port", type=int)
    p.set_defaults(run=url)

    p = commands.add_parser("rnic", help="control the simulated RNICs of a machine")
    p.add_argument("node", type=int)
    p.add_argument("command", nargs=argparse.REMAINDER,
                   help="list | set DEV COUNTER VALUE | hang hwstats|ethtool MS DEV |"
                        " errno DEV FILE ERRNO | unplug DEV | plug DEV | link DEV up|down|RATE")
    p.set_defaults(run=rnic)

    p = commands.add_parser("fault", help="cause a fault, or end it")
    p.add_argument("fault", metavar="Fnn")
    p.add_argument("node", type=int)
    p.add_argument("switch", choices=["on", "off"])
    p.set_defaults(run=fault)

    for verb, text in (("pause", "stop a machine's CPUs"), ("resume", "let them run again")):
        p = commands.add_parser(verb, help=text)
        p.add_argument("node", type=int)
        p.set_defaults(run=pause)

    p = commands.add_parser("link", help="pull or plug the cable of a machine's fabric NIC")
    p.add_argument("node", type=int)
    p.add_argument("state", choices=["up", "down"])
    p.set_defaults(run=link)
    return parser


def main():
    args = _parser().parse_args()
    try:
        return args.run(args)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
