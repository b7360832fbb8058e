"""What the labels that were asked for say of the predictions: figures, temperature, label sets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamboost.active.query import Requests
from streamboost.storage import Arrays, pack_json, part, unpack_json
from streamboost.stream.calibration.label_sets import LabelSets, reaches, unseen_share
from streamboost.stream.calibration.temperature import Temperature
from streamboost.stream.checks import Label
from streamboost.stream.evaluation.evaluation import Evaluation
from streamboost.stream.scoring import Scored, uncalibrated

__all__ = ["Judge"]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What was said of a record whose label was asked for."""

    classes: list[Label]
    known: int  # labels known on arrival: the committee's, and those it was not yet trained on
    logits: np.ndarray  # of the committee itself, at temperature 1
    threshold: float
    unseen: float  # probability of a label that nobody had named
    weight: float
    expected: float  # chance that the set held the label


class Judge:
    """Holds what was predicted until the labels asked for come, and tells what they say.

    Parameters
    ----------
    block
        m, the records in an audit's block, 0 without audits.
    calibrate
        Give probabilities at the temperature that suits the labels; else as the committee's.
    coverage
        The share of label sets that are to hold the true label.
    pool
        So many of the newest records may be asked about after their arrival.
    """

    def __init__(self, block: int, *, calibrate: bool, coverage: float, pool: int = 0) -> None:
        self.evaluation = Evaluation(block, pool=pool)
        self.temperature = Temperature()
        self.label_sets = LabelSets(coverage)
        self.calibrate = calibrate
        self._asked: dict[str, _Asked] = {}

    def calibrated(self, scored: Scored) -> Scored:
        """Return `scored` with its probabilities at the temperature; the rest stays."""
        if not self.calibrate or self.temperature.value == 1.0 or scored.version == 0:
            return scored
        probabilities = self.temperature.apply(scored.probabilities)
        return replace(scored, probabilities=probabilities, temperature=self.temperature.value)

    def sets(self, scored: Scored) -> list[list[Label | None]]:
        """Return each record's set of labels, the likeliest first.

        Labels that the committee was not yet trained on have probability 0, and come behind the
        others; last comes None, for any label that nobody has named.
        """
        # A temperature that moves would make the newest probabilities no match for those that the
        # threshold was drawn from.
        P = uncalibrated(scored).probabilities
        threshold, unseen = self._cut()
        order = np.argsort(-P, axis=1, kind="stable")
        sizes = np.count_nonzero(reaches(P, threshold), axis=1)
        classes = scored.classes.tolist()
        others: list[Label | None] = []
        if reaches(0.0, threshold):
            others += [label for label in self.evaluation.labels if label not in classes]
        if reaches(unseen, threshold):
            others.append(None)
        return [
            [classes[k] for k in row[:size]] + others
            for row, size in zip(order.tolist(), sizes.tolist(), strict=True)
        ]

    def _cut(self) -> tuple[float, float]:
        """Return the threshold now, and the probability of a label that nobody has named."""
        unseen = unseen_share(self.evaluation.counts)
        return self.label_sets.threshold(unseen), unseen

    def arrive(self, ids: Sequence[str], scored: Scored, asked: Requests) -> None:
        """Note what was said of records, and which of them are asked about."""
        own = uncalibrated(scored).probabilities
        chances = dict(zip(asked.ids, asked.propensity.tolist(), strict=True))
        in_pool = self.evaluation.pool > 0
        rows = [i for i, id in enumerate(ids) if in_pool or id in chances]
        if scored.version:
            cut = self._cut()
            expected = self.label_sets.arrive(own, scored.probabilities, cut[1])
            self._note(rows, ids, own, scored.classes.tolist(), chances, cut, expected)
        propensity = np.full(len(ids), np.nan)
        if not in_pool:
            propensity[rows] = [chances[ids[i]] for i in rows]
        self.evaluation.arrive(ids, scored, propensity, asked.chances)
        if in_pool:
            self.ask(asked)
        while len(self._asked) > self.evaluation.patience + self.evaluation.pool:
            del self._asked[next(iter(self._asked))]

    def _note(
        self,
        rows: list[int],
        ids: Sequence[str],
        own: np.ndarray,
        classes: list[Label],
        chances: dict[str, float],
        cut: tuple[float, float],
        expected: np.ndarray,
    ) -> None:
        """Note what the committee itself said of the `rows` that are, or may be, asked about."""
        if not rows:
            return
        known = len(self.evaluation.labels)
        least = 1.0 / max(self.evaluation.block, 1)
        with np.errstate(divide="ignore"):
            logits = np.log(own[rows])
        for i, said in zip(rows, logits, strict=True):
            weight = 1.0 / max(chances.get(ids[i], 1.0), least)
            about = (*cut, weight, float(expected[i]))
            self._asked[ids[i]] = _Asked(classes, known, said, *about)

    def ask(self, asked: Requests) -> None:
        """Note which records of the pool are asked about, each once at the most.

        Who is chosen by a round stands for nobody else, however small its chance: the audit draws
        from those that no round has chosen, and makes up for them.
        """
        chances = np.where(asked.rule, 1.0, asked.propensity)
        for id, chance in zip(asked.ids, chances.tolist(), strict=True):
            if id in self._asked:
                self._asked[id] = replace(self._asked[id], weight=1.0 / chance)
        for id in self.evaluation.ask(asked.ids, chances):
            self._asked.pop(id, None)

    def label(self, ids: Sequence[str], labels: Sequence[Label]) -> None:
        """Take in labels in the order they came; those of no record that waits estimate nothing."""
        self.evaluation.label_checked(ids, labels)
        for id, label in zip(ids, labels, strict=True):
            if (asked := self._asked.pop(id, None)) is not None:
                self._learn(asked, label)

    def said(self, id: str) -> tuple[list[Label], np.ndarray] | None:
        """Return classes and probabilities (K,) of a record whose request is open; else None.

        They are those of its arrival, at the temperature of now.
        """
        asked = self._asked.get(id)
        if asked is None:
            return None
        P = np.exp(asked.logits - asked.logits.max())[None]
        return asked.classes, self.temperature.apply(P)[0] if self.calibrate else (P / P.sum())[0]

    def correct(self, id: str, before: Label, label: Label | None) -> None:
        """Take in that a record's label, known as `before`, is another; None: it is not known.

        Temperature and label sets keep what the first one taught.
        """
        self.evaluation.correct(id, before, label)

    def rename(self, label: Label, into: Label | None) -> None:
        """Let one class be another from now on; what has been judged stays so."""
        self.evaluation.rename(label, into)

    def observe(self, scored: Scored, labels: Sequence[Label]) -> None:
        """Take in the labels of records just scored, where every record's label comes."""
        if not scored.version:
            return
        own = uncalibrated(scored).probabilities
        with np.errstate(divide="ignore"):
            logits = np.log(own)
        classes, known = scored.classes.tolist(), len(self.evaluation.labels)
        cut = self._cut()
        expected = self.label_sets.arrive(own, scored.probabilities, cut[1]).tolist()
        for row, chance, label in zip(logits, expected, labels, strict=True):
            self._learn(_Asked(classes, known, row, *cut, 1.0, chance), label)

    def expire(self, ids: Sequence[str]) -> None:
        """Wait no longer for the labels of these requests."""
        self.evaluation.expire(ids)
        for id in ids:
            self._asked.pop(id, None)

    def _learn(self, asked: _Asked, label: Label) -> None:
        if label in asked.classes:
            k = asked.classes.index(label)
            probability = float(np.exp(asked.logits[k]))
            self.temperature.learn(asked.logits, k, asked.weight)
        else:
            known = self.evaluation.labels.get(label, asked.known) < asked.known
            probability = 0.0 if known else asked.unseen
        held = bool(reaches(probability, asked.threshold))
        self.label_sets.learn(held, asked.expected, asked.weight)

    def state(self) -> Arrays:
        """Return all that changes, as arrays."""
        evaluation, arrays = self.evaluation.state()
        asked = [
            (id, one.classes, one.known, one.threshold, one.unseen, one.weight, one.expected)
            for id, one in self._asked.items()
        ]
        about = {
            "evaluation": evaluation,
            "temperature": self.temperature.state(),
            "label_sets": self.label_sets.state(),
            "asked": asked,
        }
        logits = [one.logits for one in self._asked.values()]
        return {
            "about": pack_json(about),
            "logits": np.concatenate(logits) if logits else np.zeros(0),
            **{f"evaluation.{name}": array for name, array in arrays.items()},
        }

    def resume(self, arrays: Arrays) -> None:
        """Go on from what `state` returned for a judge of the same settings."""
        about = unpack_json(arrays["about"])
        self.evaluation.resume(about["evaluation"], part(arrays, "evaluation."))
        self.temperature.resume(about["temperature"])
        self.label_sets.resume(about["label_sets"])
        self._asked, start = {}, 0
        for id, classes, known, *rest in about["asked"]:
            logits = arrays["logits"][start : start + len(classes)].copy()
            self._asked[id] = _Asked(classes, known, logits, *rest)
            start += len(classes)
