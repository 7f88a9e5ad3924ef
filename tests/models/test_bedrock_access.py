"""How Bedrock is reached: addresses, regions, keys and signatures."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from typing import Any

import pytest

from windlass.errors import AuthFailed, ConfigError
from windlass.messages import Message
from windlass.models.base import Request, Settings
from windlass.models.registry.providers import resolve
from windlass.models.wires.bedrock import sigv4
from windlass.models.wires.bedrock.model import BedrockConverse

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
MODEL = BedrockConverse(CLAUDE, api_key="k", region="us-east-1")


# --------------------------------------------------------------------------- the address


def address(model: Any, stream: bool = True) -> Any:
    return asyncio.run(model._address_request(Settings(stream=stream), [b"{}"]))


def test_addresses() -> None:
    url, headers = address(MODEL)
    host = "https://bedrock-runtime.us-east-1.amazonaws.com"
    assert url == f"{host}/model/{CLAUDE}/converse-stream"
    assert headers["authorization"] == "Bearer k"
    assert address(MODEL, stream=False)[0] == f"{host}/model/{CLAUDE}/converse"
    arn = BedrockConverse("arn:aws:bedrock:x:1:p/q", api_key="k", base_url="http://gate/b/?v=1")
    assert address(arn)[0] == "http://gate/b/model/arn:aws:bedrock:x:1:p%2Fq/converse-stream?v=1"


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    named = resolve("bedrock:amazon.nova-pro-v1:0", environ={"AWS_DEFAULT_REGION": "eu-west-1"})
    assert named.url.startswith("https://bedrock-runtime.eu-west-1.amazonaws.com/model/amazon.nova")
    keyed = resolve("bedrock:m", environ={"AWS_REGION": "r", "AWS_BEARER_TOKEN_BEDROCK": "sesame"})
    keyed.check()
    assert keyed.secrets == ("sesame",)
    with pytest.raises(ConfigError, match="AWS_REGION"):
        BedrockConverse("m", api_key="k").check()
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert "us-west-2" in BedrockConverse("m", api_key="k").url


def test_without_key_and_without_botocore_the_way_out_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setattr(sigv4, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"windlass\[bedrock\].*AWS_BEARER_TOKEN_BEDROCK"):
        BedrockConverse("m", region="r").check()
    BedrockConverse("m", base_url="http://gate").check()  # a gateway of one's own asks for nothing
    BedrockConverse("m", region="r", headers={"authorization": "Bearer x"}).check()


# --------------------------------------------------------------------------- the signature


def expected_signature(secret: str, url: str, headers: dict[str, str], region: str) -> str:
    """What Amazon would compute, from its published recipe."""
    host, _, path = url.removeprefix("https://").partition("/")
    known = {**headers, "host": host}
    names = sorted(
        ("content-type", "host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token")
    )
    canonical = "\n".join(
        [
            "POST",
            "/" + path.replace("%", "%25").replace(":", "%3A"),
            "",
            *[f"{name}:{known[name]}" for name in names],
            "",
            ";".join(names),
            known["x-amz-content-sha256"],
        ]
    )
    day = known["x-amz-date"][:8]
    scope = f"{day}/{region}/bedrock/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = "\n".join(["AWS4-HMAC-SHA256", known["x-amz-date"], scope, digest])
    key = f"AWS4{secret}".encode()
    for part in (day, region, "bedrock", "aws4_request", to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


@pytest.mark.parametrize("name", [CLAUDE, "arn:aws:bedrock:us-east-1:1:inference-profile/x"])
def test_a_signed_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token")
    model = BedrockConverse(name, region="us-east-1")
    model.check()
    url, headers = asyncio.run(model._address_request(Settings(), [b'{"messages"', b":[]}"]))
    assert headers["x-amz-content-sha256"] == hashlib.sha256(b'{"messages":[]}').hexdigest()
    assert headers["x-amz-security-token"] == "session-token"
    given = headers["authorization"].rpartition("Signature=")[2]
    assert given == expected_signature("wJalrXUtnFEMI", url, headers, "us-east-1")


async def test_no_credentials_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    for name in (
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ):
        monkeypatch.delenv(name, raising=False)
    ask = Request([Message("user", "q")])
    with pytest.raises(AuthFailed, match="AWS_BEARER_TOKEN_BEDROCK"):
        await BedrockConverse("m", region="r").respond(ask, lambda _event: None)
    with pytest.raises(AuthFailed, match="nobody"):
        model = BedrockConverse("m", region="r", profile="nobody")
        await model.respond(ask, lambda _event: None)
