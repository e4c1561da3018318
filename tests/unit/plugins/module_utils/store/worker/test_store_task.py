# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A worker's whole work in this process, against a real mirror on loopback."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job, Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker import fetching
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.fetching import Stopped
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.foreseeing import foresee
from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.faults import Fault
from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.server import Mirror, commit_of, running
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.store.store_models import (
    INDEX,
    damage,
    job_for,
    make_model,
    same,
    shard_name,
    size_of,
    stop_when,
    work,
    write_sums,
)

SHARDS = 3


@dataclasses.dataclass
class Bench:
    mirror: Mirror
    model: Path
    store: Path

    @property
    def source(self) -> Source:
        return Source("mirror", (f"{self.mirror.url}/files/tiny",))

    def job(self, source: Source | None = None, **options: Any) -> Job:
        return job_for(self.store, source or self.source, **options)

    def fault(self, number: int, **fields: Any) -> None:
        self.mirror.memory.faults.append(Fault(f"*{shard_name(number, SHARDS)}", method="GET", **fields))

    def shard(self, number: int) -> Path:
        return self.model / shard_name(number, SHARDS)


@pytest.fixture(name="bench")
def _bench(tmp_path: Path) -> Iterator[Bench]:
    model = make_model(tmp_path / "www" / "tiny", SHARDS)
    write_sums(model)
    with running(tmp_path / "www") as mirror:
        yield Bench(mirror, model, tmp_path / "store")


def stored(result: dict[str, Any]) -> Path:
    return Path(result["path"])


def refusal(job: Job, **options: Any) -> Refusal:
    with pytest.raises(Refusal) as refused:
        work(job, **options)
    return refused.value


def test_a_revision_is_published_whole_readable_and_linked(bench: Bench) -> None:
    result = work(bench.job())
    (bench.model / "SHA256SUMS").unlink()
    assert same(stored(result), bench.model)
    assert (result["changed"], result["fetched_bytes"], result["problems"]) == (True, size_of(bench.model), [])
    assert result["revision"] == result["content_sha256"][:16]
    assert Path(result["current_path"]).resolve() == stored(result)
    assert {path.stat().st_mode & 0o777 for path in stored(result).iterdir()} == {0o644}
    assert stored(result).stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in (bench.store / "tiny").iterdir()) == sorted([result["revision"], "current"])


def test_a_second_run_asks_for_the_list_alone_and_an_exact_revision_for_nothing(bench: Bench) -> None:
    work(bench.job(revision="v1"))
    bench.mirror.memory.forget()
    again = work(bench.job(revision="v1"))
    assert (again["changed"], again["fetched_bytes"], bench.mirror.memory.asked) == (False, 0, [])
    without = work(job_for(bench.store, None, revision="v1"))
    assert without["changed"] is False


@pytest.mark.parametrize(
    ("fault", "twice"),
    [
        ({"cut_after": 70_000, "times": 2}, 0),
        ({"stall_after": 60_000, "times": 1}, 0),
        ({"status": 503, "retry_after": 0, "times": 2}, 0),
        ({"no_range": True, "cut_after": 70_000, "times": 1}, 0),
        ({"corrupt_at": 50_000, "times": 1}, 1),
        ({"corrupt_at": 50_000, "corrupt_by": 0, "times": 2}, 2),
    ],
)
def test_what_goes_wrong_for_a_while_is_made_good(bench: Bench, fault: dict[str, Any], twice: int) -> None:
    bench.fault(2, **fault)
    result = work(bench.job())
    (bench.model / "SHA256SUMS").unlink()
    assert same(stored(result), bench.model)
    # Nothing is sent twice but files that came whole and wrong.
    assert bench.mirror.sent() - bench.mirror.sent("SHA256SUMS") == size_of(bench.model) + twice * (
        bench.shard(2).stat().st_size
    )
    assert result["retries"] == fault["times"]


def test_a_server_without_ranges_sends_the_file_anew(bench: Bench) -> None:
    bench.fault(2, cut_after=70_000, times=1)
    bench.fault(2, no_range=True)
    result = work(bench.job())
    assert bench.mirror.sent(shard_name(2, SHARDS)) == bench.shard(2).stat().st_size + 70_000
    assert stored(result).joinpath(shard_name(2, SHARDS)).read_bytes() == bench.shard(2).read_bytes()


