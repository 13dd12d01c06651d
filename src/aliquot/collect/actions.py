"""Actions of the organiser while people judge. Every action is an event with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy.engine import Connection

from aliquot.collect import event_types as kinds
from aliquot.collect.campaign import Campaign
from aliquot.collect.creating import add_units, store_selection
from aliquot.collect.people import WORKING, is_model
from aliquot.collect.statements import sql
from aliquot.collect.stored_inputs import judgments_per_output
from aliquot.core.evalset import ItemId
from aliquot.core.registry import split_names
from aliquot.core.selection import Selection
from aliquot.errors import OptionError, unknown_name
from aliquot.sampling.select import select

MAX_TEXT = 2_000


@dataclass(frozen=True)
class Request:
    """Arguments of an action."""

    target: str = ""  # an annotator's name, where the action is about one
    value: str = ""  # names, a number, a message
    reason: str = ""


@dataclass(frozen=True)
class Action:
    """An action: its name, its label on the page, and the function that runs it."""

    name: str
    label: str
    run: Callable[[Campaign, Request], str]  # returns what was done, in words


def act(campaign: Campaign, action: str, target: str = "", value: str = "", reason: str = "") -> str:
    """Do something with a campaign and say what was done; the log keeps it with its reason.

    Args:
        campaign: an open campaign.
        action: one of `ACTIONS`, for example "pause", "exclude", "wanted" or "close".
        target: the annotator's name, where the action is about one.
        value: names to add, a number, or a message.
        reason: why; it stands in the audit log.
    """
    if action not in ACTIONS:
        raise unknown_name("action", action, ACTIONS)
    return ACTIONS[action].run(campaign, Request(target.strip(), value.strip()[:MAX_TEXT], reason.strip()[:MAX_TEXT]))


def _append_event(campaign: Campaign, connection: Connection, event: kinds.Event) -> None:
    campaign.log.append(connection, campaign.store.clock.now(), "organiser", event)


# -- annotators ----------------------------------------------------------------------------------------------------


def _annotator_action(summary: str, *, free: bool = False, **facts: Any) -> Callable[[Campaign, Request], str]:
    """Build an action that changes a fact of an annotator; `free` also returns the open units to the queue."""

    def run(campaign: Campaign, request: Request) -> str:
        def change(connection: Connection) -> None:
            identity = campaign.identity(connection, request.target)
            if free:
                campaign.free_units(connection, identity)
            _append_event(campaign, connection, kinds.AnnotatorChanged(id=identity, reason=request.reason, **facts))

        campaign.store.write(change)
        return f"{request.target} {summary}"

    return run


def _reassign_units(campaign: Campaign, request: Request) -> str:
    def change(connection: Connection) -> int:
        identity = campaign.identity(connection, request.target)
        count = campaign.free_units(connection, identity)
        _append_event(campaign, connection, kinds.UnitsReassigned(id=identity, units=count, reason=request.reason))
        return count

    count = campaign.store.write(change)
    return f"{count} open units of {request.target} went back to the queue"


def _revoke_link(campaign: Campaign, request: Request) -> str:
    campaign.revoke(request.target, request.reason)
    return f"the link of {request.target} is withdrawn; open units went back to the queue, judgments stay"


def _renew_link(campaign: Campaign, request: Request) -> str:
    campaign.renew_link(request.target, request.reason)
    return f"{request.target} has a new link: aliquot collect links"


def _renew_shared_links(campaign: Campaign, request: Request) -> str:
    campaign.renew_shared_links(request.reason)
    return "there are new shared links, and older ones let nobody in any more: aliquot collect links"


def _add_annotators(campaign: Campaign, request: Request) -> str:
    names = split_names(request.value)
    campaign.add_annotators(names)
    return f"added {', '.join(names)}; their links: aliquot collect links"


def _send_message(campaign: Campaign, request: Request) -> str:
    if not request.value:
        raise OptionError("the message is empty; write what the annotator should read")

    def change(connection: Connection) -> None:
        identity = campaign.identity(connection, request.target) if request.target else None
        _append_event(campaign, connection, kinds.MessageSent(id=identity, text=request.value, reason=request.reason))

    campaign.store.write(change)
    return f"message to {request.target or 'everybody'}: {request.value}"


# -- the campaign --------------------------------------------------------------------------------------------------


def _change_state(state: Literal["open", "paused", "closed"], summary: str) -> Callable[[Campaign, Request], str]:
    def run(campaign: Campaign, request: Request) -> str:
        event = kinds.StateChanged(state=state, reason=request.reason)
        campaign.store.write(lambda connection: _append_event(campaign, connection, event))
        return summary

    return run


def _change_wanted(campaign: Campaign, request: Request) -> str:
    if campaign.facts.assign == "fixed":
        raise OptionError(
            "every annotator has a fixed list, so the number of judgments an output cannot change; add a "
            "campaign with more annotators instead"
        )
    count = _read_count(request.value, "judgments an output")

    def change(connection: Connection) -> None:
        people = connection.execute(sql(f"SELECT COUNT(*) FROM annotators WHERE {WORKING}")).scalar() or 0
        if count > people:
            raise OptionError(f"{count} judgments an output need {count} annotators, and {people} are active; add some")
        _append_event(campaign, connection, kinds.JudgmentsWanted(wanted=count, reason=request.reason))

    campaign.store.write(change)
    return f"every output is judged {count} times; what was judged more often stays"


def _limit_workers(campaign: Campaign, request: Request) -> str:
    limit = _read_count(request.value, "workers")
    event = kinds.WorkersLimited(most=limit, reason=request.reason)
    campaign.store.write(lambda connection: _append_event(campaign, connection, event))
    return f"shared links let in {limit} workers at the most"


def _add_items(campaign: Campaign, request: Request) -> str:
    """Add items to the selection as a wave, which keeps inclusion probabilities exact, and queue them."""
    count = _read_count(request.value, "items")
    before = campaign.selection
    if before is None:
        raise OptionError("all items are being judged already; there is none to add")
    if campaign.facts.assign == "fixed":
        raise OptionError(
            "every annotator has a fixed list; make a second campaign with `aliquot select --add-to` instead"
        )
    later = select(campaign.data, add_to=before, budget=f"+{count}", seed=campaign.facts.seed)
    fresh = set(later.ids) - set(before.ids)
    if not fresh:
        raise OptionError(f"no item is left to add: {len(before)} of {before.population} are selected")
    seed = campaign.facts.seed + len(later)
    units = campaign.inputs.unit_options.cut(campaign.data, _select_items(later, fresh), campaign.protocol, seed)

    def change(connection: Connection) -> None:
        store_selection(connection, later)
        _append_event(
            campaign,
            connection,
            kinds.ItemsAdded(items=len(fresh), selected=len(later), reason=request.reason),
        )
        add_units(campaign.log, connection, units, judgments_per_output(connection), campaign.store.clock.now())

    campaign.store.write(change)
    return f"{len(fresh)} more items are judged, {len(later)} in all"


def _select_items(selection: Selection, ids: set[ItemId]) -> Selection:
    """Return the selection's cells on some items, without probabilities."""
    rows = [row for row, item in enumerate(selection.ids) if item in ids]
    systems = None if selection.systems is None else tuple(selection.systems[row] for row in rows)
    return Selection(tuple(selection.ids[row] for row in rows), selection.population, selection.method, systems=systems)


