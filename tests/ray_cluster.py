"""A Ray cluster of two nodes on this machine, of two kinds of accelerators that are only named. Ends with its stdin."""

import os
import sys
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

MEMORY = 80 * 2**20


def node(kind: str, **more: object) -> dict[str, object]:
    return {"num_cpus": 1, "object_store_memory": MEMORY, "resources": {f"accelerator_type:{kind}": 1}, **more}


if __name__ == "__main__":
    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray notes its address there, wherever its own folder is
    head = node("A100", gcs_server_port=int(sys.argv[1]), include_dashboard=False, temp_dir=sys.argv[2])
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(**node("H100"))
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()
