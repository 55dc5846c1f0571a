"""Every JobSet that the project can send is one that every version of JobSet and Kubernetes takes, and the judges that
say so refuse what must be refused.
"""

import copy

import jobset_examples
import kubernetes_schemas
import pytest
import tutorials
from kubeflow_trainer_api.models import JobsetV1alpha2JobSet


def leaves(value, path=()):
    """Every field with its path, down to the values that are not containers, and empty containers."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


# -- the variants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", jobset_examples.SHAPES)
def test_every_variant_passes_the_schemas_of_jobset(shape):
    assert kubernetes_schemas.judged_by_jobset(jobset_examples.variants(shape)) == []


@pytest.mark.parametrize("shape", jobset_examples.SHAPES)
def test_every_variant_passes_the_schemas_of_kubernetes_and_the_rules_of_the_webhook(shape):
    assert kubernetes_schemas.judged_by_kubernetes(jobset_examples.variants(shape)) == []


@pytest.mark.parametrize("shape", jobset_examples.SHAPES)
def test_every_variant_survives_the_typed_models(shape):
    for manifest in jobset_examples.variants(shape):
        read = JobsetV1alpha2JobSet.from_dict(manifest)
        assert read is not None
        assert read.to_dict() == manifest  # the models drop a field that they do not know


@pytest.mark.parametrize("shape", jobset_examples.SHAPES)
def test_a_manifest_says_nothing_empty(shape):
    empty = [
        (path, value)
        for manifest in jobset_examples.variants(shape)
        for path, value in leaves(manifest)
        if value in (None, "", {}, [])
    ]
    assert empty == []


# -- the judges -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stage", "preset"), tutorials.MANIFESTS)
def test_the_judges_accept_manifests_that_are_known_to_be_good(stage, preset):
    manifest = tutorials.theirs(stage, preset)
    assert kubernetes_schemas.judged_by_jobset([manifest]) == []
    assert kubernetes_schemas.judged_by_kubernetes([manifest]) == []


def set_at(manifest, path, value):
    """A copy with another value at a path; the path may be new."""
    changed = copy.deepcopy(manifest)
    node = changed
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return changed


JOB = ("spec", "replicatedJobs", 0, "template", "spec")
POD = (*JOB, "template", "spec")


@pytest.mark.parametrize("crd", kubernetes_schemas.JOBSET_CRDS)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "maxRestarts"), 0),
        ((*POD, "nodeSelectors"), {"a": "b"}),
        ((*POD, "containers", 0, "resource"), {}),
        ((*POD, "terminationGracePeriodSeconds"), "30"),
        ((*POD, "serviceAccountName"), None),
        ((*POD, "containers", 0, "env", 0, "value"), 1),
        ((*POD, "containers", 0, "env", 1, "name"), "PATHWAYS_HEAD"),  # which is the name of the first
        (("spec", "replicatedJobs", 1, "name"), "pathways-head"),
        (("spec", "failurePolicy", "restartStrategy"), "Never"),
        (("spec", "failurePolicy", "rules"), [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]),
        ((*POD, "containers", 0, "resources", "limits"), {"cpu": "a lot"}),
    ],
)
def test_the_schema_of_jobset_refuses_a_fault_anywhere(crd, path, value):
    manifest = jobset_examples.manifest("pathways", "everything", "spot")
    assert kubernetes_schemas.crd_problems(manifest, crd) == []
    assert kubernetes_schemas.crd_problems(set_at(manifest, path, value), crd) != []


@pytest.mark.parametrize("version", kubernetes_schemas.KUBERNETES)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*POD, "nodeSelectors"), {"a": "b"}),
        ((*POD, "containers", 0, "name"), 3),
        ((*JOB, "parallelism"), "8"),
        ((*JOB, "podFailurePolicy", "rules", 0, "onPodConditions", 0, "reason"), "x"),
    ],
)
def test_the_schemas_of_kubernetes_refuse_a_fault_anywhere(version, path, value):
    manifest = jobset_examples.manifest("pathways", "everything", "spot")
    jobs = kubernetes_schemas.child_jobs
    assert kubernetes_schemas.kubernetes_problems(jobs(manifest), version) == []
    assert kubernetes_schemas.kubernetes_problems(jobs(set_at(manifest, path, value)), version) != []


@pytest.mark.parametrize(
    ("shape", "path", "value"),
    [
        ("pathways", ("spec", "successPolicy", "targetReplicatedJobs"), ["head"]),
        ("pathways", ("spec", "failurePolicy", "rules", 0, "targetReplicatedJobs"), ["head"]),
        ("pathways", ("spec", "coordinator", "replicatedJob"), "head"),
        ("pathways", ("spec", "failurePolicy", "rules", 0, "name"), "host-maintenance"),
        ("pathways", ("spec", "failurePolicy", "rules", 0, "onJobFailureReasons"), ["Spot"]),
        ("pathways", ("spec", "replicatedJobs", 1, "dependsOn"), [{"name": "pathways-head", "status": "Ready"}]),
        ("pathways", (*POD, "restartPolicy"), "OnFailure"),
        ("pathways", ("metadata", "name"), "a" * 23),
        ("pathways", ("metadata", "name"), "1a"),
        ("plain", (*JOB, "parallelism"), 4),
        ("plain, two slices", ("metadata", "name"), "a" * 44),
    ],
)
def test_the_rules_of_the_webhook_refuse_what_the_schemas_let_through(shape, path, value):
    manifest = jobset_examples.manifest(shape, "default", "spot")
    assert kubernetes_schemas.webhook_problems(manifest) == []
    assert kubernetes_schemas.webhook_problems(set_at(manifest, path, value)) != []


@pytest.mark.parametrize(("shape", "longest"), [("pathways", 22), ("pathways, largest", 22), ("plain, two slices", 43)])
def test_the_longest_names_are_those_that_jobset_allows(shape, longest):
    manifest = jobset_examples.manifest(shape)
    for length, allowed in ((longest, True), (longest + 1, False)):
        named = set_at(manifest, ("metadata", "name"), "a" * length)
        assert (kubernetes_schemas.webhook_problems(named) == []) is allowed
