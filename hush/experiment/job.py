"""A job for NVIDIA FLARE that runs hush: three JSON files and no code."""

import json
from pathlib import Path
from typing import Any

import tomli_w

from hush.data import files
from hush.errors import Mistake
from hush.experiment.config import Config
from hush.federation import kit
from hush.federation.kit import Kit

SERVER, SITE = "hush.experiment.flare.Server", "hush.experiment.flare.Client"
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
# FLARE puts it into every job of a site that has not set "allow_log_streaming": false.
STREAMER = "nvflare.app_common.logging.job_log_streamer.JobLogStreamer"
ALLOWED = {"server": (CONTROLLER, SERVER), "client": (EXECUTOR, SITE, STREAMER)}
SYNC = 300  # seconds for sites to import and set up what they run
APP = "app"


def exported(
    folder: Path, name: str, config: Config, own: Kit, deadline: float = 300.0, wait: float | None = None
) -> tuple[str, ...]:
    """Write the job of a kit's federation into a new folder; the sites that it is for."""
    sites = tuple(one.name for one in kit.roster(own))
    if not sites:
        raise Mistake(f"{own.path} has no site on its roster: approve one with hush federation approve")
    if config.secure.servers == 2:
        raise Mistake("secure.servers=2 needs a second server, which a FLARE job has not: take 1, or hush server")
    tables = config.model_dump(exclude_unset=True, exclude_none=True)  # a scheme may have rounds of its own
    text = tomli_w.dumps({table: keys for table, keys in tables.items() if keys})
    if "{" in text + name:
        raise Mistake("the experiment has a brace, which FLARE would replace in a job: rename the file that has it")
    if folder.exists():
        raise Mistake(f"{folder} exists: choose another folder for the job")
    wanted: dict[str, Any] = {
        "name": name,
        "experiment": text,
        "federation": own.federation,
        "deadline": deadline,
        **({} if wait is None else {"wait": wait}),
    }
    parts = {
        "meta.json": meta(name, sites),
        f"{APP}/config/config_fed_server.json": server(wanted),
        f"{APP}/config/config_fed_client.json": client(own.federation),
    }

    def fill(draft: Path) -> None:
        for place, content in parts.items():
            (draft / place).parent.mkdir(parents=True, exist_ok=True)
            files.write(draft / place, json.dumps(content, indent=2).encode())

    files.write_folder(folder, fill, lambda: (folder / "meta.json").exists())
    return sites


def meta(name: str, sites: tuple[str, ...]) -> dict[str, Any]:
    """Where the job runs: at every site of the roster, since the charter has them all."""
    return {
        "name": name,
        "resource_spec": {},
        "deploy_map": {APP: ["server", *sites]},
        "min_clients": len(sites),
        "mandatory_clients": list(sites),
    }


def server(wanted: dict[str, Any]) -> dict[str, Any]:
    """config_fed_server.json."""
    arguments = {"server_obj_id": "hush_server", "sync_task_timeout": SYNC}
    return {
        "format_version": 2,
        "workflows": [{"id": "controller", "path": CONTROLLER, "args": arguments}],
        "components": [{"id": "hush_server", "path": SERVER, "args": wanted}],
        "task_data_filters": [],
        "task_result_filters": [],
    }


def client(federation: str) -> dict[str, Any]:
    """config_fed_client.json."""
    arguments = {"client_obj_id": "hush_client"}
    return {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"id": "executor", "path": EXECUTOR, "args": arguments}}],
        "components": [{"id": "hush_client", "path": SITE, "args": {"federation": federation}}],
        "task_data_filters": [],
        "task_result_filters": [],
    }
