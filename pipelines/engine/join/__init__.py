"""Labels find their records: what is held, for how long, and what each label does.

Every record is held with its features and the prediction made on its arrival for `window`
records (or seconds). A record whose label was asked for stays until its request expires. A label
that comes before its record waits for one window. Waits go on only while all records there are
have been read, and requests expire only while all records and labels have: nobody can answer what
a backlog asks while it is read, and what is to be found in it was not late.

==============================================  ============================  ===============
a label arrives                                 what happens                  counted as
==============================================  ============================  ===============
for a record whose label was asked for          learnt, with its propensity   ``answered``
for a held record that nobody asked for         learnt, propensity NaN        ``unasked``
before its record                               waits; learnt with the record ``early``, and then
                                                when that comes               as above
after an unasked record left the window         dropped: its features are     ``late``
                                                gone
after its request expired                       dropped                       ``expired``
again, with the value it had                    dropped                       ``duplicate``
again, with another value, for a record of the  by `on_conflict`: the newest  ``corrected``
working set                                     holds, or it has a vote
so, but the first is to stay, or the working    dropped                       ``conflicting``
set has the record no more
null, for a record that has a label             takes it back                 ``taken_back``
null, for another; or it waited and was taken   dropped                       ``void``
back
and no record came while it waited              dropped                       ``unknown``
==============================================  ============================  ===============

What a record's label was, or why it is gone, is remembered for one more window after the record
left. A label later than that is found by its id in the working set; where that has it not, it
cannot be told from an early one, waits like it, and ends as ``unknown``. Of labels that wait for
one record the newest holds, or else the first. A label of a class never seen before is simply
learnt. A record whose id is still held is a duplicate: it is not predicted again, and goes to the
dead letters.

A step calls, in this order, `advance` (what has run out leaves), `fresh` (duplicates out), `add`
(the batch's records) and `resolve` (the batch's labels).
"""

from streamboost.pipelines.engine.join.join import Join

__all__ = ["Join"]
