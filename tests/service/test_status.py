"""A party's status: in words, as JSON, for Prometheus, and as a page in a real browser."""

import json
import time
from collections import Counter
from contextlib import closing
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from broker import free_port
from flfl.config import ReportSettings
from flfl.errors import InputError
from flfl.service.diary import NAME, Diary, stamp
from flfl.service.status import Status, figures, health
from flfl.service.status_page import page
from flfl.service.web import StatusServer
from report.conftest import browser
from waiting import PATIENCE

__all__ = ["browser"]
NOW = 1_800_000_000.0
DAY = 86400.0
NASTY = '<script>alert(1)</script><img src=x onerror="alert(2)">'


def coordinator(**changes):
    """A coordinator with three sites and twenty nights behind it."""
    runs = tuple(
        {"run": f"north-{n}", "ended": stamp(NOW - (20 - n) * DAY), "failed": "disk" * (n == 11),
         "sites": 3, "aside": 0, "gaps": 40 + n, "bytes_up": 30_000 + 400 * n, "bytes_down": 90_000}
        for n in range(1, 21)
    )  # fmt: skip
    sites = (
        {"site": "harbour", "state": "here", "since": stamp(NOW - 9 * DAY), "version": "0.1.0",
         "certificate": stamp(NOW + 200 * DAY)},
        {"site": "airport", "state": "gone", "since": stamp(NOW - DAY), "version": "0.1.0",
         "problem": NASTY},
        {"site": "valley", "state": "never seen"},
    )  # fmt: skip
    given = {
        "party": "coordinator", "network": "north", "doing": "Between runs.", "connected": True,
        "broker": "broker.example.org:8883", "since": stamp(NOW - 9 * DAY), "at": stamp(NOW),
        "next_run": stamp(NOW + 5 * 3600), "certificates": {"certificate": stamp(NOW + 90 * DAY)},
        "deadlines": {"answer_within": 300.0, "misses": 3}, "sites": sites, "nights": runs,
        "totals": {"runs": 19, "failures": 1, "bytes_up": 700_000, "bytes_down": 2_000_000},
        "counters": {"dropped": 2}, "last_success": runs[-1]["ended"],
    }  # fmt: skip
    return Status(**(given | changes))


class TestHealth:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({}, ""),
            ({"connected": False}, "no connection to the broker at broker.example.org:8883"),
            ({"problem": "2 sites are ready and 3 are needed"}, "2 sites are ready"),
            ({"certificates": {"certificate": stamp(NOW - 1)}}, "certificate has ended"),
            ({"certificates": {"authority": "this is not a certificate"}}, "cannot be read"),
            ({"at": stamp(NOW - 2 * 3600)}, "has not told its status for 7200 s"),
            ({"nights": ({"run": "r", "ended": "", "failed": "disk full"},)}, "disk full"),
        ],
    )
    def test_what_is_wrong_is_said(self, changes, words):
        assert words in health(coordinator(**changes), NOW)
        assert bool(words) == bool(health(coordinator(**changes), NOW))


def test_figures_are_counters_and_times():
    found = {
        (name, *labels.values()): value for name, _, labels, value in figures(coordinator(), NOW)
    }
    assert found["flfl_runs_total",] == 19
    assert found["flfl_failures_total",] == 1
    assert found["flfl_next_run_timestamp_seconds",] == NOW + 5 * 3600
    assert found["flfl_last_success_timestamp_seconds",] == NOW
    assert found["flfl_certificate_expiry_seconds", "certificate"] == 90 * DAY
    assert found["flfl_site_here", "harbour"] == 1
    assert found["flfl_site_here", "airport"] == 0
    again = {name for name, *_ in figures(coordinator(next_run=""), NOW)}
    assert "flfl_next_run_timestamp_seconds" not in again


class TestHistory:
    def test_sums_outlive_the_process_and_a_run_counts_once(self, tmp_path):
        one = Diary(tmp_path, ("bytes_up",))
        one.record("n-1", bytes_up=5)
        one.record("n-2", failed="no disk", bytes_up=7)
        again = Diary(tmp_path, ("bytes_up",))
        again.record("n-2", failed="no disk", bytes_up=7)
        assert again.totals == {"runs": 1, "failures": 1, "bytes_up": 12}
        assert [run.run for run in again.runs] == ["n-1", "n-2"]
        assert again.last_success == one.runs[0].ended

    def test_it_does_not_grow_without_end(self, tmp_path):
        diary = Diary(tmp_path)
        for n in range(405):
            diary.record(f"n-{n}")
        assert len(diary.runs) == 400
        assert diary.totals["runs"] == 405
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"runs": 3}', '{"totals": {"runs": "x"}}'])
    def test_a_damaged_one_is_set_aside(self, tmp_path, text):
        (tmp_path / NAME).write_text(text)
        diary = Diary(tmp_path)
        diary.record("n-1")
        assert Diary(tmp_path).totals["runs"] == 1
        assert (tmp_path / "diary.damaged").read_text() == text


