"""The words of verdicts, in one place: of claims, and of the audit of published numbers."""

from __future__ import annotations

from typing import Literal, get_args

AuditVerdict = Literal["physically impossible", "self-contradictory", "wrong", "consistent"]
AUDIT_VERDICTS: tuple[AuditVerdict, ...] = get_args(AuditVerdict)  # the gravest first
