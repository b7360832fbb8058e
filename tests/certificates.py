"""Self-signed TLS certificates for tests, made with openssl."""

import shutil
import subprocess

import pytest


def made_certificate(folder):
    """Return the paths of a self-signed certificate and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    files = [str(folder / "cert.pem"), str(folder / "key.pem")]
    about = ["-subj", "/CN=workers", "-days", "2", "-nodes", "-newkey", "ec"]
    curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *about, *curve, "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    return files
