"""What breaks around the engine must not break the user's program."""

import json
import os
import stat
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch
from tilefuse.library import operators

SCRIPT = textwrap.dedent("""
    import sys, warnings, torch
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = lambda x, y: torch.softmax(x * y + 1, -1)
        x, y = torch.randn(8, 50), torch.randn(50)
        got = torch.compile(f, backend="tilefuse", options=OPTIONS)(x, y)
        torch.testing.assert_close(got, f(x, y))
        ours = [str(w.message) for w in caught if type(w.message).__name__ == "TileFuseWarning"]
    print(len(ours), *ours, sep="\\n")
""")


def run(options="{}", **environment):
    """Runs the script in a fresh process; returns its warnings."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("OPTIONS", options)],
        env=dict(os.environ, **environment), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, *messages = done.stdout.strip().split("\n")
    assert int(count) <= 1, messages
    return messages


def test_no_compiler_gives_atens_result_and_one_warning(tmp_path):
    (message,) = run(TILEFUSE_CXX="/nonexistent/c++", TILEFUSE_CACHE_DIR=str(tmp_path))
    assert "/nonexistent/c++" in message


def test_failing_compiler_gives_atens_result_and_one_warning(tmp_path):
    compiler = tmp_path / "cxx"
    compiler.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'c++ 1.0' && exit 0\necho broken >&2\nexit 1\n")
    compiler.chmod(stat.S_IRWXU)
    (message,) = run(TILEFUSE_CXX=str(compiler), TILEFUSE_CACHE_DIR=str(tmp_path / "cache"))
    assert "broken" in message


def test_strict_turns_a_failing_compiler_into_an_error(tmp_path):
    with pytest.raises(AssertionError, match="nonexistent"):
        run("{'strict': True}", TILEFUSE_CXX="/nonexistent/c++", TILEFUSE_CACHE_DIR=str(tmp_path))


def test_unusable_cache_directory_compiles_without_a_cache(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    assert len(run(TILEFUSE_CACHE_DIR=str(blocked / "cache"))) <= 1


def test_corrupt_cache_entries_are_rebuilt(tmp_path):
    run(TILEFUSE_CACHE_DIR=str(tmp_path))
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        for i in range(0, len(data), 7):
            data[i] ^= 0x5A
        path.chmod(0o600)
        path.write_bytes(data)
    assert run(TILEFUSE_CACHE_DIR=str(tmp_path)) == []


def test_second_process_compiles_nothing(tmp_path):
    log = tmp_path / "log"
    compiler = tmp_path / "cxx"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec c++ "$@"\n')
    compiler.chmod(stat.S_IRWXU)
    environment = {"TILEFUSE_CXX": str(compiler), "TILEFUSE_CACHE_DIR": str(tmp_path / "cache")}
    run(**environment)
    assert "-shared" in log.read_text()
    log.write_text("")
    assert run(**environment) == []
    assert "-shared" not in log.read_text()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", "JSON"),
        ("{}", "schema_version"),
        ('{"schema_version": {"major": 99, "minor": 0}}', "99"),
    ],
)
def test_malformed_graphs_are_named(text, names):
    with pytest.raises(ValueError, match=names):
        operators().compile(text, "{}")


def captured(function, *inputs):
    from tilefuse.backend import collect_graphs

    torch._dynamo.reset()
    with torch.no_grad(), collect_graphs() as graphs:
        torch.compile(function, backend="tilefuse")(*inputs)
    return json.loads(graphs[0].graph_json)


def test_missing_tensor_is_named_with_its_node():
    document = captured(lambda x: torch.relu(x) + 1, torch.randn(4))
    graph = document["graph_module"]["graph"]
    name = next(iter(graph["nodes"][0]["outputs"][0].values()))["name"]
    del graph["tensor_values"][name]
    with pytest.raises(ValueError, match=name):
        operators().compile(json.dumps(document), "{}")


def test_unknown_fields_are_ignored():
    document = captured(lambda x: torch.relu(x) + 1, torch.randn(4))
    document["graph_module"]["graph"]["nodes"][0]["of_tomorrow"] = {"a": [1]}
    answer = json.loads(operators().compile(json.dumps(document), "{}"))
    assert answer["op"]


def test_unknown_dump_stage_is_named():
    script = 'import torch; torch.compile(lambda x: x + 1, backend="tilefuse")(torch.ones(3))'
    done = subprocess.run(
        [sys.executable, "-c", script], env=dict(os.environ, TILEFUSE_DUMP="schedul"), capture_output=True, text=True
    )
    assert done.returncode != 0 and "schedul" in done.stderr and "schedule" in done.stderr


def test_operators_outside_the_table_run_as_calls():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = torch.compile(lambda x: torch.sort(x * 2).values + 1, backend="tilefuse")
        x = torch.randn(50)
        torch.testing.assert_close(run(x), torch.sort(x * 2).values + 1)
