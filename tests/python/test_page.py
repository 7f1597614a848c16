"""The page of explain, in a real browser: what clicks show, that it asks nobody, and how much it draws.

TILEFUSE_BLESS=1 writes the picture of the docs anew.
"""

import json
import os
import pathlib
import struct

import jsonschema
import pytest
import tilefuse
import torch
import torch.nn.functional as F
from browser import Browser, missing_programs
from tilefuse import cli, demo
from tilefuse.library import operators
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "pictures" / "explain.png"
HOSTILE = '</script><img src=x onerror="window.harmed=1">\u2028<!--${window.harmed=1}&lt;'


@pytest.fixture(scope="module")
def browser():
    missing = missing_programs()
    if missing and not os.environ.get("CI"):
        pytest.skip(f"needs {' and '.join(missing)} (Debian: chromium chromium-driver)")
    assert not missing, missing
    window = Browser()
    yield window
    window.driver.quit()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The report of the demo's model, and its page."""
    model, inputs = demo.model_and_inputs()
    with torch.no_grad():
        report = tilefuse.explain(model, *inputs)
    path = tmp_path_factory.mktemp("page") / "minilm.html"
    report.html(path, title="all-MiniLM-L6-v2")
    return report.json()["graphs"][0], path


def pixel_of(window, condition):
    """A pixel of the picture where ``at`` finds what the condition (JavaScript over ``thing``) wants; the picture is moved there."""
    return window.run(
        """
        const {picture} = page, wanted = (thing) => %s;
        const points = [
          ...picture.boxes.map((box) => ({x: box.x - box.width / 2 + 8, y: box.y - box.height / 2 + 8})),
          ...picture.nodes.map((node) => ({x: node.x, y: node.y})),
          ...picture.layout.routes.flatMap((route) => route.slice(1).map((p, i) => ({x: (p.x + route[i].x) / 2, y: (p.y + route[i].y) / 2}))),
        ];
        for (const point of points) {
          picture.zoom.transform(d3.select(picture.canvas), d3.zoomIdentity.translate(700, 300).translate(-point.x, -point.y));
          const thing = picture.at(700, 300);
          if (thing !== null && wanted(thing)) return [700, 300];
        }
        return null;
        """
        % condition
    )


def test_a_real_page_asks_nobody_and_has_no_errors(browser, real):
    _, path = real
    browser.open(path)
    assert [url for url in browser.requests() if not url.startswith((path.as_uri(), "blob:", "data:"))] == []
    assert browser.complaints() == []
    text = path.read_text(encoding="utf-8")
    assert "Permission is hereby granted" in text and "d3js.org" in text  # the libraries came with their licences


def test_clicking_a_region_shows_all_about_it(browser, real):
    graph, path = real
    browser.open(path)
    browser.click(*pixel_of(browser, "thing.region !== undefined && thing.region.launches.length > 1"))
    name = browser.text("#content h2")
    region = next(region for region in graph["regions"] if region["name"] == name)
    text = browser.text("#content")
    for shown in (*region["ops"], *region["user_source"], region["schedule"], region["tile_graph"], region["source"]):
        assert shown in text
    for term in region["cost"]:
        assert term["name"] in text
    assert f"Launched {region['uses']} time" in text
    assert browser.run("return document.querySelectorAll('#legend .chosen').length") == 1


def test_clicking_an_edge_shows_its_reason(browser, real):
    graph, path = real
    browser.open(path)
    browser.click(*pixel_of(browser, "thing.edge?.kind === 'unfused'"))
    text = browser.text("#content")
    assert "Not fused" in text
    edges = [edge for edge in graph["unfused_edges"] if f"%{edge['value']} → %{edge['consumer']}" in text]
    assert len(edges) == 1 and edges[0]["reason"] in text and edges[0]["text"][1:] in text
    browser.click(*pixel_of(browser, "thing.edge?.kind === 'inside'"))
    text = browser.text("#content")
    assert "Fused" in text and "stays on chip" in text


