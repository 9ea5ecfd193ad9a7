"""The library's requests over aiohttp, which the gateway has loaded anyway and which takes less of the processor."""

from typing import Any

import aiohttp

from telegram.error import NetworkError, TimedOut
from telegram.request import BaseRequest, RequestData

CONNECT_SECONDS = 10.0


class AiohttpRequest(BaseRequest):
    """One pool of connections. Timeouts in seconds."""

    def __init__(self, *, connections: int, seconds: float, upload_seconds: float = 0.0) -> None:
        self._connections = connections
        self._seconds = seconds
        self._upload_seconds = upload_seconds or seconds
        self._session: aiohttp.ClientSession | None = None

    @property
    def read_timeout(self) -> float | None:
        return self._seconds

    async def initialize(self) -> None:
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=self._connections)
            # The proxy of the environment is used, as everywhere.
            self._session = aiohttp.ClientSession(connector=connector, trust_env=True)

    async def shutdown(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        write_timeout: Any = BaseRequest.DEFAULT_NONE,
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """The status and the body. Whether the request can have arrived is told by the cause of the error."""
        del write_timeout, connect_timeout, pool_timeout
        if self._session is None:
            raise RuntimeError("this request object is not initialized")
        files = request_data.multipart_data if request_data else {}
        seconds = read_timeout if isinstance(read_timeout, int | float) else self._seconds
        total = max(seconds, self._upload_seconds) if files else seconds
        timeout = aiohttp.ClientTimeout(total=total + CONNECT_SECONDS, connect=CONNECT_SECONDS)
        try:
            async with self._session.request(
                method,
                url,
                data=body(request_data, files),
                timeout=timeout,
                headers={"User-Agent": self.USER_AGENT},
            ) as response:
                return response.status, await response.read()
        except TimeoutError as error:
            raise TimedOut from error
        except aiohttp.ClientError as error:
            raise NetworkError(type(error).__name__) from error


def body(request_data: RequestData | None, files: dict[str, Any]) -> aiohttp.FormData | None:
    """A call's parameters and files as a form."""
    if request_data is None:
        return None
    form = aiohttp.FormData()
    for name, value in request_data.json_parameters.items():
        form.add_field(name, value)
    for name, (file_name, content, mime) in files.items():
        form.add_field(name, content, filename=file_name, content_type=mime)
    return form
