"""The Hugging Face hub: the model and the questions may be read, and how large the model is.

Asked for with the token that the run will have. A repository whose terms must be accepted shows its files' names to
everybody and refuses the files, so the file itself is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from components import secrets
from components.config import AnyConfig, Config
from components.ray_config import RayFinetuneConfig
from components.sources import hub
from components.sources.spec import DatasetSpec
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, unknown

_TIMEOUT_S = 10.0
# parameters of the presets' models, as their names and model cards have them
_PARAMETERS = {"gemma4-26b": 26e9, "qwen3-30b-a3b": 30.5e9}


def readable(case: Case) -> Iterator[Result]:
    """The files of every repository that the run reads may be read."""
    for repo in _repos(case.config):
        yield _readable(repo)


def _repos(config: AnyConfig) -> list[hub.Repo]:
    if not isinstance(config, Config | RayFinetuneConfig):
        return []
    data = config.data
    named = [("model", config.model.source, config.model.revision)]
    sources = (data.train, data.evaluation) if isinstance(data, DatasetSpec) else (data.source,)
    named += [("dataset", source, data.revision) for source in sources if source]
    asked = [(kind, source, revision) for kind, source, revision in named if source.startswith(hub.SCHEME)]
    return list(dict.fromkeys(hub.parse(source, kind, revision) for kind, source, revision in asked))


def _readable(repo: hub.Repo) -> Result:
    import httpx
    from huggingface_hub import errors, hf_hub_url

    api = hub._api()
    name = "config.json" if repo.kind == "model" else "README.md"
    url = hf_hub_url(repo.id, name, repo_type=repo.kind, revision=repo.revision, endpoint=api.endpoint)
    page = f"{api.endpoint}/{'datasets/' if repo.kind == 'dataset' else ''}{repo.id}"
    try:
        api.get_hf_file_metadata(url=url)
    except errors.GatedRepoError:
        return failure(
            f"{repo.uri} is gated and this token may not read it", f"accept its terms on {page}, and export HF_TOKEN"
        )
    except errors.RepositoryNotFoundError:
        return failure(
            f"{repo.uri} is not on the hub, or is private", "check model.source and the sources of data, and HF_TOKEN"
        )
    except errors.RevisionNotFoundError:
        return failure(f"{repo.uri} has no revision {repo.revision}", "check model.revision and data.revision")
    except errors.EntryNotFoundError:
        if repo.kind == "model":
            return failure(
                f"{repo.uri} has no config.json: it is no model in Hugging Face format", "check model.source"
            )
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            return failure(f"the hub refuses the token for {repo.uri} ({status})", "export HF_TOKEN with a valid token")
        return unknown(f"the hub answers {status} for {repo.uri}", "try again")
    except (httpx.TransportError, errors.OfflineModeIsEnabled) as error:
        return unknown(
            f"{api.endpoint} cannot be reached to ask for {repo.uri}: {type(error).__name__}", "check the network"
        )
    return ok(f"{repo.uri} may be read{'' if secrets.value(secrets.HF_TOKEN) else ', by everybody'}")


def parameters(config: Config) -> float | None:
    """Number of parameters of a model on the hub; None of one that is elsewhere, or that nobody knows.

    The hub counts them in the headers of the safetensors files. Where it cannot be asked, a small table answers.
    """
    import httpx
    from huggingface_hub import errors

    if not config.model.source.startswith(hub.SCHEME):
        return None
    repo = hub.parse(config.model.source, "model", config.model.revision)
    try:
        info = hub._api().model_info(repo.id, revision=repo.revision, expand=["safetensors"], timeout=_TIMEOUT_S)
    except (httpx.HTTPError, errors.HfHubHTTPError, errors.OfflineModeIsEnabled):
        return _PARAMETERS.get(config.model.name)
    return info.safetensors.total if info.safetensors else _PARAMETERS.get(config.model.name)