def test_another_etag_is_another_file(bench: Bench) -> None:
    """A mirror that is filled anew while it is read: what came of the old file is of no use."""
    bench.fault(2, cut_after=70_000, times=1, etag='"old"')
    work(bench.job())
    firsts = [
        one.first for one in bench.mirror.memory.asked if one.path.endswith(shard_name(2, SHARDS)) and one.sent_bytes
    ]
    assert firsts == [0, 0]


def test_a_bad_copy_is_named_and_the_other_files_are_kept(bench: Bench) -> None:
    bench.fault(2, corrupt_at=50_000)
    refused = refusal(bench.job())
    assert refused.code == "store_source_corrupt"
    assert f"{bench.mirror.url}/files/tiny sent it 3 times always with the same wrong bytes" in refused.message
    assert not (bench.store / "tiny" / "current").is_symlink()
    bench.mirror.memory.forget()
    result = work(bench.job())
    assert bench.mirror.sent(".safetensors") == bench.shard(2).stat().st_size
    assert result["reused_bytes"] == size_of(bench.model) - bench.shard(2).stat().st_size


def test_another_mirror_makes_good_what_the_first_has_wrong(bench: Bench) -> None:
    (bench.model.parent / "copy").mkdir()
    for path in bench.model.iterdir():
        (bench.model.parent / "copy" / path.name).write_bytes(path.read_bytes())
    damage(bench.model.parent / "copy" / shard_name(1, SHARDS))
    both = Source("mirror", (f"{bench.mirror.url}/files/copy", f"{bench.mirror.url}/files/tiny"))
    result = work(bench.job(both))
    assert stored(result).joinpath(shard_name(1, SHARDS)).read_bytes() == bench.shard(1).read_bytes()
    gone = Source("mirror", (f"{bench.mirror.url}/files/gone", f"{bench.mirror.url}/files/tiny"))
    assert work(bench.job(gone, revision="again"))["revision"] == "again"


def test_a_file_that_the_mirror_lost_is_given_up_at_once(bench: Bench) -> None:
    bench.shard(3).rename(bench.model / "moved")
    refused = refusal(bench.job())
    assert refused.code == "store_source_unreachable"
    assert "it has no such file (404)" in refused.message


def test_a_mirror_that_never_answers_is_given_up_after_its_attempts(bench: Bench) -> None:
    bench.fault(1, status=500)
    bench.fault(2, stall_after=0)
    refused = refusal(bench.job(attempts=2))
    assert refused.code == "store_fetch_failed"
    faults = refused.evidence["faults"]
    assert isinstance(faults, list)
    assert [fault["evidence"]["path"] for fault in faults] == [shard_name(1, SHARDS), shard_name(2, SHARDS)]
    assert "status 500" in faults[0]["message"]
    assert "no byte came for 0.5 s at 0.00 GB" in faults[1]["message"]


def test_stopped_anywhere_it_goes_on_with_what_is_there(bench: Bench) -> None:
    bench.mirror.memory.bytes_per_second = 400_000
    stop = threading.Event()
    stop_when(bench.mirror, 200_000, stop)
    with pytest.raises(Stopped):
        work(bench.job(parallel_files=2), stop=stop)
    bench.mirror.memory.bytes_per_second = None
    result = work(bench.job())
    assert result["reused_bytes"] > 100_000
    assert result["fetched_bytes"] == size_of(bench.model) - result["reused_bytes"]


def test_after_a_loss_of_power_only_what_had_been_synced_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.fault(2, cut_after=170_000, times=3)
    refusal(bench.job(attempts=1))
    (part,) = bench.store.rglob("*.part")
    assert part.stat().st_size == 170_000
    (note,) = (path for path in bench.store.rglob("notes/*.json") if path.name.startswith(part.name[:-5]))
    note.write_text(json.dumps({**json.loads(note.read_text()), "synced": 100_000}))
    monkeypatch.setattr(fetching, "boot_id", lambda: "another boot")
    bench.mirror.memory.forget()
    work(bench.job())
    (asked,) = [one for one in bench.mirror.memory.asked if one.sent_bytes and shard_name(2, SHARDS) in one.path]
    assert asked.first == 100_000


