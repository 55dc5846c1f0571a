"""The page of a run under Ray: its loss curve, the changes of its workers, and its figures for people."""

import itertools
import json
import math
import re

import pytest
import report_examples
from played_programs import programs
from test_ray_stages import GOOD, HISTORY, exported, plan, trained
from test_report import Page

from components.collectives.collectives import collectives
from components.finetune.finetune import finetune
from components.finetune_download.download import download
from components.report import figures, render
from components.report.assemble import assemble
from components.results import LossCurve, LossPoint, RunRecord, WorkerGroup
from components.stage import Failure, keep
from components.workloads.diagnose import diagnose

PLOT = "Loss in training"


@pytest.fixture
def torchtpu(tmp_path, monkeypatch):
    (tmp_path / "image").mkdir()
    return programs("ray-torchtpu", tmp_path / "image", monkeypatch)


@pytest.fixture
def maxtext(tmp_path, monkeypatch):
    (tmp_path / "image").mkdir()
    return programs("ray-maxtext", tmp_path / "image", monkeypatch)


def points(losses, first=0):
    return [LossPoint(step=step, loss=loss) for step, loss in enumerate(losses, first)]


def groups(*sizes):
    return [WorkerGroup(workers=workers, from_step=step, at="") for workers, step in sizes]


def page(losses, *sizes, **changed):
    """The page of a run with these losses from step 0 and these worker groups."""
    run, yaml, lineage = report_examples.ray()
    curve = LossCurve.thinned(points(losses), groups(*sizes))
    return render(run.model_copy(update={"loss": curve, **changed}), yaml, lineage)


def words(html):
    return Page(html).text


def lines(html):
    """How many vertical lines the plot has."""
    (svg,) = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    return len(re.findall(r"<path[^>]*stroke: var\(--muted\)", svg))


# -- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [501, 502, 999, 1000, 1001, 12_345])
def test_a_long_curve_is_thinned_evenly_and_keeps_its_ends(n):
    every = points(range(n))
    kept = [point.step for point in LossCurve.thinned(every).points]
    assert len(kept) == 500
    assert (kept[0], kept[-1]) == (0, n - 1)
    gaps = {after - before for before, after in itertools.pairwise(kept)}
    assert min(gaps) >= 1
    assert max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize("n", [0, 1, 2, 499, 500])
def test_a_short_curve_is_kept_whole(n):
    assert LossCurve.thinned(points(range(n))).points == points(range(n))


def fine_tuned(folder, torchtpu, history):
    the_plan = plan(folder, "tiny-ray-finetune")
    checkpoint = f"{the_plan.stage_dir('finetune')}/ray/train/checkpoint_1"
    torchtpu.play(
        "finetune",
        {"history": history, "checkpoint": checkpoint},
        files={"{storage}/train/checkpoint_1/model.pt": "weights"},
    )
    got = download(the_plan).records
    return the_plan, got, finetune(the_plan, got["model"], got["dataset"])


def test_fine_tuning_keeps_the_loss_of_every_step_of_all_epochs(tmp_path, torchtpu):
    history = [
        HISTORY[0] | {"steps": 3, "losses": [5.0, 4.0, 3.5]},
        HISTORY[1] | {"steps": 2, "losses": [3.0, math.nan]},
    ]
    the_plan, *_ = fine_tuned(tmp_path, torchtpu, history)
    kept = assemble(the_plan, seconds=1.0).loss
    assert [point.step for point in kept.points] == [1, 2, 3, 4, 5]
    assert [point.loss for point in kept.points[:4]] == [5.0, 4.0, 3.5, 3.0]
    assert math.isnan(kept.points[4].loss)
    assert kept.groups == []


def test_steps_count_on_after_an_epoch_whose_losses_an_older_image_has_not_kept(tmp_path, torchtpu):
    history = [HISTORY[0], HISTORY[1] | {"steps": 2, "losses": [3.0, 2.0]}]
    the_plan, *_ = fine_tuned(tmp_path, torchtpu, history)
    assert assemble(the_plan, seconds=1.0).loss.points == points([3.0, 2.0], first=HISTORY[0]["steps"] + 1)


