# SPDX-License-Identifier: Apache-2.0
# What the faults share; runs in the machine, before the fault's own file. FAULT is its id.
set -eu
. /usr/local/sbin/lab-common
kept=/run/lab/fault/$FAULT
mkdir -p /run/lab/fault

keep() { echo "$1" > "$kept"; }
kept() { cat "$kept" 2>&- || cannot "$FAULT is not on"; }

# Runs something until the fault ends.
background() {
    stop_background
    systemd-run -q --collect --unit "lab-fault-$FAULT" "$@"
}
stop_background() { systemctl -q stop "lab-fault-$FAULT" 2>&- || true; }

netem() { tc qdisc replace dev eth0 root netem "$@"; }
no_netem() { tc qdisc delete dev eth0 root 2>&- || true; }

# RoCE packets are lost on the way in and, unless told "in", on the way out; all else passes. Told "in", those to QP 1 pass
# too: a kernel whose connect request is answered in vain waits for many minutes, and NVMe-oF with it.
lose_rdma() {
    tc qdisc replace dev eth0 clsact
    if [ "${1-}" = in ]; then  # the destination QP stands in the second word after the headers of IP and UDP
        tc filter add dev eth0 ingress protocol ip pref 1 u32 match ip protocol 17 0xff match u16 4791 0xffff at 22 \
            match u32 1 0xffffff at 32 action pass
    fi
    tc filter replace dev eth0 ingress protocol ip pref 2 handle 1 flower ip_proto udp dst_port 4791 action drop
    # On the way out "trap": rxe is told of a packet that is dropped there, and ends its QP 1 for it.
    [ "${1-}" = in ] ||
        tc filter replace dev eth0 egress protocol ip pref 2 handle 1 flower ip_proto udp dst_port 4791 action trap
}
find_rdma() { tc qdisc delete dev eth0 clsact 2>&- || true; }

need_target() { [ "$NODE" = 2 ] || cannot "$FAULT needs the storage target: node 2"; }
need_host() {
    [ "$NODE" = 1 ] && [ "$NODES" -ge 2 ] || cannot "$FAULT needs the storage host: node 1 of several"
}

# The first simulated RNIC, by the name that rnicctl takes, and its netdev.
rnic() {
    [ -d /sys/module/rnic ] || cannot "$FAULT needs a simulated RNIC (up --rnic N)"
    rnicctl list | awk 'NR == 1 { print $1 }'
}
rnic_netdev() { rnic > /dev/null; rnicctl list | awk 'NR == 1 { print $3 }'; }
rising() {
    local device
    device=$(rnic)
    background /usr/local/sbin/lab-rising "$device" "$@"
}
