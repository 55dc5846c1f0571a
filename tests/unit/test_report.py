"""The report page: what it says, that it stands alone, and that neither hostile texts nor missing parts break it."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_examples as examples

from components.report import render, write_report
from components.report.formats import NBSP, bare_points, decimal, duration, label, percent, points, quantity
from components.report.plots import smoothed
from components.results import RunRecord, Verdict

APART = {"td", "th", "dt", "dd", "p", "li", "small", "pre", "div", "h1", "h2", "h3", "h4"}
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Tags, attributes and texts of a page; complains about tags that are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.parts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag in APART:
            self.parts.append(" ")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        {"script": self.scripts, "style": self.styles}.get(inside, self.parts).append(data)

    @property
    def text(self) -> str:
        """What a person reads, with single ordinary spaces."""
        return " ".join("".join(self.parts).replace(NBSP, " ").split())

    def attributes(self, *names: str) -> Iterator[str]:
        return (value for _, attrs in self.tags for name, value in attrs.items() if name in names)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: render(*make()) for name, make in examples.ALL.items()}


@pytest.mark.parametrize("name", examples.ALL)
def test_page_asks_nothing_of_the_network(pages: dict[str, str], name: str) -> None:
    page = Page(pages[name])
    assert not {"link", "img", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.tags}
    assert all(
        value.startswith("#") for value in page.attributes("src", "href", "xlink:href", "srcset", "action", "poster")
    )
    css = "".join(page.styles) + "".join(page.attributes("style", "fill", "stroke", "clip-path"))
    assert "@import" not in css
    assert re.findall(r"url\((?!#)", css) == []
    assert [s for s in page.scripts if re.search(r"fetch|XMLHttp|import\b|https?:", s)] == []


@pytest.mark.parametrize("name", examples.ALL)
def test_ids_are_unique_and_every_reference_has_a_target(pages: dict[str, str], name: str) -> None:
    page = Page(pages[name])
    ids = list(page.attributes("id"))
    assert len(ids) == len(set(ids))
    references = [v.removeprefix("#") for v in page.attributes("href", "aria-labelledby")]
    references += [v for s in page.attributes("clip-path", "style") for v in re.findall(r"url\(#([^)]+)\)", s)]
    assert set(references) <= set(ids)


@pytest.mark.parametrize("name", examples.ALL)
def test_same_input_gives_the_same_bytes(pages: dict[str, str], name: str) -> None:
    assert render(*examples.ALL[name]()) == pages[name]


def test_big_evaluation_stays_small(pages: dict[str, str]) -> None:
    assert len(pages["big"].encode()) < 1_500_000


def test_top_says_what_happened_how_sure_and_where(pages: dict[str, str]) -> None:
    run = examples.tiny()[0]
    e = run.evaluation
    assert e is not None
    text = Page(pages["tiny"]).text
    top = text[: text.index("Before and after")]
    assert "The model got better." in top
    assert f"from {100 * e.before.accuracy:.1f} % to {100 * e.after.accuracy:.1f} %" in top
    assert f"+{100 * e.delta.value:.1f} points" in top
    assert f"95 % interval +{100 * e.delta.ci_low:.1f} to +{100 * e.delta.ci_high:.1f}" in top
    assert f"PROMOTE {e.reasons[0]}" in top
    assert "1 min 47 s" in top
    assert f'path = "{run.model_uri}"' in top
    for made_by in (run.preset, run.run_id, run.config_sha256[:12], run.code_version, "tiny://qwen3"):
        assert made_by in top
    assert "JAX sampler on CPU in place of vLLM on TPU" in text


def test_cost_of_chips_is_shown_where_it_was_recorded(pages: dict[str, str]) -> None:
    text = Page(pages["big"]).text
    assert "371.8 chip hours" in text
    assert "$1,003.86 (estimated)" in text
    assert "wall time on this machine" not in text


def test_model_in_a_bucket_is_fetched_before_it_is_loaded(pages: dict[str, str]) -> None:
    text = Page(pages["big"]).text
    assert "gcloud storage cp -r gs://acme-rl/runs/5f3a/export/qwen3-30b-a3b-grpo ." in text
    assert 'path = "qwen3-30b-a3b-grpo"' in text


def test_table_has_every_measure(pages: dict[str, str]) -> None:
    text = Page(pages["with_champion"]).text
    table = text[text.index("Measure Before After Change Champion") :]
    names = [
        "Accuracy",
        "Greedy accuracy",
        "pass@2",
        "pass@4",
        "pass@8",
        "maj@8",
        "pass^8",
        "Never solved",
        "Mean reward",
        "Exact answer",
    ]
    names += [
        "Has format",
        "Right format",
        "Cut off",
        "Mean length",
        "p95 length",
        "Time-outs",
        "Errors",
        "Not scorable",
    ]
    positions = [table.index(name) for name in names]
    assert positions == sorted(positions)


def test_champion_is_compared_at_the_top(pages: dict[str, str]) -> None:
    e = examples.with_champion()[0].evaluation
    assert e is not None and e.champion is not None and e.delta_vs_champion is not None
    assert (
        f"Against the champion ({100 * e.champion.accuracy:.1f} %) it is +{100 * e.delta_vs_champion.value:.1f} points"
        in Page(pages["with_champion"]).text
    )


def test_hold_says_that_both_directions_fit_and_that_nothing_is_published(pages: dict[str, str]) -> None:
    text = Page(pages["hold"]).text
    assert "Not shown to be better." in text
    assert "The interval includes zero" in text
    assert "a model with the verdict HOLD is not published" in text
    assert "got better" not in text


@pytest.mark.parametrize(
    ("verdict", "interval", "title"),
    [
        (Verdict.PROMOTE, (0.1, 0.05, 0.15), "The model got better."),
        (Verdict.HOLD, (0.01, 0.004, 0.016), "The model got better, but is held back."),
        (Verdict.HOLD, (0.01, -0.02, 0.04), "Not shown to be better."),
        (Verdict.REJECT, (-0.1, -0.15, -0.05), "The model got worse."),
        (Verdict.REJECT, (0.1, 0.05, 0.15), "The model is rejected."),
        (Verdict.INVALID, (0.1, 0.05, 0.15), "This is not a valid measurement."),
    ],
)
def test_headline_follows_verdict_and_interval(
    verdict: Verdict, interval: tuple[float, float, float], title: str
) -> None:
    run, config, lineage = examples.tiny()
    assert run.evaluation is not None
    delta = run.evaluation.delta.model_copy(update=dict(zip(("value", "ci_low", "ci_high"), interval, strict=True)))
    changed = run.model_copy(
        update={"evaluation": run.evaluation.model_copy(update={"verdict": verdict, "delta": delta})}
    )
    page = render(changed, config, lineage)
    assert f"<h1>{title}</h1>" in page
    assert f'<span class="badge">{verdict}</span>' in page


def test_failed_run_begins_with_the_error_and_the_cure(pages: dict[str, str]) -> None:
    run = examples.failed()[0]
    text = Page(pages["failed"]).text
    assert run.error is not None
    positions = [
        text.index(part)
        for part in (
            "FAILED",
            run.error[1:],
            "Stage train failed, 1 h 19 min into the run. Finished: prepare, download, convert.",
            f"posttrain status {run.run_id}",
            f"posttrain run --resume {run.run_id}",
        )
    ]
    assert positions == sorted(positions)
    assert "This run made no model." in text


def test_evidence_of_a_failure_is_set_apart_from_its_reason() -> None:
    run, config, lineage = examples.failed()
    page = render(
        run.model_copy(update={"error": "train: no space left: free some. Evidence: OSError: [Errno 28]"}),
        config,
        lineage,
    )
    assert "<h1>No space left: free some.</h1>" in page
    assert "<pre>OSError: [Errno 28]</pre>" in page


def test_invalid_evaluation_is_the_error_of_a_run_that_names_no_other() -> None:
    run, config, lineage = examples.tiny()
    assert run.evaluation is not None
    invalid = run.evaluation.model_copy(
        update={"verdict": Verdict.INVALID, "reasons": ["Only 12 questions; the gate needs 100."]}
    )
    text = Page(render(run.model_copy(update={"evaluation": invalid, "status": "failed"}), config, lineage)).text
    assert "The evaluation is not valid: Only 12 questions; the gate needs 100." in text
    assert "got better" not in text


def test_ray_run_shows_its_figures(pages: dict[str, str]) -> None:
    text = Page(pages["ray"]).text
    assert "The mean loss of an epoch went from 2.565 to 0.3078." in text
    assert "6,987 tokens/s" in text
    assert "Learning rate 2×10⁻⁵" in text
    assert "got better" not in text.lower()


def test_maxtext_checkpoint_is_not_offered_to_transformers() -> None:
    run, config, lineage = examples.ray()
    stage = run.stages[-1].model_copy(update={"artifacts": {"m": {"kind": "maxtext-checkpoint", "uri": "gs://b/ckpt"}}})
    text = Page(render(run.model_copy(update={"model_uri": "gs://b/ckpt", "stages": [stage]}), config, lineage)).text
    assert 'load_parameters_path="gs://b/ckpt"' in text
    assert "from_pretrained" not in text


HOSTILE = (
    "</pre><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7*7 }} $x^2$ \ud800 \u202e <answer>\"'&</answer>"
)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    run, _, _ = examples.tiny()
    e = run.evaluation
    assert e is not None and run.training is not None
    flip = e.improved[0].model_copy(
        update={"question": HOSTILE, "answer": HOSTILE, "before": HOSTILE, "after": HOSTILE, "id": HOSTILE}
    )
    evaluation = e.model_copy(
        update={
            "improved": [flip],
            "reasons": [HOSTILE],
            "settings": {HOSTILE: HOSTILE},
            "after": e.after.model_copy(update={"reward_parts": {HOSTILE: 0.5}}),
        }
    )
    curve = [p.model_copy(update={"reward_parts": {HOSTILE: p.reward}}) for p in run.training.curve]
    run = run.model_copy(
        update={
            "evaluation": evaluation,
            "training": run.training.model_copy(update={"curve": curve, "rollout_engine": HOSTILE}),
            "preset": HOSTILE,
            "error": HOSTILE,
            "status": "failed",
            "model_uri": HOSTILE,
            "cost": {HOSTILE: HOSTILE},
            "metrics": {HOSTILE: 1.0},
        }
    )
    lineage = [{"kind": HOSTILE, "uri": HOSTILE, "parents": [HOSTILE, "x"]}]
    path = write_report(run, f"a: {HOSTILE}", lineage, tmp_path / "report.html")
    clean = Page(render(*examples.tiny()))
    page = Page(path.read_text(encoding="utf-8"))
    assert page.scripts == clean.scripts
    assert "img" not in {tag for tag, _ in page.tags}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert "{{ 7*7 }}" in page.text
    assert "<script>alert(1)</script>" in page.text


def test_final_answer_is_marked_and_long_texts_keep_their_end() -> None:
    run, config, lineage = examples.tiny()
    assert run.evaluation is not None
    long = "<answer>1</answer>" + "so " * 5000 + "<answer>42</answer>"
    flip = run.evaluation.improved[0].model_copy(update={"after": long, "before": r"thus \boxed{7}"})
    evaluation = run.evaluation.model_copy(update={"improved": [flip] * 500, "regressed": []})
    page = render(run.model_copy(update={"evaluation": evaluation}), config, lineage)
    assert f"<mark>{html.escape('<answer>42</answer>')}</mark>" in page
    assert r"<mark>\boxed{7}</mark>" in page
    assert "characters left out" in page
    assert "The first 12 of 500 recorded questions" in Page(page).text
    assert len(page) < 400_000


def test_only_the_first_flips_are_open(pages: dict[str, str]) -> None:
    details = [attrs for tag, attrs in Page(pages["big"]).tags if tag == "details"]
    opened = sum("open" in attrs for attrs in details)
    assert len(details) > 20
    assert 0 < opened <= 5


@pytest.mark.parametrize("part", ["evaluation", "training", "parity", "model_uri", "report_uri"])
def test_a_part_that_is_missing_is_left_out(part: str) -> None:
    run, config, lineage = examples.with_champion()
    assert "None" not in Page(render(run.model_copy(update={part: None}), config, lineage)).text


def test_barest_record_gives_a_page() -> None:
    run = RunRecord(
        run_id="r",
        preset="p",
        config_sha256="",
        code_version="",
        status="succeeded",
        started="",
        seconds=0,
        where="",
        engine="",
        stages=[],
    )
    text = Page(render(run, "", [])).text
    assert "The run finished." in text
    assert "No configuration was recorded." in text
    assert "FAILED" in render(run.model_copy(update={"status": "failed"}), ": no yaml [", [{}])


def test_figures_that_are_no_numbers_are_dashes() -> None:
    run, config, lineage = examples.tiny()
    e = run.evaluation
    assert e is not None and run.training is not None
    nan = math.nan
    broken = e.before.model_copy(
        update={
            "accuracy": nan,
            "accuracy_ci_low": nan,
            "accuracy_ci_high": nan,
            "mean_reward": math.inf,
            "greedy_accuracy": None,
        }
    )
    curve = [p.model_copy(update={"reward": nan, "kl": nan}) for p in run.training.curve]
    evaluation = e.model_copy(
        update={
            "before": broken,
            "verdict": Verdict.INVALID,
            "delta": e.delta.model_copy(update={"value": nan, "ci_low": nan, "ci_high": nan}),
            "greedy_delta": None,
            "length_bins": [],
            "length_histogram": {"before": [1]},
            "reasons": [],
        }
    )
    page = render(
        run.model_copy(update={"evaluation": evaluation, "training": run.training.model_copy(update={"curve": curve})}),
        config,
        lineage,
    )
    text = Page(page).text
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert "Accuracy and difference" not in text
    assert "Reward in training" not in text


def test_nothing_right_before_or_after_still_has_its_plot() -> None:
    run, config, lineage = examples.tiny()
    e = run.evaluation
    assert e is not None and run.training is not None
    zero = {"accuracy": 0.0, "accuracy_ci_low": 0.0, "accuracy_ci_high": 0.0}
    none = e.delta.model_copy(update={"value": 0.0, "ci_low": 0.0, "ci_high": 0.0})
    evaluation = e.model_copy(
        update={"before": e.before.model_copy(update=zero), "after": e.after.model_copy(update=zero), "delta": none}
    )
    short = run.training.model_copy(update={"curve": run.training.curve[:2]})
    text = Page(render(run.model_copy(update={"evaluation": evaluation, "training": short}), config, lineage)).text
    assert "Accuracy and difference" in text
    assert "Mean over the batch, each step." in text


def test_plots_follow_the_colours_of_the_page_and_say_what_they_show(pages: dict[str, str]) -> None:
    page = Page(pages["with_champion"])
    plots = [attrs for _, attrs in page.tags if attrs.get("role") == "img"]
    assert len(plots) == 6
    assert all(len(attrs["aria-label"]) > 40 for attrs in plots)
    svg = "".join(re.findall(r"<svg.*?</svg>", pages["with_champion"], re.DOTALL))
    assert re.findall(r"(?:fill|stroke): #[0-9a-f]+", svg.replace("#ffffff", "")) == []
    used = set(re.findall(r"var\((--[\w-]+)\)", svg))
    assert {"--before", "--after", "--champion", "--ink", "--line"} <= used
    light, dark = "".join(page.styles).split("prefers-color-scheme: dark")
    assert all(f"{name}:" in light and f"{name}:" in dark for name in used)


def test_lineage_names_parents_by_number_and_reads_metadata() -> None:
    run, config, _ = examples.tiny()
    records = [
        {"kind": "hf-model", "data_uri": "gs://b/source", "parent_uris": '["hf://Qwen/Qwen3@ad44"]', "step": 0.0},
        {
            "kind": "rl-checkpoint",
            "data_uri": "gs://b/ckpt",
            "parent_uris": '["gs://b/source"]',
            "step": 80.0,
            "base_model_id": "Qwen/Qwen3",
        },
    ]
    text = Page(render(run, config, records)).text
    assert "1 Hugging Face model step 0 from hf://Qwen/Qwen3@ad44 gs://b/source" in text
    assert "2 RL checkpoint step 80 from Hugging Face model (1) gs://b/ckpt" in text
    assert "Base model Qwen/Qwen3" in text


def test_uncommitted_code_is_said() -> None:
    run, config, lineage = examples.tiny()
    text = Page(
        render(
            run.model_copy(update={"code_version": "4c1d9e0b7f2a6835d4e9c1b0a7f6e5d4c3b2a190-dirty"}), config, lineage
        )
    ).text
    assert "4c1d9e0b7f2a-dirty" in text
    assert "changes that were not committed" in text


def test_report_is_written_into_a_folder_that_is_made(tmp_path: Path) -> None:
    path = write_report(*examples.failed(), tmp_path / "runs" / "r" / "report.html")
    assert path.read_text(encoding="utf-8") == render(*examples.failed())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.549), f"54.9{NBSP}%"),
        (percent(math.nan), "\u2013"),
        (points(0.389), f"+38.9{NBSP}points"),
        (points(-0.0712), f"\u22127.1{NBSP}points"),
        (bare_points(-0.0001), "0.0"),
        (decimal(1234.56), "1,234.6"),
        (duration(0.42), f"0.4{NBSP}s"),
        (duration(59.6), f"1{NBSP}min 00{NBSP}s"),
        (duration(107.4), f"1{NBSP}min 47{NBSP}s"),
        (duration(3599.7), f"1{NBSP}h 00{NBSP}min"),
        (duration(26410), f"7{NBSP}h 20{NBSP}min"),
        (duration(190_000), f"2{NBSP}d 05{NBSP}h"),
        (quantity(0.00002), "2\u00d710\u207b\u2075"),
        (quantity(-3.0), "\u22123"),
        (label("hf-model"), "Hugging Face model"),
        (label("tokens_per_second"), "Tokens per second"),
    ],
)
def test_numbers_are_written_for_people(text: str, expected: str) -> None:
    assert text == expected


def test_smoothing_keeps_a_line_and_its_length() -> None:
    assert smoothed([1.0] * 50) == ([1.0] * 50, 5)
    values, window = smoothed([float(i) for i in range(100)])
    assert window == 11
    assert values[20:80] == pytest.approx([float(i) for i in range(20, 80)])
    assert smoothed([3.0, 1.0, 2.0]) == ([3.0, 1.0, 2.0], 1)
