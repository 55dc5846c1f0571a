"""What a launcher can rely on that comes after another one: what was begun, what exists, and how it ended."""

from cluster_runs import workload

from components import storage
from components.workloads import ledger
from components.workloads.ledger import Closed
from components.workloads.workload import Outcome

DONE = Outcome(seconds=2.0, log="log.txt")


def test_a_stage_that_was_never_begun_has_nothing(place):
    assert ledger.attempts(place) == []
    assert ledger.opened(place) is None
    assert ledger.succeeded(place, workload()) is None


def test_an_open_attempt_is_found_again_with_what_is_known_of_it(place):
    begun = ledger.begin(place, workload(), "jobset")
    assert ledger.opened(place) == begun
    assert ledger.uid(begun) is None
    ledger.created(begun, "uid-1")
    assert ledger.opened(place) == begun
    assert ledger.uid(begun) == "uid-1"


def test_attempts_have_names_and_folders_of_their_own(place):
    first = ledger.begin(place, workload(), "jobset")
    ledger.close(first, Closed(state="failed", reason="why"))
    second = ledger.begin(place, workload(), "jobset")
    assert [first.directory, second.directory] == [storage.join(place, "attempt-1"), storage.join(place, "attempt-2")]
    assert first.name != second.name
    assert ledger.attempts(place) == [first, second]
    assert ledger.opened(place) == second


def test_a_success_counts_for_the_workload_that_it_was(place):
    begun = ledger.begin(place, workload(), "jobset")
    ledger.close(begun, Closed(state="succeeded", outcome=DONE))
    assert ledger.succeeded(place, workload()) == DONE
    assert ledger.succeeded(place, workload(env={"A": "1"})) is None
    assert ledger.opened(place) is None


def test_a_success_before_a_failure_does_not_count(place):
    ledger.close(ledger.begin(place, workload(), "jobset"), Closed(state="succeeded", outcome=DONE))
    ledger.close(ledger.begin(place, workload(), "jobset"), Closed(state="failed"))
    assert ledger.succeeded(place, workload()) is None


def test_an_attempt_is_closed_once_and_who_comes_later_learns_how(place):
    begun = ledger.begin(place, workload(), "jobset")
    first = ledger.close(begun, Closed(state="cancelled"))
    assert ledger.close(begun, Closed(state="vanished", reason="gone")) == first
    assert ledger.closed(begun) == first


def test_a_launcher_that_notes_the_object_after_a_cancel_does_not_undo_it(place):
    begun = ledger.begin(place, workload(), "jobset")
    ledger.close(begun, Closed(state="cancelled"))
    ledger.created(begun, "uid-1")
    assert ledger.opened(place) is None
