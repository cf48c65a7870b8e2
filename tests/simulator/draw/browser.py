"""A headless Chromium for tests, and files served to it on localhost."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def missing(what: str) -> NoReturn:
    """Skip the test, saying what to install; fail it where STALEROW_SCREENS says that all is there."""
    if os.environ.get("STALEROW_SCREENS") == "required":
        pytest.fail(f"STALEROW_SCREENS=required, but there is {what}")
    pytest.skip(what)


def require(module: str) -> ModuleType:
    """A module of the extra `screens`."""
    try:
        return importlib.import_module(module)
    except ImportError:
        missing(f"no {module}: pip install 'stalerow[screens]'")


def require_chromium() -> tuple[str, str]:
    """Paths of browser and driver."""
    require("selenium")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        missing("no headless browser: apt-get install chromium chromium-driver")
    return browser, driver


@contextmanager
def chromium(width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """A driver with a new profile and console logging."""
    browser, driver = require_chromium()
    from selenium import webdriver

    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            # A window cannot be made as narrow as a phone; its page can.
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            session.set_script_timeout(1800)
            yield session
        finally:
            session.quit()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not news."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder's address on localhost."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
