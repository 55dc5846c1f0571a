"""Kills launchers with -9 at random moments on a real Kubernetes: no JobSet may be made twice, no result lost.

    uv run python benchmarks/launcher_kills.py [--trials N]

A trial is a workload whose launcher is killed once, at a moment spread over the time that a run takes, and taken up by a
second launcher; three trials go on at a time. The trials are those of tests/cluster/test_faults.py, on the cluster that
tests/cluster uses. Prints trials, duplicates, lost results and seconds.
"""

import argparse
import os
import subprocess
import sys


def main() -> int:
    """Runs the trials; returns the exit code of the test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args()
    test = "tests/cluster/test_faults.py"
    command = [sys.executable, "-m", "pytest", "-q", "-rPs", "--tb=short", test, "-k", "kills_at_random_moments"]
    environment = {**os.environ, "POSTTRAIN_KILLS": str(arguments.trials)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    figures = [line for line in ended.stdout.splitlines() if " duplicates, " in line]
    print("\n".join(figures) or ended.stdout + ended.stderr)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
