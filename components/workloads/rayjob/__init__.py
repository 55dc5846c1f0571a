"""From an order to the RayJob that carries it out. Pure: it starts nothing and asks nobody.

In: an `Order`, and what the configuration says of the cluster and of the slices. Out: a RayJob with the Ray cluster that
KubeRay makes for it and removes after it, as the JSON that is sent. The order's command runs on the head, as a Ray job
whose log a submitter's pod follows. A workload that needs no Ray cluster but one machine has a head and no workers.

    build.py       the RayJob itself, and what must be in the namespace before it
    pods.py        the pods: head, workers, submitter
    volumes.py     a bucket
    models.py      the typed RayJob, of which there are no models elsewhere

Importing it takes most of a second because of the models of pods, so callers import it where they use it.
"""

from components.workloads.rayjob.build import companions, manifest

__all__ = ["companions", "manifest"]