def pre_trained(folder, maxtext, **how):
    """The plan and what its pre-training made."""
    found = trained(folder, maxtext, **how)
    # a plan is made for an empty directory only
    other = plan(folder / "other", "tiny-ray-pretrain")
    return other.model_copy(update={"run_dir": str(folder / "run")}), found


def test_pre_training_keeps_the_last_loss_of_every_step_and_its_worker_groups(tmp_path, maxtext):
    the_plan, _ = pre_trained(tmp_path, maxtext, groups=(2, 1, 2))
    kept = assemble(the_plan, seconds=1.0).loss
    assert [point.step for point in kept.points] == [0, 1, 2, 3]
    assert [point.loss for point in kept.points] == pytest.approx([6.6, 6.4, 6.2, 6.0])
    assert kept.groups == groups((2, 0), (1, 10), (2, 20))


def test_a_record_of_a_run_before_there_were_curves_still_loads():
    run = report_examples.ray()[0]
    old = json.loads(run.model_dump_json())
    del old["loss"]
    assert RunRecord.model_validate(old) == run


def test_a_record_with_a_curve_is_read_back_as_it_was_written():
    run = report_examples.ray()[0].model_copy(
        update={"loss": LossCurve(points=points([2.0, math.inf, 1.0]), groups=groups((2, 0), (1, 1)))}
    )
    assert RunRecord.model_validate_json(run.model_dump_json()) == run


# -- the plot ---------------------------------------------------------------------------------------------------------


def test_the_curve_is_on_the_page_of_a_run_under_ray_and_on_no_other():
    shown = page([3.0, 2.0, 1.5])
    assert PLOT in words(shown)
    assert "Loss from 3.000 in step 0 to 1.500 in step 2." in list(Page(shown).attributes("aria-label"))
    assert "Mean over the batch, each step." in words(shown)
    for name in ("tiny", "big", "failed"):
        assert PLOT not in words(render(*report_examples.ALL[name]()))


def test_a_thinned_curve_says_so():
    assert "500 of 2,000 steps" in words(page([1.0] * 2000))


@pytest.mark.parametrize("losses", [[], [1.0], [math.nan] * 5, [1.0, math.nan]])
def test_fewer_than_two_losses_make_no_plot(losses):
    text = words(page(losses))
    assert PLOT not in text
    assert "nan" not in text


def test_losses_that_are_no_numbers_are_told():
    text = words(page([3.0, 2.0, math.nan, math.inf]))
    assert PLOT in text
    assert "In 2 more steps the loss was not a number." in text


def test_each_change_of_the_workers_has_a_line_and_its_words():
    shown = page([3.0] * 900, (2, 0), (1, 340), (2, 510))
    changes = "1 worker from step 340", "2 workers from step 510"
    assert lines(shown) == 2
    assert all(words(shown).count(change) == 1 for change in changes)
    assert any("; ".join(changes) in label.replace("\u00a0", " ") for label in Page(shown).attributes("aria-label"))
    assert "from step 0" not in words(shown)
    assert "can jump there" in words(shown)


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [(2, 0)],
        [(2, 0), (2, 40)],  # one that was lost came back at once
        [(2, 0), (1, 40), (2, 40)],  # the second group was gone before its first checkpoint
        [(2, 0), (1, 60), (2, 41)],  # and the checkpoint that it began with was not complete
    ],
)
def test_workers_whose_number_did_not_change_the_curve_have_no_line(sizes):
    shown = page([3.0] * 100, *sizes)
    assert PLOT in words(shown)
    assert lines(shown) == 0
    assert "from step" not in words(shown)


def test_many_changes_have_lines_and_are_told_as_a_count():
    shown = page([3.0] * 400, *((4 - 2 * (i % 2), 20 * i) for i in range(13)))
    assert lines(shown) == 12
    assert "Lines: the number of workers changed 12 times, between 2 and 4." in words(shown)
    assert "from step" not in words(shown)


