"""The machines that the stages of a run ask for."""

from __future__ import annotations

from components import tpu
from components.config import Config, ConvertConfig, ExportConfig
from components.workloads.workload import Cpu, Tpu


def accelerator(config: Config) -> Cpu | Tpu:
    """What trains and evaluates: the slices, or one CPU machine."""
    if config.tpu is None:
        return Cpu(cores=config.cluster.cpu_cores, memory_gb=config.cluster.cpu_memory_gb)
    return Tpu(slice=tpu.parse(config.tpu.slice), slices=config.tpu.slices, pathways=config.tpu.pathways)


def converter(config: Config, stage: ConvertConfig | ExportConfig) -> Cpu | Tpu:
    """What converts weights: one CPU machine, or for parity with the tutorials the first host of the slice."""
    if config.convert.on == "slice" and config.tpu:
        return Tpu(slice=tpu.parse(config.tpu.slice), pathways=False, one_host=True)
    return Cpu(cores=config.cluster.cpu_cores, memory_gb=stage.memory_gb, disk_gb=stage.disk_gb)


def server(config: Config) -> Cpu | Tpu:
    """What serves the exported model for the serving check: one host with chips, or one CPU machine."""
    if config.tpu:
        return Tpu(slice=tpu.parse(config.serve.slice), pathways=False)
    return Cpu(cores=config.cluster.cpu_cores, memory_gb=config.serve.memory_gb, disk_gb=config.serve.disk_gb)
