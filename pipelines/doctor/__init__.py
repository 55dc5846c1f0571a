"""What could fail after money is spent, found before: `posttrain doctor`.

In: a configuration and where the run would write. Out: findings, one line each, with one line of cure. Everything here
only looks: it creates nothing, reads no secret's value but the hub's token, and spends nothing. `examine` runs every
check, `refuse` the quick ones before a run starts.
"""

from pipelines.doctor.finding import Finding
from pipelines.doctor.run import examine, refuse

__all__ = ["Finding", "examine", "refuse"]
