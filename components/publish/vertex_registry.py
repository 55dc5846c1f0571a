"""Registers a promoted model in Vertex AI's Model Registry: a version with labels, the container that serves it, and its
evaluation.

In: the plan, the exported model in gs://, the evaluation. Out: the resource name of the version. A version with the label
of this run is taken for this one, so a second try registers nothing twice. What the registry refuses is a UserError.

The calls go through the service client, as those of the pipelines do: the library's `Model` reads the environment and
makes buckets.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from components.config import VertexModelConfig
from components.plan import Plan
from components.refusal import TIMED_OUT, UNREACHABLE, refusal, status_of, words_of
from components.results import Evaluation

if TYPE_CHECKING:
    from google.cloud import aiplatform_v1 as api

# the schema whose only metric is the share of right answers
_SCHEMA = "gs://google-cloud-aiplatform/schema/modelevaluation/question_answering_metrics_1.0.0.yaml"
_RUN = "posttrain_run"  # the label by which a run finds its version
_TIMEOUT_S = 60.0  # of one call
_PATIENCE_S = 1800.0  # of the registration itself


def register(plan: Plan, artifact: str, found: Evaluation, say: Callable[[str], None]) -> str:
    """Returns the resource name `projects/P/locations/L/models/M@V`.

    Args:
      plan: the run and its configuration.
      artifact: gs:// folder with the model in Hugging Face format.
      found: the evaluation to attach.
      say: is told what is done.
    """
    to = plan.config.publish.vertex
    label = _label(plan.run_id)
    with _errors(to):
        client = _client(to)
        versions = _versions(client, to, label)
        if versions:
            model = f"{_name(to)}@{versions[0]}"
        else:
            say(f"registering a version of {_name(to)}")
            model = _upload(client, plan, artifact, found, label, first=versions is None)
        _evaluate(client, model, plan.run_id, found)
    return model


def _versions(client: api.ModelServiceClient, to: VertexModelConfig, label: str) -> list[str] | None:
    """Ids of the versions that this run has made; None when there is no such model yet."""
    from google.api_core.exceptions import NotFound
    from google.cloud import aiplatform_v1 as api

    request = api.ListModelVersionsRequest(name=_name(to), filter=f'labels.{_RUN}="{label}"')
    try:
        return [found.version_id for found in client.list_model_versions(request=request, timeout=_TIMEOUT_S)]
    except NotFound:
        return None


def _upload(
    client: api.ModelServiceClient, plan: Plan, artifact: str, found: Evaluation, label: str, *, first: bool
) -> str:
    from google.cloud import aiplatform_v1 as api

    to = plan.config.publish.vertex
    model = api.Model(
        display_name=to.model,
        version_description=f"{plan.run_id}: {found.verdict}, {found.reasons[0]}",
        version_aliases=["default"],  # what is deployed without naming a version
        labels={
            _RUN: label,
            "posttrain_preset": _label(plan.config.preset),
            "posttrain_config": plan.config_sha256[:16],
            "verdict": _label(found.verdict),
        },
        artifact_uri=artifact,
        container_spec=api.ModelContainerSpec(
            image_uri=to.image,
            args=to.args,
            env=[api.EnvVar(name=name, value=value) for name, value in to.env.items()],
            ports=[api.Port(container_port=to.port)],
            predict_route=to.predict_route,
            health_route=to.health_route,
        ),
    )
    request = api.UploadModelRequest(
        parent=_parent(to), model=model, **({"model_id": to.model} if first else {"parent_model": _name(to)})
    )
    made = client.upload_model(request=request, timeout=_TIMEOUT_S).result(timeout=_PATIENCE_S)
    return f"{_name(to)}@{made.model_version_id}"


def _evaluate(client: api.ModelServiceClient, model: str, name: str, found: Evaluation) -> None:
    """Attaches the evaluation to a version, once."""
    from google.cloud import aiplatform_v1 as api

    if any(one.display_name == name for one in client.list_model_evaluations(parent=model, timeout=_TIMEOUT_S)):
        return
    facts = {
        "verdict": str(found.verdict),
        "questions": found.n_questions,
        "accuracy_before": found.before.accuracy,
        "accuracy_ci_low": found.after.accuracy_ci_low,
        "accuracy_ci_high": found.after.accuracy_ci_high,
        "delta": found.delta.value,
        "delta_ci_low": found.delta.ci_low,
        "delta_ci_high": found.delta.ci_high,
    }
    evaluation = api.ModelEvaluation(
        display_name=name,
        metrics_schema_uri=_SCHEMA,
        metrics={"exactMatch": found.after.accuracy},
        metadata=facts,
    )
    client.import_model_evaluation(parent=model, model_evaluation=evaluation, timeout=_TIMEOUT_S)


def _parent(to: VertexModelConfig) -> str:
    return f"projects/{to.project}/locations/{to.location}"


def _name(to: VertexModelConfig) -> str:
    return f"{_parent(to)}/models/{to.model}"


def _label(text: str) -> str:
    """`text` as a label: lower case letters, digits, `_` and `-`, at most 63; different texts stay different.

    Source: https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models
    """
    plain = re.sub(r"[^a-z0-9_-]", "-", text.lower())
    changed = text.lower() != plain or len(plain) > 63
    return f"{plain[:54]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}" if changed else plain


def _client(to: VertexModelConfig) -> Any:
    from google.api_core.client_options import ClientOptions
    from google.cloud import aiplatform_v1 as api

    endpoint = to.endpoint or f"{to.location}-aiplatform.googleapis.com"
    return api.ModelServiceClient(transport="rest", client_options=ClientOptions(api_endpoint=endpoint))


@contextlib.contextmanager
def _errors(to: VertexModelConfig) -> Iterator[None]:
    """Turns what the registry answers, other than yes, into UserError."""
    import concurrent.futures

    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    again = "Continue the run: a version that came about all the same is found by its label."
    cures = {
        401: "Run `gcloud auth application-default login`, or attach a service account.",
        403: f"Have roles/aiplatform.user on {to.project} granted.",
        404: "Check publish.vertex.project and publish.vertex.location.",
        409: again,
        TIMED_OUT: again,
        UNREACHABLE: "Check the network and publish.vertex.location, then continue the run.",
    }
    try:
        yield
    except (
        api.GoogleAPIError,
        auth.GoogleAuthError,
        requests.RequestException,
        concurrent.futures.TimeoutError,
    ) as error:
        cause = error.cause if isinstance(error, api.RetryError) and error.cause else error
        if isinstance(cause, api.GoogleAPICallError) and cause.reason == "SERVICE_DISABLED":
            cures[403] = f"Run `gcloud services enable aiplatform.googleapis.com --project {to.project}`."
        status = TIMED_OUT if isinstance(cause, concurrent.futures.TimeoutError) else status_of(cause)
        raise refusal("Vertex AI", f"register {to.model}", status, words_of(cause), cures) from error
