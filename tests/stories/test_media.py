"""Images and documents in a prompt: from a file, from bytes, from an address."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, scripted

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
JPEG = b"\xff\xd8\xff\xe0" + b"1" * 40
PDF = b"%PDF-1.7 " + b"2" * 40


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_image_of_a_file_reaches_the_model(tmp_path: Path):
    (tmp_path / "cat.jpg").write_bytes(PNG)  # named wrongly: the content counts
    model = scripted("A cat.")
    out = await w.Agent(model).run(["What is it?", w.Image.from_file(tmp_path / "cat.jpg")])
    assert out.output == "A cat."
    sent = [block for message in model.requests[0].messages for block in message.content]
    assert sent[-1] == w.Image(in_base64(PNG), "image/png")


def test_media_are_made_of_files_bytes_and_addresses(tmp_path: Path):
    (tmp_path / "terms.pdf").write_bytes(PDF)
    (tmp_path / "notes.txt").write_text("hello")
    assert w.Image.from_bytes(JPEG) == w.Image(in_base64(JPEG), "image/jpeg")
    assert w.Image.from_bytes(b"bitmap", "image/bmp").media_type == "image/bmp"
    assert w.Image.from_bytes(b"RIFF1234WEBPVP8 ").media_type == "image/webp"
    assert w.Image.from_url("https://example.com/a.png").url == "https://example.com/a.png"
    terms = w.Document.from_file(str(tmp_path / "terms.pdf"))
    assert terms == w.Document(in_base64(PDF), "application/pdf", title="terms.pdf")
    assert w.Document.from_file(tmp_path / "notes.txt").media_type == "text/plain"
    assert w.Document.from_bytes(PDF).media_type == "application/pdf"
    assert w.Document.from_url("https://example.com/a.pdf", title="A").title == "A"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: w.Image.from_file("no/such.png"), "No such file"),
        (lambda: w.Image.from_file("https://x.org/a.png"), "use Image.from_url"),
        (lambda: w.Image.from_url("cat.png"), "for a file: Image.from_file"),
        (lambda: w.Image.from_bytes(b"what is it"), "media_type='image/"),
        (lambda: w.Image.from_bytes(PDF), "media_type='image/"),
        (lambda: w.Image.from_bytes(b""), "there are no bytes"),
        (lambda: w.Document.from_bytes("text"), "Document.from_bytes"),
    ],
)
def test_what_cannot_be_an_image_is_refused_with_the_right_call(make: Any, message: str):
    with pytest.raises(w.ConfigError) as raised:
        make()
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (w.Image("cat.png"), "use Image.from_file('cat.png')"),
        (w.Image("/mnt/photos/my-cat"), "use Image.from_file('/mnt/photos/my-cat')"),
        (
            w.Image("https://example.com/cat.png"),
            "use Image.from_url('https://example.com/cat.png')",
        ),
        (w.Image(url="cat.png"), "use Image.from_file('cat.png')"),
        (w.Document("terms.pdf"), "use Document.from_file('terms.pdf')"),
        (w.Image(), "use Image.from_file, Image.from_url or Image.from_bytes"),
        ({"type": "image", "data": "cat.png"}, "use Image.from_file('cat.png')"),
    ],
)
async def test_bare_path_or_address_is_refused_before_the_first_call(block: Any, message: str):
    model = scripted("never")
    for ask in (
        lambda: w.Agent(model).run(["Look.", block]),
        lambda: w.llm_call([{"role": "user", "content": [block]}], model=model),
    ):
        with pytest.raises(w.ConfigError) as raised:
            await ask()
        assert message in str(raised.value)
    assert not model.requests


async def test_bare_path_in_a_tool_result_is_told_to_the_model():
    @w.tool
    def photo() -> w.Image:
        """Take a photo."""
        return w.Image("cat.png")

    model = scripted(call("photo"), "ok")
    await w.Agent(model, tools=[photo]).run("go")
    assert "use Image.from_file('cat.png')" in str(model.requests[1].messages[-1])


async def test_short_base64_that_begins_like_a_path_is_taken():
    jpeg = in_base64(b"\xff\xd8\xff")
    assert jpeg.startswith("/9j")
    out = await w.Agent(scripted("ok")).run([w.Image(jpeg, "image/jpeg")])
    assert out.output == "ok"
