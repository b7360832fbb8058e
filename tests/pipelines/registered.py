"""Pipelines whose topics have schema registry formats, and the content of these topics."""

import io
import json
from contextlib import closing

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from streamboost.pipelines.config.file import load
from tests.pipelines.operated import taken

RECORD = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "a", "type": ["null", "double"]},
        {"name": "b", "type": "double"},
    ],
}
LATER = RECORD | {"fields": [*RECORD["fields"], {"name": "c", "type": "long", "default": 0}]}
LABEL = {
    "type": "record",
    "name": "Label",
    "fields": [{"name": "id", "type": "string"}, {"name": "label", "type": "string"}],
}
FORMATTED = ("source", "labels", "predictions", "requests", "dead_letters")


def client(url):
    return SchemaRegistryClient({"url": url, "max.retries": 0, "timeout": 10})


def register(url, subject, schema, kind="AVRO"):
    with client(url) as asked:
        return asked.register_schema(subject, Schema(json.dumps(schema), kind))


def newest(url, subject):
    with client(url) as asked:
        return json.loads(asked.get_latest_version(subject).schema.schema_str)


def framed(id, body):
    return b"\0" + id.to_bytes(4, "big") + body


def in_avro(id, schema, value):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return framed(id, file.getvalue())


def formatted(made, url, format="avro", sections=FORMATTED):
    """Put these sections of a pipeline's file into a format; return the file as it is read."""
    text = made.file.read_text()
    text += f'\n[schema_registry]\nurl = "{url}"\n'
    for name in sections:
        keys = f'[{name}]\nconnector = "kafka"\n'
        text = text.replace(keys, "") + f'{keys}format = "{format}"\n'
    made.file.write_text(text)
    return load(made.file)


def put(made, payloads, topic="records", **more):
    with closing(made.cluster.create_producer()) as producer:
        for payload in payloads:
            producer.send(f"{made.name}.{topic}", payload, **more)
        producer.flush()


def values(made, url, topic):
    """Return the values of a topic in Avro, read by the schema that is registered."""
    schema = fastavro.parse_schema(newest(url, f"{made.name}.{topic}-value"))
    bodies = (message.payload[5:] for message in taken(made, topic))
    return [fastavro.schemaless_reader(io.BytesIO(body), schema, None) for body in bodies]
