"""Options of Kafka's clients: passed on, or refused by name."""

import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from streamboost.connectors.kafka_cluster import KafkaCluster
from streamboost.errors import ConfigurationError


class Tokens(AbstractTokenProvider):
    """Gives a token of no worth."""

    def token(self):
        return "token"


def test_an_option_that_no_client_knows_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigurationError, match="did you mean 'sasl_mechanism'"):
        KafkaCluster("localhost:9092", {"sasl_mechanisms": "PLAIN"})


@pytest.mark.parametrize("name", ["enable_auto_commit", "isolation_level", "transactional_id"])
def test_an_option_that_a_guarantee_rests_on_cannot_be_set(name):
    with pytest.raises(ConfigurationError, match=f"{name}' cannot be set: "):
        KafkaCluster("localhost:9092", {name: "x"})


def test_options_that_do_not_fit_each_other_are_refused_before_connecting():
    with pytest.raises(ConfigurationError, match="do not fit each other"):
        KafkaCluster("localhost:9092", {"fetch_max_wait_ms": 40_000}).consumer()


def test_each_client_takes_the_options_it_knows(monkeypatch):
    from streamboost.connectors import kafka_cluster

    made = {}
    for name in ("KafkaConsumer", "KafkaProducer"):
        monkeypatch.setattr(
            kafka_cluster, name, lambda name=name, **settings: made.update({name: settings})
        )
    cluster = KafkaCluster("a:1, b:2", {"linger_ms": 50, "fetch_max_bytes": 7})
    cluster.consumer()
    cluster.producer()
    assert made["KafkaConsumer"]["bootstrap_servers"] == ["a:1", "b:2"]
    assert made["KafkaConsumer"]["fetch_max_bytes"] == 7
    assert "linger_ms" not in made["KafkaConsumer"]
    assert made["KafkaProducer"]["linger_ms"] == 50
    assert made["KafkaProducer"]["enable_idempotence"]


def test_a_token_provider_is_found_by_its_name(monkeypatch):
    from streamboost.connectors import kafka_cluster

    made = {}
    monkeypatch.setattr(kafka_cluster, "KafkaConsumer", lambda **settings: made.update(settings))
    monkeypatch.setitem(__import__("sys").modules, "tokens", __import__("sys").modules[__name__])
    KafkaCluster("a:1", {"sasl_oauth_token_provider": "tokens:Tokens"}).consumer()
    assert made["sasl_oauth_token_provider"].token() == "token"


def test_a_token_provider_that_cannot_be_found_is_refused_by_name():
    cluster = KafkaCluster("a:1", {"sasl_oauth_token_provider": "no_such_module:Tokens"})
    with pytest.raises(ConfigurationError, match="no_such_module:Tokens"):
        cluster.consumer()
