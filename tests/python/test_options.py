import re
import subprocess
import sys
import warnings

import pytest
import tilefuse
import torch
from tilefuse import TileFuseWarning, UserError
from tilefuse.options import OPTIONS, Options


def test_unknown_option_names_it_and_the_nearest():
    with pytest.raises(UserError, match="unknown option 'numeric'; did you mean 'numerics'"):
        Options.parse(options={"numeric": "fast"})


def test_unknown_mode_names_the_known_ones():
    with pytest.raises(UserError, match="unknown mode 'fastest'.*max-autotune"):
        Options.parse(mode="fastest")


@pytest.mark.parametrize(
    ("name", "value", "wants"),
    [("numerics", "sloppy", "'fast' or 'eager'"), ("tune", -1, "a whole number from 0 to 64"), ("strict", 1, "True or False"), ("threads", "4", "a whole number")],
)
def test_bad_value_says_what_the_option_wants(name, value, wants):
    with pytest.raises(UserError, match=f"option '{name}' wants {wants}"):
        Options.parse(options={name: value})


def test_every_option_has_help_and_an_acceptable_default():
    for option in OPTIONS.values():
        assert option.help
        assert option.accepts(option.default) and isinstance(option.default, option.kind)


def test_unknown_option_reaches_the_caller_of_torch_compile():
    compiled = torch.compile(lambda x: x + 1, backend="tilefuse", options={"nmerics": "fast"})
    with pytest.raises(Exception) as caught:
        compiled(torch.ones(3))
    assert "did you mean 'numerics'" in str(caught.value)


def test_a_pin_of_a_misspelt_region_is_doubted():
    def chain(x):
        return torch.tanh(x).exp()

    options = {"pins": {"tahn_exp": {"unroll": "2"}, "of_another_graph": {"unroll": "2"}}}
    with pytest.warns(TileFuseWarning, match="pin 'tahn_exp' has no effect.*did you mean 'tanh_exp'") as seen:
        torch.compile(chain, backend="tilefuse", options=options)(torch.randn(40))
    assert len(seen) == 1


def test_pins_that_cannot_be_met_are_said_with_their_conflict():
    def chain(x):
        return torch.cosh(x).exp()

    x = torch.randn(40)
    with pytest.warns(TileFuseWarning, match="pins of region cosh_exp cannot be met.*there is no.*pinned: rows = 2"):
        y = torch.compile(chain, backend="tilefuse", options={"pins": {"cosh_exp": {"rows": "2"}}})(x)
    torch.testing.assert_close(y, chain(x))


def test_pins_that_leave_a_product_to_the_library_are_said_too():
    x, w = torch.randn(8, 64), torch.randn(64, 64)

    def product(x, w):
        return x @ w

    options = {"products": "own", "pins": {"mm": {"rows": "2", "lanes": "1", "walk": "online"}}}
    unmet = "the pins of region mm cannot be met, so that the library makes its products: no schedule of mm .*pinned"
    with pytest.warns(TileFuseWarning, match=unmet) as seen:
        y = torch.compile(product, backend="tilefuse", options=options)(x, w)
    torch.testing.assert_close(y, x @ w)
    assert len(seen) == 1  # not that there were no such region
    torch._dynamo.reset()
    with pytest.raises(Exception, match="region mm cannot be compiled: no schedule of mm"):
        torch.compile(product, backend="tilefuse", options=options | {"strict": True})(x, w)


def test_regions_of_the_same_operators_are_pinned_one_by_one():
    def products_between(x, w):
        return (torch.softmax(x, -1) @ w).softmax(-1)

    def rows(pins):
        report = tilefuse.explain(products_between, torch.randn(64, 96), torch.randn(96, 80),
                                  options={"products": "library", "pins": pins})
        return {region["name"]: re.search(r"rows +(\d+)", region["schedule"])[1]
                for graph in report.json()["graphs"] for region in graph["regions"]}

    free = rows({})
    assert set(free) == {"softmax", "softmax_2"}
    other = "1" if free["softmax_2"] == "2" else "2"
    assert rows({"softmax_2": {"rows": other}}) == {"softmax": free["softmax"], "softmax_2": other}


def test_backend_is_found_without_an_import():
    assert "tilefuse" in torch._dynamo.list_backends()


def test_explain_says_of_a_pin_that_no_graph_has_it():
    def broken_in_two(x):
        y = torch.tanh(x).exp()
        torch._dynamo.graph_break()
        return torch.sigmoid(y).log()

    good = {"tanh_exp": {"unroll": "2"}, "sigmoid_log": {"unroll": "2"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        tilefuse.explain(broken_in_two, torch.randn(40), options={"pins": good})
    pins = good | {"nosuchregion": {"unroll": "2"}}
    with pytest.warns(TileFuseWarning, match="pin 'nosuchregion' has no effect: no region has this name; did you mean '") as seen:
        tilefuse.explain(broken_in_two, torch.randn(40), options={"pins": pins})
    assert len(seen) == 1


PINNED = """
import sys, torch
def broken_in_two(x):
    y = torch.tanh(x).exp()
    torch._dynamo.graph_break()
    return torch.sigmoid(y).log()
pins = {name: {"unroll": "2"} for name in sys.argv[1:]}
torch.compile(broken_in_two, backend="tilefuse", options={"pins": pins})(torch.randn(40))
"""


def test_a_pin_of_no_graph_of_the_process_is_said_at_its_end():
    """Not before: the graph that has it may be yet to come."""
    def said(*pins):
        done = subprocess.run([sys.executable, "-c", PINNED, *pins], capture_output=True, text=True, check=True)
        return done.stderr.count("TileFuseWarning"), done.stderr

    assert said("tanh_exp", "sigmoid_log")[0] == 0
    count, text = said("nosuchregion", "sigmoid_log")
    assert count == 1
    assert re.search(r"pin 'nosuchregion' has no effect: no region has this name; did you mean '(tanh_exp|sigmoid_log)'\?", text)
