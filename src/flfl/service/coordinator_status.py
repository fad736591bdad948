"""What a coordinator tells every site, and its status for the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flfl.service import certificates
from flfl.service.phases import Gathering, Running
from flfl.service.status import Status, address, from_diary, moment
from flfl.transport.link import COORDINATOR

if TYPE_CHECKING:
    from flfl.service.coordinator import CoordinatorService

_PRESENCE = ("here", "left", "gone", "never seen")
_TEXT = 300
"""Characters of anything that another party says."""


def told_to_all(service: CoordinatorService) -> dict[str, Any]:
    """Who is here, what is done, what is wrong: without a reading."""
    state = service.state
    status = {
        "network": service.settings.network,
        "phase": type(state).__name__.lower(),
        "round": service.round,
        "sites": {name: _site_now(service, name) for name in service.roster.names},
        "runs": service.runs,
        "problem": service.problem,
        "run": "", "question": 0, "waiting_for": [], "paused": "", **_times(service),
    }  # fmt: skip
    if isinstance(state, Running):
        status["run"], status["question"] = state.agreement.run, state.journal.answered + 1
        status["waiting_for"] = list(state.dispatcher.waiting_for)
        status["paused"] = state.dispatcher.paused or status["paused"]
    return status


def _times(service: CoordinatorService) -> dict[str, Any]:
    """When a run is due next (0: not at all), in seconds since 1970."""
    if service.schedule is None:
        return {"next_run": 0}
    if service.kept.paused:
        return {"next_run": 0, "paused": "an operator has paused the runs"}
    return {"next_run": service.schedule.next(service.clock.now())}


def _site_now(service: CoordinatorService, name: str) -> dict[str, str]:
    said, state = service.present.get(name, {}), service.state
    presence, reason = said.get("state", "never seen"), said.get("problem", "")
    status = {"state": presence if presence in _PRESENCE else "unknown"}
    if isinstance(state, Gathering):
        reason = reason or state.unable.get(name, "")
    if isinstance(state, Running) and name in state.dispatcher.aside:
        reason = status["aside"] = state.dispatcher.aside[name][:200]
    return {**status, "problem": reason[:200]} if reason else status


def coordinator_status(service: CoordinatorService) -> Status:
    """The coordinator's status: what it tells every site, and more of the sites' own words."""
    said, settings, link = told_to_all(service), service.settings, service.link
    told = ("version", "wire", "since", "certificate")
    rows = []
    for name, now in said["sites"].items():
        own = service.present.get(name, {})
        rows.append({"site": name, **now, **{key: own[key][:_TEXT] for key in told if key in own}})
    run, totals = _under_way(said, service), dict(service.diary.totals)
    for name in ("bytes_up", "bytes_down"):
        totals[name] = totals.get(name, 0) + int(run.get(name, 0))
    return Status(
        party=COORDINATOR,
        network=settings.network,
        doing=_coordinating(said),
        connected=link.connected,
        broker=address(settings.broker),
        since=service.since,
        problem="; ".join(filter(None, (said["paused"], said["problem"]))),
        next_run=moment(said.get("next_run")),
        certificates=certificates.ends(settings.broker, COORDINATOR),
        deadlines=settings.deadlines.model_dump(),
        sites=tuple(rows),
        run=run,
        counters={"dropped": sum(link.dropped.values())},
        **{**from_diary(service.diary), "totals": totals},
    )


def _under_way(said: Mapping[str, Any], service: CoordinatorService) -> dict[str, Any]:
    """The run that the coordinator is in, as far as it is public."""
    if not isinstance(service.state, Running):
        return {}
    names = ("run", "question", "round", "waiting_for")
    dispatcher = service.state.dispatcher
    return {name: said[name] for name in names} | {
        "set_aside": list(dispatcher.aside),
        "bytes_up": dispatcher.traffic.bytes_up,
        "bytes_down": dispatcher.traffic.bytes_down,
    }


def _coordinating(said: Mapping[str, Any]) -> str:
    if said["run"]:
        late = ", ".join(said["waiting_for"]) or "nobody"
        return f"In run {said['run']}: question {said['question']}, waiting for {late}."
    return {"gathering": "Asking the sites who can take part."}.get(said["phase"], "Between runs.")
