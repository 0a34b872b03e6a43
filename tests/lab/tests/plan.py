# SPDX-License-Identifier: Apache-2.0
"""Which tests run on which machines of the lab, in the order in which these are booted."""
import boards
import check
import core
import fault_map
import made_faults
import matrix
import probes
import stock_tools
from harness import Row


def boot(tag, what, up, tests, full_only=False):
    return [Row(f"{tag}-up", f"2 nodes, {what}", up, full_only=full_only, alone=True), *tests,
            Row(f"{tag}-down", "down", core.down, full_only=full_only, alone=True)]


def rows():
    out = made_faults.rows()
    out += boot("lab61", "kernel 6.1, up from nothing", lambda: core.up("6.1"),
                boards.rows("lab61", full_only=True, alone=True) + core.core_rows("lab61", soak=True) + stock_tools.rows("lab61") + fault_map.rows("lab61", full_only=True)
                + check.rows("lab61", full_only=True) + probes.rows("lab61") + matrix.rows("lab61"))
    out += boot("lab612", "kernel 6.12", lambda: core.up("6.12"),
                core.core_rows("lab612", full_only=True) + stock_tools.rows("lab612", full_only=True) + fault_map.rows("lab612", full_only=True)
                + check.rows("lab612", full_only=True) + probes.rows("lab612", full_only=True),
                full_only=True)
    out.append(Row("lab-16-rnics", "16 RNICs: limits of series, and the README's table", lambda: core.host_with_many("6.1"), full_only=True, alone=True))
    out.append(Row("lab-no-rdma", "host without RDMA modules", lambda: core.host_without_rdma("6.1"), full_only=True, alone=True))
    return out


def sanitizer_rows():
    out = []
    for preset in ("asan", "tsan"):
        out += boot(f"lab-{preset}", f"kernel 6.1, program under {preset}", lambda p=preset: core.up("6.1", p),
                    core.core_rows(f"lab-{preset}", full_only=True) + stock_tools.rows(f"lab-{preset}", full_only=True), full_only=True)
    return out
