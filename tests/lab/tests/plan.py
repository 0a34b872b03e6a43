# SPDX-License-Identifier: Apache-2.0
"""Which tests run on which machines of the lab, in the order in which these are booted."""
import dataclasses

import boards
import check
import core
import fault_map
import install
import made_faults
import matrix
import probes
import stock_tools
from harness import Row


def boot(tag, what, up, tests, full_only=False, nodes=2):
    return [Row(f"{tag}-up", f"{nodes} nodes, {what}", up, full_only=full_only, alone=True), *tests,
            Row(f"{tag}-down", "down", core.down, full_only=full_only, alone=True)]


def rows():
    """What the exporter reads, on both kernels; of the other groups of the lab what the CI tier holds, on the same machines."""
    def of_exporter(tag, full_only=False):
        return (core.core_rows(tag, full_only, soak=not full_only) + stock_tools.rows(tag, full_only) + fault_map.rows(tag, full_only=True))

    def in_ci(found):
        return [dataclasses.replace(r, ci_only=True) for r in found if not r.full_only]

    out = made_faults.rows()
    out += boot("lab61", "kernel 6.1, up from nothing", lambda: core.up("6.1"),
                of_exporter("lab61") + in_ci(probes.rows("lab61-probes") + matrix.rows("lab61-page")))
    out += boot("lab612", "kernel 6.12", lambda: core.up("6.12"), of_exporter("lab612", full_only=True), full_only=True)
    out.append(Row("lab-16-rnics", "16 RNICs: limits of series, and the README's table", lambda: core.host_with_many("6.1"), full_only=True, alone=True))
    out.append(Row("lab-no-rdma", "host without RDMA modules", lambda: core.host_without_rdma("6.1"), full_only=True, alone=True))
    return out


def probe_rows():
    out = []
    for tag, kernel in (("probes61", "6.1"), ("probes612", "6.12")):
        out += boot(tag, f"kernel {kernel}", lambda k=kernel: core.up(k), probes.rows(tag, full_only=True), full_only=True)
    out += boot("mesh612", "kernel 6.12", lambda: core.up("6.12", nodes=len(probes.MESH)), probes.mesh_rows("mesh612"), full_only=True, nodes=len(probes.MESH))
    return out


def check_rows():
    out = []
    for tag, kernel in (("check61", "6.1"), ("check612", "6.12")):
        out += boot(tag, f"kernel {kernel}", lambda k=kernel: core.up(k), check.rows(tag, full_only=True), full_only=True)
    return out


def install_rows():
    return [Row("install61-up", "2 nodes without programs, kernel 6.1", lambda: install.up("6.1"), full_only=True, alone=True), *install.rows("install61"),
            Row("install61-down", "down", install.down, full_only=True, alone=True)]


def page_rows():
    few = boards.rows("pages61", full_only=True, alone=True) + [r for r in matrix.rows("pages61") if r.full_only]
    many = matrix.rows("pages61-three", nodes=matrix.MANY)
    return (boot("pages61", "kernel 6.1", lambda: core.up("6.1"), few, full_only=True)
            + boot("pages61-three", "kernel 6.1", lambda: core.up("6.1", nodes=matrix.MANY), many, full_only=True, nodes=matrix.MANY)
            + matrix.verdict_rows("pages61"))


def sanitizer_rows():
    def untimed(found):  # a comparison of times says nothing of an instrumented program
        return [r for r in found if not r.id.endswith("sampler-ip-link")]

    out = []
    for preset in ("asan", "tsan"):
        out += boot(f"lab-{preset}", f"kernel 6.1, program under {preset}", lambda p=preset: core.up("6.1", p),
                    core.core_rows(f"lab-{preset}", full_only=True) + untimed(stock_tools.rows(f"lab-{preset}", full_only=True)), full_only=True)
    return out
