"""Environment variables of containers: plain text, fields of the pod, and a key of a Secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.workloads.jobset.models import EnvVar, EnvVarSource, FieldSelector, SecretKey


def literal(text: str) -> str:
    """Returns `text` as Kubernetes must be given it so that a container gets `text`.

    In values and arguments Kubernetes puts a variable's value for $(NAME) and makes one $ of two
    (third_party/forked/golang/expansion in kubernetes/kubernetes), so every $ is doubled.
    """
    return text.replace("$", "$$")


def texts(values: Mapping[str, str]) -> list[EnvVar]:
    """Variables with these very values."""
    return [EnvVar(name=name, value=literal(value)) for name, value in values.items()]


def of_label(name: str, label: str) -> EnvVar:
    """A variable with the value of a label of the pod."""
    return _field(name, f"metadata.labels['{label}']")


def of_annotation(name: str, annotation: str) -> EnvVar:
    """A variable with the value of an annotation of the pod."""
    return _field(name, f"metadata.annotations['{annotation}']")


def of_address(name: str) -> EnvVar:
    """A variable with the address of the pod."""
    return _field(name, "status.podIP")


def of_secret(name: str, secret: str) -> EnvVar:
    """A variable with the value of a Secret's key, written `name/key`. Only the kubelet sees the value."""
    own_name, key = secret.split("/")
    return EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=SecretKey(name=own_name, key=key)))


def merged(*groups: Iterable[EnvVar]) -> list[EnvVar]:
    """Returns all variables, each name once: where groups disagree the later one holds.

    A name keeps the place of its first mention, since a value may refer only to variables before it.
    """
    return list({variable.name: variable for group in groups for variable in group}.values())


def _field(name: str, path: str) -> EnvVar:
    return EnvVar(name=name, value_from=EnvVarSource(field_ref=FieldSelector(field_path=path)))
