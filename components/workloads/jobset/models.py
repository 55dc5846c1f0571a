"""Short names for the models of kubeflow-trainer-api, whose own ones are the paths of Kubernetes' Go packages."""

from __future__ import annotations

from collections.abc import Mapping

from kubeflow_trainer_api import models

Affinity = models.IoK8sApiCoreV1Affinity
Container = models.IoK8sApiCoreV1Container
ContainerPort = models.IoK8sApiCoreV1ContainerPort
Coordinator = models.JobsetV1alpha2Coordinator
CSI = models.IoK8sApiCoreV1CSIVolumeSource
EmptyDir = models.IoK8sApiCoreV1EmptyDirVolumeSource
EnvVar = models.IoK8sApiCoreV1EnvVar
EnvVarSource = models.IoK8sApiCoreV1EnvVarSource
FailurePolicy = models.JobsetV1alpha2FailurePolicy
FailurePolicyRule = models.JobsetV1alpha2FailurePolicyRule
FieldSelector = models.IoK8sApiCoreV1ObjectFieldSelector
JobSet = models.JobsetV1alpha2JobSet
JobSetSpec = models.JobsetV1alpha2JobSetSpec
JobSpec = models.IoK8sApiBatchV1JobSpec
JobTemplate = models.IoK8sApiBatchV1JobTemplateSpec
Network = models.JobsetV1alpha2Network
NodeAffinity = models.IoK8sApiCoreV1NodeAffinity
NodeSelector = models.IoK8sApiCoreV1NodeSelector
NodeSelectorRequirement = models.IoK8sApiCoreV1NodeSelectorRequirement
NodeSelectorTerm = models.IoK8sApiCoreV1NodeSelectorTerm
ObjectMeta = models.IoK8sApimachineryPkgApisMetaV1ObjectMeta
PodClaim = models.IoK8sApiCoreV1PodResourceClaim
PodCondition = models.IoK8sApiBatchV1PodFailurePolicyOnPodConditionsPattern
PodFailurePolicy = models.IoK8sApiBatchV1PodFailurePolicy
PodFailureRule = models.IoK8sApiBatchV1PodFailurePolicyRule
PodSpec = models.IoK8sApiCoreV1PodSpec
PodTemplate = models.IoK8sApiCoreV1PodTemplateSpec
Quantity = models.IoK8sApimachineryPkgApiResourceQuantity
ReplicatedJob = models.JobsetV1alpha2ReplicatedJob
ResourceClaim = models.IoK8sApiCoreV1ResourceClaim
Resources = models.IoK8sApiCoreV1ResourceRequirements
SecretKey = models.IoK8sApiCoreV1SecretKeySelector
SecurityContext = models.IoK8sApiCoreV1SecurityContext
StartupPolicy = models.JobsetV1alpha2StartupPolicy
SuccessPolicy = models.JobsetV1alpha2SuccessPolicy
Toleration = models.IoK8sApiCoreV1Toleration
Volume = models.IoK8sApiCoreV1Volume
VolumeMount = models.IoK8sApiCoreV1VolumeMount


def quantities(amounts: Mapping[str, str]) -> dict[str, Quantity]:
    """Amounts of resources, such as {"cpu": "2"}, as the models take them."""
    return {name: Quantity(amount) for name, amount in amounts.items()}
