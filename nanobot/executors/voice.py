"""What is said to a tool while it works: the write end of its standard input.

The prompt does not come this way. It lies in a file that a small process feeds into the tool before it passes on what is
written here, so it arrives whole even if this gateway dies at once. That end of the pipe is closed with the gateway,
which the tool takes for the end of what it is told: it finishes its turn and exits.
"""

import asyncio
import os

WRITE_SECONDS = 10.0  # a tool that does not read is not waited for any longer
POLL_SECONDS = 0.02


class Voice:
    """`read_end` is for the child; close it with `started`."""

    def __init__(self) -> None:
        self.read_end, self._end = os.pipe()
        os.set_blocking(self._end, False)

    @property
    def open(self) -> bool:
        return self._end >= 0

    def started(self) -> None:
        """The child has its end."""
        if self.read_end >= 0:
            os.close(self.read_end)
            self.read_end = -1

    async def say(self, data: bytes) -> bool:
        """Write a whole message; False where nobody reads. A message that was cut off ends the conversation."""
        end = asyncio.get_running_loop().time() + WRITE_SECONDS
        rest = memoryview(data)
        while rest:
            if not self.open:
                return False
            try:
                rest = rest[os.write(self._end, rest) :]
            except BlockingIOError:
                if asyncio.get_running_loop().time() > end:
                    self.close()
                    return False
                await asyncio.sleep(POLL_SECONDS)  # the pipe is full
            except BrokenPipeError:
                self.close()
                return False
        return True

    def close(self) -> None:
        """Nothing more will be said. Harmless twice."""
        self.started()
        if self.open:
            os.close(self._end)
            self._end = -1
