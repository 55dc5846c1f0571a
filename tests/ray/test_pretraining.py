"""MaxText under Ray Train's JaxTrainer on real Ray workers."""

import pytest

from tests.ray.support import Command, need


@pytest.fixture(scope="module", autouse=True)
def _maxtext():
    need("ray-maxtext")


def test_the_preset_trains_to_its_last_checkpoint(tmp_path):
    made = Command(tmp_path, "tiny-ray-pretrain")
    found = made.run()
    assert found.status == "succeeded"
    assert found.metrics["loss_last"] < found.metrics["loss_first"]
    assert found.metrics["worker_groups"] == 1
    assert "step 30/30, loss" in (made.output / "log.txt").read_text()


def test_elastic_training_shrinks_when_a_worker_goes_and_grows_when_it_is_back(tmp_path):
    found = Command(tmp_path, "tiny-ray-elastic").run()
    assert found.status == "succeeded"
    assert found.metrics["workers_least"] == 1
    assert found.loss and found.loss.points[-1].step == 899
    sizes = [group.workers for group in found.loss.groups]
    assert sizes[0] == sizes[-1] == 2 and 1 in sizes
