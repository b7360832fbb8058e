"""The API over a real server: fuzzed from its own schema, and each promise by itself."""

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serving import TOKEN, site_of

AS_PROGRAM = {"Authorization": f"Bearer {TOKEN}"}
ENDLESS = (1e9, 1e9)


@pytest.fixture
def schema(file):
    with site_of(file, reads=ENDLESS, writes=ENDLESS, strangers=ENDLESS) as site:
        address = f"{site.url}/api/v1/openapi.json"
        yield schemathesis.openapi.from_url(address, headers=AS_PROGRAM)


def test_whatever_is_asked_the_answer_is_one_that_the_schema_describes(schema):
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=25, deadline=None)
        def ask(case):
            # A schema cannot say which texts are a name, or a label that the pipeline can read.
            case.call_and_validate(headers=AS_PROGRAM, excluded_checks=[positive_data_acceptance])

        ask()
