"""What a preset of the Ray pipelines may say, and how a mistake in it is told."""

import json

import pytest

from components import config, ray_args, tpu
from components.errors import UserError
from components.plan import AnyPlan
from components.prepare import prepare
from components.ray_config import RayFinetuneConfig, RayPretrainConfig
from components.ray_plan import FinetunePlan, PretrainPlan
from components.workloads.workload import Ray

TUNE, TRAIN, ELASTIC = "tiny-ray-finetune", "tiny-ray-pretrain", "tiny-ray-elastic"
TWO = "llama3-8b-ray-2xv6e-16"
V6E, SPOT = "gemma4-e2b-ray-v6e-16", "llama3-8b-ray-elastic-spot"
SHAPES = {TUNE: RayFinetuneConfig, TRAIN: RayPretrainConfig, ELASTIC: RayPretrainConfig, V6E: RayFinetuneConfig}


@pytest.mark.parametrize(("preset", "shape"), SHAPES.items())
def test_a_preset_is_of_the_class_of_its_pipeline_and_reads_back_as_itself(preset, shape):
    loaded = config.load(preset)
    assert type(loaded) is shape
    assert config.parse(json.loads(loaded.model_dump_json())) == loaded


def test_a_configuration_without_a_pipeline_is_of_grpo():
    tree = json.loads(config.load("tiny-qwen3").model_dump_json())
    del tree["pipeline"]
    assert config.parse(tree) == config.load("tiny-qwen3")


