"""Open requests, and a labelling queue over them with its own clock."""

from streamboost.connectors.memory import MemoryLog, MemorySink, MemorySource
from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.queue import LabelQueue
from streamboost.pipelines.service.labelling.writers import LabelWriter

ANN, BEN = User("ann", "seat 1"), User("ben", "seat 2")
GRACE, LEASE = 3_000, 120_000


class Asked:
    """Open requests, as a pipeline would publish them."""

    def __init__(self, n=0):
        self.open = {str(i): self.one(str(i), 1 / (1 + i)) for i in range(n)}
        self.kept = {}

    @staticmethod
    def one(id, utility, sequence=1):
        return {"id": id, "utility": utility, "sequence": sequence}

    def request_ids(self):
        return sorted(self.open, key=lambda id: -self.open[id]["utility"])

    def request(self, id):
        return self.open.get(id)

    def labelled_record(self, id):
        return self.kept.get(id)

    def close(self, id, labels=()):
        """Let a request go that was answered, or has expired."""
        request = self.open.pop(id)
        self.kept[id] = request | {"asked": True, "labels": list(labels)}


class Desk:
    """A queue over requests, with a clock of its own and labels that go to memory."""

    def __init__(self, path, n=0, **settings):
        self.path, self.asked, self.now = path / "labelling.db", Asked(n), 1_000_000
        self.settings = settings
        self.log = MemoryLog()
        self.sink = MemorySink(self.log)
        self.queue = self.fresh()

    def fresh(self, **schema):
        """Another queue over the same file, as another process would have."""
        labels = LabelWriter(self.sink, Schema(label="string", numeric=["a"], **schema))
        timing = {"grace": GRACE, "lease": LEASE, "clock": lambda: self.now}
        return LabelQueue(self.path, self.asked, labels, **timing, **self.settings)

    def before(self, person):
        found = self.queue.lease_next(person)
        return found and found["id"]

    def written(self):
        schema = Schema(numeric=["a"])
        labels, dead = schema.decode_labels(read_all(self.log))
        assert not dead
        return list(zip(labels.ids, labels.labels, labels.sources, strict=True))


def read_all(log):
    return MemorySource(log).poll(10_000)
