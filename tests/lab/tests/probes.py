# SPDX-License-Identifier: Apache-2.0
"""Probes between two machines: each disturbance of the fabric, of the peer and of this host shows in its own series and
in no other. Counts, ratios and medians with wide bounds only: emulated machines stall for tens of milliseconds.

Only what leaves a machine is disturbed (netem), on node 1 alone unless a test says otherwise. What node 1 sends is
disturbed then: its own probes on their way out, and its replies to node 2."""
import contextlib
import json
import os
import re
import statistics
import subprocess
import time

import core
from core import SOFT, inside
from harness import Failed, Row, expect
from page import Page, Pattern

PROGRAM = "/run/roce/roce_prober"
CONFIG = "--config.file=/run/roce-prober/prober.yml"
CLASSES = ("storage", "best_effort")
STORAGE_DSCP = 26
REASONS = ("malformed", "unknown_peer", "rate", "mac", "replay")


def page(node):
    return Page(core.fetch(node, port=14792)[0])


def number(p, name, **labels):
    """The sum of the series that have these labels. None with them is 0 where the family is on the page: a name that is
    misspelt, or no longer published, is an error."""
    expect(p.find(Pattern(name + "{}")), f"{name} is not on the page")
    found = p.find(Pattern(name + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}"))
    return sum(float(s.value) for s in found)


def peer_state(node):
    p = page(node)
    return [s.labels["state"] for s in p.find(Pattern('roce_probe_peer_state{}')) if s.value == "1"]


class Moved:
    """What counters of a node did between two pages."""

    def __init__(self, node):
        self.node, self.first = node, page(node)
        self.last = self.first

    def look(self):
        self.last = page(self.node)
        return self

    def by(self, name, **labels):
        return number(self.last, name, **labels) - number(self.first, name, **labels)

    def median(self, name, **labels):
        """Upper bound of the bucket that holds the median of what came between the two pages."""
        def buckets(p):
            found = p.find(Pattern(name + "_bucket{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}"))
            out = {}
            for s in found:
                le = float(s.labels["le"].replace("+Inf", "inf"))
                out[le] = out.get(le, 0) + float(s.value)
            return out
        before, after = buckets(self.first), buckets(self.last)
        new = {le: after[le] - before.get(le, 0) for le in after}
        total = max(new.values(), default=0)
        expect(total > 0, f"{name}{labels}: nothing was measured")
        return min(le for le, n in new.items() if n >= total / 2)


def sent(node, probes, seconds=120):
    """Waits until a node sent that many more probes of a class."""
    moved = Moved(node)
    core.until(f"{probes} probes", lambda: moved.look().by("roce_probe_sent_total", qos="storage") >= probes, seconds)
    return moved


def netem(node, *words):
    inside(node, "tc qdisc replace dev eth0 root netem " + " ".join(words))


def calm(node):
    inside(node, "tc qdisc delete dev eth0 root 2>&-; true")


def healthy(node, seconds=120):
    """Waits until probes are answered again. That the path was lossy may be told for some minutes more."""
    def well():
        moved = sent(node, 5, 30)
        return moved.by("roce_probe_failures_total") == 0 and peer_state(node)[0] in ("ok", "lossy", "degraded")
    core.until(f"node{node} probes without losses", well, seconds)


def only(moved, *expected):
    """No other sign than those series."""
    # An emulated machine that stands still for longer than a probe waits looks like a loss.
    signs = {"roce_probe_failures_total": 2, "roce_probe_loopback_failures_total": 1, "roce_probe_duplicates_total": 0,
             "roce_probe_corrupt_total": 0, "roce_probe_ecn_marked_total": 0, "roce_prober_responder_rejected_total": 0,
             "roce_prober_qp_repairs_total": 0}
    wrong = [f"{name} {moved.by(name)}" for name, most in signs.items() if name not in expected and moved.by(name) > most]
    expect(not wrong, f"moved too: {wrong}")


# ---- rows ----

def baseline():
    for node in (1, 2):
        healthy(node)
    core.until("connections were made", lambda: all(number(page(n), "roce_probe_connect_duration_seconds_count") > 0 for n in (1, 2)), 150)
    first, second = Moved(1), Moved(2)
    core.until("READs and probes", lambda: first.look().by("roce_probe_read_rtt_seconds_count") >= 1
               and first.by("roce_probe_rtt_seconds_count", qos="storage") >= 15, 60)
    for moved in (first, second.look()):
        only(moved)
        for c in CLASSES:
            got, out = moved.by("roce_probe_rtt_seconds_count", qos=c), moved.by("roce_probe_sent_total", qos=c)
            expect(abs(out - got) <= 2, f"node{moved.node} {c}: {out} sent, {got} answered")
            for direction in ("forward", "back"):
                capable = moved.by("roce_probe_ecn_capable_total", qos=c, direction=direction)
                expect(capable >= 10, f"node{moved.node} {c} {direction}: only {capable} arrived as ECT")
        expect(number(moved.last, "roce_prober_device_state", state="active") == 1, "device")
        expect(number(moved.last, "roce_probe_hops") in (0, 1), "hops")
    expect(number(page(1), "roce_probe_connect_failures_total") == 0, "connections failed")
    return f"median at most {first.median('roce_probe_rtt_seconds', qos='storage') * 1000:.1f} ms"


def loss():
    netem(1, "loss", "25%")
    try:
        mine, other = Moved(1), Moved(2)
        # So many that their distance is known: of two losses nobody can say soon that they are over.
        core.until("losses", lambda: all(m.look().by("roce_probe_failures_total", reason="timeout", qos=c) >= 8 for m in (mine, other) for c in CLASSES), 150)
        core.until("both call the peer lossy", lambda: peer_state(1) in (["lossy"], ["down"]) and peer_state(2) in (["lossy"], ["down"]), 60)
        mine.look()
        out, lost = mine.by("roce_probe_sent_total"), mine.by("roce_probe_failures_total", reason="timeout")
        expect(0.05 <= lost / out <= 0.6, f"{lost} of {out} lost")
        expect(mine.by("roce_probe_loopback_failures_total") == 0, "this host was blamed: loopback fails")
        expect(number(mine.last, "roce_probe_anomaly", detector="loss") >= 1, "no detector of loss is raised")
    finally:
        calm(1)
    core.until("both call the peer well again", lambda: peer_state(1) == ["ok"] and peer_state(2) == ["ok"], 300)
    return f"{lost:.0f} of {out:.0f} lost"


def pinged(node, words):
    """What one `ping` of node 2 measures."""
    return json.loads(inside(node, f"setpriv --reuid roce-prober --regid roce-prober --clear-groups {PROGRAM} ping node2 {CONFIG} --format=json {words}"))


@contextlib.contextmanager
def alone():
    """Nobody probes but who calls `ping` on node 1; the responder of node 2 answers."""
    inside(1, "systemctl stop roce-prober")
    try:
        yield
    finally:
        calm(1)
        inside(1, "systemctl start roce-prober", timeout=60)
        for node in (1, 2):  # to node 2 it is a peer that has to be found anew
            healthy(node)


def to_class(dscp, *words):
    """netem on what node 1 sends as RoCE in that class, and on nothing else."""
    inside(1, f"tc qdisc replace dev eth0 root handle 1: prio bands 4 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 && "
              f"tc qdisc replace dev eth0 parent 1:4 handle 40: netem {' '.join(words)} && "
              f"tc filter replace dev eth0 parent 1: protocol ip prio 1 u32 match ip tos {dscp << 2} 0xfc match ip protocol 17 0xff flowid 1:4")


def netem_counts():
    """(packets let through, packets dropped) by the netem of to_class."""
    qdisc, = [q for q in json.loads(inside(1, "tc -s -j qdisc show dev eth0")) if q["handle"] == "40:"]
    return qdisc["packets"], qdisc["drops"]


def loss_counted():
    """A fifth is lost: as many as netem counts, within four standard deviations of such a loss."""
    with alone():
        to_class(STORAGE_DSCP, "loss", "20%")
        got = pinged(1, "--count=400 --gap=40ms --deadline=2s --max-loss=1")
        through, dropped = netem_counts()
        lost = got["sent"] - got["received"] - got["late"]
        sigma = (got["sent"] * 0.2 * 0.8) ** 0.5
        expect(got["sent"] == 400 and through + dropped >= 400, f"{got}, netem: {through} through, {dropped} dropped")
        expect(dropped >= 40 and abs(lost - dropped) <= 4 * sigma, f"{lost} lost, netem dropped {dropped}, sigma {sigma:.1f}")
    return f"{lost} of 400 lost, netem dropped {dropped}"


def marks_counted():
    """A fifth is marked instead: as many as a fifth is, within four standard deviations, and nothing is lost."""
    with alone():
        to_class(STORAGE_DSCP, "loss", "20%", "ecn")
        got = pinged(1, "--count=400 --gap=40ms --deadline=2s --max-loss=1")
        sigma = (400 * 0.2 * 0.8) ** 0.5
        expect(abs(got["ecn_marked"] - 80) <= 4 * sigma, f"{got['ecn_marked']} marks, sigma {sigma:.1f}")
        expect(got["received"] + got["late"] >= 398, f"{got}")
    return f"{got['ecn_marked']} of 400 requests marked"


def one_class_slow():
    """50 ms on the way of DSCP 26 alone: the other class of the same peer stays as it is."""
    def medians():
        return {c: 1000 * pinged(1, f"--qos={c} --count=60 --gap=20ms --deadline=1s")["rtt_seconds"]["median"] for c in CLASSES}
    with alone():
        before = medians()
        to_class(STORAGE_DSCP, "delay", "50ms")
        after = medians()
        more = {c: after[c] - before[c] for c in CLASSES}
        expect(40 <= more["storage"] <= 65, f"storage: median {before['storage']:.1f} ms, then {after['storage']:.1f} ms")
        expect(more["best_effort"] < 10, f"best_effort: median {before['best_effort']:.1f} ms, then {after['best_effort']:.1f} ms")
    to_class(STORAGE_DSCP, "delay", "60ms")
    try:
        moved = sent(1, 25)
        own = moved.median("roce_probe_loopback_rtt_seconds")
        expect(own <= 0.045, f"loopback: median up to {own * 1000} ms")
        expect(moved.median("roce_probe_rtt_seconds", qos="storage") >= 0.06, "the page does not show 60 ms more")
        only(moved, "roce_probe_failures_total")
    finally:
        calm(1)
    healthy(1)
    return f"storage +{more['storage']:.0f} ms, best effort {more['best_effort']:+.1f} ms"


def perftest(tool, words):
    """The median in microseconds that perftest measures between the same two machines. A run in which a datagram was lost,
    for which it waits for ever, is made again."""
    for _ in range(4):
        inside(2, f"systemctl stop perftest 2>&-; systemctl reset-failed perftest 2>&-; systemd-run -q --collect --unit perftest {tool} {words}; "
                  "for i in $(seq 100); do [ -z \"$(ss -Htln sport = :18515)\" ] || exit 0; sleep 0.1; done; exit 1", timeout=60)
        out = inside(1, f"timeout 20 {tool} {words} node2 || [ $? = 124 ]", timeout=60)
        row = [l.split() for l in out.splitlines() if re.match(r"\s*\d+\s+\d+\s+[\d.]+", l)]
        if row:  # bytes, iterations, minimum, maximum, typical (the median)
            return float(row[0][4])
    raise Failed(f"{tool} measured nothing four times\n{out}")


@contextlib.contextmanager
def awake():
    """Keeps the processors of the host from their sleep by what everything else goes before. Waking up costs more there
    than what is compared, and whoever sleeps twice in a round trip pays it twice."""
    idle = [subprocess.Popen(["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for process in idle:
            process.kill()
            process.wait()


@contextlib.contextmanager
def one_processor():
    """Each machine with one processor: which of two a program wakes up on is worth more than what is compared."""
    def turn(on):
        for node in (1, 2):
            inside(node, f"for f in /sys/devices/system/cpu/cpu[1-9]/online; do echo {on} > $f; done")
    turn(0)
    try:
        yield
    finally:
        turn(1)


def like_perftest(runs=10):
    """The same round trips measured by perftest, in turns: same size, count and pace (each goes when the one before is
    answered), sleeping for the completion. An echo carries what perftest has not: four times a MAC is computed, of about
    25 us each on an emulated processor."""
    count, size = 40, 128  # what a responder takes at once
    most = {"read": 1.2, "echo": 1.6}
    with alone(), awake(), one_processor():
        index = inside(1, ". /usr/local/sbin/lab-common; gid_index rxe0").strip()
        words = f"-e -F -d rxe0 -x {index} -s {size} -n {count}"
        ours, theirs = {"read": [], "echo": []}, {"read": [], "echo": []}
        for _ in range(runs):
            for kind, tool, trips in (("read", "ib_read_lat", 1), ("echo", "ib_send_lat -c UD", 2)):
                got = pinged(1, f"--kind={kind} --size={size} --count={count} --gap=0 --deadline=1s --max-loss=1")
                expect(got["received"] >= count - 2, f"{got}")
                ours[kind].append(1e6 * got["rtt_seconds"]["median"])
                theirs[kind].append(trips * perftest(tool, words))
        ratio = {k: statistics.median(ours[k]) / statistics.median(theirs[k]) for k in ours}

    def told(k):
        return f"{k}: ratio {ratio[k]:.2f}, ours {[round(t) for t in ours[k]]}, perftest's {[round(t) for t in theirs[k]]} us"
    expect(all(0.9 <= r <= most[k] for k, r in ratio.items()), f"{told('read')}; {told('echo')}")
    return (f"READ {ratio['read']:.2f} of ib_read_lat ({statistics.median(ours['read']):.0f} us), "
            f"echo {ratio['echo']:.2f} of twice ib_send_lat ({statistics.median(ours['echo']):.0f} us)")


def cost():
    """Processor time at 16 and at 200 probes a second, and for a probe beside a round trip of perftest. What an emulated
    processor is worth nobody knows: the ratio is what counts."""
    index = inside(1, ". /usr/local/sbin/lab-common; gid_index rxe0").strip()

    def spent(node):
        return int(inside(node, "systemctl show -p CPUUsageNSec --value roce-prober")) / 1e9

    def perftests(count):
        """Seconds of processor time of one run."""
        words = f"-c UD -e -F -d rxe0 -x {index} -s 128 -n {count}"
        inside(2, f"systemctl stop perftest 2>&-; systemctl reset-failed perftest 2>&-; systemd-run -q --collect --unit perftest ib_send_lat {words}; "
                  "for i in $(seq 100); do [ -z \"$(ss -Htln sport = :18515)\" ] || exit 0; sleep 0.1; done; exit 1", timeout=60)
        out = inside(1, f"bash -c \"TIMEFORMAT='cpu %U %S'; time timeout 60 ib_send_lat {words} node2\" 2>&1", timeout=90)
        return sum(float(s) for s in re.search(r"cpu ([\d.]+) ([\d.]+)", out).groups())

    peers = "\n".join(f"    - {{node: again{i}, target: node2, address: 10.77.0.2}}" for i in range(24)) + "\ngraph: {full_mesh: 32}"
    told, lines = {}, []
    try:
        configured(2, "responder: {source_rate: 500}")
        for rate, more in ((16, ""), (200, ", interval: 250ms, budget: 200")):
            inside(1, f"echo '{more}' > /etc/roce-prober.probes")
            configured(1, peers)
            core.until("all peers are well", lambda: peer_state(1) == ["ok"] * 25, 120)
            moved, before, start = Moved(1), spent(1), time.monotonic()
            time.sleep(60)
            used, took = spent(1) - before, time.monotonic() - start
            probes = moved.look().by("roce_probe_sent_total")
            expect(0.6 * rate <= probes / took <= 1.1 * rate, f"{probes / took:.0f} probes a second")
            told[rate] = (used, probes)
            resident = number(moved.last, "process_resident_memory_bytes") / 2**20
            lines.append(f"{probes / took:.0f} probes/s: {100 * used / took:.1f} % of a processor, {resident:.0f} MiB")
    finally:
        inside(1, "rm -f /etc/roce-prober.probes")
        for node in (2, 1):
            as_before(node)
    probe = (told[200][0] - told[16][0]) / (told[200][1] - told[16][1])
    with alone():
        few, many = (statistics.median(perftests(n) for _ in range(3)) for n in (100, 1100))
    return f"{'; '.join(lines)}; a probe {1e6 * probe:.0f} us of processor time, a round trip of ib_send_lat {1e3 * (many - few):.0f} us"


def marked():
    """A queue that marks instead of dropping: marks forward at the one, back at the other, and nothing lost."""
    netem(1, "loss", "30%", "ecn")
    try:
        mine, other = Moved(1), Moved(2)
        core.until("40 probes", lambda: mine.look().by("roce_probe_sent_total") >= 60 and other.look().by("roce_probe_sent_total") >= 50, 90)
        ratio = {}
        for moved, way in ((mine, "forward"), (other, "back")):
            capable = moved.by("roce_probe_ecn_capable_total", direction=way)
            marks = moved.by("roce_probe_ecn_marked_total", direction=way)
            expect(0.1 <= marks / capable <= 0.55, f"node{moved.node} {way}: {marks} of {capable} marked")
            opposite = {"forward": "back", "back": "forward"}[way]
            expect(moved.by("roce_probe_ecn_marked_total", direction=opposite) == 0, f"node{moved.node}: marks {opposite}")
            ratio[way] = marks / capable
        only(mine, "roce_probe_ecn_marked_total")
    finally:
        calm(1)
    return f"{100 * ratio['forward']:.0f} % forward, {100 * ratio['back']:.0f} % back"


def duplicated():
    netem(2, "duplicate", "30%")  # replies come twice
    try:
        moved = sent(1, 25)
        twice = moved.by("roce_probe_duplicates_total")
        expect(twice >= 3, f"{twice} duplicates")
        expect(moved.by("roce_probe_rtt_seconds_count") <= moved.by("roce_probe_sent_total") + 2, "a duplicate was measured")
        # Requests of node 2 came twice too: the second is a replay, and is not answered.
        only(moved, "roce_probe_duplicates_total", "roce_prober_responder_rejected_total")
    finally:
        calm(2)
    return f"{twice:.0f} duplicates"


def reordered():
    """Half of what node 1 sends waits 80 ms and the rest overtakes it: each reply finds its own probe, and nothing else is
    told."""
    for node in (1, 2):
        healthy(node)
    netem(1, "delay", "80ms", "reorder", "50%")
    try:
        moved = Moved(1)
        got = pinged(1, "--count=40 --gap=20ms --deadline=2s --max-loss=1")
        expect(got["received"] + got["late"] >= 39 and got["duplicates"] == 0 and got["corrupt"] == 0, f"{got}")
        expect(got["rtt_seconds"]["min"] < 0.06 and got["rtt_seconds"]["max"] >= 0.08, f"nothing was overtaken: {got}")
        sent(1, 15)
        only(moved.look())
    finally:
        calm(1)
    return f"{1000 * got['rtt_seconds']['min']:.0f} to {1000 * got['rtt_seconds']['max']:.0f} ms"


def peer_restarts():
    """A peer that comes back with another QP, Q_Key and epoch is found again without a restart here."""
    before = json.loads(inside(1, exchange()))["endpoints"][0]
    inside(2, "systemctl restart roce-prober")
    after = core.until("the peer answers again", lambda: json.loads(inside(1, exchange()))["endpoints"][0], 60)
    expect(after["epoch"] != before["epoch"], f"{before} {after}")
    healthy(1)
    p = page(1)
    expect(number(p, "roce_prober_endpoint_refreshes_total") >= 1, "the endpoint was not learnt anew")
    expect(int(inside(1, "systemctl show -p NRestarts --value roce-prober")) == 0, "this prober was restarted")


def exchange(node=2, more=""):
    etc = "/run/roce-prober"
    return f"curl -sf --max-time 10 --cert {etc}/node.crt --key {etc}/node.key --cacert {etc}/ca.crt {more} https://node{node}:14794/rdma/endpoint"


def peer_stopped():
    """The peer's process stands still: echo is not answered, READ is, so the path is good."""
    healthy(1)
    inside(2, "systemctl kill -s STOP roce-prober")
    try:
        moved = Moved(1)
        core.until("echoes fail and READs do not", lambda: moved.look().by("roce_probe_failures_total", reason="timeout") >= 8
                   and moved.by("roce_probe_read_rtt_seconds_count") >= 2, 90)
        expect(moved.by("roce_probe_read_failures_total") == 0, "READs failed")
        answered = moved.by("roce_probe_rtt_seconds_count")
        expect(answered <= 4, f"{answered} echoes of a process that stands still")
        expect(moved.by("roce_probe_loopback_rtt_seconds_count") >= 3, "loopback stopped too")
    finally:
        inside(2, "systemctl kill -s CONT roce-prober")
    healthy(1)
    moved.look()
    expect(moved.by("roce_probe_corrupt_total") == 0, "replies that came late were called corrupt")
    return f"{moved.by('roce_probe_read_rtt_seconds_count'):.0f} READs answered"


def nvme_live():
    return inside(1, "cat /sys/class/nvme/nvme0/state").strip() == "live"


def flap():
    """The cable is out for ten seconds: the port is down, the peer unknown (not bad), and then all is as before."""
    own_link_down(lambda: core.lab("link", 1, "down"), lambda: core.lab("link", 1, "up"))
    core.until("NVMe-oF is connected again", nvme_live, 60)


def set_down():
    """The same by command. rxe's QP 1 may not hear again after it (lab/README.md), and a session of NVMe-oF would hang on
    that: there is none meanwhile, and the device is made anew."""
    inside(1, "lab-nvme disconnect")
    try:
        repairs = own_link_down(lambda: inside(1, "ip link set eth0 down"), lambda: inside(1, "ip link set eth0 up"))
    finally:
        inside(1, "rdma link delete rxe0; rdma link add rxe0 type rxe netdev eth0; lab-nvme connect", timeout=120)
    core.until("the device came back", lambda: number(page(1), "roce_prober_device_state", state="active") == 1, 60)
    for node in (1, 2):
        healthy(node)
    expect(nvme_live(), "NVMe-oF is not connected")
    return repairs


def own_link_down(down, up):
    healthy(1)
    moved = Moved(1)
    down()
    try:
        core.until("the port is down", lambda: number(page(1), "roce_prober_device_state", state="down") == 1, 20)
        core.until("nothing is said of the peer", lambda: peer_state(1) == ["unknown"], 20)
        time.sleep(5)
        expect(peer_state(1) == ["unknown"], f"peer is {peer_state(1)} while the own port is down")
    finally:
        up()
    core.until("the port is up", lambda: number(page(1), "roce_prober_device_state", state="active") == 1, 30)
    healthy(1)
    expect(int(inside(1, "systemctl show -p NRestarts --value roce-prober")) == 0, "the prober was restarted")
    return f"{moved.look().by('roce_prober_qp_repairs_total'):.0f} repairs"


def configured(node, text):
    """Runs the prober of a node with more configuration."""
    inside(node, f"cat > /etc/roce-prober.yml <<'END'\n{text}\nEND\nsystemctl restart roce-prober", timeout=60)
    core.until("the prober answers", lambda: page(node).find(Pattern("roce_prober_build_info{}")), 60)


def as_before(node):
    inside(node, "rm -f /etc/roce-prober.yml; systemctl restart roce-prober", timeout=60)
    core.until("the prober answers", lambda: page(node).find(Pattern("roce_prober_build_info{}")), 60)
    healthy(node)


def dead_peers():
    """Peers whose hosts are gone block nobody: the good one is probed as before."""
    lag = Moved(1)
    time.sleep(15)
    before = lag.look().median("roce_prober_scheduler_lag_seconds")
    # The static peers of the lab are the last thing in its configuration: these go on with the list.
    configured(1, "\n".join(f"    - {{node: gone{i}, target: 10.77.0.{200 + i}, address: 10.77.0.{200 + i}}}" for i in range(4)))
    try:
        core.until("node2 is ok", lambda: any(s.labels["peer"] == "node2" and s.labels["state"] == "ok" and s.value == "1"
                                              for s in page(1).find(Pattern("roce_probe_peer_state{}"))), 120)
        lag = Moved(1)
        time.sleep(25)
        lag.look()
        good = lag.by("roce_probe_rtt_seconds_count", peer="node2", qos="storage")
        after = lag.median("roce_prober_scheduler_lag_seconds")
        interval = number(lag.last, "roce_prober_interval_seconds")
        expect(good >= 0.5 * 25 / interval, f"{good} answers of the good peer in 25 s, interval {interval} s")
        expect(lag.by("roce_probe_failures_total", peer="node2") == 0, "the good peer failed")
        expect(lag.by("roce_probe_failures_total", reason="no_endpoint") > 0, "nothing is said of the dead ones")
        # A neighbour that is gone holds whoever asks for it up for a second. Bounds of buckets double.
        expect(after <= max(2 * before, 0.005), f"lag: median {before * 1000:.1f} ms, with dead peers {after * 1000:.1f} ms")
    finally:
        as_before(1)
    return f"median lag {before * 1000:.1f} and {after * 1000:.1f} ms"


def ping(node, words, user="roce-prober", prefix=""):
    out = inside(node, f"{prefix} setpriv --reuid {user} --regid {user} --clear-groups {PROGRAM} ping {words} 2>&1; echo exit $?", timeout=120)
    return out, int(re.search(r"exit (\d+)\s*$", out).group(1))


def ping_measures():
    for node in (1, 2):
        healthy(node)
    out, code = ping(1, f"node2 {CONFIG} --count=30 --gap=30ms --max-loss=0.2")
    expect(code == 0 and "median" in out and "of 30" in out, out)
    out, code = ping(1, f"node2 {CONFIG} --kind=read --count=20 --gap=20ms")
    expect(code == 0 and re.search(r"of (19|20) ", out) and "RC READ" in out, out)  # a machine that stands still skips one
    out, code = ping(1, f"node2 {CONFIG} --count=10 --max-median=1us")
    expect(code == 1 and "is above" in out, out)
    out, code = ping(1, f"10.77.0.250 {CONFIG} --count=3")
    expect(code == 1 and "nothing measured" in out, out)
    answer, _ = core.fetch(1, "/probe?target=node2&module=echo", port=14792)
    p = Page(answer)
    expect(number(p, "probe_success") == 1 and number(p, "probe_roce_received") >= 5, answer)
    refused = inside(1, "curl -s -o /dev/null -w '%{http_code}' 'localhost:14792/probe?target=10.77.0.250&module=echo'")
    expect(refused == "400", f"a target that is no peer: {refused}")


def wrong_key():
    """Who signs with another key is not answered, and it shows at the one who refuses."""
    healthy(2)
    inside(1, "d=$(mktemp -d); head -c 32 /dev/zero | base64 > $d/k; chown -R roce-prober $d; "
              "printf 'keys:\\n  - {id: 1, secret_file: k, not_after: 2040-01-01}\\n' > $d/keys.yml; rm -rf /run/wrong; mv $d /run/wrong; chmod 755 /run/wrong; chmod 600 /run/wrong/k")
    moved = Moved(2)
    out, code = ping(1, f"node2 {CONFIG} --keys.file=/run/wrong/keys.yml --count=10 --gap=30ms")
    expect(code == 1 and "nothing measured" in out, out)
    moved.look()
    refused = moved.by("roce_prober_responder_rejected_total", reason="mac")
    expect(refused >= 5, f"{refused} packets refused")
    only(moved, "roce_prober_responder_rejected_total")
    return f"{refused:.0f} refused"


def flood():
    """A source that sends as fast as it can is answered at its rate; the responder and its own probes go on."""
    configured(2, "responder: {source_rate: 5}")
    try:
        healthy(2)
        moved = Moved(2)
        out, code = ping(1, f"node2 {CONFIG} --count=400 --gap=1ms")
        expect(code == 0, out)
        moved.look()
        over = moved.by("roce_prober_responder_rejected_total", reason="rate")
        expect(over >= 50, f"{over} packets were too many: {out}")
        expect(moved.by("roce_probe_failures_total") <= 2, "its own probes suffer")
    finally:
        as_before(2)
    healthy(1)
    return f"{over:.0f} of 400 not answered"


def hostile():
    """What is not a peer's request is counted under its reason and never answered, and costs neither the responder nor
    the log anything: twice a flood of it."""
    flood = 5000

    def rejected(p):
        return {reason: number(p, "roce_prober_responder_rejected_total", reason=reason) for reason in REASONS}

    def prober():
        pid, rss, lines = inside(2, "p=$(systemctl show -p MainPID --value roce-prober); echo $p; awk '/VmRSS/ {print $2}' /proc/$p/status; "
                                    "journalctl -o cat -u roce-prober | wc -l").split()
        return int(pid), int(rss), int(lines)

    def attack(each, n):
        """How many of each kind were sent, what was counted, and by how much the prober's RSS grew meanwhile."""
        core.until("node 1 sends requests", lambda: peer_state(1)[0] in ("ok", "lossy", "degraded"), 60)
        qpn = json.loads(inside(1, exchange()))["endpoints"][0]["qpn"]
        before, rss = page(2), prober()[1]
        told = json.loads(inside(1, f"lab-hostile roce-prober {qpn} {each} {n}", timeout=180))
        grown, after = prober()[1] - rss, page(2)
        inside(1, "systemctl start roce-prober", timeout=60)
        expect(told["back"] == 0, f"{told['back']} packets were answered: {told}")
        expect(number(after, "roce_prober_qp_repairs_total") == number(before, "roce_prober_qp_repairs_total"), "the queue pair broke")
        first, last = rejected(before), rejected(after)
        return told["sent"], {reason: last[reason] - first[reason] for reason in REASONS}, grown

    for node in (1, 2):
        healthy(node)
    try:
        pid, _, lines = prober()
        sent, counted, _ = attack(12, 0)
        want = {"replay": sent["replayed"], "mac": sent["forged"] + sent["signed_with_noise"], "unknown_peer": sent["stranger"], "rate": 0,
                "malformed": sent["truncated"] + sent["garbage"] + sent["other_length"] + sent["too_long"]}
        expect(counted == want, f"counted {counted}, sent {sent}")  # with a wrong queue key, or broken: they never arrive
        flooded = []
        for _ in range(2):
            _, counted, grown = attack(0, flood)
            total = sum(counted.values())
            expect(flood / 20 <= total <= flood, f"{total} of {flood} counted: {counted}")
            expect(counted["rate"] >= 20, f"the rate of one source was not held: {counted}")
            flooded.append((total, grown))
        pid_now, _, lines_now = prober()
        expect(pid_now == pid, "the prober was restarted")
        # What grows while node 1 is gone is of asking for its endpoint, so the flood alone is looked at.
        expect(flooded[1][1] <= 256, f"RSS grew by {flooded[1][1]} KiB in the second flood")
        expect(lines_now - lines <= 30, f"{lines_now - lines} lines of log")
    finally:
        inside(1, "systemctl start roce-prober", timeout=60)
    for node in (1, 2):
        healthy(node)
    return (f"{flooded[0][0]:.0f} and {flooded[1][0]:.0f} of {flood} counted, RSS {flooded[0][1]:+d} and {flooded[1][1]:+d} KiB, "
            f"{lines_now - lines} lines of log")


def small_memlock():
    """No user of rank, no capability and 16 MiB of locked memory are enough, for the service and for ping. With 64 KiB, as
    a user has without the unit: either it is enough, or the limit is named."""
    status = inside(1, "p=/proc/$(systemctl show -p MainPID --value roce-prober); cat $p/status; grep 'Max locked memory' $p/limits")
    expect(re.search(r"^Max locked memory +16777216 +16777216 ", status, re.M), status)
    expect(re.search(r"^CapPrm:\t0+$", status, re.M) and re.search(r"^CapEff:\t0+$", status, re.M), status)
    expect(not re.search(r"^Uid:.*\t0\b", status, re.M), status)
    healthy(1)
    out, code = ping(1, f"node2 {CONFIG} --count=5 --gap=30ms", prefix="prlimit --memlock=16777216")
    expect(code == 0, out)
    out, code = ping(1, f"node2 {CONFIG} --count=5 --gap=30ms", prefix="prlimit --memlock=65536")
    expect(code == 0 or "memlock" in out.lower() or "locked memory" in out.lower(), out)
    tiny, code_tiny = ping(1, f"node2 {CONFIG} --count=5 --gap=30ms", prefix="prlimit --memlock=4096")
    expect(code_tiny == 1 and ("memlock" in tiny.lower() or "locked memory" in tiny.lower()), tiny)
    return f"64 KiB: exit {code}"


def black_hole():
    """Packets of 1536 to 2047 bytes are lost, small ones are not."""
    inside(1, "tc qdisc replace dev eth0 clsact && tc filter replace dev eth0 egress protocol ip pref 1 u32 match u16 0x0600 0x0600 at 2 action drop")
    try:
        small, code_small = ping(1, f"node2 {CONFIG} --count=10 --gap=30ms")
        large, code_large = ping(1, f"node2 {CONFIG} --count=10 --gap=30ms --size=1700")
        expect(code_small == 0 and "0 of 10" in small, small)
        expect(code_large == 1, large)
    finally:
        inside(1, "tc qdisc delete dev eth0 clsact; true")


def released():
    """On request every device is let go of, and comes back by itself."""
    healthy(1)
    told = inside(1, "curl -s -w ' %{http_code}' --unix-socket /run/roce-prober/control -X POST 'http://localhost/-/release?seconds=15'")
    expect(told.rstrip().endswith("200"), told)
    held = inside(1, "ls -l /proc/$(systemctl show -p MainPID --value roce-prober)/fd | grep -c uverbs; true").strip()
    expect(held == "0", f"{held} verbs descriptors are held")
    listed = inside(1, "rdma resource show qp | grep roce_prober; rdma resource show cm_id | grep roce_prober; true")
    expect(not listed.strip(), listed)
    expect(number(page(1), "roce_prober_device_state", state="released") == 1, "the page does not say so")
    core.until("it came back", lambda: number(page(1), "roce_prober_device_state", state="active") == 1, 60)
    healthy(1)


def device_removed():
    """The device goes while probes run: the removal is not held up, and a device that comes back is probed again."""
    inside(2, "systemctl stop roce-prober")  # node 2 has the storage target on its device; node 1's sessions end first
    sessions = inside(1, "nvme disconnect-all 2>&1; rdma link add spare type rxe netdev eth1 2>&1; true")
    inside(2, "systemctl start roce-prober")
    took = inside(1, "s=$(date +%s%N); rdma link delete rxe0; e=$(date +%s%N); echo $(( (e - s) / 1000000 ))", timeout=60)
    try:
        expect(int(took) <= 1000, f"the removal took {took} ms")
        core.until("the device is absent", lambda: number(page(1), "roce_prober_device_state", state="absent") == 1, 20)
        expect(int(inside(1, "systemctl show -p NRestarts --value roce-prober")) == 0, "the prober was restarted")
    finally:
        inside(1, "rdma link delete spare; rdma link add rxe0 type rxe netdev eth0; lab-nvme connect", timeout=120)
    core.until("it came back", lambda: number(page(1), "roce_prober_device_state", state="active") == 1, 60)
    healthy(1)
    return f"removed in {took.strip()} ms {sessions.strip()[:60]}"


STORAGE_PROBE = "/run/roce_storage_probe --namespace=$(cat /sys/block/nvme0n1/wwid) --interval=200ms --web.listen-address=:14793"


def storage_probe():
    """Reads of a namespace over the fabric: their times are told, nothing but reads reaches the device, and while a read
    hangs on a lost path no other begins and the service can be stopped."""
    expect(nvme_live(), "NVMe-oF is not connected: an earlier row left it so")

    def run(prefix):  # stopped in the time that the shipped unit gives
        inside(1, f"install -m 755 /host/bin/roce_storage_probe /run/ && "
                  f"systemd-run -q --collect --unit storage-probe -p TimeoutStopSec=5s {prefix} {STORAGE_PROBE}")

    def stop():
        return int(inside(1, "s=$(date +%s%N); systemctl stop storage-probe; e=$(date +%s%N); echo $(( (e - s) / 1000000 ))", timeout=60))

    def look():
        return Page(core.fetch(1, port=14793)[0])

    def reads():
        return number(look(), "roce_storage_probe_reads_total")

    def hangs():
        return number(look(), "roce_storage_probe_in_flight_seconds") >= 4
    run("strace -f -qq -o /run/storage-probe.trace")
    try:
        core.until("ten reads", lambda: number(look(), "roce_storage_probe_read_duration_seconds_count") >= 10, 60)
        p = look()
        expect(number(p, "roce_storage_probe_failures_total") == 0, "reads failed")
        expect(len(p.find(Pattern('roce_storage_probe_namespace_info{block_device="nvme0n1"}'))) == 1, "the namespace is not named")
        core.lab("fault", "F08", 2, "on")
        try:
            core.until("a read hangs", hangs, 60)
            begun = reads()
            time.sleep(3)
            expect(reads() == begun, "another read began while one hangs")
        finally:
            core.lab("fault", "F08", 2, "off")
        core.until("reads go on", lambda: reads() >= begun + 5, 90)
    finally:
        stop()
    trace = inside(1, "grep -c pread64 /run/storage-probe.trace; grep -cE 'openat.*\"/dev/nvme0n1\", O_RDONLY' /run/storage-probe.trace; "
                      "grep -E 'openat.*/dev/(nvme|block).*(O_RDWR|O_WRONLY)|pwrite|writev?\\(.*nvme|io_submit|io_uring' /run/storage-probe.trace; true").splitlines()
    expect(int(trace[0]) >= 10 and int(trace[1]) >= 1 and len(trace) == 2, f"{trace}")
    controls = inside(1, "grep -oE 'ioctl\\([0-9]+, [^,) ]+' /run/storage-probe.trace | grep -vE ', (BLKGETSIZE64|TCGETS|FIONBIO|FIONREAD)$'; true").strip()
    expect(not controls, f"more was asked for than a size: {controls}")

    # A read in the kernel cannot be killed: systemd gives up on the process, which ends with the read.
    run("")
    try:
        core.until("reads", lambda: reads() >= 5, 60)
        core.lab("fault", "F08", 2, "on")
        core.until("a read hangs", hangs, 60)
        took = stop()
        left = inside(1, "pgrep -x roce_storage_pr | wc -l").strip()
        expect(took <= 30000, f"the stop took {took} ms")  # systemd waits four times TimeoutStopSec
        expect(left == "1", f"{left} processes: the read does not hang")
    finally:
        core.lab("fault", "F08", 2, "off", check=False)
        stop()
    core.until("NVMe-oF is connected again", nvme_live, 60)
    core.until("the process ended with its read", lambda: not inside(1, "pgrep -x roce_storage_pr; true").strip(), 30)
    return f"{trace[0]} reads, stopped in {took / 1000:.1f} s while one hung"


# ---- four nodes ----

MESH = (1, 2, 3, 4)


def states(node):
    """{peer: state} as a node sees it."""
    return {s.labels["peer"]: s.labels["state"] for s in page(node).find(Pattern("roce_probe_peer_state{}")) if s.value == "1"}


def others(*nodes):
    return [n for n in MESH if n not in nodes]


def all_well():
    def well():
        told = {n: states(n) for n in MESH}
        expect(all(list(t.values()) == ["ok"] * 3 for t in told.values()), f"{told}")
        return True
    core.until("each node calls the three others well", well, 400)


def said(node):
    """What the start page says, to somebody who sees names."""
    return inside(node, "curl -sf --max-time 10 http://localhost:14792/")


def mesh_baseline():
    all_well()
    moved = [Moved(n) for n in MESH]
    core.until("probes of all pairs", lambda: all(m.look().by("roce_probe_rtt_seconds_count", peer=f"node{o}", qos="storage") >= 10
                                                  for m in moved for o in others(m.node)), 150)
    for m in moved:
        only(m)
        expect("All peers answer as they should." in said(m.node), f"node{m.node} blames somebody")
    return f"{sum(m.by('roce_probe_rtt_seconds_count') for m in moved):.0f} probes of 12 pairs"


def mesh_my_side():
    """What node 1 sends is lost: to itself everybody is bad, so it is its own side; to the others it alone is."""
    netem(1, "loss", "50%")
    try:
        bad = ("lossy", "down")
        core.until("node 1 finds nobody well", lambda: all(s in bad for s in states(1).values()), 150)
        core.until("the others find node 1 bad", lambda: all(states(n)["node1"] in bad for n in others(1)), 150)
        for n in others(1):
            well = {p: s for p, s in states(n).items() if p != "node1"}
            expect(list(well.values()) == ["ok"] * 2, f"node{n} on those that are well: {well}")
            expect("Most peers are fine" in said(n), f"node{n} does not say that it is peers")
        expect("look at this host&#39;s port" in said(1) or "look at this host's port" in said(1), "node 1 does not say that it is its own side")
    finally:
        calm(1)
    all_well()


def mesh_dead():
    """A machine is gone from the fabric: three find it down, go on with one another as before, and find it again."""
    moved = [Moved(n) for n in others(4)]
    time.sleep(15)
    before = max(m.look().median("roce_prober_scheduler_lag_seconds") for m in moved)
    core.lab("link", 4, "down")
    try:
        core.until("three find node 4 down", lambda: all(states(n)["node4"] == "down" for n in others(4)), 120)
        moved = [Moved(n) for n in others(4)]
        time.sleep(25)
        for m in moved:
            m.look()
            for o in others(4, m.node):
                answered, lost = m.by("roce_probe_rtt_seconds_count", peer=f"node{o}"), m.by("roce_probe_failures_total", peer=f"node{o}")
                expect(answered >= 20 and lost <= 2, f"node{m.node} to node{o}: {answered} answered, {lost} failed")
                expect(states(m.node)[f"node{o}"] == "ok", f"node{m.node} on node{o}: {states(m.node)}")
        after = max(m.median("roce_prober_scheduler_lag_seconds") for m in moved)
        expect(after <= max(2 * before, 0.005), f"lag: median {before * 1000:.1f} ms, with a dead peer {after * 1000:.1f} ms")
    finally:
        core.lab("link", 4, "up")
    all_well()
    return f"lag {before * 1000:.1f} ms, beside the dead one {after * 1000:.1f} ms"


def mesh_rows(tag):
    def row(name, what, run):
        return Row(f"{tag}-{name}", what, run, full_only=True, alone=True)
    return [
        row("baseline", "all pairs answer, nobody is blamed", mesh_baseline),
        row("my-side", "what one node sends is lost: it blames itself, the others it alone", mesh_my_side),
        row("dead", "one machine is gone: the others go on", mesh_dead),
    ]


def rows(tag, full_only=False):
    def row(name, what, run, only_full=False):
        return Row(f"{tag}-{name}", what, run, full_only=full_only or only_full, alone=True)
    return [
        row("baseline", "probes between both nodes, nothing lost", baseline),
        row("loss", "a quarter is lost one way", loss, True),
        row("loss-counted", "a fifth is lost: as many as netem counts", loss_counted, True),
        row("class", "50 ms on one class only", one_class_slow, True),
        row("marks", "marks, by direction", marked),
        row("marks-counted", "a fifth is marked", marks_counted, True),
        row("duplicates", "replies come twice", duplicated, True),
        row("reordered", "probes overtake others", reordered, True),
        row("restart", "the peer restarts", peer_restarts, True),
        row("stopped", "the peer's process stands still: READ answers", peer_stopped, True),
        row("flap", "the own cable is pulled", flap, True),
        row("set-down", "the own link is set down", set_down, True),
        row("dead-peers", "dead peers hold nobody up", dead_peers, True),
        row("ping", "ping, its limits, /probe", ping_measures),
        row("perftest", "ping beside perftest", like_perftest, True),
        row("cost", "processor time of probes", cost, True),
        row("wrong-key", "a wrong key is refused", wrong_key, True),
        row("flood", "a flood is answered at its rate", flood, True),
        row("hostile", "replayed, forged, truncated and other datagrams", hostile, True),
        row("memlock", "unprivileged, 16 MiB and 64 KiB of locked memory", small_memlock, True),
        row("black-hole", "large packets are lost", black_hole, True),
        row("storage", "reads of a namespace, its path lost", storage_probe, True),
        row("release", "devices are released on request", released, True),
        row("removed", "the device is removed", device_removed, True),
    ]
