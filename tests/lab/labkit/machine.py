# SPDX-License-Identifier: Apache-2.0
"""QEMU processes of the lab: the hub that is the fabric's switch, and one machine per node.

All that is known of a running lab lies in the state folder, so any later command can find it:
lab.json, hub/ and nodeN/ with sockets, process id, logs.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from . import agent
from .common import STATE_DIR, LabError

LAB_FILE = STATE_DIR / "lab.json"
HUB_DIR = STATE_DIR / "hub"


@contextmanager
def lab_lock():
    """One command at a time may change the lab."""
    STATE_DIR.mkdir(parents=True, exist_ok=True)
    with open(STATE_DIR / "lock", "w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError("another lab command is at work", 2) from None
        yield


def node_dir(node):
    return STATE_DIR / f"node{node}"


def load():
    """The description of the lab that is up, or None."""
    try:
        return json.loads(LAB_FILE.read_text())
    except FileNotFoundError:
        return None


def save(description):
    temporary = LAB_FILE.with_suffix(".new")
    temporary.write_text(json.dumps(description, indent=1) + "\n")
    temporary.rename(LAB_FILE)


def need(node=None):
    """The lab that is up; with `node`, checks that it has this one."""
    description = load()
    if description is None:
        raise LabError("no lab is up; start one with 'lab up'", 2)
    if node is not None and str(node) not in description["nodes"]:
        raise LabError(f"no such node: {node} (there are {', '.join(description['nodes'])})", 2)
    return description


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _start(folder, argv):
    with open(folder / "qemu.log", "wb") as log:
        # TMPDIR: QEMU must not leave anything elsewhere.
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, start_new_session=True,
                                   env=dict(os.environ, TMPDIR=str(folder)))
    (folder / "pid").write_text(str(process.pid))
    return process


def start_hub(nodes):
    """A QEMU without a guest that joins the nodes' NICs, so that no node's end takes the fabric.

    It must not be stopped (-S): then it would pass no packet.
    """
    HUB_DIR.mkdir(parents=True, exist_ok=True)
    argv = ["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display", "none"]
    for n in range(1, nodes + 1):
        argv += ["-netdev", f"stream,id=s{n},server=on,addr.type=unix,addr.path={HUB_DIR}/{n}.sock",
                 "-netdev", f"hubport,id=h{n},hubid=0,netdev=s{n}"]
    process = _start(HUB_DIR, argv)
    deadline = time.monotonic() + 10
    while not all((HUB_DIR / f"{n}.sock").exists() for n in range(1, nodes + 1)):
        if process.poll() is not None or time.monotonic() > deadline:
            raise LabError("the hub did not start: " + (HUB_DIR / "qemu.log").read_text().strip())
        time.sleep(0.05)


def start_node(node, lab, rnic_args):
    """Starts one machine and returns its entry for the lab's description."""
    folder = node_dir(node)
    folder.mkdir(parents=True, exist_ok=True)
    forwards = {str(port): free_port() for port in lab["ports"]}
    forward = "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{guest}" for guest, host in forwards.items())
    accel = "tcg,thread=multi,tb-size=256" if lab["accel"] == "tcg" else "kvm"
    options = ["console=ttyS0", "net.ifnames=0", "mitigations=off", "random.trust_cpu=on",
               "loglevel=4", "panic=0", "systemd.show_status=0", "nokaslr",
               "cryptomgr.notests", "nowatchdog", "audit=0", "no_timer_check",
               "rcupdate.rcu_expedited=1", f"systemd.hostname=node{node}",
               f"lab.node={node}", f"lab.nodes={lab['node_count']}"]
    folders = {"bin": lab["bin"], "rnic": lab["rnic_folder"], "probe": lab["probe_folder"]}
    argv = [
        "qemu-system-x86_64", "-name", f"node{node}", "-M", "q35", "-accel", accel, "-cpu",
        "max,-la57" if lab["accel"] == "tcg" else "max",
        "-smp", str(lab["cpus"]), "-m", str(lab["memory"]), "-nodefaults", "-display", "none",
        "-serial", f"file:{folder}/console.log",
        "-qmp", f"unix:{folder}/qmp.sock,server=on,wait=off",
        "-drive", f"file={lab['image']},format=raw,if=virtio,readonly=on",
        "-device", "virtio-rng-pci",
        "-netdev", f"stream,id=fabric,server=off,addr.type=unix,addr.path={HUB_DIR}/{node}.sock",
        "-device", f"virtio-net-pci,netdev=fabric,mac=52:54:00:77:00:{node:02x},host_mtu=4200",
        "-netdev", f"user,id=user{forward}",
        "-device", f"virtio-net-pci,netdev=user,mac=52:54:00:77:01:{node:02x}",
        "-device", f"virtio-serial-pci,max_ports={agent.CHANNELS + 1}",
    ]
    for i in range(agent.CHANNELS):
        argv += ["-chardev",
                 f"socket,id=cmd{i},path={agent.channel_path(folder, i)},server=on,wait=off",
                 "-device", f"virtserialport,chardev=cmd{i},name=lab.cmd{i}"]
    for tag, host_folder in folders.items():
        if host_folder:
            argv += ["-virtfs", f"local,path={host_folder},mount_tag={tag},security_model=none,"
                                "readonly=on"]
            options.append(f"lab.{tag}=1")
    if lab["rdma"] == "off":
        options.append("lab.rdma=off")
    argv += rnic_args
    argv += ["-kernel", lab["vmlinuz"], "-initrd", lab["initramfs"], "-append", " ".join(options)]
    process = _start(folder, argv)
    return {"pid": process.pid, "forwards": forwards}


