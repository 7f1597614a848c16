"""What breaks around the engine must not break the user's program."""

import json
import os
import shutil
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
        x, y = torch.randn(8, 50), torch.randn(50)
        for f in (lambda x, y: torch.softmax(x * y + 1, -1), lambda x, y: (torch.tanh(x) - y).sum(0)):
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


def failing_compiler(folder):
    """In other words each time: still a matter of one warning."""
    compiler = folder / "cxx"
    compiler.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'c++ 1.0' && exit 0\necho broken $$ >&2\nexit 1\n")
    compiler.chmod(stat.S_IRWXU)
    return compiler


def counting_compiler(folder):
    """A compiler, and the file where its calls are noted."""
    compiler, log = folder / "cxx", folder / "log"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec c++ "$@"\n')
    compiler.chmod(stat.S_IRWXU)
    return compiler, log


def test_no_compiler_gives_atens_result_and_one_warning(tmp_path):
    (message,) = run(TILEFUSE_CXX="/nonexistent/c++", TILEFUSE_CACHE_DIR=str(tmp_path))
    assert "/nonexistent/c++" in message


def test_failing_compiler_gives_atens_result_and_one_warning(tmp_path):
    (message,) = run(TILEFUSE_CXX=str(failing_compiler(tmp_path)), TILEFUSE_CACHE_DIR=str(tmp_path / "cache"))
    assert "broken" in message


def test_without_a_compiler_the_ziglang_wheel_of_this_python_serves(tmp_path):
    """A stand-in for the wheel: what counts is that `python -m ziglang c++` is found and called."""
    package, log = tmp_path / "ziglang", tmp_path / "log"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import os, sys\n"
        f"open({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        "os.environ['PATH'] = '/usr/bin:/bin'\n"
        f"os.execv({shutil.which('c++')!r}, sys.argv[1:])\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    nothing = tmp_path / "bin"
    nothing.mkdir()
    environment = {"PATH": str(nothing), "PYTHONPATH": path, "TILEFUSE_CXX": ""}
    assert run(TILEFUSE_CACHE_DIR=str(tmp_path / "cache"), **environment) == []
    lines = log.read_text().splitlines()
    assert lines[0] == "c++ --version" and any("-shared" in line for line in lines)


def test_strict_turns_a_failing_compiler_into_an_error(tmp_path):
    with pytest.raises(AssertionError, match="nonexistent"):
        run("{'strict': True}", TILEFUSE_CXX="/nonexistent/c++", TILEFUSE_CACHE_DIR=str(tmp_path))


