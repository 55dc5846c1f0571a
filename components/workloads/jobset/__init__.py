"""From an order to the JobSet that carries it out. Pure: it starts nothing and asks nobody.

In: an `Order`, and what the configuration says of the cluster and of the slices. Out: a JobSet, typed with the models
of kubeflow-trainer-api, or as the JSON that is sent. Three shapes, by what the workload needs: a machine without
accelerator (one pod), every host of its slices running the command, or Pathways, where one head drives all hosts.

    build.py       the JobSet itself
    plain.py       the first two shapes
    pathways.py    the third
    pods.py        what every pod that runs the command has: container, environment, resources
    slices.py      how pods get to the hosts of a slice: selectors, tolerations, what Spot needs
    volumes.py     folders beside those of the image
    env.py         environment variables
    models.py      short names of the models

Importing it takes most of a second because of the models, so callers import it where they use it.
"""

from components.workloads.jobset.build import build, manifest

__all__ = ["build", "manifest"]
