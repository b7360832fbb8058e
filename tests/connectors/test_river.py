"""River's datasets as streams, and the oracle that answers with a delay."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from river import datasets

from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.connectors.river import RiverOracle, RiverSource, dataset_names
from streamboost.errors import ConfigurationError, ConnectorError

ROOT = Path(__file__).parents[2]


def test_every_record_is_given_in_the_dataset_s_order_without_its_label():
    source = RiverSource("ImageSegments")
    records = [json.loads(message.payload) for message in source.poll(10_000)]
    assert len(records) == 2310
    for index, (record, (features, _)) in enumerate(
        zip(records, datasets.ImageSegments(), strict=True)
    ):
        assert record == {"id": str(index)} | features
    assert source.position() == {"0": 2310}


def test_the_datasets_are_those_that_classify():
    names = dataset_names()
    assert {"ImageSegments", "Phishing", "Bananas", "Elec2"} <= set(names)
    assert not {"AirlinePassengers", "ChickWeights", "Yeast", "base", "synth"} & set(names)


@pytest.mark.parametrize("use", [RiverSource, lambda name: RiverOracle(name, None, 0, None)])
def test_an_unknown_dataset_is_refused_with_the_nearest_known_one(use):
    with pytest.raises(ConfigurationError, match=r"'ImageSegmnts'.*perhaps 'ImageSegments'"):
        use("ImageSegmnts")


def test_a_regression_dataset_is_not_known():
    with pytest.raises(ConfigurationError, match="classification"):
        RiverSource("TrumpApproval")


def test_a_dataset_that_is_not_here_says_how_to_fetch_it(monkeypatch):
    monkeypatch.setattr(datasets.Elec2, "is_downloaded", property(lambda _: False))
    with pytest.raises(ConfigurationError, match=r"datasets\.Elec2\(\)\.download\(\)"):
        RiverSource("Elec2")


def test_the_module_loads_without_river():
    code = "import sys, streamboost.connectors.river; print('river' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.fixture
def records():
    return RiverSource("ImageSegments")


@pytest.fixture
def requests():
    return MemoryLog()


def oracle_of(requests, records, delay=20, dataset="ImageSegments"):
    return RiverOracle(dataset, MemorySource(requests), delay, records)


def ids(messages):
    return [json.loads(message.payload)["id"] for message in messages]


@pytest.mark.parametrize("delay", [0, 1, 20])
def test_a_record_is_answered_once_so_many_further_ones_were_read(records, requests, delay):
    oracle = oracle_of(requests, records, delay)
    requests.append([b'{"id": "3"}'])
    records.poll(4 + delay - 1)
    assert oracle.poll(9) == []
    records.poll(1)
    assert ids(oracle.poll(9)) == ["3"]
    assert oracle.poll(9) == []


def test_answers_are_the_dataset_s_labels(records, requests):
    records.poll(3000)
    requests.append([b'{"id": "%d"}' % index for index in range(2290)])
    answers = [json.loads(message.payload) for message in oracle_of(requests, records).poll(9999)]
    truth = [label for _, label in datasets.ImageSegments()]
    assert answers == [
        {"id": str(index), "label": label} for index, label in enumerate(truth[:2290])
    ]


def test_labels_that_are_not_text_become_their_json_text():
    records, requests = RiverSource("Phishing"), MemoryLog()
    records.poll(10)
    requests.append([b'{"id": "0"}', b'{"id": "1"}'])
    answers = oracle_of(requests, records, 0, "Phishing").poll(9)
    truth = [label for _, label in datasets.Phishing().take(2)]
    assert [json.loads(answer.payload)["label"] for answer in answers] == [
        {True: "true", False: "false"}[label] for label in truth
    ]


def test_one_request_that_is_not_due_holds_those_behind_it(records, requests):
    oracle = oracle_of(requests, records)
    records.poll(30)
    requests.append([b'{"id": "1"}', b'{"id": "25"}', b'{"id": "2"}'])
    assert ids(oracle.poll(9)) == ["1"]
    assert oracle.position() == {"0": 1}
    assert oracle.poll(9) == []
    records.poll(16)
    assert ids(oracle.poll(9)) == ["25", "2"]
    assert oracle.position() == {"0": 3}


def test_the_position_is_that_in_the_requests_log(records, requests):
    requests.append([b'{"id": "%d"}' % index for index in range(5)])
    records.poll(100)
    oracle, requests_source = oracle_of(requests, records), MemorySource(requests)
    oracle.poll(2)
    requests_source.poll(2)
    assert oracle.position() == requests_source.position()
    again = oracle_of(requests, records)
    again.seek(oracle.position())
    assert again.poll(9) == oracle.poll(9)


@pytest.mark.parametrize(
    "damaged", [b"{", b'{"id": "x"}', b'{"id": "-1"}', b'{"id": 7}', b'{"id": "2310"}']
)
def test_a_request_for_no_record_is_an_error_and_those_before_it_are_not_lost(
    records, requests, damaged
):
    requests.append([b'{"id": "0"}', damaged])
    records.seek({"0": 2310})
    records.position = lambda: {"0": 5000}
    oracle = oracle_of(requests, records)
    with pytest.raises(ConnectorError, match="ImageSegments"):
        oracle.poll(9)
    assert ids(oracle.poll(1)) == ["0"]


def test_a_negative_delay_is_refused(records, requests):
    with pytest.raises(ConfigurationError, match="delay = -1"):
        oracle_of(requests, records, -1)
