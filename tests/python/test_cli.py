"""Every command of ``tilefuse``, with good and with bad arguments."""

import json
import os
import pathlib

import pytest
import tilefuse
import torch
from tilefuse import cli
from tilefuse.library import operators


def tiny():
    return lambda x: torch.softmax(x * 2, -1), (torch.randn(8, 32),)


def no_pair():
    return 3


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parent))


@pytest.mark.parametrize("command", ["demo", "explain", "bench", "calibrate", "replay", "cache"])
def test_help_says_what_a_command_does(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"tilefuse {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "no_such_module:f"], "cannot load 'no_such_module:f'"),
        (["explain", "test_cli:nothing"], "cannot load 'test_cli:nothing'"),
        (["explain", "test_cli"], "'test_cli' is not of the form package.module:function"),
        (["explain", "test_cli:no_pair"], "'test_cli:no_pair' must return (model, inputs)"),
        (["explain", "test_cli:tiny", "--source", "nowhere"], "no region 'nowhere'; there are: "),
        (["bench", "test_cli:tiny", "--seconds", "-1"], "--seconds must be positive"),
        (["replay", "/nowhere.json"], "tilefuse: /nowhere.json: No such file or directory"),
        (["bench", "/nowhere.pt2"], "/nowhere.pt2: No such file or directory"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(arguments, message, capsys):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1


def test_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["explian"])
    assert ended.value.code == 2 and "explain" in capsys.readouterr().err


def test_explain_shows_and_writes_a_report(tmp_path, capsys):
    assert cli.main(["explain", "test_cli:tiny"]) == 0
    assert "region" in capsys.readouterr().out
    assert cli.main(["explain", "test_cli:tiny", "--json", str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    name = report["graphs"][0]["regions"][0]["name"]
    assert cli.main(["explain", "test_cli:tiny", "--source", name]) == 0
    assert 'extern "C" void' in capsys.readouterr().out


def test_bench_prints_a_row_for_each_contestant(capsys):
    assert cli.main(["bench", "test_cli:tiny", "--no-inductor", "--seconds", "0.1"]) == 0
    out = capsys.readouterr().out
    assert "eager" in out and "tilefuse" in out


def test_bench_takes_an_exported_program(tmp_path, capsys):
    program = torch.export.export(torch.nn.Softmax(-1), (torch.randn(8, 32),))
    torch.export.save(program, tmp_path / "tiny.pt2")
    assert cli.main(["bench", str(tmp_path / "tiny.pt2"), "--no-inductor", "--seconds", "0.1"]) == 0
    assert "tilefuse" in capsys.readouterr().out
    tilefuse.fuse_file(tmp_path / "tiny.pt2", tmp_path / "fused.pt2")
    assert cli.main(["bench", str(tmp_path / "fused.pt2")]) == 2
    assert "fused.pt2: is fused; bench takes the exported program" in capsys.readouterr().err
    program.example_inputs = None
    torch.export.save(program, tmp_path / "bare.pt2")
    assert cli.main(["bench", str(tmp_path / "bare.pt2")]) == 2
    assert "bare.pt2: holds no example inputs" in capsys.readouterr().err


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0 and f"tilefuse {tilefuse.__version__}, torch {torch.__version__}" in capsys.readouterr().out


def test_every_stage_is_dumped_and_the_capture_replays(tmp_path, capsys):
    def step(x):
        h = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return torch.softmax(h, -1).cumsum(1).sum(0)

    options = {"dump": "all", "dump_dir": str(tmp_path), "strict": True}
    run = torch.compile(step, backend="tilefuse", dynamic=True, options=options)
    run(torch.randn(3, 4, 5, 8, requires_grad=True)).sum().backward()
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    # The number of a graph's folder counts what the process has dumped.
    graphs = sorted(path.parent for path in tmp_path.rglob("00-capture.json"))
    assert len(graphs) == 2 and {folder.name for graph in graphs for folder in graph.iterdir()} >= {"forward", "backward"}
    stages = ["03-tiles", "04-constraints", "05-schedule", "06-kernel", "07-source"]
    for stage in ["01-graph", "02-partition", *stages]:
        assert any(f"/{stage}" in name for name in names), stage
    for graph in graphs:
        assert cli.main(["replay", str(graph / "00-capture.json")]) == 0
        assert "torch.float32" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["show", "clear"])
def test_a_cache_that_is_not_there_is_named_and_not_made(action, tmp_path, capsys):
    assert cli.main(["cache", action, "--dir", str(tmp_path / "misspelt")]) == 2
    assert "misspelt: there is no such directory" in capsys.readouterr().err
    assert not (tmp_path / "misspelt").exists()


def test_cache_is_shown_and_cleared(tmp_path, capsys):
    run = torch.compile(lambda x: torch.tanh(x) * 3, backend="tilefuse", options={"cache_dir": str(tmp_path)})
    run(torch.randn(5))
    assert cli.main(["cache", "show", "--dir", str(tmp_path)]) == 0
    assert str(tmp_path) in capsys.readouterr().out.replace("\n", "")
    assert cli.main(["cache", "clear", "--dir", str(tmp_path)]) == 0
    assert "removed" in capsys.readouterr().out
    assert json.loads(operators().cache_stats(json.dumps({"cache_dir": str(tmp_path)})))["entries"] == 0


@pytest.mark.slow
def test_calibrate_writes_a_profile_that_the_solver_takes(tmp_path, capsys):
    profile = tmp_path / "here.json"
    assert cli.main(["calibrate", "--seconds", "2", "-o", str(profile)]) == 0
    rates = json.loads(profile.read_text())["rates"]
    assert "timed with torch " in rates["library.f32.gflops"]["source"]
    x = torch.randn(8, 33)
    run = torch.compile(lambda x: torch.softmax(x, -1), backend="tilefuse", options={"target": str(profile), "strict": True})
    torch.testing.assert_close(run(x), torch.softmax(x, -1))
    assert os.fspath(profile) in capsys.readouterr().out.replace("\n", "")
