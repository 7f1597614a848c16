import pytest
import torch
from tilefuse import UserError
from tilefuse.errors import TileFuseWarning
from tilefuse.options import OPTIONS, Options


def test_unknown_option_names_it_and_the_nearest():
    with pytest.raises(UserError, match="unknown option 'numeric'; did you mean 'numerics'"):
        Options.parse(options={"numeric": "fast"})


def test_unknown_mode_names_the_known_ones():
    with pytest.raises(UserError, match="unknown mode 'fastest'.*max-autotune"):
        Options.parse(mode="fastest")


@pytest.mark.parametrize(
    ("name", "value", "wants"),
    [("numerics", "sloppy", "'fast' or 'eager'"), ("tune", -1, "0 to 64"), ("strict", 1, "bool"), ("threads", True, ">= 0")],
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


def test_backend_is_found_without_an_import():
    assert "tilefuse" in torch._dynamo.list_backends()
