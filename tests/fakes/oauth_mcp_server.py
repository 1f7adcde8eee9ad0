"""A small MCP server that asks for OAuth, and the authorization server beside it: `PORT SECONDS_OF_A_TOKEN FILE`.

A login is granted to whoever opens the address. The file has a line for each token: how it was asked for.
"""

import secrets
import sys
import time
from pathlib import Path

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

PORT, LASTS_S, GIVEN = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
URL = f"http://127.0.0.1:{PORT}"


class Granting(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.renewing: dict[str, RefreshToken] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._given("by a person", client, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.renewing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.renewing.pop(refresh_token.token, None) is None:  # good once
            raise TokenError("invalid_grant")
        return self._given("renewed", client, None)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _given(self, how: str, client: OAuthClientInformationFull, resource: str | None) -> OAuthToken:
        access, renewing = f"access-{secrets.token_hex(16)}", f"renewing-{secrets.token_hex(16)}"
        name = client.client_id or ""
        self.tokens[access] = AccessToken(
            token=access, client_id=name, scopes=[], expires_at=int(time.time()) + LASTS_S, resource=resource
        )
        self.renewing[renewing] = RefreshToken(token=renewing, client_id=name, scopes=[])
        with GIVEN.open("a") as file:
            file.write(f"{how}\n")
        return OAuthToken(access_token=access, refresh_token=renewing, expires_in=LASTS_S)


server = MCPServer(
    "guarded",
    auth_server_provider=Granting(),
    auth=AuthSettings(
        issuer_url=AnyHttpUrl(URL),
        resource_server_url=AnyHttpUrl(f"{URL}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    ),
)


@server.tool()
def echo(text: str) -> str:
    """Gives back its text."""
    return text


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=PORT)
