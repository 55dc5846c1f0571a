"""configs/cluster/iam.sh grants what is needed to whom it is needed, as gcloud and kubectl are told; no more."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "configs" / "cluster" / "iam.sh"
GIVEN = {"PROJECT": "proj", "BUCKET": "runs", "NAMESPACE": "team", "NODE_ACCOUNT": "nodes@proj.iam.gserviceaccount.com"}
POOL = "principal://iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/proj.svc.id.goog/subject"
LAUNCHER = "serviceAccount:posttrain-launcher@proj.iam.gserviceaccount.com"


@pytest.fixture
def iam(tmp_path: Path):
    """`iam(*options, **environment)`: runs the script with programs that note how they are called."""
    noted = tmp_path / "noted"
    for name in ("gcloud", "kubectl"):
        program = tmp_path / name
        program.write_text(f"""#!{sys.executable}
import json, sys
open({str(noted)!r}, "a").write(json.dumps(["{name}", *sys.argv[1:]]) + "\\n")
if sys.argv[1:3] == ["projects", "describe"]:
    print(42)
sys.exit("service-accounts" in sys.argv and "describe" in sys.argv)
""")
        program.chmod(0o755)

    def run(*options: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment}
        done = subprocess.run(["bash", str(SCRIPT), *options], capture_output=True, text=True, env=env, check=False)
        calls = [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
        return done, calls

    return run


def grants(calls: list[list[str]]) -> set[tuple[str, str, str]]:
    """(where, to whom, role) of every grant."""
    found = set()
    for call in calls:
        if "add-iam-policy-binding" in call:
            flags = dict(word[2:].split("=", 1) for word in call if word.startswith("--") and "=" in word)
            found.add((call[call.index("add-iam-policy-binding") + 1], flags["member"], flags["role"]))
    return found


def bucket(*members: str) -> set[tuple[str, str, str]]:
    roles = ("roles/storage.objectUser", "roles/storage.legacyBucketReader")
    return {("gs://runs", member, role) for member in members for role in roles}


PODS = (
    f"{POOL}/ns/team/sa/posttrain-launcher",
    f"{POOL}/ns/team/sa/posttrain-workload",
    "serviceAccount:nodes@proj.iam.gserviceaccount.com",
)


def test_pods_and_nodes_get_the_bucket_and_nothing_else(iam):
    done, calls = iam(**GIVEN)
    assert done.returncode == 0, done.stderr
    assert grants(calls) == bucket(*PODS)


def test_vertex_gets_an_account_that_finds_the_cluster_and_whose_rights_in_it_are_those_of_the_role(iam):
    done, calls = iam(**GIVEN, SUBMITTER="user:me@example.com")
    assert done.returncode == 0, done.stderr
    account = LAUNCHER.removeprefix("serviceAccount:")
    assert grants(calls) == bucket(*PODS, LAUNCHER) | {
        ("proj", LAUNCHER, "roles/aiplatform.user"),
        ("proj", LAUNCHER, "roles/container.clusterViewer"),
        (account, "user:me@example.com", "roles/iam.serviceAccountUser"),
    }
    assert [
        "kubectl", "create", "rolebinding", "posttrain-launcher-google", "--namespace=team", "--role=posttrain-launcher",
        f"--user={account}",
    ] in calls  # fmt: skip


def test_nodes_may_fetch_from_the_named_repository_only(iam):
    _, calls = iam(**GIVEN, REPOSITORY="us-east5/posttrain")
    call = calls[-1]
    assert call[:5] == ["gcloud", "artifacts", "repositories", "add-iam-policy-binding", "posttrain"]
    assert "--location=us-east5" in call and "--role=roles/artifactregistry.reader" in call


def test_a_dry_run_changes_nothing_and_prints_what_a_run_does(iam):
    done, looked = iam("--dry-run", **GIVEN, SUBMITTER="user:me@example.com")
    assert {call[-1] if "describe" not in call else "describe" for call in looked} == {"describe"}
    _, calls = iam(**GIVEN, SUBMITTER="user:me@example.com")
    printed = [line.removeprefix("+ ") for line in done.stdout.splitlines()]
    assert printed == [" ".join(call) for call in calls[len(looked) :] if "describe" not in call]


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_what_is_not_given_is_named_before_anything_is_done(iam, missing):
    done, calls = iam(**{name: value for name, value in GIVEN.items() if name != missing})
    assert done.returncode != 0 and missing in done.stderr and calls == []


def test_an_unknown_option_is_refused(iam):
    done, calls = iam("--dryrun", **GIVEN)
    assert done.returncode == 2 and calls == [] and shlex.split(done.stderr)
