"""Types of the events in a campaign's log, one struct each, and which of their fields name a person.

The log keeps the kind in a column of its own and the struct as JSON in the column `payload`. A kind that is not here
changes no table. Fields that are `UNSET` are absent in the JSON: older versions did not write them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from aliquot.collect.crowd import Visit
from aliquot.core.evalset import ItemId

MaybeText = str | UnsetType


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What happened."""

    KIND: ClassVar[str]
    IS_AUDITED: ClassVar[bool] = False
    """Whether the audit log shows events of this kind."""
    PERSONAL: ClassVar[tuple[str, ...]] = ()
    """Fields with the name of a person, or with text that was typed by, to or about the person."""
    IS_ANSWER: ClassVar[bool] = False
    """Whether the event holds nothing but what a person answered, and is erased with the person."""

    def encode(self) -> str:
        """Return the JSON that the log keeps."""
        return msgspec.json.encode(self).decode()


class OrganiserEvent(Event, frozen=True, kw_only=True):
    """An event that the audit log shows: what the organiser did."""

    IS_AUDITED = True
    reason: MaybeText = UNSET


# -- the campaign --------------------------------------------------------------------------------------------------


class CampaignCreated(Event, frozen=True, kw_only=True):
    """The first event of a log."""

    KIND = "campaign"
    campaign: str
    aliquot: str
    seed: str
    assign: str
    per_output: str
    data: str
    settings: str
    protocol: str


class GuidelinesWritten(Event, frozen=True, kw_only=True):
    """A version of the guidelines; later answers carry its number."""

    KIND = "guidelines"
    version: int
    locale: str
    text: str


class UnitCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is answered: an output, an item (no system) or the document (no item)."""

    id: str
    item: ItemId | None
    system: str | None
    control: str | None = None
    expected: tuple[int | float, int | float] | None = None
    repeat_of: str | None = None


class UnitAdded(Event, frozen=True, kw_only=True):
    """A unit of work or a check; `texts` are the damaged outputs by cell, `rows` are pairs (item, is context)."""

    KIND = "unit"
    id: int
    rank: int
    document: str | None
    systems: list[str]
    rows: list[tuple[ItemId, bool]]
    cells: list[UnitCell]
    wanted: int
    kind: str
    texts: dict[str, str] | UnsetType = UNSET


class CellsAllocated(Event, frozen=True, kw_only=True):
    """Judgments that the allocator received and cells that it requested, as in `Allocator.state`."""

    KIND = "allocate"
    log: list[dict[str, Any]]


# -- assignments ---------------------------------------------------------------------------------------------------


class UnitPlanned(Event, frozen=True, kw_only=True):
    """An entry of an annotator's fixed list; `slots` is the order of the unit's systems."""

    KIND = "plan"
    assignment: str
    unit: int
    annotator: str
    position: int
    slots: list[int]
    policy: str
    seed: int
    probability: float


class UnitLeased(UnitPlanned, frozen=True, kw_only=True):
    """An annotator got a unit."""

    KIND = "lease"
    expires: float


class LeaseResumed(Event, frozen=True, kw_only=True):
    """A planned or expired assignment was leased (again)."""

    KIND = "resume"
    assignment: str
    expires: float


class UnitReturned(Event, frozen=True, kw_only=True):
    """An annotator gave a unit back."""

    KIND = "return"
    PERSONAL = ("reason",)
    assignment: str
    reason: MaybeText = UNSET


class LeaseExpired(Event, frozen=True, kw_only=True):
    """A lease ended; an entry of a fixed list (`keep`) waits for its annotator."""

    KIND = "expire"
    assignment: str
    keep: bool = False


class AssignmentRevoked(Event, frozen=True, kw_only=True):
    """The organiser took a unit away for good."""

    KIND = "revoke"
    assignment: str


class AnswerSaved(Event, frozen=True, kw_only=True):
    """An answer to a cell was given or changed."""

    KIND = "save"
    IS_ANSWER = True
    assignment: str
    cell: str
    answer: msgspec.Raw
    active_ms: int
    idle_ms: int
    writer: str | None = None
    guidelines: int
    expires: float


class UnitSubmitted(Event, frozen=True, kw_only=True):
    """A unit is finished. `surplus`: its lease had expired and somebody else took it; `retake`: it was still free."""

    KIND = "submit"
    assignment: str
    surplus: bool = False
    retake: bool = False


# -- annotators ----------------------------------------------------------------------------------------------------


class AnnotatorAdded(Event, frozen=True, kw_only=True):
    """A person or an automatic judge; `offset_rank` is where in the order of units the annotator begins."""

    KIND = "annotator"
    PERSONAL = ("name",)
    id: str
    name: str
    kind: str
    locale: str
    token_number: int
    token_hash: str
    offset_rank: int
    extra: dict[str, Any] | UnsetType | None = UNSET


class AnnotatorChanged(OrganiserEvent, frozen=True, kw_only=True):
    """A fact of an annotator changed; events of version 2 have one `state` instead of three facts."""

    KIND = "annotator_state"
    PERSONAL = ("reason",)
    id: str
    link: MaybeText = UNSET
    work: MaybeText = UNSET
    counts: int | UnsetType = UNSET
    state: Literal["active", "paused", "excluded", "revoked"] | UnsetType = UNSET


class LinkRenewed(Event, frozen=True, kw_only=True):
    """An annotator has a new link."""

    KIND = "annotator_token"
    id: str
    token_number: int
    link: MaybeText = UNSET
    token_hash: str


class FormAnswered(Event, frozen=True, kw_only=True):
    """What an annotator said about himself or herself."""

    KIND = "form"
    IS_ANSWER = True
    annotator: str
    answer: msgspec.Raw


class QuizTaken(Event, frozen=True, kw_only=True):
    """An attempt at the questions on the instructions."""

    KIND = "quiz"
    IS_ANSWER = True
    annotator: str
    answers: list[str]
    passed: bool


class ExampleTaken(Event, frozen=True, kw_only=True):
    """An example of the tutorial was judged."""

    KIND = "example"
    IS_ANSWER = True
    annotator: str
    score: int | float | None
    right: bool | None


class WorkerArrived(Event, frozen=True, kw_only=True):
    """A visit of a crowd worker; the first one keeps the browser's secret."""

    KIND = "came"
    IS_ANSWER = True
    annotator: str
    visit: Visit
    secret: MaybeText = UNSET


