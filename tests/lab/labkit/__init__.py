# SPDX-License-Identifier: Apache-2.0
"""The lab: QEMU machines that form a small RoCE fabric (see ../README.md)."""
