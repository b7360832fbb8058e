"""Inference of field kinds from the first records."""

import random
import uuid

import pytest

from streamboost.features.fields import Field
from streamboost.features.inference import infer_fields

LOT = random.Random(7)
N = 400


def judged(values, name="field"):
    """Return the kind a field of these values is taken for (None: left out), and why."""
    found = infer_fields([{name: value} for value in values])
    field = found.fields.get(name)
    return (field.kind if field else None), found.reasons[name]


def sentence(words):
    return " ".join(LOT.choice(["to", "be", "or", "not", "so", "then"]) for _ in range(words))


NUMBERS = {
    "fractions": [LOT.expovariate(0.01) for _ in range(N)],
    "amounts in cents": [int(LOT.expovariate(1e-5)) for _ in range(N)],
    "as text": [f"{LOT.uniform(1, 100):.2f}" for _ in range(N)],
    "whole, as text": [str(int(LOT.gammavariate(3, 60_000))) for _ in range(N)],
    "true and false": [LOT.random() < 0.5 for _ in range(N)],
    "small counts": [LOT.randrange(20) for _ in range(N)],
    "nulls between": [LOT.choice([None, 1.5, 2]) for _ in range(N)],
    "some text between": [LOT.choice([1.5, 2, 3, "n/a"]) for _ in range(N)],
    "beyond all floats": [10**5_000 + n for n in range(N)][:3],
}


@pytest.mark.parametrize("case", NUMBERS)
def test_what_can_be_read_as_a_number_is_one(case):
    assert judged(NUMBERS[case])[0] == "number"


IDENTIFIERS = {
    "uuids": [str(uuid.UUID(int=LOT.getrandbits(128))) for _ in range(N)],
    "mails": [f"person{n}@example.org" for n in range(N)],
    "two words": [f"Ada Lovelace{n}" for n in range(N)],
    "numbers that count up": range(5_000, 5_000 + N),
    "numbers as text that count up": [str(7_000_000 + 3 * n) for n in range(N)],
    "numbers by lot": [LOT.randrange(10**6) for _ in range(N)],
    "long numbers": [4_000_000_000_000_000 + int(LOT.expovariate(1e-14)) for _ in range(N)],
}


@pytest.mark.parametrize("case", IDENTIFIERS)
def test_what_names_records_is_left_out_and_said_to_be(case):
    kind, why = judged(IDENTIFIERS[case])
    assert kind is None
    assert "identifier; name it as" in why


@pytest.mark.parametrize("name", ["amount", "price_cents", "totalCost", "order.value"])
def test_whole_numbers_called_an_amount_are_never_identifiers(name):
    for case in ("numbers that count up", "numbers by lot", "long numbers"):
        assert judged(IDENTIFIERS[case], name)[0] == "number"


def test_a_few_values_that_all_differ_are_no_identifier_yet():
    assert judged(["red", "green", "blue"])[0] == "category"
    assert judged(range(7))[0] == "number"
    assert judged([f"c{n}" for n in range(7)], "customer_id")[0] is None


def test_text_of_few_values_is_a_category():
    countries = [f"country {LOT.randrange(40)}" for _ in range(N)]
    assert judged(countries)[0] == "category"
    long_names = ["Married with a civil spouse at home", "Never was and never will be married"]
    assert judged(long_names * 100)[0] == "category"


@pytest.mark.parametrize("n", [200, 500])
def test_text_of_many_values_that_come_again_is_a_category_whose_rare_ones_share(n):
    of_3000 = [f"merchant-{min(int(LOT.paretovariate(0.6)), 3_000)}" for _ in range(n)]
    found = infer_fields([{"merchant": value} for value in of_3000])
    assert found.fields["merchant"].kind == "category"
    words = [f"w{n % 300}" for n in range(500)]
    assert infer_fields([{"w": word} for word in words]).fields == {"w": Field("category", 2)}


def test_text_of_many_words_is_text_also_where_each_is_another():
    notes = [sentence(12) + f" {n}" for n in range(N)]
    assert judged(notes)[0] == "text"
    assert judged(notes[:3])[0] == "text"
    assert judged([sentence(LOT.randrange(1, 9)) for _ in range(N)])[0] == "text"


def test_dates_and_times_are_times():
    assert judged([f"2026-03-0{d}T07:30:00Z" for d in range(1, 10)] * 9)[0] == "time"
    assert judged([f"2026-03-0{d}" for d in range(1, 10)])[0] == "time"
    for name in ("ts", "event_time", "createdAt", "order.timestamp"):
        assert judged([1_772_350_200 + 60 * n for n in range(N)], name)[0] == "time"
        assert judged([1_772_350_200_000.5 + 60 * n for n in range(N)], name)[0] == "time"
    assert judged(range(N), "time")[0] is None


def test_whole_numbers_that_look_like_codes_are_pointed_out():
    zips = [LOT.choice([10115, 20095, 80331, 50667]) for _ in range(N)]
    for name, values in {"zip": zips, "place": zips, "customer_id": [1, 2, 3] * 90}.items():
        kind, why = judged(values, name)
        assert kind == "number"
        assert "look like codes" in why
        assert '"category"' in why
    assert "codes" not in judged([LOT.randrange(1990, 2026) for _ in range(N)], "year")[1]
    assert "codes" not in judged(zips, "amount")[1]


