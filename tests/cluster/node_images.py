"""Hands an image that buildah built to the node of the one-machine cluster, only the layers that it lacks.

The tool's own load-image carries every layer each time: a minute and a half for MaxText's gigabytes where a change of
the code is a hundred kilobytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import IO


class Node:
    """The containerd of a node. `home` is the folder of the cluster's programs."""

    def __init__(self, home: Path) -> None:
        socket = home / "run" / "containerd.sock"
        self._ctr = (str(home / "bin" / "ctr"), "--address", str(socket), "--namespace", "k8s.io")

    def has(self, image: str) -> bool:
        """Whether the node has the image of that name."""
        return image in _output(*self._ctr, "images", "list", "-q").split()

    def load(self, image: str) -> None:
        """Streams an OCI archive into containerd that lacks the layers which are there already."""
        about = json.loads(_output("buildah", "inspect", "--type", "image", image))
        manifest = json.loads(about["Manifest"])
        stored = {
            layer["diff-digest"]: layer["id"]
            for layer in json.loads(_output("containers-storage", "layers", "-j"))
            if "diff-digest" in layer
        }
        there = set(_output(*self._ctr, "content", "list", "-q").split())
        importing = subprocess.Popen(
            [*self._ctr, "images", "import", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert importing.stdin
        with tarfile.open(fileobj=importing.stdin, mode="w|") as archive:
            for layer in manifest["layers"]:
                if layer["digest"] not in there:
                    there.add(layer["digest"])
                    _add_layer(archive, layer, stored[layer["digest"]])
            _add_blob(archive, about["Config"])
            index = {"mediaType": manifest["mediaType"], "annotations": {"io.containerd.image.name": image}}
            index |= _add_blob(archive, about["Manifest"])
            _add_text(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}))
            _add_text(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": [index]}))
        importing.stdin.close()
        assert importing.wait() == 0, f"containerd did not take {image}"


def _add_layer(archive: tarfile.TarFile, layer: dict[str, object], stored: str) -> None:
    with subprocess.Popen(["containers-storage", "diff", "-u", stored], stdout=subprocess.PIPE) as process:
        assert process.stdout
        _add(archive, f"blobs/{layer['digest']}".replace(":", "/"), process.stdout, int(str(layer["size"])))


def _add_blob(archive: tarfile.TarFile, text: str) -> dict[str, object]:
    digest = hashlib.sha256(text.encode()).hexdigest()
    _add_text(archive, f"blobs/sha256/{digest}", text)
    return {"digest": f"sha256:{digest}", "size": len(text.encode())}


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    _add(archive, name, io.BytesIO(text.encode()), len(text.encode()))


def _add(archive: tarfile.TarFile, name: str, stream: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    archive.addfile(entry, stream)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
