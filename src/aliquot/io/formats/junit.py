"""JUnit XML, which CI systems show as a table of tests: a test case for each decision."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence

from aliquot.core.statements import Decision

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CHILD = {"failed": "failure", "undecided": "skipped"}


def format_junit(
    suite: str, decisions: Sequence[Decision], *, signature: str = "", summary: str | None = None
) -> bytes:
    """Format decisions as one test suite: a failed one is a failure, an undecided one a skipped test.

    >>> print(format_junit("gate", [Decision("A vs B", "undecided", "too few judgments")]).decode())
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites><testsuite name="gate" tests="1" failures="0" errors="0" skipped="1" time="0"><testcase ...
    """
    counts = Counter(decision.outcome for decision in decisions)
    totals = {"tests": len(decisions), "failures": counts["failed"], "errors": 0, "skipped": counts["undecided"]}
    root = ET.Element("testsuites")
    element = _add(root, "testsuite", name=suite, **{name: str(count) for name, count in totals.items()}, time="0")
    if signature:
        _add(_add(element, "properties"), "property", name="signature", value=signature)
    for decision in decisions:
        case = _add(element, "testcase", classname=suite, name=decision.name, time="0")
        if decision.outcome in _CHILD:
            _add(case, _CHILD[decision.outcome], message=decision.message)
        else:
            _add(case, "system-out").text = _replace_invalid(decision.message)
    if summary:
        _add(element, "system-out").text = _replace_invalid(summary)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _add(parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
    return ET.SubElement(parent, tag, {name: _replace_invalid(value) for name, value in attributes.items()})


def _replace_invalid(text: str) -> str:
    """Replace the characters that XML cannot hold, escaped or not."""
    return _NOT_XML.sub("\ufffd", text)