@pytest.mark.parametrize("preset", ["tiny-ray-finetune", "tiny-ray-pretrain"])
def test_a_run_that_failed_before_training_has_a_page_without_curve_and_figures(tmp_path, preset):
    the_plan = plan(tmp_path, preset)
    stage = {"tiny-ray-finetune": "collectives", "tiny-ray-pretrain": "pretrain"}[preset]
    failure = Failure(stage=stage, reason="A chip is faulty.")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "failure.json").write_text(failure.model_dump_json())
    run = assemble(the_plan, seconds=1.0)
    assert run.loss is None
    text = words(render(run, the_plan.config.to_yaml(), []))
    assert "A chip is faulty." in text
    assert PLOT not in text
    assert "Figures of the run" not in text


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (["step 1", "RuntimeError: a link is down"], "It failed: RuntimeError: a link is down"),
        (["step 1", "RuntimeError: " + "x" * 400], "It failed: RuntimeError: " + "x" * 286),
        (
            [
                "ValidationError: 1 validation error",
                "  Value error, hf_path is empty [type=value_error, input_value={}]",
            ],
            "MaxText refused its settings, those of `maxtext:` in the preset: hf_path is empty",
        ),
        (
            ["OSError: [Errno 28] No space left on device"],
            "The disk is full: free space or point --output at another disk. Evidence: OSError: [Errno 28] No space left on "
            "device",
        ),
        (["step 1"], "It ended with exit code 1. Evidence: step 1"),
    ],
)
def test_evidence_is_told_only_where_the_reason_does_not_quote_it(tmp_path, log, told):
    the_plan = plan(tmp_path, "tiny-ray-pretrain")
    reason, evidence = diagnose(log, exit_code=1)
    (tmp_path / "run").mkdir()
    failure = Failure(stage="pretrain", reason=reason, evidence=evidence)
    (tmp_path / "run" / "failure.json").write_text(failure.model_dump_json())
    assert assemble(the_plan, seconds=1.0).error == f"pretrain: {told}"


# -- the figures ------------------------------------------------------------------------------------------------------


def told(metrics):
    """The figures as (group, name, value)."""
    return [
        (group.name, row.name, row.cells[0].text.replace("\u00a0", " "))
        for group in figures.groups(metrics)
        for row in group.rows
    ]


def test_figures_have_names_units_and_groups():
    assert told({"collectives_max_abs_diff": 2.384185e-7, "loss_last": 1.219, "tokens_per_second": 6477.7}) == [
        ("Training", "Loss of the last step", "1.219"),
        ("Training", "Speed", "6,478 tokens/s"),
        ("Check of the devices", "Largest difference from a CPU", "2.4×10⁻⁷"),
    ]


def test_a_loss_that_is_a_mean_of_an_epoch_is_called_so():
    assert ("Training", "Mean loss of the first epoch", "4.120") in told({"epochs": 3.0, "loss_first": 4.1199})


def test_figures_that_nobody_knows_come_last_in_words():
    assert told({"tokens_per_joule": 3.0, "steps": 96.0, "{loss}": math.nan})[1:] == [
        ("Other figures", "Tokens per joule", "3"),
        ("Other figures", "{loss}", "–"),
    ]


def test_no_figure_of_a_stage_under_ray_is_left_to_its_raw_name(tmp_path, torchtpu):
    the_plan, records, found = fine_tuned(tmp_path, torchtpu, HISTORY)
    torchtpu.play("collectives", GOOD)
    measured = collectives(the_plan).metrics | found.metrics
    measured |= exported(the_plan, (records, found), torchtpu).metrics
    assert len(told(measured)) == len(measured)
    assert "Other figures" not in {group for group, *_ in told(measured)}


def test_no_figure_of_a_pre_training_is_left_to_its_raw_name(tmp_path, maxtext):
    found = trained(tmp_path, maxtext)
    assert "Other figures" not in {group for group, *_ in told(found.metrics)}


def test_the_page_of_a_played_pre_training_shows_curve_and_figures(tmp_path, maxtext):
    the_plan, found = pre_trained(tmp_path, maxtext)
    keep(the_plan.run_dir, "pretrain", 3.0, found)
    text = words(render(assemble(the_plan, seconds=3.0), the_plan.config.to_yaml(), []))
    assert PLOT in text
    assert "Loss of the last step 6.000" in text
    assert "Architecture llama3-8b" in text and "Base model" not in text
