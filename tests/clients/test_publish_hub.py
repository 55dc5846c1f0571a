"""Pushing to the Hugging Face hub with its own library, against a hub that keeps what it is sent."""

import hashlib

import pytest

from components import config, secrets, storage
from components.errors import UserError
from components.manifest import write_manifest
from components.publish import hub
from components.sources import hub as hub_of_sources
from tests.clients.hub_service import TOKEN, HubRepo, HubService
from tests.clients.played import closed_port, serve

REPO = "acme/maths"
TITLE = "run-1: PROMOTE"
SMALL = {"README.md": b"---\nlibrary_name: transformers\n---\n# Card\n", "config.json": b"{}"}
LARGE = {"model-00001.safetensors": b"first" * 50_000, "model-00002.safetensors": b"second" * 50_000}


@pytest.fixture
def service(monkeypatch, tmp_path):
    with serve(HubService()) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_XET_CACHE", str(tmp_path / "xet"))
        yield served


@pytest.fixture(params=["local", "gcs"])
def exported(request, tmp_path) -> str:
    """An exported model with its records, on this machine and in Cloud Storage."""
    folder = str(tmp_path / "model") if request.param == "local" else f"{request.getfixturevalue('bucket')}/model"
    return write(folder, SMALL | LARGE)


def write(folder: str, files: dict[str, bytes]) -> str:
    for name, data in {**files, "provenance.json": b'{"data_uri": "gs://ours"}'}.items():
        storage.write_bytes(storage.join(folder, name), data)
    write_manifest(folder)
    return folder


def push(folder: str, title: str = TITLE, *, private: bool = True) -> str:
    return hub.push(REPO, folder, title, private=private, say=lambda text: None)


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def test_a_model_is_one_commit_of_a_private_repository(service, exported):
    page = push(exported)
    repo = service.repos[REPO]
    assert repo.private
    assert [commit.title for commit in repo.commits] == ["initial commit", TITLE]
    assert repo.files == {".gitattributes": b""} | SMALL | {name: digest(data) for name, data in LARGE.items()}
    assert page == f"{service.url}/{REPO}/commit/{repo.commits[-1].id}"


def test_records_that_name_places_of_ours_are_not_pushed(service, exported):
    push(exported)
    assert not {"provenance.json", "manifest.json"} & service.repos[REPO].files.keys()