def _rejudge_work(campaign: Campaign, request: Request) -> str:
    def change(connection: Connection) -> None:
        identity = campaign.identity(connection, request.target, also_forgotten=True)
        if is_model(connection, identity):
            raise OptionError(
                f"'{request.target}' is an automatic judge, so that people judge all its outputs anyway; name a person"
            )
        _append_event(campaign, connection, kinds.WorkRejudged(id=identity, reason=request.reason))

    campaign.store.write(change)
    return f"the finished work of {request.target} is judged once more by others"


def _change_guidelines(campaign: Campaign, request: Request) -> str:
    version = campaign.change_guidelines(request.value, request.reason)
    return f"annotators see version {version} of the guidelines from now on; judgments carry it"


def _read_count(text: str, what: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        raise OptionError(f"'{text}' is no number of {what}; write a whole number of at least 1")
    return int(text)


ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        action.name: action
        for action in (
            Action(
                "pause",
                "Pause",
                _annotator_action("is paused; open units went back to the queue", free=True, work="paused"),
            ),
            Action("resume", "Resume", _annotator_action("is not paused any more", work="active")),
            Action(
                "exclude", "Exclude", _annotator_action("is excluded: none of the judgments count", free=True, counts=0)
            ),
            Action("include", "Include", _annotator_action("is included again: the judgments count", counts=1)),
            Action("revoke", "Withdraw link", _revoke_link),
            Action("renew", "New link", _renew_link),
            Action("rejudge", "Judge again", _rejudge_work),
            Action("reassign", "Free open units", _reassign_units),
            Action("message", "Send message", _send_message),
            Action("add", "Add annotators", _add_annotators),
            Action("wanted", "Judgments an output", _change_wanted),
            Action("workers", "Workers by shared links at most", _limit_workers),
            Action("renew_shared", "Make new shared links", _renew_shared_links),
            Action("top_up", "Judge more items", _add_items),
            Action("guidelines", "Change the guidelines", _change_guidelines),
            Action("stop", "Pause the campaign", _change_state("paused", "the campaign is paused")),
            Action("open", "Open the campaign", _change_state("open", "the campaign is open")),
            Action("close", "Close the campaign", _change_state("closed", "the campaign is closed")),
        )
    }
)
"""Every action by its name."""


def list_audit(connection: Connection, limit: int = 100) -> list[dict[str, Any]]:
    """Return the organiser's last actions, newest first."""
    rows = connection.execute(
        sql("SELECT time, kind, payload FROM audit ORDER BY id DESC LIMIT :most"), {"most": limit}
    )
    return [dict(row._mapping) for row in rows]  # noqa: SLF001  (SQLAlchemy's public name)
