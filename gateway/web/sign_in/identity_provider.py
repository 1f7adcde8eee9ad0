"""The identity provider of `[web.oidc]` over HTTP: where it is, its keys, and what its identity tokens say.

OpenID Connect Core 1.0, section 3.1 (authorization code) with PKCE (RFC 7636). Loads Authlib and joserfc: imported by
name at the first sign-in.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

import anyio
import httpx2
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from agent.core.clock import Clock
from agent.core.httpx_limits import limited_to
from gateway.config.sections import OidcSettings, is_loopback
from gateway.web.sign_in.oidc import Asked, Identity, NotSignedIn

WITHIN_S = 15.0  # for one answer, all of it
LARGEST = 512 * 1024  # bytes of one answer
KEPT_S = 3600.0  # for addresses and keys
RENEWED_EVERY_S = 60.0  # at most, where a token names a key that is not known
LEEWAY_S = 60  # between two clocks

# With a public key alone. With `none` or the client's secret anybody who knows that could write a token.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")


@dataclass(frozen=True, slots=True)
class _Known:
    """Addresses and keys that the provider publishes, and when they were read."""

    metadata: Mapping[str, object]
    keys: KeySet
    at: float


class IdentityProvider:
    """One provider. Everything raises NotSignedIn with the reason for the log, without secrets."""

    def __init__(self, settings: OidcSettings, clock: Clock, *, proxy: str | None) -> None:
        self._settings = settings
        self._clock = clock
        is_here = is_loopback(urlsplit(settings.issuer).hostname or "")
        self._proxy = None if is_here else proxy
        self._known: _Known | None = None
        self._reading = anyio.Lock()

    async def address(self, asked: Asked) -> str:
        """Where the browser goes to sign in."""
        metadata = (await self._read()).metadata
        scope = "openid" if self._settings.claim == "sub" else "openid email profile"
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": asked.redirect_uri,
            "scope": scope,
            "state": asked.state,
            "nonce": asked.nonce,
            "code_challenge": create_s256_code_challenge(asked.verifier),
            "code_challenge_method": "S256",
        }
        address = _endpoint(metadata, "authorization_endpoint")
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"

    async def identity(self, code: str, asked: Asked) -> Identity:
        """The person who has signed in there, by the code that the browser brought."""
        known = await self._read()
        answer = await self._exchange(known.metadata, code, asked)
        token, access_token = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str):
            raise NotSignedIn("the token endpoint gave no identity token")
        claims = await self._claims(token, access_token if isinstance(access_token, str) else "", asked, known)
        subject, name = str(claims["sub"]), claims.get("name")
        value = claims.get(self._settings.claim)
        if not isinstance(value, str) or not value:
            raise NotSignedIn(f"the identity token has no claim {self._settings.claim!r}")
        if self._settings.claim == "email" and claims.get("email_verified") is not True:
            raise NotSignedIn("the address is not verified there (email_verified)")
        return Identity(subject=subject, value=value, display=name if isinstance(name, str) else value)

    async def _claims(self, token: str, access_token: str, asked: Asked, known: _Known) -> Mapping[str, object]:
        """The claims of a token whose signature, algorithm, issuer, audience, nonce and times are right."""
        try:
            decoded = jwt.decode(token, known.keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError) as error:
            fresh = await self._read(renewed_for=known)  # the provider may have new keys
            if fresh is known:
                raise NotSignedIn(f"the identity token is not signed as it should be: {_said(error)}") from error
            try:
                decoded = jwt.decode(token, fresh.keys, algorithms=ALGORITHMS)
            except (JoseError, ValueError) as again:
                raise NotSignedIn(f"the identity token is not signed as it should be: {_said(again)}") from again
        wanted = {
            "iss": {"essential": True, "value": known.metadata["issuer"]},
            "aud": {"essential": True, "value": self._settings.client_id},
        }
        params = {"nonce": asked.nonce, "client_id": self._settings.client_id, "access_token": access_token}
        claims = CodeIDToken(decoded.claims, decoded.header, wanted, params)
        try:
            claims.validate(now=int(self._clock.now().timestamp()), leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError) as error:
            raise NotSignedIn(f"the identity token is wrong: {_said(error)}") from error
        found: Mapping[str, object] = decoded.claims
        return found

    async def _exchange(self, metadata: Mapping[str, object], code: str, asked: Asked) -> Mapping[str, object]:
        secret = self._settings.client_secret
        client_id, client_secret = self._settings.client_id, secret.get_secret_value() if secret else ""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": asked.redirect_uri,
            "code_verifier": asked.verifier,
        }
        headers = {"accept": "application/json"}
        methods = metadata.get("token_endpoint_auth_methods_supported")
        if not isinstance(methods, list) or not methods or "client_secret_basic" in methods:
            pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client_id, "client_secret": client_secret}
        return await self._asked("POST", _endpoint(metadata, "token_endpoint"), form=form, headers=headers)

    async def _read(self, renewed_for: _Known | None = None) -> _Known:
        """Addresses and keys, read at most once an hour; `renewed_for` is what was found wanting."""
        async with self._reading:
            known, now = self._known, self._clock.monotonic()
            if known is not None and known is not renewed_for and now < known.at + KEPT_S:
                return known
            if known is not None and known is renewed_for and now < known.at + RENEWED_EVERY_S:
                return known
            issuer = self._settings.issuer.rstrip("/")
            metadata = await self._asked("GET", f"{issuer}/.well-known/openid-configuration")
            if str(metadata.get("issuer", "")).rstrip("/") != issuer:
                raise NotSignedIn("the provider's configuration is of another issuer")
            published = await self._asked("GET", _endpoint(metadata, "jwks_uri"))
            found = published.get("keys")
            every = found if isinstance(found, list) else []
            signing = [key for key in every if isinstance(key, dict) and key.get("use") != "enc"]
            try:
                keys = KeySet.import_key_set({"keys": signing})
            except (JoseError, ValueError, KeyError, TypeError) as error:
                raise NotSignedIn(f"the provider's keys cannot be read: {_said(error)}") from error
            self._known = _Known(metadata, keys, now)
            return self._known

    async def _asked(
        self,
        method: str,
        address: str,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, object]:
        """The JSON object of an answer. No redirect is followed: it would carry the secret elsewhere."""
        where = urlsplit(address).hostname
        try:
            with anyio.fail_after(WITHIN_S):
                async with httpx2.AsyncClient(
                    trust_env=False, proxy=self._proxy, timeout=None, event_hooks={"response": [limited_to(LARGEST)]}
                ) as client:
                    answer = await client.request(method, address, data=form, headers=headers)
        except TimeoutError as error:
            raise NotSignedIn(f"{where} did not answer within {WITHIN_S:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise NotSignedIn(f"{where} cannot be asked: {type(error).__name__}") from error
        if answer.status_code != 200:
            raise NotSignedIn(f"{where} answered with status {answer.status_code}")
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError) as error:
            raise NotSignedIn(f"{where} answered with something that is no JSON") from error
        if not isinstance(found, dict):
            raise NotSignedIn(f"{where} answered with something that is no JSON object")
        return found


def _endpoint(metadata: Mapping[str, object], name: str) -> str:
    """An address that the provider publishes: with TLS, or on this machine."""
    address = metadata.get(name)
    if not isinstance(address, str):
        raise NotSignedIn(f"the provider's configuration has no {name}")
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise NotSignedIn(f"the provider's {name} is no address") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise NotSignedIn(f"the provider's {name} is not https")
    return address


def _said(error: Exception) -> str:
    """The kind of a mistake, and the claim that it is about: never a value."""
    about = getattr(error, "claim", None) or getattr(error, "claim_name", None)
    return f"{type(error).__name__}{f' ({about})' if isinstance(about, str) else ''}"