@pytest.mark.parametrize(
    ("preset", "override", "says"),
    [
        (TUNE, "pipeline=ray-finetuen", r"no pipeline 'ray-finetuen'. Did you mean 'ray-finetune'\?"),
        (TUNE, "pipeline=[1]", "There is no pipeline"),
        (TUNE, "pipeline=grpo", "'model.name' is missing"),
        (TUNE, "finetune.epoch=3", r"'finetune.epoch' is not a key. Did you mean 'epochs'\?"),
        (ELASTIC, "elastic.lest=3", r"'elastic.lest' is not a key. Did you mean 'least'\?"),
        (TUNE, "train.steps=3", "'train' is not a key"),
        (TUNE, "engine=jobset", "'engine' is 'jobset'"),
        (TUNE, "tpu={slice: v6e-16, pathways: false}", "set engine=rayjob"),
        (V6E, "tpu.pathways=true", "set tpu.pathways=false"),
        (V6E, "tpu.slices=2", "TorchTPU works on one slice"),
        (V6E, "engine=process", "set engine=rayjob"),
        (V6E, "ray.env={HF_TOKEN: x}", "ray.env.HF_TOKEN would stand in manifests"),
        (V6E, "ray.env={hf_token: x}", "ray.env.hf_token would stand in manifests"),
        (V6E, "ray.env={WANDB_APIKEY: x}", "ray.env.WANDB_APIKEY would stand in manifests"),
        (V6E, "cluster.env={hf_token: x}", "cluster.env.hf_token would stand in manifests"),
        (V6E, "ray.env={A B: x}", "ray.env has 'A B', which is no name of an environment variable"),
        (TWO, "maxtext.hf_access_token=x", "maxtext.hf_access_token would stand in manifests and logs"),
        (V6E, "ray.worker_cpu=3", "fewer than the 4 devices of a host of v6e-16"),
        ("gemma4-e2b-ray-tpu7x-16", "ray.worker_cpu=7", "fewer than the 8 devices of a host of tpu7x-16"),
        (TWO, "ray.worker_cpu=0.5", "a worker takes a core"),
        (TUNE, "data.rows=7", "data.rows 7 is fewer than the 8 that a step takes"),
        (ELASTIC, "elastic.least=2", "elastic.drill takes one of 2 away: set elastic.least to fewer than ray.workers"),
        (TUNE, "data.text='{instruction.foo} {response}'", r"must have \{instruction\} and \{response\}"),
        (TUNE, "data.text='{instruction[foo]} {response}'", r"must have \{instruction\} and \{response\}"),
        (TUNE, "data.text='{instruction:>99999999999} {response}'", r"must have \{instruction\} and \{response\}"),
        (TUNE, "data.text='{instruction!r} {response}'", r"must have \{instruction\} and \{response\}"),
        (TUNE, "ray.gcs_fuse=true", "set ray.gcs_fuse=false"),
        (TUNE, "data.text=no places", r"must have \{instruction\} and \{response\}"),
        (TUNE, "data.text='{instruction} {response} {context}'", "no other places"),
        (TUNE, "data.text='{instruction} {response} {'", "other braces twice"),
        (ELASTIC, "elastic.least=3", "elastic.least 3 is more than ray.workers 2"),
        (SPOT, "elastic.least=3", "elastic.least 3 is more than tpu.slices 2"),
        (ELASTIC, "pretrain.max_failures=0", "set pretrain.max_failures"),
        (SPOT, "elastic.drill=true", "kubectl delete pod"),
        (TRAIN, "maxtext.stepps=1", "MaxText .* has no setting 'stepps'"),
        (TRAIN, "maxtext.steps=1", "maxtext.steps is set by pretrain.steps"),
        (TRAIN, "model.sizes.run_name=1", "MaxText's run_name is 1, but must be of type str"),
        (TRAIN, "pretrain.dataset=tdfs", "'pretrain.dataset' is 'tdfs'"),
        (
            TWO,
            "ray.network_devices=0",
            r"tpu.slices=2 talk over eth1,eth2,lo .* set ray.network_devices=2, or tpu.slices=1",
        ),
        (TWO, "ray.network_devices=1", "set ray.network_devices=2"),
        (SPOT, "ray.network_devices=1", "set ray.network_devices=2"),
        (TUNE, "data.text={instruction} {response} {context}", """line 1, column 15. Text .* --set "data.text='...'"""),
        (TUNE, "data.text={instruction}", """--set "data.text='...'"""),
        (TUNE, "finetune.epochs", "write --set finetune.epochs=VALUE"),
        (TUNE, "cluster.images={maxtext: x}", r"'cluster.images.maxtext' is not a key. Did you mean 'ray-maxtext'\?"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_cure(preset, override, says):
    with pytest.raises(UserError, match=says) as mistake:
        config.load(preset, [override])
    assert "\n" not in str(mistake.value)


def test_braces_that_are_written_twice_are_text():
    loaded = config.load(TUNE, ["data.text='{{x}} {instruction} {response}'"])
    assert loaded.data.text.format(instruction="a", response="b") == "{x} a b"


# -- the slices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["maxtext.ici_tensor_parallelism=3"], "16 devices of a v6e-16.*the product of .* is 12"),
        (["maxtext.ici_fsdp_parallelism=-1", "maxtext.ici_tensor_parallelism=3"], "the product of .* is 3"),
        (["maxtext.dcn_fsdp_parallelism=3"], "2 slices.*maxtext.dcn_fsdp_parallelism=3"),
        (["maxtext.dcn_data_parallelism=1"], "2 slices"),
    ],
)
def test_a_mesh_that_does_not_fit_the_slices_is_refused_before_anything_is_spent(settings, says):
    with pytest.raises(UserError, match=says):
        prepare.check_inputs(config.load(TWO, settings))


@pytest.mark.parametrize(
    ("preset", "settings", "says"),
    [
        (TRAIN, ["maxtext.ici_fsdp_parallelism=3"], "2 workers: the product of maxtext.ici_fsdp_parallelism=3 is 3"),
        (TRAIN, ["ray.workers=3", "maxtext.ici_tensor_parallelism=2"], "3 workers"),
        (TRAIN, ["maxtext.dcn_fsdp_parallelism=2"], "1 slice: "),
        (TRAIN, ["maxtext.ici_tensor_parallelism=-1"], "Only one axis of the mesh may be -1"),
        (TRAIN, ["maxtext.ici_tensor_parallelism=0"], "is 1 or more, or -1"),
        (TRAIN, ["maxtext.ici_tensor_parallelism=-2"], "is 1 or more, or -1"),
        (ELASTIC, ["maxtext.ici_tensor_parallelism=2"], "1 workers that elastic.least allows"),
        (SPOT, ["maxtext.dcn_fsdp_parallelism=2"], "1 slices that elastic.least allows"),
    ],
)
def test_so_is_a_mesh_that_does_not_fit_the_workers_or_what_may_be_left_of_them(preset, settings, says):
    with pytest.raises(UserError, match=says):
        prepare.check_inputs(config.load(preset, settings))


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["maxtext.ici_fsdp_parallelism=-1"],
        ["maxtext.ici_fsdp_parallelism=16", "maxtext.ici_tensor_parallelism=1"],
        ["maxtext.dcn_fsdp_parallelism=2", "maxtext.dcn_data_parallelism=1"],
    ],
)
def test_a_mesh_that_fits_is_not(settings):
    prepare.check_inputs(config.load(TWO, settings))


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        (TRAIN, ["maxtext.ici_tensor_parallelism=2"]),
        (ELASTIC, ["elastic.drill=false", "elastic.least=2", "maxtext.ici_tensor_parallelism=2"]),
        (SPOT, ["elastic.least=2", "maxtext.dcn_fsdp_parallelism=2"]),
        (SPOT, []),
    ],
)
def test_nor_is_one_that_fits_every_number_of_workers(preset, settings):
    prepare.check_inputs(config.load(preset, settings))


def test_network_interfaces_are_claimed_only_between_slices():
    def claimed(*settings):
        return ray_args.machines(config.load(TWO, settings), "gs://b/s").network_devices

    assert claimed() == 2
    assert claimed("tpu.slices=1") == 0
    assert claimed("tpu.slices=1", "ray.network_devices=0") == 0
    assert claimed("ray.network_devices=0", "ray.env.LIBTPU_INIT_ARGS=--megascale_grpc_interface_prefixes=eth0,lo") == 0


