# SPDX-License-Identifier: Apache-2.0
# For faults that run on the host: before the fault's own file. LAB, NODE and FAULT are set.
set -eu
here=$(dirname "$LAB")/faults

# Runs a script in a machine, with what common.sh offers.
guest() { # NODE SCRIPT
    "$LAB" exec --timeout 120 "$1" "FAULT=$FAULT
$(cat "$here/common.sh")
$2"
}

# Another node, to be the far end of what happens.
peer() {
    local other=$((NODE == 1 ? 2 : 1))
    "$LAB" exec --timeout 30 $other true 2> /dev/null ||
        { echo "$FAULT needs a second node" >&2; exit 2; }
    echo $other
}
