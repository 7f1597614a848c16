"""The option ``tune``: schedules are timed once, the choice is remembered, and explain says what was measured."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import tilefuse
import torch

SCRIPT = textwrap.dedent("""
    import json, sys, torch
    from tilefuse.backend import collect_graphs
    torch.set_num_threads(1)
    x, w = torch.randn(64, 96), torch.randn(96)
    f = lambda x, w: torch.softmax(x * w, -1).sum(0)
    with collect_graphs() as graphs, torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend="tilefuse", options={"tune": 3})(x, w), f(x, w))
    report = json.loads(torch.ops.tilefuse.report(graphs[0].answer["report_id"]))
    print(json.dumps({"cached": graphs[0].answer["cached"], "regions": report["regions"]}))
""")


def counting_compiler(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    log, compiler = folder / "log", folder / "cxx"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec c++ "$@"\n')
    compiler.chmod(0o700)
    return compiler, log


def run(folder: pathlib.Path, compiler: pathlib.Path) -> dict:
    environment = dict(os.environ, TILEFUSE_CXX=str(compiler), TILEFUSE_CACHE_DIR=str(folder / "cache"))
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_second_process_takes_the_choice_and_times_nothing(tmp_path):
    compiler, log = counting_compiler(tmp_path)
    first = run(tmp_path, compiler)
    assert not first["cached"]
    tuned = [region["tuned"] for region in first["regions"]]
    assert any(tuned)
    for region in filter(None, tuned):
        times = [time for time in region["measured_us"] if time is not None]
        assert 2 <= len(region["measured_us"]) <= 3 and all(time > 0 for time in times)
        assert region["measured_us"][region["chosen"]] <= 1.03 * min(times)
    assert log.read_text().count("-shared") >= sum(len(region["measured_us"]) for region in filter(None, tuned))
    log.write_text("")
    second = run(tmp_path, compiler)
    assert second["cached"]
    assert [region["tuned"] for region in second["regions"]] == tuned
    assert "-shared" not in log.read_text()


def test_explain_shows_the_times():
    with torch.no_grad():
        report = tilefuse.explain(lambda x: torch.softmax(x + 1, -1), torch.randn(16, 96), options={"tune": 2})
    assert "measured" in str(report) and "taken" in str(report)