def test_bytes_that_a_loss_of_power_spoilt_are_found_and_fetched_again(bench: Bench) -> None:
    bench.fault(2, cut_after=150_000, times=3)
    refusal(bench.job(attempts=1))
    (part,) = bench.store.rglob("*.part")
    content = part.read_bytes()
    part.write_bytes(b"\0" * len(content))
    bench.mirror.memory.forget()
    result = work(bench.job())
    assert stored(result).joinpath(shard_name(2, SHARDS)).read_bytes() == bench.shard(2).read_bytes()


# Damage and repair ----------------------------------------------------------------------------------------------------


def test_an_index_that_is_bad_is_repaired_alone(bench: Bench) -> None:
    result = work(bench.job())
    (stored(result) / INDEX).unlink()
    assert work(bench.job())["repaired"] == [INDEX]


@pytest.mark.parametrize("harm", ["content", "truncated", "missing", "folder"])
def test_only_what_is_bad_is_fetched_again(bench: Bench, harm: str) -> None:
    result = work(bench.job())
    hurt = stored(result) / shard_name(2, SHARDS)
    if harm == "content":
        damage(hurt, 100_000)
    elif harm == "truncated":
        os.truncate(hurt, 1000)
    else:
        hurt.unlink()
        if harm == "folder":
            hurt.mkdir()
    bench.mirror.memory.forget()
    assert foresee(bench.job(), Secrets())["changed"] is (harm != "content")
    repaired = work(bench.job())
    assert (repaired["changed"], repaired["repaired"]) == (True, [shard_name(2, SHARDS)])
    assert bench.mirror.sent(".safetensors") == repaired["fetched_bytes"] == bench.shard(2).stat().st_size
    assert hurt.read_bytes() == bench.shard(2).read_bytes()
    assert work(bench.job())["changed"] is False


def test_who_has_a_damaged_file_open_keeps_what_it_has(bench: Bench) -> None:
    result = work(bench.job())
    hurt = stored(result) / shard_name(2, SHARDS)
    damage(hurt)
    before = hurt.read_bytes()
    with hurt.open("rb") as held:
        work(bench.job())
        assert held.read() == before
    assert hurt.read_bytes() != before


