"""Pushes the exported directory to the Hugging Face hub, as one commit.

In: a folder, local or gs://, whose README.md is the model card. Out: the page of the commit. Readers see the old model or
the new one: the large files go up first, one by one, and the commit that names them comes last. From gs:// one file at a
time is on this disk. After a kill, the next try sends what is missing, and nothing when the commit is there. What the hub
refuses is a UserError.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from components import manifest, record, storage
from components.fetch import fetch
from components.sources import hub

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, HfApi

_OURS = {manifest.FILE_NAME, record.FILE_NAME}  # records of the store: they name places that others cannot see
_THEIRS = {".gitattributes"}  # made by the hub, which needs it


def push(repo_id: str, directory: str, title: str, *, private: bool, say: Callable[[str], None]) -> str:
    """Makes the branch main of a repository hold exactly the files of `directory`; returns the address of the commit.

    Args:
      repo_id: org/name; it is made when it does not exist.
      directory: the files to push.
      title: of the commit. A commit with this title is taken for this push.
      private: whether a repository that is made is private.
      say: is told what goes up.
    """
    from huggingface_hub import CommitOperationDelete

    with hub.writing(repo_id) as api, tempfile.TemporaryDirectory() as scratch:
        page = f"{api.endpoint}/{repo_id}/commit"
        api.create_repo(repo_id, private=private, exist_ok=True)
        commits = api.list_repo_commits(repo_id)
        if done := [commit.commit_id for commit in commits if commit.title == title]:
            return f"{page}/{done[0]}"
        files = [file for file in storage.list_files(directory) if file.name not in _OURS]
        added = []
        for number, (name, size) in enumerate(files, 1):
            say(f"{repo_id}: file {number} of {len(files)}, {name} ({size / 1e6:,.1f} MB)")
            added.append(_sent(api, repo_id, name, storage.join(directory, name), Path(scratch, str(number))))
        gone = set(api.list_repo_files(repo_id)) - {file.name for file in files} - _THEIRS
        made = api.create_commit(
            repo_id,
            [*added, *(CommitOperationDelete(name) for name in sorted(gone))],
            commit_message=title,
            parent_commit=commits[0].commit_id,
        )
        return f"{page}/{made.oid}"


def _sent(api: HfApi, repo_id: str, name: str, uri: str, scratch: Path) -> CommitOperationAdd:
    """Sends the content of a large file; a small one goes with the commit."""
    from huggingface_hub import CommitOperationAdd

    addition = CommitOperationAdd(path_in_repo=name, path_or_fileobj=fetch(uri, scratch))
    api.preupload_lfs_files(repo_id, [addition])
    if addition.path_or_fileobj == b"" and scratch.exists():  # it was large: the library needs it no more
        for copy in scratch.iterdir():
            copy.unlink()
    return addition
