"""How every component is declared: a lightweight component whose body calls a module that is baked into the image.

Nothing is installed when the component starts, and the image needs no full kfp. `POSTTRAIN_IMAGE` names another image
when compiling.
"""

import functools
import os

from kfp import dsl

IMAGE = os.environ.get("POSTTRAIN_IMAGE", "us-docker.pkg.dev/PROJECT/posttrain/posttrain-launcher:0.1.0")

stage_component = functools.partial(dsl.component, base_image=IMAGE, install_kfp_package=False)
