"""What kind of file system a folder is on: SQLite's write-ahead log breaks on those that live on another machine."""

from __future__ import annotations

import os
from pathlib import Path

# fmt: off
NETWORK = frozenset((
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "9p", "panfs",
    "orangefs", "wekafs", "virtiofs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse",
    "fuse.beegfs",
))
# fmt: on


def is_network(folder: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Say whether `folder` lies on a network file system; False where the system does not tell."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # not Linux
        return False
    target = os.path.realpath(folder)
    best, kind = "", ""
    for line in lines:
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two mounts on one point the later one is seen
            best, kind = point, parts[2]
    return kind in NETWORK
