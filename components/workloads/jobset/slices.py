"""How pods come to stand on the hosts of a TPU slice, and what becomes of them when Google takes a Spot slice back."""

from __future__ import annotations

from components.config import TpuConfig
from components.tpu import Slice
from components.workloads.jobset.models import (
    Affinity,
    FailurePolicyRule,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodCondition,
    PodFailurePolicy,
    PodFailureRule,
    Resources,
    Toleration,
    quantities,
)

NODE_POOL = "cloud.google.com/gke-nodepool"
# one Job has the nodes with one value of this annotation's label to itself: a slice is a node pool
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_SPOT = "cloud.google.com/gke-spot"


def topology_annotation(slice_: Slice) -> dict[str, str]:
    """Of a pod on a slice."""
    return {"cloud.google.com/gke-tpu-slice-topology": slice_.topology}


def node_selector(slice_: Slice, tpu: TpuConfig) -> dict[str, str]:
    """Hosts of this kind of slice, of the capacity that is paid for."""
    selector = {
        "cloud.google.com/gke-tpu-accelerator": slice_.accelerator,
        "cloud.google.com/gke-tpu-topology": slice_.topology,
    }
    if tpu.capacity == "spot":
        selector[_SPOT] = "true"
    if tpu.reservation:
        selector["cloud.google.com/reservation-name"] = tpu.reservation
    return selector


def affinity(tpu: TpuConfig) -> Affinity | None:
    """The node pools that may be used, where they are named."""
    if not tpu.pools:
        return None
    pools = NodeSelectorRequirement(key=NODE_POOL, operator="In", values=list(tpu.pools))
    term = NodeSelectorTerm(match_expressions=[pools])
    required = NodeSelector(node_selector_terms=[term])
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def tolerations(tpu: TpuConfig) -> list[Toleration]:
    """Of the taints with which GKE keeps other pods off these hosts."""
    chips = Toleration(key="google.com/tpu", operator="Exists", effect="NoSchedule")
    spot = Toleration(key=_SPOT, operator="Equal", value="true", effect="NoSchedule")
    return [chips, spot] if tpu.capacity == "spot" else [chips]


def host_resources(slice_: Slice) -> Resources:
    """All chips of a host."""
    return Resources(limits=quantities({"google.com/tpu": str(slice_.chips_per_host)}))


def pod_failure_policy(tpu: TpuConfig) -> PodFailurePolicy | None:
    """On Spot, a pod that lost its host fails its Job by a reason of its own, which `failure_rules` can tell apart.

    Only for pods that are never restarted in place: Kubernetes refuses it for others.
    """
    if tpu.capacity != "spot":
        return None
    lost = PodCondition(type="DisruptionTarget", status="True")
    return PodFailurePolicy(rules=[PodFailureRule(action="FailJob", on_pod_conditions=[lost])])


def failure_rules(tpu: TpuConfig) -> list[FailurePolicyRule] | None:
    """On Spot, a lost host starts the JobSet anew and does not count as one of the restarts that are allowed."""
    if tpu.capacity != "spot":
        return None
    return [
        FailurePolicyRule(
            # the webhook would fill in a name, but only after the schema has refused a rule without one
            name="hostMaintenance",
            action="RestartJobSetAndIgnoreMaxRestarts",
            on_job_failure_reasons=["PodFailurePolicy"],
        )
    ]