def test_search_finds_nodes_and_leads_to_them(browser, real):
    graph, path = real
    browser.open(path)
    field = browser.driver.find_element("id", "query")
    field.send_keys("rsqrt LAYER_NORM")
    found = [node for node in graph["graph"]["nodes"] if node["op"] == "rsqrt" and "layer_norm" in node["origin"]]
    assert found and browser.text("#found") == f"{len(found)} found"
    field.submit()
    browser.settle()
    assert browser.text("#found") == f"1 of {len(found)}" and f"%{found[0]['name']}" == browser.text("#content h2")
    point = browser.run("return page.picture.onCanvas(page.selected.node)")
    browser.click(point["x"], point["y"])
    assert browser.text("#content h2") == f"%{found[0]['name']}"


def test_tables_show_time_and_bytes_before_and_after(browser, real):
    graph, path = real
    browser.open(path)
    rows = browser.run("return [...document.querySelectorAll('#content table')[0].querySelectorAll('tbody tr')].map(row => row.textContent)")
    assert len(rows) == len(graph["regions"])
    assert all(any(region["name"] in row for row in rows) for region in graph["regions"])
    saved = browser.run("const t = page.model.totals(); return [t.bytesBefore, t.bytesAfter, t.apartUs, t.fusedUs]")
    uses = [(region["uses"], region) for region in graph["regions"]]
    assert saved[0] == pytest.approx(sum(n * (region["bytes"] + region["bytes_saved"]) for n, region in uses))
    assert saved[1] == pytest.approx(sum(n * region["bytes"] for n, region in uses))
    assert saved[2:] == pytest.approx([sum(n * r[key] for n, r in uses) for key in ("apart_us", "predicted_us")])


def test_the_page_follows_the_readers_light_or_dark(browser, real):
    _, path = real
    browser.open(path)
    pixel = "const c = page.picture.context; return [...c.getImageData(2, 2, 1, 1).data].slice(0, 3)"
    light = browser.run(pixel)
    browser.media(prefers_color_scheme="dark")
    browser.settle()
    dark = browser.run(pixel)
    assert min(light) > 200 and max(dark) < 60


def test_the_picture_in_the_docs_is_of_this_page(browser, real):
    _, path = real
    browser.open(path)
    browser.run("page.select({region: page.model.regions.reduce((a, b) => b.apart_us / b.predicted_us > a.apart_us / a.predicted_us ? b : a)})")
    browser.settle()
    shot = browser.driver.get_screenshot_as_png()
    if os.environ.get("TILEFUSE_BLESS"):
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes(shot)
    kept = PICTURE.read_bytes()
    assert len(kept) < 400_000
    assert struct.unpack(">II", kept[16:24]) == struct.unpack(">II", shot[16:24])
    drawn = browser.run("const c = page.picture.canvas, d = page.picture.context.getImageData(0, 0, c.width, c.height).data;"
                        "const seen = new Set(); for (let i = 0; i < d.length; i += 40) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);"
                        "return seen.size")  # fmt: skip
    assert drawn > 50  # colours: boxes, nodes, edges and letters were drawn


