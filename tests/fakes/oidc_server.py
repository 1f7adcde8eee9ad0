"""An identity provider on loopback that signs everybody in, and can be wrong in each way that matters."""

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlencode

import anyio
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway.web.server import serve
from tests.fakes.running import running

CLIENT, SECRET = "tieline", "the client's secret"

Wrong = Literal[
    "",
    "nonce",
    "no nonce",
    "audience",
    "audience with us as party",
    "audiences",
    "issuer",
    "expired",
    "no expiry",
    "not yet",
    "key",
    "alg none",
    "client secret as key",
    "public key as secret",
    "changed after signing",
    "unverified",
    "verified as a text",
    "no email_verified",
    "no email",
    "no token",
    "at_hash",
    "another issuer in the configuration",
    "huge",
    "no json",
    "error",
    "plain http elsewhere",
]


@dataclass
class OidcServer:
    """`wrong` is what it does wrong from now on; `claims` are of whoever signs in next."""

    url: str
    key: RSAKey
    wrong: Wrong = ""
    claims: dict[str, object] = field(default_factory=dict)
    auth_methods: list[str] = field(default_factory=lambda: ["client_secret_basic", "client_secret_post"])
    asked: list[dict[str, str]] = field(default_factory=list)  # the queries of browsers
    exchanged: list[dict[str, str]] = field(default_factory=list)  # forms of the token endpoint
    key_reads: int = 0
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._configuration),
                Route("/keys", self._keys),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    async def _configuration(self, request: Request) -> Response:
        if self.wrong == "huge":
            return Response(b"{" + b" " * (1 << 20) + b"}", media_type="application/json")
        if self.wrong == "no json":
            return Response(b"<html>", media_type="text/html")
        found = {
            "issuer": "https://evil.example" if self.wrong == "another issuer in the configuration" else self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": "http://evil.example/keys" if self.wrong == "plain http elsewhere" else f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": self.auth_methods,
        }
        return JSONResponse(found)

    async def _keys(self, request: Request) -> Response:
        self.key_reads += 1
        post_quantum = {"kty": "AKP", "kid": "later", "alg": "ML-DSA-44", "pub": "AA"}
        return JSONResponse({"keys": [*KeySet([self.key]).as_dict(private=False)["keys"], post_quantum]})

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        self.asked.append(query)
        answer = {"state": query["state"], "iss": self.url}
        if self.wrong == "error":
            return RedirectResponse(f"{query['redirect_uri']}?{urlencode({**answer, 'error': 'access_denied'})}")
        code = f"code-{len(self.asked)}"
        self._codes[code] = query
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode({**answer, 'code': code})}", status_code=302)

    async def _token(self, request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        self.exchanged.append(form)
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        given = base64.b64decode(basic).decode().replace("%20", " ").replace("%27", "'") if basic else ""
        if f"{CLIENT}:{SECRET}" not in (given, f"{form.get('client_id')}:{form.get('client_secret')}"):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        asked = self._codes.pop(form["code"], None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if challenge.rstrip(b"=").decode() != asked["code_challenge"] or asked["code_challenge_method"] != "S256":
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        answer = {"access_token": "an access token", "token_type": "Bearer", "id_token": self._identity(asked)}
        if self.wrong == "no token":
            del answer["id_token"]
        return JSONResponse(answer)

    def _identity(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims: dict[str, object] = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "1",
            "exp": now + 300,
            "iat": now,
            "nonce": asked["nonce"],
            "email": "anna@example.org",
            "email_verified": True,
            "name": "Anna Example",
            **self.claims,
        }
        match self.wrong:
            case "nonce":
                claims["nonce"] = "of another sign-in"
            case "no nonce":
                del claims["nonce"]
            case "audience":
                claims["aud"] = "another client"
            case "audience with us as party":
                claims |= {"aud": "another client", "azp": CLIENT}
            case "audiences":
                claims |= {"aud": ["another client", CLIENT], "azp": "another client"}
            case "issuer":
                claims["iss"] = "https://evil.example"
            case "expired":
                claims |= {"iat": now - 7200, "exp": now - 3600}
            case "no expiry":
                del claims["exp"]
            case "not yet":
                claims["nbf"] = now + 3600
            case "unverified":
                claims["email_verified"] = False
            case "verified as a text":
                claims["email_verified"] = "false"
            case "no email_verified":
                del claims["email_verified"]
            case "no email":
                del claims["email"]
            case "at_hash":
                claims["at_hash"] = "of another token"
        return self._signed(claims)

    def _signed(self, claims: dict[str, object]) -> str:
        header = {"alg": "RS256", "kid": self.key.kid}
        match self.wrong:
            case "key":
                other = RSAKey.generate_key(2048, {"kid": str(self.key.kid)})
                return jwt.encode(header, claims, other)
            case "alg none":
                return f"{_part({'alg': 'none'})}.{_part(claims)}."
            case "client secret as key":
                return _with_hmac(claims, SECRET.encode())
            case "public key as secret":
                return _with_hmac(claims, self.key.as_pem(private=False))
            case "changed after signing":
                head, _, signature = jwt.encode(header, claims, self.key).split(".")
                return f"{head}.{_part({**claims, 'email': 'boss@example.org'})}.{signature}"
        return jwt.encode(header, claims, self.key)


def _part(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _with_hmac(claims: dict[str, object], key: bytes) -> str:
    text = f"{_part({'alg': 'HS256'})}.{_part(claims)}"
    signature = base64.urlsafe_b64encode(hmac.digest(key, text.encode(), "sha256")).rstrip(b"=").decode()
    return f"{text}.{signature}"


def new_key(id: str) -> RSAKey:
    """A key that the provider signs with."""
    return RSAKey.generate_key(2048, {"kid": id})


@asynccontextmanager
async def serving_oidc() -> AsyncIterator[OidcServer]:
    """A provider on a port of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = OidcServer(url=f"http://127.0.0.1:{listening.getsockname()[1]}", key=new_key("first"))
    async with running(lambda: serve(server.app(), listening, anyio.Event())):
        yield server
