"""An MCP server that wants a bearer token, and the authorization server that gives it: on loopback."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

TOOL = {"name": "whoami", "inputSchema": {"type": "object"}}
Answer = web.Response


@dataclass
class Servers:
    """Both of them, on two ports; what they gave out, and what they were asked for."""

    expires_in: int = 3600
    token_answer: dict[str, Any] | None = None
    issuer: str = ""
    url: str = ""
    tokens: list[str] = field(default_factory=list)
    refresh_tokens: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    _runners: list[web.AppRunner] = field(default_factory=list)

    @property
    def secrets(self) -> list[str]:
        """Everything that must be in no page, log or error."""
        return [*self.tokens, *self.refresh_tokens, *self.codes]

    async def __aenter__(self) -> Servers:
        tools, people = web.Application(), web.Application()
        tools.router.add_post("/mcp", self._mcp)
        tools.router.add_get("/.well-known/oauth-protected-resource/mcp", self._resource)
        tools.router.add_route("*", "/token", self._wrong_place)
        people.router.add_get("/.well-known/oauth-authorization-server", self._metadata)
        people.router.add_post("/register", self._register)
        people.router.add_get("/authorize", self._authorize)
        people.router.add_get("/answer", self._answer)
        people.router.add_post("/oauth/token", self._token)
        self.issuer, self.url = await self._start(people), await self._start(tools) + "/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        for runner in self._runners:
            await runner.cleanup()

    async def _start(self, app: web.Application) -> str:
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def _wrong_place(self, request: web.Request) -> Answer:
        self.asked.append("token at the server of the tools")
        return web.Response(status=404)

    async def _resource(self, request: web.Request) -> Answer:
        return web.json_response({"resource": self.url, "authorization_servers": [self.issuer]})

    async def _metadata(self, request: web.Request) -> Answer:
        place = self.issuer
        return web.json_response(
            {
                "issuer": place,
                "authorization_endpoint": f"{place}/authorize",
                "token_endpoint": f"{place}/oauth/token",
                "registration_endpoint": f"{place}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _register(self, request: web.Request) -> Answer:
        wanted = await request.json()
        return web.json_response({**wanted, "client_id": "windlass-1"}, status=201)

    async def _authorize(self, request: web.Request) -> Answer:
        self.asked.append("authorize")
        hidden = "".join(
            f'<input type="hidden" name="{name}" value="{html.escape(value)}">'
            for name, value in request.query.items()
        )
        return web.Response(
            content_type="text/html",
            text=f'<title>Sign in</title><link rel="icon" href="data:,"><form action="/answer">{hidden}'
            '<button name="yes" value="1" id="yes">Allow</button>'
            '<button name="no" value="1" id="no">Decline</button></form>',
        )

    async def _answer(self, request: web.Request) -> Answer:
        query = request.query
        back = {"state": query["state"], "iss": self.issuer}
        if "yes" in query:
            code = secrets.token_urlsafe(24)
            self.codes[code] = dict(query)
            back["code"] = code
        else:
            back["error"] = "access_denied"
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode(back)}")

    async def _token(self, request: web.Request) -> Answer:
        form = await request.post()
        self.asked.append(f"token: {form['grant_type']}")
        if form["grant_type"] == "authorization_code":
            asked = self.codes[str(form["code"])]
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            known = proof == asked["code_challenge"]
            known = known and form["redirect_uri"] == asked["redirect_uri"]
        else:
            known = form["refresh_token"] in self.refresh_tokens
        if not known:
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.tokens.append(secrets.token_urlsafe(24))
        self.refresh_tokens.append(secrets.token_urlsafe(24))
        given = {
            "access_token": self.tokens[-1],
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "refresh_token": self.refresh_tokens[-1],
        }
        if self.token_answer is not None:
            given = {**self.token_answer, "refresh_token": self.refresh_tokens[-1]}
        return web.json_response(given, status=given.get("status", 200))

    async def _mcp(self, request: web.Request) -> Answer:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.tokens or token != self.tokens[-1]:
            self.asked.append("no token" if not token else "old token")
            place = self.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp"
            says = {"WWW-Authenticate": f'Bearer resource_metadata="{place}"'}
            return web.Response(status=401, headers=says)
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                said["result"] = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "members", "version": "1"},
                }
            case "tools/list":
                said["result"] = {"tools": [TOOL]}
            case "tools/call":
                text = f"a member with {token}"
                said["result"] = {"content": [{"type": "text", "text": text}]}
            case _:
                said["error"] = {"code": -32601, "message": "no such method"}
        return web.Response(text=json.dumps(said), content_type="application/json")