def harmful(value, kept=("role", "kind", "reason")):
    """The report with something hostile at the end of every text that is the user's to choose."""
    if isinstance(value, dict):
        return {key: item if key in kept else harmful(item) for key, item in value.items()}
    if isinstance(value, list):
        return [harmful(item) for item in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_names_and_sources_are_never_markup_or_code(browser, tmp_path):
    with torch.no_grad():
        report = tilefuse.explain(lambda x: torch.sort(torch.softmax(x * 2, -1)).values + 1, torch.randn(8, 32))
    path = tmp_path / "hostile.html"
    path.write_text(operators().report_page(json.dumps(harmful(report.json())), HOSTILE), encoding="utf-8")
    browser.open(path)
    title = browser.run("return document.title")
    assert title == HOSTILE
    shown = []
    for condition in ("thing.region !== undefined", "thing.edge?.kind === 'unfused'", "thing.edge?.kind === 'inside'", "thing.node"):
        browser.click(*pixel_of(browser, condition))
        shown.append(browser.text("#content"))
    browser.run("page.select(null)")
    shown.append(browser.text("#content"))
    assert all("</script><img src=x onerror=" in text for text in shown)
    assert browser.run("return window.harmed") is None
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert [url for url in browser.requests() if not url.startswith((path.as_uri(), "blob:", "data:"))] == []


def test_a_hostile_source_line_of_a_real_model_stays_text(browser, tmp_path, monkeypatch):
    (tmp_path / "hostile_model.py").write_text(
        "import torch\n\ndef run(x):\n    return torch.softmax(x, -1)  # </script><img src=x onerror='window.harmed=1'>\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import hostile_model

    with torch.no_grad():
        report = tilefuse.explain(hostile_model.run, torch.randn(8, 32))
    report.html(tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.click(*pixel_of(browser, "thing.region !== undefined"))
    assert "</script><img src=x onerror='window.harmed=1'>" in browser.text("#content .source")
    assert browser.run("return window.harmed") is None


def test_several_graphs_and_one_that_is_not_fused(browser, tmp_path):
    def step(x):
        return F.gelu(F.layer_norm(x, (32,))).sum()

    def compiled(x):
        step(x).backward()

    report = tilefuse.explain(compiled, torch.randn(8, 32, requires_grad=True))
    graphs = report.json()["graphs"]
    assert len(graphs) >= 2
    document = {"version": 1, "graphs": [*graphs, {
        "role": "inference", "milliseconds": 0, "fallback_reason": "sizes depend on data", "regions": [], "unfused_edges": [],
        "graph": {"launches": [], "nodes": [], "edges": []}}]}  # fmt: skip
    jsonschema.validate(document, json.loads((ROOT / "configs" / "explain.schema.json").read_text()))
    path = tmp_path / "graphs.html"
    path.write_text(operators().report_page(json.dumps(document), "graphs"), encoding="utf-8")
    browser.open(path)
    for number, graph in enumerate(document["graphs"]):
        browser.run("page.ready = false; page.open(arguments[0])", number)
        browser.driver.execute_async_script("const done = arguments[0]; const wait = () => page.ready ? done() : setTimeout(wait, 10); wait()")
        assert browser.run("return page.picture.boxes.length") == len(graph["graph"]["launches"])
    assert "sizes depend on data" in browser.text("#content") and browser.complaints() == []


class Deep(nn.Module):
    """Blocks of which no two may share a region: their widths differ."""

    def __init__(self, blocks=72):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(blocks))
        self.ups = nn.ModuleList(nn.Linear(32, 48 + 16 * (i % 4)) for i in range(blocks))
        self.downs = nn.ModuleList(nn.Linear(48 + 16 * (i % 4), 32) for i in range(blocks))

    def forward(self, x, mask):
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + torch.softmax(down(F.gelu(up(norm(x)))) + mask, -1)
        return x


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """A page of two thousand nodes, by the command, from an exported program."""
    folder = tmp_path_factory.mktemp("deep")
    with torch.no_grad():
        program = torch.export.export(Deep().eval(), (torch.randn(8, 32), torch.randn(8, 32)))
    torch.export.save(program, folder / "deep.pt2")
    assert cli.main(["explain", str(folder / "deep.pt2"), "--html", str(folder / "deep.html"), "--json", str(folder / "deep.json")]) == 0
    return json.loads((folder / "deep.json").read_text()), folder / "deep.html"


# Draws 120 frames while moving and zooming, one a display frame; returns what each drew and when it was shown.
FRAMES = """
const done = arguments[0], {picture} = page, target = d3.select(picture.canvas), seen = [];
let number = 0;
const step = (now) => {
  if (number > 0) seen.push({...picture.frame, now});
  if (number++ === 120) return done(seen);
  const k = 0.05 + 0.95 * Math.abs(Math.sin(number / 19));
  picture.zoom.transform(target, d3.zoomIdentity.translate(-number * 20 * k, -number * 6 * k).scale(k));
  requestAnimationFrame(step);
};
requestAnimationFrame(step);
"""


def test_two_thousand_nodes_pan_and_zoom(browser, deep):
    report, path = deep
    (graph,) = report["graphs"]
    nodes = [node for node in graph["graph"]["nodes"] if node["kind"] in ("operator", "call")]
    assert len(nodes) >= 2000
    browser.open(path)
    # One canvas whatever the graph, and no graph that dagre lays out is large: neither depends on the machine.
    assert browser.run("return document.querySelectorAll('*').length") < 1500
    layout = browser.run("const {columns, largest} = page.picture.layout; return {columns, largest}")
    assert layout["columns"] > 3 and layout["largest"] < 150
    frames = browser.driver.execute_async_script(FRAMES)
    assert len(frames) == 120 and frames[-1]["count"] - frames[0]["count"] == 119  # none was left out
    for frame in frames:
        assert frame["nodes"] <= len(nodes) + 24 and frame["edges"] <= len(graph["graph"]["edges"])
    browser.run("page.picture.fit()")
    browser.settle()
    assert browser.run("return page.picture.frame.edges") <= 12  # zoomed out: one stroke for each kind of edge
    browser.run("page.picture.reveal({node: page.picture.nodes[0]})")
    browser.settle()
    assert browser.run("return page.picture.frame.nodes") < 200  # zoomed in: what is in view
    own = sorted(frame["milliseconds"] for frame in frames)
    shown = sorted(after["now"] - before["now"] for before, after in zip(frames, frames[1:], strict=False))
    print(f"\n{len(nodes)} nodes: a frame takes {own[60]:.1f} ms to draw (worst {own[-1]:.1f}), shown every {shown[60]:.1f} ms (worst {shown[-1]:.1f})")


def test_the_command_explains_exported_and_fused_files(deep, tmp_path, capfd):
    with torch.no_grad():
        program = torch.export.export(lambda_module(), (torch.randn(8, 32),))
    source, fused, page = tmp_path / "model.pt2", tmp_path / "fused.pt2", tmp_path / "fused.html"
    torch.export.save(program, source)
    assert cli.main(["fuse", str(source), "-o", str(fused)]) == 0
    reports = []
    for path in (source, fused):
        assert cli.main(["explain", str(path), "--json", str(tmp_path / "report.json")]) == 0
        reports.append(json.loads((tmp_path / "report.json").read_text()))
        jsonschema.validate(reports[-1], json.loads((ROOT / "configs" / "explain.schema.json").read_text()))
        for graph in reports[-1]["graphs"]:
            graph.pop("stages"), graph.pop("milliseconds")
    assert reports[0] == reports[1]
    capfd.readouterr()
    assert cli.main(["explain", str(fused)]) == 0
    name = reports[0]["graphs"][0]["regions"][0]["name"]
    assert f"region {name}" in capfd.readouterr().out
    assert cli.main(["explain", str(fused), "--source", name]) == 0
    assert 'extern "C" void' in capfd.readouterr().out
    assert cli.main(["explain", str(fused), "--source", "nowhere"]) == 2
    assert f"no region 'nowhere'; there are: {name}" in capfd.readouterr().err
    assert cli.main(["explain", str(fused), "--html", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert cli.main(["explain", str(source), "--html", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "page.html: cannot be written" in capfd.readouterr().err


def lambda_module():
    class Softmax(nn.Module):
        def forward(self, x):
            return torch.softmax(x * 2, -1)

    return Softmax().eval()
