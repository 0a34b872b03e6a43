# SPDX-License-Identifier: Apache-2.0
"""What the probers of a lab need to trust each other: a certificate authority, a certificate for each node, a key.
Made anew for each lab, so that nothing secret is in the sources."""
import secrets

from .common import run


def make(folder, node_count):
    folder.mkdir(parents=True, exist_ok=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("openssl", "req", "-x509", *key, "-keyout", folder / "ca.key", "-out", folder / "ca.crt", "-days", "30",
        "-subj", "/CN=lab-probes", "-addext", "basicConstraints=critical,CA:TRUE", what="openssl")
    for node in range(1, node_count + 1):
        name = folder / f"node{node}"
        run("openssl", "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN=node{node}",
            what="openssl")
        extensions = folder / f"node{node}.ext"
        extensions.write_text(f"subjectAltName=DNS:node{node},DNS:localhost,IP:10.77.0.{node},IP:127.0.0.1\n")
        run("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
            "-set_serial", str(node), "-days", "30", "-extfile", extensions, "-out", f"{name}.crt", what="openssl")
    (folder / "probe-key").write_text(secrets.token_hex(32) + "\n")
    (folder / "ca.key").unlink()
    return folder