def test_nothing_of_a_copy_stays_here(service, exported, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    push(exported)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert storage.read_bytes(storage.join(exported, "model-00001.safetensors")) == LARGE["model-00001.safetensors"]


def test_a_public_repository_when_asked_for(service, tmp_path):
    push(write(str(tmp_path / "model"), SMALL), private=False)
    assert not service.repos[REPO].private


def test_a_later_model_takes_the_place_of_the_earlier_whole(service, tmp_path):
    push(write(str(tmp_path / "first"), SMALL | LARGE))
    later = SMALL | {"model.safetensors": b"third" * 50_000}
    push(write(str(tmp_path / "second"), later), "run-2: PROMOTE")
    assert service.repos[REPO].files.keys() == {".gitattributes", *later}


def test_a_second_push_of_the_same_run_does_nothing(service, exported):
    page = push(exported)
    sent = service.pieces
    assert push(exported) == page
    assert (len(service.repos[REPO].commits), service.pieces) == (2, sent)


def test_a_push_that_broke_off_shows_nothing_and_is_finished_by_the_next(service, tmp_path):
    folder = write(str(tmp_path / "model"), SMALL | LARGE)
    service.refuse("POST", f"/api/models/{REPO}/commit/main", 500, {"error": "broken"}, times=1)
    with pytest.raises(UserError, match="500"):
        push(folder)
    assert len(service.repos[REPO].commits) == 1
    push(folder)
    assert len(service.repos[REPO].commits) == 2


def test_a_commit_by_somebody_else_in_between_is_not_overwritten(service, tmp_path):
    push(write(str(tmp_path / "first"), SMALL))

    answer = service.answer

    def meanwhile(request):
        if request.path.endswith("/commit/main") and len(service.repos[REPO].commits) == 2:
            service.repos[REPO].commits.append(service.repos[REPO].commits[0])
        return answer(request)

    service.answer = meanwhile
    with pytest.raises(
        UserError, match=r"something else was changed in between .*Somebody else has pushed to it"
    ) as told:
        push(write(str(tmp_path / "second"), LARGE), "run-2: PROMOTE")
    assert len(str(told.value).splitlines()) == 1


COMMIT = f"/api/models/{REPO}/commit/main"
STORE = f"/api/models/{REPO}/xet-write-token/main"


@pytest.mark.parametrize(
    ("method", "path", "status", "words", "said"),
    [
        ("POST", "/api/repos/create", 401, "Invalid credentials", "does not know who you are"),
        ("POST", COMMIT, 403, "no rights", r"permission denied \(no rights\)\. Give HF_TOKEN a token that may write"),
        ("POST", COMMIT, 403, "Private repository storage limit reached", "Free space on the hub, or have the quota"),
        ("POST", COMMIT, 429, "slow down", r"rate limit reached .*Wait"),
        ("POST", COMMIT, 409, "conflict", "Somebody else has pushed"),
        ("POST", COMMIT, 413, "too large", "status 413"),
        ("GET", STORE, 403, "", r"permission denied\. Give HF_TOKEN a token that may write to acme/maths"),
        ("GET", STORE, 401, "", "does not know who you are"),
    ],
)
def test_what_the_hub_refuses_is_one_line_with_the_cure(service, tmp_path, method, path, status, words, said):
    service.refuse(method, path, status, {"error": words})
    with pytest.raises(UserError, match=said) as told:
        push(write(str(tmp_path / "model"), SMALL | LARGE))
    assert str(told.value).startswith(f"The Hugging Face hub did not take {REPO}")
    assert len(str(told.value).splitlines()) == 1
    assert TOKEN not in str(told.value)


def test_a_hub_that_does_not_answer_is_not_waited_for_forever(service, tmp_path, monkeypatch):
    monkeypatch.setattr("components.sources.hub._PATIENCE_S", 0.5)
    service.hang("POST", COMMIT)
    with pytest.raises(UserError, match="did not answer in time"):
        push(write(str(tmp_path / "model"), SMALL))


def test_a_hub_that_is_away(service, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", closed_port())
    with pytest.raises(UserError, match=r"cannot be reached\. Check the network and HF_ENDPOINT"):
        push(write(str(tmp_path / "model"), SMALL))


# -- before anything is spent ------------------------------------------------------------------------------------------


def test_a_repository_of_ours_and_one_that_is_to_be_made_can_be_written(service):
    hub_of_sources.check_writable(REPO, private=True)
    service.repos[REPO] = HubRepo(private=True)
    hub_of_sources.check_writable(REPO, private=True)
    assert not [request for request in service.requests if request.method == "POST"]


def test_a_public_repository_is_no_place_for_a_private_model(service):
    service.repos[REPO] = HubRepo(private=False)
    with pytest.raises(UserError, match=r"is public on the hub, and publish\.private is true"):
        hub_of_sources.check_writable(REPO, private=True)
    hub_of_sources.check_writable(REPO, private=False)


def test_an_organisation_that_is_not_ours(service):
    with pytest.raises(UserError, match="ann is no member of others"):
        hub_of_sources.check_writable("others/maths", private=True)


def test_a_token_that_only_reads(service):
    service.repos[REPO] = HubRepo(private=True)
    service.refuse("GET", f"/api/models/{REPO}/auth-check/write", 403, {"error": "read token"})
    with pytest.raises(UserError, match="Give HF_TOKEN a token that may write to acme/maths"):
        hub_of_sources.check_writable(REPO, private=True)


def test_a_token_that_is_not_valid(service, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    with pytest.raises(UserError, match=r"does not know who you are.*Give HF_TOKEN a token that is valid") as told:
        hub_of_sources.check_writable(REPO, private=True)
    assert "hf_old" not in str(told.value)


def test_no_token(service, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    secrets.use(config.load("tiny-qwen3"))
    with pytest.raises(UserError, match=r"set HF_TOKEN, or secrets\.hf_token"):
        hub_of_sources.check_writable(REPO, private=True)
    assert service.requests == []
