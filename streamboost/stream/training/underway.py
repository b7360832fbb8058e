"""A training that has begun and whose committee does not serve yet."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamboost.storage import Arrays, part
from streamboost.stream.training.jobs import Job, from_arrays, in_arrays
from streamboost.stream.training.shadow import Shadow

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Underway"]


@dataclass(slots=True)
class Underway:
    """A training: what it works on, and then the committee that has come of it."""

    job: Job | None
    shadow: Shadow
    challenger: "Committee | None" = None

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return it in two parts: one as JSON can hold it, the other as arrays."""
        labels, rows = self.shadow.state()
        job, inputs = self.job.state() if self.job else (None, {})
        arrays = {f"shadow.{name}": array for name, array in rows.items()}
        arrays |= {f"job.{name}": array for name, array in inputs.items()}
        arrays |= in_arrays("challenger.", self.challenger)
        return {"job": job, "labels": labels, "most": self.shadow.most}, arrays

    @classmethod
    def resume(cls, about: dict[str, Any], arrays: Arrays) -> "Underway":
        """Return what `state` took apart."""
        shadow = Shadow.resume(about["most"], about["labels"], part(arrays, "shadow."))
        job = Job.resume(about["job"], part(arrays, "job.")) if about["job"] else None
        return cls(job, shadow, from_arrays("challenger.", arrays))