@pytest.fixture
def server():
    pytest.importorskip("prometheus_client")
    port = free_port()
    with closing(StatusServer(ReportSettings(status_port=port))) as made:
        made.port = port
        yield made


def get(server, path, host=None):
    request = Request(f"http://127.0.0.1:{server.port}{path}")
    if host:
        request.add_header("Host", host)
    with urlopen(request) as answer:
        return answer.read().decode()


def fresh(**changes):
    """A status as of now."""
    now = time.time()
    ends = {"certificate": stamp(now + 90 * DAY)}
    return coordinator(**({"at": stamp(now), "certificates": ends} | changes))


class TestServer:
    def test_page_json_metrics_and_health(self, server):
        server.show(fresh)
        assert "All is well." in get(server, "/")
        document = json.loads(get(server, "/status.json"))
        assert document["health"] == "ok"
        assert document["sites"][0]["version"] == "0.1.0"
        lines = get(server, "/metrics").splitlines()
        assert "# TYPE flfl_runs_total counter" in lines
        assert 'flfl_runs_total{party="coordinator"} 19.0' in lines
        assert "# TYPE flfl_connected gauge" in lines
        assert get(server, "/healthz") == "ok\n"

    @pytest.mark.parametrize(
        ("status", "path", "host", "code", "words"),
        [
            (None, "/healthz", None, 503, "starting"),
            ({"connected": False}, "/healthz", None, 503, "no connection"),
            ({}, "/other", None, 404, "there are"),
            ({}, "/status.json", "evil.example:9464", 403, "localhost"),
        ],
    )
    def test_refusals(self, server, status, path, host, code, words):
        if status is not None:
            server.show(lambda: fresh(**status))
        with pytest.raises(HTTPError) as refused:
            get(server, path, host)
        assert refused.value.code == code
        assert words in refused.value.read().decode()

    def test_a_taken_port_is_an_error_of_the_settings(self, server):
        with pytest.raises(InputError, match=r"port \d+: the status cannot be served.*status_port"):
            StatusServer(ReportSettings(status_port=server.port))

    def test_the_setting_of_before_names_its_heir(self):
        with pytest.raises(InputError, match=r"metrics_port is gone.*status_port"):
            ReportSettings.check({"metrics_port": 9464})

    def test_without_a_port_no_status_is_made(self):
        with closing(StatusServer(ReportSettings())) as nothing:
            nothing.show(lambda: pytest.fail("nobody looks"))


def test_no_text_of_a_site_becomes_markup():
    text = page(coordinator(network=NASTY, doing=NASTY), NASTY)
    assert "<script" not in text
    assert "<img" not in text


@pytest.mark.slow
class TestInABrowser:
    @pytest.mark.parametrize("dark", [False, True])
    def test_it_is_read_on_a_phone_and_asks_nobody_else(self, browser, server, dark):
        server.show(fresh)
        seen = look(browser, server, dark, width=360)
        assert seen["wide"] <= 360
        assert "airport" in seen["text"]
        assert NASTY in seen["text"]
        assert "3 of 3" not in seen["text"]
        assert "1 of 3" in seen["text"]
        light, ground = sum(seen["ink"]), sum(seen["ground"])
        assert (light > ground) == dark
        assert Counter(url.split("/")[2] for url in seen["asked"]) == Counter(
            {f"127.0.0.1:{server.port}": len(seen["asked"])}
        )
        assert seen["complaints"] == []

    def test_it_loads_itself_again(self, browser, server):
        server.show(fresh)
        look(browser, server, False, width=1000)
        server.show(lambda: fresh(problem="the disk is full"), force=True)
        from report.browser import WebDriverWait

        WebDriverWait(browser, PATIENCE).until(lambda one: "the disk is full" in one.page_source)


def look(browser, server, dark, width):
    """Open the page and say what is there."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [scheme]})
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(f"http://127.0.0.1:{server.port}/")
    colours = browser.execute_script(
        "const style = getComputedStyle(document.body);"
        "return [style.color, style.backgroundColor].map(c => c.match(/\\d+/g).map(Number))"
    )
    events = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events
             if e["method"] == "Network.requestWillBeSent"]  # fmt: skip
    return {
        "text": browser.find_element("css selector", "body").text,
        "wide": browser.execute_script("return document.documentElement.scrollWidth"),
        "ink": colours[0],
        "ground": colours[1],
        "asked": [url for url in asked if not url.startswith("data:")],
        "complaints": [entry["message"] for entry in browser.get_log("browser")],
    }
