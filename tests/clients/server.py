"""A `rose serve` over the shipped model for as long as a test lasts."""
import pathlib
import re
import subprocess
import threading
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "openai/gpt-oss-20b"  # as recorded requests name it
START_SECONDS = 120

# Requests come with limits of up to 32,000 tokens, which must fit beside their prompts.
OPTIONS = ("--port", "0", "--threads", "2", "--max-context", "49152", "--access-log", "off",
           "--served-model-name", MODEL, "--served-model-name", "rosebud")


class Server:
    """Use as a context manager; `url` has no /v1. On leaving, SIGTERM must end it within 30 s with exit code 0."""

    def __init__(self, rose: str, *options: str):
        self.command = [rose, "serve", str(ROOT / "models" / "rosebud"), *OPTIONS, *options]
        self.url = ""
        self.log: list[str] = []

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        found = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(found,), daemon=True)
        self.reader.start()
        if not found.wait(START_SECONDS) or not self.url or not self.healthy():
            self.process.kill()
            raise RuntimeError("rose serve did not start:\n" + "".join(self.log[-20:]))
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise RuntimeError("rose serve did not end within 30 s of SIGTERM") from None
        self.reader.join(10)
        if code != 0:
            raise RuntimeError(f"rose serve ended with {code}:\n" + "".join(self.log[-20:]))

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=30) as reply:
                return reply.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def _read(self, found: threading.Event):
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(r" at (http://\S+)", line):
                self.url = match[1].rstrip("/").removesuffix("/v1")
                found.set()
        found.set()
