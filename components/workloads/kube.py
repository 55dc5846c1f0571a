"""Connects to the Kubernetes API server that a configuration names.

In order: the GKE cluster `cluster.gke`; the kubeconfig's context where `cluster.context` names one; the cluster that
this process runs in; the kubeconfig's current context.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from components.config import ClusterConfig
from components.errors import UserError, did_you_mean
from components.workloads import api, gke

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

PROBE_S = 20.0
_CONNECTIONS = 32  # a run follows several logs and watches at once, each on a connection of its own


def connect(cluster: ClusterConfig) -> ApiClient:
    """Returns a client of the cluster, which has answered once.

    Raises UserError where there is no cluster to be found, no credentials for it, or no answer.
    """
    from kubernetes import client

    configuration = client.Configuration()
    configuration.retries = False  # api.py decides what is tried again
    configuration.connection_pool_maxsize = _CONNECTIONS
    if cluster.gke:
        gke.configure(cluster.gke, configuration)
    elif cluster.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        _in_cluster(configuration)
    else:
        _kubeconfig(cluster.context, configuration)
    connected = client.ApiClient(configuration)
    api.request(connected, "GET", "/version", patience_s=PROBE_S)
    return connected


def _in_cluster(configuration: Configuration) -> None:
    from kubernetes import config

    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException as error:
        cure = "let it mount its service account's token, or set cluster.gke or cluster.context"
        raise UserError(f"This pod has no credentials for its cluster ({error}): {cure}.") from error


def _kubeconfig(context: str | None, configuration: Configuration) -> None:
    from kubernetes import config

    cure = "run `gcloud container clusters get-credentials`, or set cluster.gke=projects/P/locations/L/clusters/C"
    file = os.environ.get("KUBECONFIG")  # the library reads it once only, when it is imported
    try:
        known = [entry["name"] for entry in config.list_kube_config_contexts(file)[0]]
        if context is not None and context not in known:
            raise UserError(
                f"The kubeconfig has no context '{context}'.{did_you_mean(context, known)} It has: {', '.join(known)}."
            )
        config.load_kube_config(file, context=context, client_configuration=configuration)
    except config.ConfigException as error:
        raise UserError(f"No cluster is known ({error}): {cure}.") from error