def test_damage_that_keeps_size_and_time_is_found_by_a_full_check(bench: Bench) -> None:
    result = work(bench.job())
    hurt = stored(result) / shard_name(1, SHARDS)
    status = hurt.stat()
    damage(hurt)
    os.utime(hurt, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert work(bench.job())["repaired"] == []
    refused = refusal(job_for(bench.store, None, revision=result["revision"], verify="full"))
    assert (refused.code, refused.evidence["bytes"]) == ("store_damaged", bench.shard(1).stat().st_size)
    assert work(bench.job(verify="full"))["repaired"] == [shard_name(1, SHARDS)]


def test_a_file_that_was_merely_touched_is_read_once_and_not_fetched(bench: Bench) -> None:
    result = work(bench.job())
    (stored(result) / shard_name(1, SHARDS)).touch()
    bench.mirror.memory.forget()
    again = work(bench.job())
    assert (again["changed"], again["fetched_bytes"], bench.mirror.sent(".safetensors")) == (False, 0, 0)


def test_rights_that_somebody_changed_are_set_back(bench: Bench) -> None:
    result = work(bench.job())
    (stored(result) / "config.json").chmod(0o666)
    assert work(bench.job())["changed"] is True
    assert (stored(result) / "config.json").stat().st_mode & 0o777 == 0o644


def test_a_stranger_in_a_revision_is_told_of(bench: Bench) -> None:
    result = work(bench.job())
    (stored(result) / "extra.safetensors").write_text("x")
    told = work(bench.job())["problems"]
    assert [problem["code"] for problem in told] == ["store_strange_files"]
    assert "extra.safetensors" in told[0]["message"]


# Revisions ------------------------------------------------------------------------------------------------------------


def test_a_new_revision_shares_what_it_has_in_common_and_the_old_one_can_be_returned_to(bench: Bench) -> None:
    old = work(bench.job())
    make_model(bench.model, SHARDS, seed=2)
    bench.shard(1).write_bytes((stored(old) / shard_name(1, SHARDS)).read_bytes())
    write_sums(bench.model)
    bench.mirror.memory.forget()
    new = work(bench.job())
    assert bench.mirror.sent(shard_name(1, SHARDS)) == 0
    assert (stored(new) / shard_name(1, SHARDS)).samefile(stored(old) / shard_name(1, SHARDS))
    assert Path(new["current_path"]).resolve() == stored(new)
    back = work(job_for(bench.store, None, revision=old["revision"]))
    assert (back["changed"], Path(back["current_path"]).resolve()) == (True, stored(old))
    assert work(bench.job(activate=False))["changed"] is False
    assert Path(back["current_path"]).resolve() == stored(old)


def test_a_revision_never_changes_its_content(bench: Bench) -> None:
    first = work(bench.job(revision="v1"))
    assert refusal(bench.job(revision="v1", content_sha256="f" * 64)).code == "store_revision_differs"
    make_model(bench.model, SHARDS, seed=2)
    write_sums(bench.model)
    damage(stored(first) / shard_name(1, SHARDS))
    assert refusal(bench.job(revision="v1")).code == "store_source_differs"
    refused = refusal(bench.job(content_sha256=first["content_sha256"], revision="v2"))
    assert refused.code == "store_source_differs"
    assert not (bench.store / "tiny" / "v2").exists()


def test_what_is_not_there_is_refused_with_what_is(bench: Bench) -> None:
    work(bench.job(revision="v1"))
    refused = refusal(job_for(bench.store, None, revision="v2"))
    assert (refused.code, refused.evidence["revisions"]) == ("store_model_missing", ["v1"])


# Sources --------------------------------------------------------------------------------------------------------------


def test_a_source_without_sums_is_recorded_as_it_came_and_known_again(bench: Bench) -> None:
    (bench.model / "SHA256SUMS").unlink()
    for index in ("html", "json"):
        bench.mirror.index = index
        result = work(bench.job())
        assert [problem["code"] for problem in result["problems"]] == ["store_sums_unknown"]
        assert same(stored(result), bench.model)
    assert result["changed"] is False
    assert work(bench.job(content_sha256=result["content_sha256"], revision="v1"))["changed"] is True


def test_a_revision_of_the_hub_needs_the_token_there_and_takes_it_nowhere_else(bench: Bench) -> None:
    bench.mirror.token = "secret"
    (bench.model / "SHA256SUMS").unlink()
    job = bench.job(Source("hub", (bench.mirror.url,), "org/tiny"), revision=commit_of(bench.model))
    assert "access to it has to be asked for on its page" in refusal(job).message
    result = work(job, token="secret")
    assert same(stored(result), bench.model)
    cdn = [one for one in bench.mirror.memory.asked if "/cdn/" in one.path]
    assert len(cdn) == SHARDS
    assert not any(one.authorized for one in cdn)
    assert not any("secret" in path.read_text(errors="replace") for path in bench.store.rglob("*.json"))


def test_a_wrong_byte_in_a_small_file_of_the_hub_is_found_by_gits_name(bench: Bench) -> None:
    bench.mirror.memory.faults.append(Fault("*/config.json", corrupt_at=5, method="GET"))
    job = bench.job(Source("hub", (bench.mirror.url,), "org/tiny"), revision=commit_of(bench.model))
    assert refusal(job).code == "store_source_corrupt"


@pytest.mark.parametrize("transfer", ["auto", "copy", "hardlink"])
def test_a_folder_is_taken_over(bench: Bench, transfer: str) -> None:
    for path in bench.model.iterdir():
        path.chmod(0o644)
    result = work(bench.job(Source("folder", (str(bench.model),)), transfer=transfer))
    (bench.model / "SHA256SUMS").unlink()
    assert same(stored(result), bench.model)
    linked = (stored(result) / shard_name(1, SHARDS)).samefile(bench.shard(1))
    assert linked is (transfer == "hardlink")
    assert result["problems"] == []


def test_a_foreign_file_is_copied_and_not_linked(bench: Bench) -> None:
    bench.shard(1).chmod(0o666)
    result = work(bench.job(Source("folder", (str(bench.model),)), transfer="hardlink"))
    assert not (stored(result) / shard_name(1, SHARDS)).samefile(bench.shard(1))
    assert bench.shard(1).stat().st_mode & 0o777 == 0o666


def test_a_hubs_cache_gives_its_snapshot_with_the_sums_of_its_blobs(bench: Bench, tmp_path: Path) -> None:
    cache = tmp_path / "models--org--tiny"
    commit = "a" * 40
    for folder in ("blobs", "refs", f"snapshots/{commit}"):
        (cache / folder).mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    lines = (bench.model / "SHA256SUMS").read_text().splitlines()
    sums = {line.split("  ")[1]: line.split("  ")[0] for line in lines}
    for name, sha256 in sums.items():
        (cache / "blobs" / sha256).write_bytes((bench.model / name).read_bytes())
        (cache / "snapshots" / commit / name).symlink_to(f"../../blobs/{sha256}")
    damage(cache / "blobs" / sums[shard_name(1, SHARDS)])
    assert refusal(bench.job(Source("folder", (str(cache),)))).code == "store_source_corrupt"
    (cache / "blobs" / sums[shard_name(1, SHARDS)]).write_bytes(bench.shard(1).read_bytes())
    result = work(bench.job(Source("folder", (str(cache),))))
    (bench.model / "SHA256SUMS").unlink()
    assert same(stored(result), bench.model)


def test_a_store_is_a_mirror_for_others(bench: Bench, tmp_path: Path) -> None:
    result = work(bench.job())
    with running(bench.store / "tiny") as other:
        source = Source("mirror", (f"{other.url}/files/{result['revision']}",))
        copy = work(job_for(tmp_path / "other", source, content_sha256=result["content_sha256"]))
    assert same(stored(copy), stored(result))


# What is refused ------------------------------------------------------------------------------------------------------


def test_a_model_whose_index_names_a_shard_that_is_not_there_is_refused_before_the_weights(bench: Bench) -> None:
    refused = refusal(bench.job(exclude=(shard_name(3, SHARDS),)))
    assert (refused.code, refused.evidence["missing"]) == ("store_index_incomplete", [shard_name(3, SHARDS)])
    (bench.model / INDEX).write_text("{}")
    write_sums(bench.model)
    assert refusal(bench.job()).code == "store_index_incomplete"


@pytest.mark.parametrize("content", [b"<html>login</html>", b"version https://git-lfs.github.com/spec/v1\noid x\n"])
def test_a_weight_file_that_is_none_is_refused_whatever_its_sum_says(bench: Bench, content: bytes) -> None:
    bench.shard(2).write_bytes(content)
    write_sums(bench.model)
    refused = refusal(bench.job())
    assert refused.code == "store_safetensors_malformed"
    assert shard_name(2, SHARDS) in refused.message


def test_what_does_not_fit_is_refused_before_anything_is_written(bench: Bench) -> None:
    refused = refusal(bench.job(reserve_bytes=1 << 60))
    assert refused.code == "store_disk_full"
    assert not bench.store.exists()
    with pytest.raises(Refusal):
        foresee(bench.job(reserve_bytes=1 << 60), Secrets())


def test_check_mode_says_what_would_be_fetched_and_writes_nothing(bench: Bench) -> None:
    told = foresee(bench.job(), Secrets())
    assert (told["changed"], told["would_fetch_bytes"]) == (True, size_of(bench.model))
    assert told["diff"]["before"] == ""
    assert len(told["diff"]["after"].splitlines()) == SHARDS + 2
    assert not bench.store.exists()
    result = work(bench.job())
    assert told["path"] == result["path"]
    assert foresee(bench.job(), Secrets())["changed"] is False


def test_nothing_that_is_wanted_is_refused(bench: Bench) -> None:
    assert refusal(bench.job(include=("*.gguf",))).code == "store_source_empty"


def test_a_manifest_that_was_tampered_with_is_no_manifest(bench: Bench) -> None:
    result = work(bench.job())
    path = stored(result) / ".manifest.json"
    data = json.loads(path.read_text())
    data["files"][0]["sha256"] = "f" * 64
    path.write_text(json.dumps(data))
    assert refusal(job_for(bench.store, None, revision=result["revision"])).code == "store_revision_differs"
