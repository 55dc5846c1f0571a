"""Doctor on the bucket: rights, region, and the accounts of the pods."""

from __future__ import annotations

from collections.abc import Iterator

import doctor_api
import pytest
from doctor_api import Cluster, look, only, serve

from pipelines.doctor.bucket import PERMISSIONS
from pipelines.doctor.gke import Gke, Pool

GKE = "cluster.gke=projects/p/locations/us-east5-b/clusters/c"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with doctor_api.cluster() as played:
        yield played


@pytest.fixture
def bucket(monkeypatch):
    """A Cloud Storage with the bucket `ours`; the dict says what it answers."""
    facts = {"permissions": list(PERMISSIONS), "location": "US-EAST5", "status": 200}

    def answer(method, path, query, _body):
        if facts["status"] != 200:
            return facts["status"], {"error": {"code": facts["status"], "message": "no"}}
        if not path.startswith("/storage/v1/b/ours"):
            return 404, {"error": {"code": 404, "message": "no such bucket"}}
        if path.endswith("/iam/testPermissions"):
            return 200, {"permissions": [p for p in query["permissions"] if p in facts["permissions"]]}
        regions = {"customPlacementConfig": {"dataLocations": facts["regions"]}} if "regions" in facts else {}
        return 200, {"name": "ours", "location": facts["location"], **regions}

    with serve(answer) as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        yield facts


OURS = {"store": "gs://ours/posttrain"}


def test_all_permissions_are_asked_for_and_granted(cluster, bucket):
    found = only(look(cluster, "bucket", **OURS))
    assert found.status == "ok" and "gs://ours" in found.text


@pytest.mark.parametrize("missing", PERMISSIONS)
def test_a_missing_permission_is_named_whichever_it_is(cluster, bucket, missing):
    bucket["permissions"].remove(missing)
    found = only(look(cluster, "bucket", **OURS))
    assert found.status == "failure" and found.text == f"not allowed in gs://ours: {missing}"
    assert "roles/storage.objectUser roles/storage.legacyBucketReader" in found.cure


def test_no_permission_at_all_names_all(cluster, bucket):
    bucket["permissions"].clear()
    assert only(look(cluster, "bucket", **OURS)).text.count("storage.") == len(PERMISSIONS)


def test_a_bucket_that_does_not_exist_is_a_failure_with_the_command_that_makes_it(cluster, bucket):
    found = only(look(cluster, "bucket", store="gs://others/posttrain"))
    assert (found.status, found.text) == ("failure", "there is no bucket gs://others")
    assert found.cure.startswith("gcloud storage buckets create gs://others")


def test_a_bucket_that_may_not_be_asked_about_is_a_failure(cluster, bucket):
    bucket["status"] = 403
    found = only(look(cluster, "bucket", **OURS))
    assert found.status == "failure" and "add-iam-policy-binding gs://ours" in found.cure


def test_a_server_that_tells_no_permissions_leaves_them_unknown(cluster, gcs):
    assert only(look(cluster, "bucket", store=f"{gcs}/posttrain")).status == "unknown"


def test_without_credentials_nothing_is_known(cluster, monkeypatch, tmp_path):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    found = only(look(cluster, "bucket", **OURS))
    assert found.status == "unknown" and "gcloud auth application-default login" in found.text


def test_a_folder_of_this_machine_is_a_failure(cluster, tmp_path):
    found = only(look(cluster, "bucket", store=str(tmp_path)))
    assert found.status == "failure" and "--store gs://BUCKET" in found.cure
    assert look(cluster, "region", store=str(tmp_path)) == []


# -- region -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["US-EAST5", "US"])
def test_a_bucket_in_the_region_of_the_cluster_is_ok(cluster, bucket, location):
    bucket["location"] = location
    assert only(look(cluster, "region", GKE, **OURS)).status == "ok"


@pytest.mark.parametrize("location", ["US-EAST1", "EU", "NAM4"])
def test_a_bucket_elsewhere_is_a_warning_with_both_places(cluster, bucket, location):
    bucket["location"] = location
    found = only(look(cluster, "region", GKE, **OURS))
    assert found.status == "warning" and f"is in {location} and the cluster in us-east5" in found.text
    assert "--location=us-east5" in found.cure


def test_a_region_is_not_taken_for_one_whose_name_begins_alike(cluster, bucket):
    bucket["location"] = "EUROPE-WEST1"
    gke = "cluster.gke=projects/p/locations/europe-west12/clusters/c"
    assert only(look(cluster, "region", gke, **OURS)).status == "warning"


def test_a_bucket_of_two_chosen_regions_is_in_both(cluster, bucket):
    bucket |= {"location": "US", "regions": ["US-EAST5", "US-WEST1"]}
    assert only(look(cluster, "region", GKE, **OURS)).status == "ok"
    bucket |= {"regions": ["US-EAST1", "US-WEST1"]}
    assert only(look(cluster, "region", GKE, **OURS)).status == "warning"


def test_the_region_is_read_from_a_node_where_the_configuration_names_no_cluster(cluster, bucket):
    assert only(look(cluster, "region", **OURS)).status == "unknown"
    cluster.add_nodes("pool", 1, {}, {"topology.kubernetes.io/region": "us-east5"})
    assert only(look(cluster, "region", **OURS)).status == "ok"
    cluster.denied = {("list", "nodes")}
    assert only(look(cluster, "region", **OURS)).status == "unknown"


def test_without_the_right_to_locate_the_bucket_the_region_is_unknown(cluster, bucket):
    bucket["status"] = 403
    found = only(look(cluster, "region", GKE, **OURS))
    assert found.status == "unknown" and "No permission" in found.text


# -- accounts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def google(monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)


def test_pathways_uses_the_account_of_the_node_pool_and_converters_their_own(cluster, google):
    nodes, pods = look(cluster, "identity", "cluster.service_account=trainer", "cluster.namespace=team", **OURS)
    assert {nodes.status, pods.status} == {"unknown"}
    assert "account of their node pool (NODE_ACCOUNT)" in nodes.text
    assert "Kubernetes service account trainer" in pods.text
    assert '/subject/ns/team/sa/trainer" --role=$role' in pods.cure
    for found in (nodes, pods):
        assert "roles/storage.objectUser roles/storage.legacyBucketReader" in found.cure and "gs://ours" in found.cure


def test_the_account_of_the_node_pools_is_named_where_googles_api_knows_it(cluster, google):
    pools = tuple(Pool(name, "", "", 0, account) for name, account in (("a", "tpu@p"), ("b", "tpu@p"), ("c", "cpu@p")))
    found = look(cluster, "identity", GKE, describe=lambda name: Gke(name, False, pools), **OURS)
    assert ['--member="serviceAccount:cpu@p"' in f.cure for f in found] == [True, False, False]
    assert ['--member="serviceAccount:tpu@p"' in f.cure for f in found] == [False, True, False]


def test_a_run_without_slices_uses_only_its_own_account(cluster, google):
    found = only(look(cluster, "identity", "tpu=null", **OURS))
    assert "Kubernetes service account default" in found.text


def test_an_emulator_knows_no_accounts(cluster, bucket):
    assert look(cluster, "identity", **OURS) == []
