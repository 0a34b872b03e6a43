# SPDX-License-Identifier: Apache-2.0
"""What has to hold in a large fleet, by simulation."""
import os

import builds
from harness import BUILD, Row, command


def probe_mesh():
    builds.build("debug", "probe_mesh")
    done = command(os.path.join(BUILD, "debug", "bin", "probe_mesh"), timeout=600)
    lines = done.stdout.splitlines()
    return "; ".join(l.strip() for l in lines if l.startswith("     ")) or f"{len(lines)} checks"


def rows():
    return [Row("scale-probe-mesh", "who probes whom among 10,000 endpoints", probe_mesh)]
