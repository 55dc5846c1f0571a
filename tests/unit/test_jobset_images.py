"""The image of each role."""

import tomllib
from pathlib import Path

import pytest

from components.config import ClusterConfig
from components.workloads import images


def test_the_projects_own_images_are_tagged_with_its_version():
    version = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]
    assert version == images.TAG


@pytest.mark.parametrize("role", images.DEFAULTS)
def test_an_image_of_ones_own_replaces_the_default_of_its_role_alone(role):
    cluster = ClusterConfig(images={role: "registry/own:1"})
    assert images.image(role, cluster) == "registry/own:1"
    assert all(images.image(other, cluster) == images.DEFAULTS[other] for other in images.DEFAULTS if other != role)
