"""Generated requests to the real server: none fails inside, and answers are as described."""

import logging

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from serving import serving

pytestmark = pytest.mark.ci

EXAMPLES = 75  #: requests of each kind to each address


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_generated_requests_are_answered_as_the_description_says(caplog, mode):
    schemathesis = pytest.importorskip("schemathesis", reason="needs the extra 'test'")
    bearer = {"Authorization": "Bearer s3cret"}
    # A row can fit its schema and still not be ranked: its compound is blank, say.
    semantic = [schemathesis.checks.positive_data_acceptance]
    with serving(token="s3cret") as served:
        described = f"{served.address}v1/openapi.json"
        schema = schemathesis.openapi.from_url(described, headers=bearer)
        for found in schema.get_all_operations():
            cases = found.ok().as_strategy(generation_mode=schemathesis.GenerationMode(mode))

            @given(case=cases)
            @settings(
                max_examples=EXAMPLES,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def check(case) -> None:
                case.call_and_validate(headers=bearer, excluded_checks=semantic)

            check()
        assert served.client.get("/healthz").status_code == 200
        assert not served.service.bodies.size
        assert not list(served.service.folder.iterdir())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