def alive(node):
    try:
        pid = int((node_dir(node) / "pid").read_text())
    except (FileNotFoundError, ValueError):
        return False
    return pid in _own_processes()


def _own_processes():
    """Process ids of this lab's QEMUs, whoever started them: they name the state folder."""
    mark = str(STATE_DIR).encode() + b"/"
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except (OSError, IndexError):
            continue
        if state != "Z" and words[0].endswith(b"qemu-system-x86_64") and any(
                mark in w for w in words[1:]):
            found.append(int(entry.name))
    return found


def stop_all(keep_logs):
    """Ends every process of the lab and removes its state, also what a crash left behind."""
    deadline = time.monotonic() + 10
    sent = {}
    while True:
        pids = _own_processes()
        if not pids:
            break
        for pid in pids:
            number = signal.SIGTERM if pid not in sent else signal.SIGKILL
            if pid in sent and time.monotonic() < sent[pid] + 3:
                continue
            sent.setdefault(pid, time.monotonic())
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise LabError("a QEMU of the lab does not end: " + " ".join(map(str, pids)))
        time.sleep(0.05)
        _reap()
    logs = STATE_DIR / "last-logs"
    if keep_logs:
        shutil.rmtree(logs, ignore_errors=True)
    for folder in [HUB_DIR, *sorted(STATE_DIR.glob("node*"))]:
        if keep_logs:
            for log in folder.glob("*.log"):
                (logs / folder.name).mkdir(parents=True, exist_ok=True)
                shutil.move(log, logs / folder.name / log.name)
        shutil.rmtree(folder, ignore_errors=True)
    for path in (LAB_FILE, LAB_FILE.with_suffix(".new")):
        path.unlink(missing_ok=True)
    return len(sent)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def qmp(node, command, **arguments):
    """One QMP command; returns its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(10)
        try:
            s.connect(str(node_dir(node) / "qmp.sock"))
            f = s.makefile("rw")
            json.loads(f.readline())
            for request in ({"execute": "qmp_capabilities"},
                            {"execute": command, "arguments": arguments}):
                f.write(json.dumps(request) + "\n")
                f.flush()
                while True:
                    answer = json.loads(f.readline())
                    if "return" in answer:
                        break
                    if "error" in answer:
                        raise LabError(f"node{node}: {command}: {answer['error']['desc']}")
            return answer["return"]
        except (OSError, ValueError) as error:
            raise LabError(f"node{node} does not answer: {error}") from None


def forward(lab, node, guest_port):
    """The host port on 127.0.0.1 that reaches `guest_port`, made on the first question."""
    forwards = lab["nodes"][str(node)]["forwards"]
    if str(guest_port) not in forwards:
        host_port = free_port()
        said = qmp(node, "human-monitor-command",
                   **{"command-line": f"hostfwd_add user tcp:127.0.0.1:{host_port}-:{guest_port}"})
        if said.strip():
            raise LabError(f"node{node}: {said.strip()}")
        forwards[str(guest_port)] = host_port
        save(lab)
    return forwards[str(guest_port)]


def answers(lab, node, guest_port, timeout=20.0):
    """Whether that program serves /metrics."""
    port = lab["nodes"][str(node)]["forwards"][str(guest_port)]
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"X-Prometheus-Scrape-Timeout-Seconds": "10"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as answer:
            answer.read()
            return answer.status == 200
    except (OSError, ValueError):
        return False
    except Exception as error:  # http.client's own errors are no OSError
        if type(error).__module__ == "http.client":
            return False
        raise
