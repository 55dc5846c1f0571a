"""A promoted model on the hub, in Vertex AI and as the champion, through failures in the middle and second tries."""

import pytest

from components import champion, record, storage
from components.errors import UserError
from components.manifest import write_manifest
from components.publish.publish import publish
from components.record import ArtifactRecord
from components.results import Published
from tests.clients.google_services import refusal
from tests.clients.hub_service import TOKEN, HubService
from tests.clients.model_registry import PARENT, ModelRegistry
from tests.clients.played import serve
from tests.clients.test_publish_vertex import FOUND, plan

SLOT = "tiny-qwen3"
FILES = {
    "trained": ("rl-checkpoint", {"model_params/_METADATA": "weights"}),
    "exported": ("hf-model", {"README.md": "---\nlicense: mit\n---\n", "model.safetensors": "weights" * 9999}),
    "evaluation": ("evaluation", {"evaluation.json": FOUND.model_dump_json()}),
    "dataset": ("dataset", {"train.parquet": "questions"}),
}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with serve(HubService()) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_XET_CACHE", str(tmp_path / "xet"))
        yield served


@pytest.fixture
def registry_service(account):
    with serve(ModelRegistry()) as served:
        yield served


@pytest.fixture
def run(hub, registry_service, bucket):
    """Publishes the model of a run that begins when it is called for the first time."""
    plans = {}

    def publish_run(run_id):
        if run_id not in plans:
            holder, version = champion.read(bucket, SLOT)
            made = plan(registry_service.url, run_id)
            to = made.config.publish.model_copy(update={"hub": "acme/maths", "slot": SLOT})
            plans[run_id] = made.model_copy(
                update={
                    "config": made.config.model_copy(update={"publish": to}),
                    "store": bucket,
                    "run_dir": f"{bucket}/runs/{run_id}",
                    "champion": holder,
                    "champion_version": version,
                }
            )
        result = publish(plans[run_id], **artifacts(plans[run_id]))
        return Published.model_validate_json(
            storage.read_text(f"{result.records['published'].data_uri}/published.json")
        )

    return publish_run


def artifacts(the_plan) -> dict[str, ArtifactRecord]:
    made = {}
    for name, (kind, files) in FILES.items():
        folder = f"{the_plan.run_dir}/{name}"
        for file, text in files.items():
            storage.write_text(f"{folder}/{file}", text.replace("weights", the_plan.run_id))
        made[name] = ArtifactRecord(kind=kind, format="x", data_uri=folder, code_version="1")
        record.write(made[name], folder)
        write_manifest(folder)
    return made


def test_a_promoted_model_is_in_all_three_places(run, hub, registry_service, bucket):
    done = run("run-1")
    holder, _ = champion.read(bucket, SLOT)
    assert done.hub == holder.hub == f"{hub.url}/acme/maths/commit/{hub.repos['acme/maths'].commits[-1].id}"
    assert done.vertex == holder.vertex == f"{PARENT}/models/maths@1"
    assert hub.repos["acme/maths"].commits[-1].title == "run-1: PROMOTE, 50.0% to 75.0% right on 200 questions"
    assert registry_service.versions["maths"][0]["artifactUri"] == f"{bucket}/runs/run-1/exported"


@pytest.mark.parametrize(
    ("place", "method", "path"),
    [
        ("hub", "POST", "/api/models/acme/maths/commit/main"),
        ("registry_service", "GET", f"/v1/{PARENT}/models/maths:listVersions"),
        ("registry_service", "POST", f"/v1/{PARENT}/models:upload"),
        ("registry_service", "POST", rf"/v1/{PARENT}/models/maths@1/evaluations:import"),
    ],
)
def test_a_try_that_failed_in_the_middle_makes_no_champion_and_the_next_publishes_once(
    request, run, hub, registry_service, bucket, place, method, path
):
    request.getfixturevalue(place).refuse(method, path, 503, refusal(503, "UNAVAILABLE", "later"), times=1)
    with pytest.raises(UserError, match="503"):
        run("run-1")
    assert champion.read(bucket, SLOT) == (None, champion.NONE)
    run("run-1")
    run("run-1")
    assert [commit.title[:5] for commit in hub.repos["acme/maths"].commits] == ["initi", "run-1"]
    assert len(registry_service.versions["maths"]) == len(registry_service.evaluations["maths@1"]) == 1
    assert champion.read(bucket, SLOT)[0].run_id == "run-1"


def test_the_next_champion_is_the_next_commit_and_the_next_version(run, hub, registry_service, bucket):
    run("run-1")
    done = run("run-2")
    assert done.replaced == "run-1"
    assert [commit.title[:5] for commit in hub.repos["acme/maths"].commits] == ["initi", "run-1", "run-2"]
    assert [v["labels"]["posttrain_run"] for v in registry_service.versions["maths"]] == ["run-1", "run-2"]
    assert champion.read(bucket, SLOT)[0].run_id == "run-2"
