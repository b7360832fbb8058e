"""Random actions of several annotators on one queue, against a model of the queue."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamboost.errors import StateError
from streamboost.pipelines.service.auth.users import User
from tests.pipelines.service.labelling.desks import ANN, GRACE, LEASE, Desk

PEOPLE = st.sampled_from([ANN, User("cy", "seat 3"), User("cy", "seat 4")])
ACTIONS = ["answer", "answer", "skip", "not_sure"]


class Office(RuleBasedStateMachine):
    """Three people, one of them at two seats, over requests that come and come again."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.desk = Desk(Path(self.folder.name), 4)
        self.leases = {}  # by record: the seat, and until when
        self.entries = []  # of all that was done: a dictionary each

    def teardown(self):
        self.desk.queue.close()
        self.folder.cleanup()

    def holder(self, id):
        seat, until = self.leases.get(id, (None, 0))
        return seat if until > self.desk.now else None

    def done(self, id):
        return [e for e in self.entries if e["id"] == id and e["stage"] != "undone"]

    def is_answered(self, id):
        return any(e["action"] == "label" for e in self.done(id))

    def give(self, person, id):
        self.leases = {i: lease for i, lease in self.leases.items() if lease[0] != person.seat}
        self.leases[id] = (person.seat, self.desk.now + LEASE)

    @rule(utility=st.integers(0, 9))
    def ask(self, utility):
        asked = self.desk.asked
        id = str(len(self.desk.asked.open))
        asked.open[id] = asked.one(id, utility)

    @rule(data=st.data())
    def ask_again(self, data):
        id = data.draw(st.sampled_from(sorted(self.desk.asked.open)))
        self.desk.asked.open[id] |= {"sequence": 1 + self.desk.asked.open[id]["sequence"]}
        self.entries = [e | {"id": None} if e["id"] == id else e for e in self.entries]

    @rule(person=PEOPLE)
    def look(self, person):
        found = self.desk.before(person)
        mine = [i for i in self.leases if self.holder(i) == person.seat]
        mine = [i for i in mine if not self.is_answered(i)]
        if mine:
            assert found == mine[0]
        elif found is None:
            assert not self.choices(person)
        else:
            least, best = max((-n, u) for n, u, _ in self.choices(person))
            assert (-least, best, found) in self.choices(person)
        if found is not None:
            self.give(person, found)

    def choices(self, person):
        """Return, of all that `person` may get, how often they skipped it, its utility and id."""
        found = set()
        for id, request in self.desk.asked.open.items():
            mine = [e["action"] for e in self.done(id) if e["person"].name == person.name]
            if self.holder(id) is None and not self.is_answered(id) and "not_sure" not in mine:
                found.add((mine.count("skip"), request["utility"], id))
        return found

    @rule(person=PEOPLE, action=st.sampled_from(ACTIONS), data=st.data())
    def act(self, person, action, data):
        id = data.draw(st.sampled_from(sorted(self.desk.asked.open)))
        arguments = (data.draw(st.sampled_from("xyz")),) if action == "answer" else ()
        may = self.holder(id) in (None, person.seat) and not self.is_answered(id)
        try:
            method = "mark_unsure" if action == "not_sure" else action
            entry = getattr(self.desk.queue, method)(person, id, *arguments)
        except StateError:
            assert not may
            return
        assert may
        self.leases.pop(id, None)
        self.entries.append(
            {"id": id, "of": id, "person": person, "action": entry.action, "stage": entry.stage,
             "label": entry.label, "time": self.desk.now}
        )  # fmt: skip

    @rule(person=PEOPLE)
    def undo(self, person):
        mine = [e for e in self.entries if e["person"] == person and e["stage"] != "undone"]
        may = bool(mine) and mine[-1]["stage"] != "written"
        try:
            entry = self.desk.queue.undo(person)
        except StateError:
            assert not may
            return
        assert may
        assert entry.id == mine[-1]["of"]
        mine[-1]["stage"] = "undone"
        if self.holder(entry.id) is None:
            self.give(person, entry.id)

    @rule(milliseconds=st.sampled_from([0, 1, GRACE // 2, GRACE, GRACE, LEASE]))
    def wait(self, milliseconds):
        self.desk.now += milliseconds
        self.desk.queue.write_due_labels()
        for entry in self.entries:
            if entry["stage"] == "held" and entry["time"] <= self.desk.now - GRACE:
                entry["stage"] = "written"

    @rule()
    def restart(self):
        self.desk.queue.close()
        self.desk.queue = self.desk.fresh()

    @invariant()
    def written_is_what_was_given_and_not_undone(self):
        assert self.desk.written() == [
            (e["of"], e["label"], e["person"].name) for e in self.entries if e["stage"] == "written"
        ]


TestOffice = Office.TestCase
TestOffice.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