@pytest.mark.parametrize(
    ("preset", "devices", "hosts"),
    [
        (V6E, ["--workers=16", "--topology=4x4", "--accelerator-type=TPU-V6E"], None),
        ("gemma4-e2b-ray-tpu7x-16", ["--workers=16", "--topology=2x2x2", "--accelerator-type=TPU-V7X"], None),
        (SPOT, None, ["--workers=8", "--topology=4x4", "--accelerator-type=TPU-V6E", "--chips=4"]),
        (TUNE, ["--workers=2"], ["--workers=2"]),
    ],
)
def test_programs_are_told_of_a_worker_for_each_device_or_for_each_host(preset, devices, hosts):
    loaded = config.load(preset)
    assert devices is None or ray_args.per_device(loaded) == devices
    assert hosts is None or ray_args.per_host(loaded) == hosts


def test_jax_has_both_devices_of_an_ironwood_chip_in_one_worker():
    loaded = config.load(SPOT, ["tpu.slice=tpu7x-16", "maxtext.ici_fsdp_parallelism=-1"])
    assert ray_args.per_host(loaded)[-1] == "--chips=8"


def test_elastic_slices_may_be_fewer_and_fixed_ones_may_not():
    def least(preset):
        loaded = config.load(preset)
        elastic = getattr(loaded, "elastic", None)
        found = ray_args.machines(loaded, "gs://b/s", least=elastic.least if elastic else None)
        assert isinstance(found, Ray)
        return found.least, found.replicas

    assert least(SPOT) == (1, 2)
    assert least(TWO) == (2, 2)


@pytest.mark.parametrize("uri", ["gs://bucket/store/runs/r/pretrain", "/a/local/folder"])
@pytest.mark.parametrize("fuse", ["true", "false"])
def test_what_programs_write_is_found_again_at_its_own_address(uri, fuse):
    loaded = config.load(SPOT, [f"ray.gcs_fuse={fuse}"])
    written = ray_args.written_at(loaded, uri)
    assert written.startswith("/gcs/bucket/") is (fuse == "true" and uri.startswith("gs://"))
    assert ray_args.address_of(written) == uri


# -- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("preset", "shape"), [(TUNE, FinetunePlan), (TRAIN, PretrainPlan)])
def test_a_plan_is_of_the_class_of_its_pipeline_and_reads_back_as_itself(tmp_path, preset, shape):
    made = prepare.make_plan(
        config.load(preset), run_id="r", run_dir=str(tmp_path / "r"), store=str(tmp_path / "s"), where="local"
    )
    assert type(made) is shape
    assert AnyPlan.parse(made.model_dump_json()) == made


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["data.source=tiny://poems"], "only instructions made on the spot"),
        (["data.rows=7"], "data.rows 7 is fewer than the 8 that a step takes"),
        (["model.source=/no/such/model"], "/no/such/model"),
        (["model.source=tiny://qwen4"], "tiny://qwen3"),
        (["model.frozen=[embed_token]"], r"model.frozen names 'embed_token'.*Did you mean 'embed_tokens'\?"),
    ],
)
def test_what_cannot_be_begun_with_is_refused_and_leaves_nothing(tmp_path, settings, says):
    with pytest.raises(UserError, match=says):
        prepare.make_plan(
            config.load(TUNE, settings),
            run_id="r",
            run_dir=str(tmp_path / "r"),
            store=str(tmp_path / "s"),
            where="local",
        )
    assert list(tmp_path.iterdir()) == []


# -- slices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v6e-16", "v6e-8", "v6e-256", "v5e-64", "v5p-8", "v5p-512", "tpu7x-16", "tpu7x-128"])
def test_a_slice_that_ray_has_is_taken(name):
    ray_args.check_slice(tpu.parse(name))


@pytest.mark.parametrize("name", ["tpu7x-2", "tpu7x:4x4x12", "v5p:4x4x28", "v6e:2x4/4t", "v5e:2x4/4t"])
@pytest.mark.parametrize("preset", [V6E, TWO])
def test_a_slice_that_ray_would_refuse_with_all_pods_up_is_refused_before(preset, name, tmp_path):
    loaded = config.load(
        preset, [f"tpu.slice={name}", *(["data.rows=null", "ray.worker_cpu=8"] if preset == V6E else [])]
    )
    with pytest.raises(UserError, match=r"tpu\.slice: Ray 2\.60 has no "):
        prepare.check_inputs(loaded)


# -- the text of an example --------------------------------------------------------------------------------------------


def test_a_text_travels_as_it_is_whatever_a_command_takes_for_a_place():
    text = 'mail me@home@work: "{instruction}"\n{response} \u00e4'
    assert "@" not in ray_args.quoted(text)
    assert json.loads(ray_args.quoted(text)) == text
