"""A real browser for the tests: headless Chromium of the Debian packages chromium and chromium-driver."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

SIZE = (1560, 960)


class Browser:
    """One window. It remembers what pages asked of the network, and their errors."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        # Root in a container: no sandbox of its own, and a /dev/shm that may be small.
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(flag)
        options.add_argument(f"--window-size={SIZE[0]},{SIZE[1]}")
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(120)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def media(self, **features: str) -> None:
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})

    def open(self, path: pathlib.Path) -> None:
        """Opens a page of explain and waits until its graph is laid out."""
        from selenium.webdriver.support.wait import WebDriverWait

        self.driver.get_log("performance"), self.driver.get_log("browser")
        self.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
        self.driver.get(path.as_uri())
        WebDriverWait(self.driver, 120).until(lambda _: self.run("return Boolean(window.page && window.page.ready)"))
        self.settle()

    def settle(self) -> None:
        """Waits until what was asked for is painted."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))")

    def click(self, x: float, y: float) -> None:
        """Clicks a pixel of the picture, as a mouse does."""
        from selenium.webdriver.common.action_chains import ActionChains

        canvas = self.driver.find_element("css selector", "#picture canvas")
        size = canvas.size
        chain = ActionChains(self.driver, duration=0)
        chain.move_to_element_with_offset(canvas, round(x - size["width"] / 2), round(y - size["height"] / 2)).click().perform()
        self.settle()

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def requests(self) -> list[str]:
        """The addresses that pages have asked for since the last ``open``."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


def missing_programs() -> list[str]:
    """What a browser needs and this machine lacks."""
    return [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
