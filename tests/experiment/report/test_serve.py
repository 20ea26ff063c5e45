"""hush serve over HTTP: what it shows, and what it refuses."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import hush
from hush.errors import Mistake
from hush.experiment.serve import server


@pytest.fixture
def ask(tmp_path):
    """(status, headers, text) of a request to a server of the folder's runs."""
    found = server([tmp_path], 0)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    def request(path, method="GET", **headers):
        line = http.client.HTTPConnection("127.0.0.1", found.server_port, timeout=10)
        line.request(method, path, headers=headers)
        answer = line.getresponse()
        text = answer.read().decode()
        line.close()
        return answer.status, answer.headers, text

    request.port = found.server_port
    yield request
    found.shutdown()
    thread.join()
    found.server_close()


def listed(path):
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in Path(path).rglob("*")}


def test_runs_are_listed_and_shown_and_nothing_is_written(ask, make, tmp_path):
    make("sweep/one"), make("two", private=False, scheme="fl-std"), make("three", rows=0)
    before = listed(tmp_path)
    status, headers, text = ask("/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    for name in ("sweep/one", "two", "three"):
        assert f'<a href="/run/{name}">{name}</a>' in text
    assert '<td class="number">0.503</td>' in text
    assert "0.53 <small>model, client</small>" in text
    assert ask("/run/sweep/one")[2].count("fl-top-dp on digits, <span>3 of 3 rounds</span>") == 1
    assert "No round has finished yet." in ask("/run/three")[2]
    status, _, text = ask("/compare?run=sweep/one&run=two")
    assert status == 200
    assert "2 runs side by side" in text
    assert "runs without a guarantee are left out" in text
    assert listed(tmp_path) == before


def test_a_run_that_goes_on_is_read_again(ask, make, line):
    path = make(rows=1, total=3)
    assert "1 of 3 rounds" in ask("/run/trial")[2]
    with (path / "rounds.jsonl").open("a") as file:
        file.write(json.dumps(line(2)) + "\n")
    assert "2 of 3 rounds" in ask("/run/trial")[2]
    assert " data-live>" in ask("/run/trial")[2]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1.evil.example", ""])
def test_a_foreign_host_is_refused(ask, make, host):
    make()
    status, _, text = ask("/", Host=host)
    assert status == 403
    assert "trial" not in text
    assert ask("/", Host=f"localhost:{ask.port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/run/../secret",
        "/run/..%2fsecret",
        "/run/%2e%2e/secret",
        "/run//etc/passwd",
        "/run/trial/privacy.json",
        "/run/trial/../../secret",
        "/trial/report.html",
        "/run/",
        "/../../etc/passwd",
        "/run/trial%00",
    ],
)
def test_no_path_leads_out_of_the_runs(ask, make, tmp_path, path):
    make()
    (tmp_path.parent / "secret").mkdir(exist_ok=True)
    (tmp_path.parent / "secret" / "config.toml").write_text("")
    status, _, text = ask(path)
    assert status == 404
    assert "root:" not in text


def test_a_link_out_of_the_folder_is_not_followed(ask, make, tmp_path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    make("trial").rename(elsewhere / "trial")
    os.symlink(elsewhere / "trial", tmp_path / "link")
    assert "link" not in ask("/")[2].partition("<main>")[2].partition("<script")[0]
    assert ask("/run/link")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_only_reading_is_served(ask, make, method):
    make()
    assert ask("/run/trial", method)[0] == 501
    status, _, text = ask("/run/trial", "HEAD")
    assert (status, text) == (200, "")


def test_names_and_damage_are_escaped_and_told(ask, make):
    name = '<img src=x onerror="alert(1)">'
    path = make(name)
    (path / "rounds.jsonl").write_text("damaged\n")
    make("good")
    status, _, text = ask("/")
    assert status == 200
    assert "<img" not in text
    assert "is not a round&#x27;s report" in text
    assert ask("/run/good")[0] == 200
    assert ask("/run/" + name.replace("<", "%3C").replace(" ", "%20").replace(">", "%3E").replace('"', "%22"))[0] == 500


def test_a_card_that_makes_no_sense_does_not_stop_the_server(ask, make):
    path = make()
    (path / "privacy.json").write_text(json.dumps({"card": {"guarantee": 3}}))
    status, _, text = ask("/run/trial")
    assert status == 500
    assert "damaged" in text
    assert ask("/")[0] == 200


def test_epsilons_of_different_levels_share_no_axis(ask, make, line):
    make("clients")
    make("records", rows=[line(n, level="record") for n in (1, 2, 3)])
    make("others")
    mixed, same = ask("/compare?run=clients&run=records")[2], ask("/compare?run=clients&run=others")[2]
    assert "Epsilon is no axis here" in mixed
    assert '"key":"epsilon model"' not in mixed
    assert "Epsilon is no axis here" not in same
    assert '"key":"epsilon model"' in same


@pytest.mark.parametrize("query", ["", "?run=nobody", "?run=empty", "?" + "&".join(f"run=r{n}" for n in range(9))])
def test_what_cannot_be_compared_is_refused(ask, make, query):
    make("empty", rows=0)
    for number in range(9):
        make(f"r{number}")
    assert ask(f"/compare{query}")[0] == 400


def test_a_folder_that_is_none_and_a_port_that_is_taken(tmp_path, ask):
    with pytest.raises(Mistake, match="is not a directory"):
        server([tmp_path / "none"], 0)
    with pytest.raises(Mistake, match=f"port {ask.port} cannot be taken"):
        server([tmp_path], ask.port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_command_with_status_0(make, tmp_path, number):
    make()
    environment = {**os.environ, "PYTHONPATH": str(Path(hush.__file__).parents[1])}
    started = subprocess.Popen(
        [sys.executable, "-m", "hush", "serve", str(tmp_path), "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout.readline().startswith("http://127.0.0.1:")
        started.send_signal(number)
        out, err = started.communicate(timeout=20)
    finally:
        started.kill()
    assert (started.returncode, out, err) == (0, "", "")
