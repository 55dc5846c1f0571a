"""The programs that run under Ray, in the images ray-torchtpu and ray-maxtext.

    collectives.py   checks every device of a slice: tensor parallelism and all-reduce against a CPU reference
    finetune.py      fine-tunes a Hugging Face model with FSDP2 under Ray Train
    merge.py         makes a Hugging Face directory of the fine-tuned weights; needs no Ray
    pretrain.py      trains with MaxText under Ray Train's JaxTrainer, on fixed or varying numbers of workers

Each is a driver: it reads its command line, connects to Ray, and writes what it measured as JSON. What its workers do is
in the module of the same name with `_worker`, which Ray imports on their machines. Device and backend follow from the
command line: with a topology they are the chips of a slice and `tpu_dist`, without one CPUs and gloo.

    hardware.py      what the workers run on
    cluster.py       the Ray cluster around, or one on this machine
    nodes.py         a Ray cluster on this machine whose workers can be taken away
    files.py         gs:// and local files within reach of Ray and of a worker
"""
