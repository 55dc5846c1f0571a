"""The container image of each role, as `cluster.images` says or by default.

The project's own images are built from `images/` and hold this package, so there is no public address for them. Their
defaults are the names that a build on this machine gives, which a one-machine cluster runs; a cluster elsewhere needs
the address of a registry in `cluster.images`. The images of Pathways are Google's.
"""

from __future__ import annotations

from typing import Literal

from components.config import ClusterConfig

Role = Literal["training", "converter", "serving", "proxy", "pathways", "ray-torchtpu", "ray-maxtext"]

# of pyproject.toml; a fixed tag, so that a node does not fetch what it has
TAG = "0.1.0"

DEFAULTS: dict[Role, str] = {
    "training": f"localhost/posttrain-training:{TAG}",
    "converter": f"localhost/posttrain-converter:{TAG}",
    "serving": f"localhost/posttrain-serving:{TAG}",
    "ray-torchtpu": f"localhost/posttrain-ray-torchtpu:{TAG}",
    "ray-maxtext": f"localhost/posttrain-ray-maxtext:{TAG}",
    # Google names them by date and version of JAX, and the training image wants a newer JAX than any digest that is
    # documented; what ran is told by the pods' imageID
    "proxy": "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/proxy_server:latest",
    "pathways": "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server:latest",
}


def image(role: Role, cluster: ClusterConfig) -> str:
    """Returns the image of a role, with its tag or digest."""
    return cluster.images.get(role, DEFAULTS[role])