def test_unusable_cache_directory_compiles_without_a_cache(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    (message,) = run(TILEFUSE_CACHE_DIR=str(blocked / "cache"))
    assert str(blocked / "cache") in message and "cannot cache kernels" in message


def test_a_cache_that_others_can_write_is_not_used(tmp_path):
    open_to_all = tmp_path / "cache"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (message,) = run(TILEFUSE_CACHE_DIR=str(open_to_all))
    assert "other users can write" in message and not list(open_to_all.iterdir())


def test_two_faults_are_one_warning(tmp_path):
    (message,) = run(TILEFUSE_CXX=str(failing_compiler(tmp_path)), TILEFUSE_CACHE_DIR="/proc/tilefuse")
    assert "broken" in message and "/proc/tilefuse" in message


def is_kernel(entry):
    return entry.startswith(b"\x7fELF")


def is_plan(entry):
    return entry.startswith(b"{")


@pytest.mark.parametrize(("is_meant", "is_rebuilt"), [(is_kernel, True), (is_plan, False)], ids=["kernels", "plans"])
def test_corrupt_cache_entries_are_rebuilt(tmp_path, is_meant, is_rebuilt):
    """One changed digit or instruction: still a file that loads, which only the checksum tells from the right one."""
    compiler, log = counting_compiler(tmp_path)
    environment = {"TILEFUSE_CXX": str(compiler), "TILEFUSE_CACHE_DIR": str(tmp_path / "cache")}
    run(**environment)
    log.write_text("")
    meant = [p for p in (tmp_path / "cache").iterdir() if is_meant(p.read_bytes())]
    assert meant
    for path in meant:
        path.write_bytes(path.read_bytes().replace(b"1", b"2"))
    damaged = [path.read_bytes() for path in meant]
    assert run(**environment) == []
    assert all(path.read_bytes() != old for path, old in zip(meant, damaged, strict=True))
    assert ("-shared" in log.read_text()) == is_rebuilt


def test_second_process_compiles_nothing(tmp_path):
    compiler, log = counting_compiler(tmp_path)
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


def captured(function, *inputs, **kwargs):
    from tilefuse.backend import collect_graphs

    torch._dynamo.reset()
    with torch.no_grad(), collect_graphs() as graphs:
        torch.compile(function, backend="tilefuse", **kwargs)(*inputs)
    return json.loads(graphs[0].graph_json)


def test_missing_tensor_is_named_with_its_node():
    document = captured(lambda x: torch.relu(x) + 1, torch.randn(4))
    graph = document["graph_module"]["graph"]
    name = next(iter(graph["nodes"][0]["outputs"][0].values()))["name"]
    del graph["tensor_values"][name]
    with pytest.raises(ValueError, match=name):
        operators().compile(json.dumps(document), "{}")


def first_tensor(graph):
    return next(iter(graph["tensor_values"].values()))


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        (lambda g: g["nodes"][0].pop("inputs"), r"node 'relu' .*no field 'inputs'"),
        (lambda g: g["nodes"][0].update(outputs={}), r"node 'relu' .*field outputs: must be a list"),
        (lambda g: g["nodes"][0]["inputs"][0].pop("arg"), r"node 'relu' .*field inputs\[0\]: has no field 'arg'"),
        (lambda g: first_tensor(g).update(dtype=99), r"tensor 'arg0_1': field dtype: .*99"),
        (lambda g: first_tensor(g).update(sizes=[{"as_int": -4}]), r"tensor 'arg0_1': field sizes\[0\]: .*negative.*-4"),
        (lambda g: first_tensor(g).pop("strides"), r"tensor 'arg0_1': has no field 'strides'"),
        (lambda g: g.update(inputs=[]), r"node 'relu' .*'arg0_1', which no input"),
    ],
)
def test_malformed_fields_are_named_with_their_node(damage, names):
    document = captured(lambda x: torch.relu(x) + 1, torch.randn(4))
    damage(document["graph_module"]["graph"])
    with pytest.raises(ValueError, match=names):
        operators().compile(json.dumps(document), "{}")


def only_node(document, operator):
    (node,) = [n for n in document["graph_module"]["graph"]["nodes"] if n["target"].endswith(operator)]
    return node


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        (lambda d: only_node(d, "native_layer_norm.default")["outputs"].pop(), r"layer_norm.* field outputs: must hold the 3 results, holds 2"),
        (lambda d: next(iter(d["range_constraints"].values())).update(max_val=-7), r"field range_constraints\.s\d+: has min_val 2 above max_val -7"),
    ],
)
def test_fields_that_contradict_others_are_named(damage, names):
    document = captured(lambda x: torch.nn.functional.layer_norm(x, (4,)), torch.randn(3, 4), dynamic=True)
    damage(document)
    with pytest.raises(ValueError, match=names):
        operators().compile(json.dumps(document), "{}")


def test_an_order_of_too_few_dims_is_left_to_the_framework():
    document = captured(lambda x: x.permute(2, 0, 1) + 1, torch.randn(2, 3, 4))
    only_node(document, "permute.default")["inputs"][1]["arg"]["as_ints"].pop()
    with pytest.raises(RuntimeError, match="dim"):
        answer = json.loads(operators().compile(json.dumps(document), "{}"))
        getattr(operators(), answer["op"])(torch.randn(2, 3, 4))


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
