import hashlib
from dataclasses import replace

from toys import OWL, PAPER, ScriptedChat, WordEncoder

from admire import rank


def test_the_record_is_of_what_the_run_began_with(tmp_path):
    """Files that are edited while a run goes on are recorded as the run read them."""
    source, prompts = tmp_path / "items.tsv", tmp_path / "prompts"
    prompts.mkdir()
    template = "Is '{{ compound }}' meant literally in this one: {{ sentence }}"
    (prompts / "sense_en.j2").write_text(template)
    source.write_text("before")

    def edits(prompt: str) -> str:
        source.write_text("after")
        (prompts / "sense_en.j2").write_text("literally?")
        return "Literal" if "literally in this one" in prompt else "who knows"

    chat = ScriptedChat(edits)
    settings = replace(PAPER, prompts=prompts)
    run = rank([OWL], settings, llms=[chat], encoder=WordEncoder(), source=source)
    assert all("literally in this one" in prompt for prompt in chat.prompts)
    assert run.record["source"]["sha256"] == hashlib.sha256(b"before").hexdigest()
    expected = hashlib.sha256(template.encode()).hexdigest()
    assert run.record["prompts"]["sense_en.j2"] == expected
    assert run.record["settings"]["prompts"] == str(prompts)
