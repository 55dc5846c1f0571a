"""Options of the command line that several commands share. Nothing heavy is imported: `posttrain --help` answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

ON = ("local", "kfp", "vertex")

# Settings of the targets (targets/settings.py checks them): where each can be given, and what it is.
TARGET_OPTIONS = {
    "host": "kfp: address of its UI",
    "namespace": "kfp: your namespace, where there are several users",
    "experiment": "kfp: the experiment that runs are listed under",
    "token_file": "kfp: a file with a bearer token",
    "token_variable": "kfp: the environment variable that holds a bearer token",
    "ca_certificate": "kfp: a file with the certificate authority of its address",
    "server_time_zone": "kfp: the time zone of the installation's schedules",
    "project": "vertex: the Google Cloud project",
    "location": "vertex: the region",
    "network": "vertex: a VPC network",
    "labels": "vertex: labels, such as team=ml,env=prod",
    "encryption_key": "vertex: a customer-managed key",
    "repository": "vertex: an Artifact Registry repository of the format KFP",
    "endpoint": "vertex: address of the API where it is not the public one",
    "service_account": "the account that runs work as",
    "pipeline_root": "where artifacts go, such as gs://BUCKET/pipelines",
}


def target_options(*on: str) -> Callable[[Any], Any]:
    """Adds `--on` with these choices, and `target`: the settings that were given, by name."""

    def decorate(command: Any) -> Any:
        for name, help_text in reversed(TARGET_OPTIONS.items()):
            command = click.option(f"--{name.replace('_', '-')}", name, help=help_text)(command)
        default = on[0] if on[0] == "local" else None
        return click.option(
            "--on",
            type=click.Choice(on),
            default=default,
            required=default is None,
            show_default=True,
            help="Where the pipeline runs.",
        )(command)

    return decorate
