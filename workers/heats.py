"""Heats: candidates that a child times in turns as one, and what it has said of them."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.measure import MeasureFailed
from workers.frames import Frame

HEAT = 24
"""Candidates that are timed in turns as one, a thread of each; those of teams keep threads waiting, and are fewer."""


@dataclass
class Heat:
    """What a child has said of the heat that it is at.

    Attributes:
        most: candidates of the batch without an answer.
        paced: whether each heat has a pacer.
        pacer_ready: whether its pacer can be timed, or is left out.
        verified: candidates of the heat that are, and have no answer.
        timing: whether the heat is being timed.
    """

    most: int
    paced: bool = False
    pacer_ready: bool = False
    verified: int = 0
    timing: bool = False

    def hears(self, answer: Frame | MeasureFailed) -> bool:
        """Whether it only says how far it has come; what it cannot have come to is no such answer."""
        event = answer.header.get("event") if isinstance(answer, Frame) else None
        if event == "pacer" and self._waits_for_pacer:
            self.pacer_ready = True
            return True
        if (
            event == "verified"
            and not self.timing
            and not self._waits_for_pacer
            and self.verified < self.most
        ):
            self.verified += 1
            return True
        if event == "timing" and not self.timing and self.verified:
            self.timing = True
            return True
        return False

    def answered(self) -> None:
        """One of them has a result."""
        self.most -= 1
        self.verified -= 1
        self.timing = self.verified > 0
        self.pacer_ready = self.timing

    @property
    def patience(self) -> int:
        """Candidates that may take their time before it speaks again."""
        return self.verified + self.paced if self.timing else 1

    @property
    def culprit(self) -> int | None:
        """Who has ended the child, if it has ended: 0 is the first without a result; None: one of several."""
        if self._waits_for_pacer:
            return None
        if not self.timing:
            return min(self.verified, self.most - 1)
        return 0 if self.verified == 1 and not self.paced else None

    @property
    def _waits_for_pacer(self) -> bool:
        return self.paced and not self.pacer_ready