def test_numbers_with_zeros_in_front_are_codes():
    assert judged(["02134", "10115", "00501"] * 30)[0] == "category"


def test_numbers_as_text_with_other_text_between_are_none_but_may_be_named_so():
    kind, why = judged([*(f"{n / 8}" for n in range(99)), "n/a"])
    assert kind is None
    assert '99 of 100 values are numbers: name it as "number", and the others are missing' in why
    assert judged([*(f"{n / 8}" for n in range(99)), "NaN"])[0] == "number"


def test_lists_of_numbers_of_one_length_are_vectors():
    found = infer_fields([{"vec": [1, 2.5, 3]}, {"vec": None}, {"vec": [0, 0, 0]}])
    assert found.fields == {"vec": Field("vector", size=3)}
    found = infer_fields([{"vec": [1]}, {"vec": [1, 2]}])
    assert found.fields == {}
    assert "1 to 2 numbers" in found.reasons["vec"]
    assert "vec.0" in found.reasons["vec"]


def test_what_is_nested_has_a_dotted_name():
    found = infer_fields([{"device": {"os": "ios", "cores": 4}, "items": [{"price": 1.5}]}] * 30)
    assert {name: field.kind for name, field in found.fields.items()} == {
        "device.os": "category",
        "device.cores": "number",
        "items.0.price": "number",
    }


def test_what_never_has_a_value_is_left_out():
    assert judged([None, "", " ", []]) == (None, "never has a value")


def test_reserved_and_excluded_fields_are_left_out_with_all_that_lies_within():
    record = {"id": 1, "card": {"no": "x", "bin": 3}, "a": 1.5, "label": "x"}
    found = infer_fields([record], reserved=["id", "label"], exclude=["card"])
    assert list(found.fields) == ["a"]
    assert set(found.reasons) == {"a", "card.no", "card.bin"}
    assert "excluded" in found.reasons["card.no"]


@pytest.mark.parametrize("given", [{"reserved": ["o.0"]}, {"exclude": ["o.0"]}])
def test_a_vector_with_a_reserved_or_excluded_position_is_left_out(given):
    found = infer_fields([{"o": [1.0, 2.5], "o.b": 1.5}, {"o": [0.5, 3.5], "o.b": 2.5}], **given)
    assert list(found.fields) == ["o.b"]
    assert found.reasons["o"] == ("o.0 in it is no feature: name the other positions to use them")


def test_what_is_named_holds_whatever_stands_there():
    named = {"n": Field("category"), "whole": Field("text"), "amout": Field("number")}
    found = infer_fields([{"n": 1, "whole": {"a": 1}, "amount": 2.5}], named=named)
    assert found.fields == named | {"whole.a": Field("number"), "amount": Field("number")}
    assert "none of 1 records has it; did you mean amount?" in found.reasons["amout"]
    assert "none" not in found.reasons["whole"]


def test_a_named_field_is_learned_from_also_where_it_is_reserved():
    found = infer_fields([{"ts": 5}], reserved=["ts"], named={"ts": Field("time")})
    assert found.fields == {"ts": Field("time")}


def test_nothing_to_look_at_gives_nothing():
    found = infer_fields([], named={"a": Field("number")})
    assert found.fields == {"a": Field("number")}


def test_what_is_an_object_in_most_records_is_no_field_beside_those_within():
    records = [{"device": "none" if i % 50 == 0 else {"os": "ios"}} for i in range(100)]
    records += [{"device": None}]
    found = infer_fields(records)
    assert list(found.fields) == ["device.os"]
    assert found.reasons["device"] == (
        "an object or a list in 98 of 100 records, whose fields stand for themselves"
    )


def test_an_object_that_may_be_null_is_not_said_to_have_no_value():
    found = infer_fields([{"device": None}, {"device": {"os": "ios"}}])
    assert "device" not in found.reasons


def test_a_name_with_a_dot_is_no_part_of_another_field():
    found = infer_fields([{"a.b": 1.5, "a": "x" if i % 3 == 0 else None} for i in range(30)])
    assert set(found.fields) == {"a", "a.b"}


def test_a_named_field_whose_values_are_of_another_kind_is_said_to_miss_them():
    records = [{"note": "please hurry", "amount": "1.5"}, {"note": "", "amount": "n/a"}]
    named = {"note": Field("number"), "amount": Field("number")}
    assert infer_fields(records, named=named).reasons == {
        "note": "as the file says; 1 of 1 values cannot be read as that, and are missing",
        "amount": "as the file says; 1 of 2 values cannot be read as that, and are missing",
    }


def test_a_field_without_a_name_is_left_out():
    found = infer_fields(
        [{"": n, "color": "red"} for n in range(9)], named={"size": Field("number")}
    )
    assert list(found.fields) == ["color", "size"]
    assert found.reasons[""] == "the field has no name"