class AnnotatorForgotten(OrganiserEvent, frozen=True, kw_only=True):
    """The data of a person were deleted; `alias` is the name that stays."""

    KIND = "forgotten"
    id: str
    alias: str


# -- what the organiser did ----------------------------------------------------------------------------------------


class StateChanged(OrganiserEvent, frozen=True, kw_only=True):
    """The campaign was opened, paused or closed."""

    KIND = "campaign_state"
    state: Literal["open", "paused", "closed"]


class JudgmentsWanted(OrganiserEvent, frozen=True, kw_only=True):
    """How often each output is judged."""

    KIND = "wanted"
    wanted: int


class WorkersLimited(OrganiserEvent, frozen=True, kw_only=True):
    """How many workers shared links let in."""

    KIND = "workers"
    most: int


class WorkRejudged(OrganiserEvent, frozen=True, kw_only=True):
    """The finished units of an annotator get one judgment more."""

    KIND = "rejudge"
    PERSONAL = ("reason",)
    id: str


class UnitsReassigned(OrganiserEvent, frozen=True, kw_only=True):
    """The open units of an annotator went back to the queue."""

    KIND = "reassigned"
    PERSONAL = ("reason",)
    id: str
    units: int


class MessageSent(OrganiserEvent, frozen=True, kw_only=True):
    """The organiser wrote to an annotator, or to everybody (no id)."""

    KIND = "message"
    PERSONAL = ("text", "reason")
    id: str | None
    text: str


class ItemsAdded(OrganiserEvent, frozen=True, kw_only=True):
    """More items are judged."""

    KIND = "topped_up"
    items: int
    selected: int


class SystemsAdded(OrganiserEvent, frozen=True, kw_only=True):
    """More systems are judged."""

    KIND = "systems_added"
    systems: list[str]


class GuidelinesChanged(OrganiserEvent, frozen=True, kw_only=True):
    """The organiser wrote other guidelines."""

    KIND = "guidelines_changed"
    version: int


class LinksRenewed(OrganiserEvent, frozen=True, kw_only=True):
    """Annotators got new links, or the shared links were renewed."""

    KIND = "links_renewed"
    PERSONAL = ("reason",)
    id: MaybeText = UNSET
    annotators: int
    link: MaybeText = UNSET


def _all_kinds(parent: type[Event]) -> list[type[Event]]:
    return [kind for child in parent.__subclasses__() for kind in (child, *_all_kinds(child))]


EVENT_TYPES: dict[str, type[Event]] = {kind.KIND: kind for kind in _all_kinds(Event) if kind is not OrganiserEvent}
"""Kind -> its struct."""


def read_event(kind: str, payload: str) -> Event | None:
    """Read an event of the log; None for a kind that changes no table."""
    event_type = EVENT_TYPES.get(kind)
    return None if event_type is None else msgspec.json.decode(payload, type=event_type)
