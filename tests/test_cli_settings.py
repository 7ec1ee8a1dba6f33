"""Settings from the options of the command line."""

import dataclasses
import re

import pytest
from encoders import static_folder

import textsvm
from textsvm.cli import machines, settings, tune
from textsvm.cli.console import WrongUsage
from textsvm.cli.options import LearningOptions
from textsvm.kernels import KERNELS
from textsvm.kernels.encoder import encoders_of
from textsvm.kernels.spelling import parse, spell


def options(**kernel):
    """Of `textsvm train` without any but those of the kernel."""
    return machines.ModelOptions(
        machines.KernelOptions(**kernel), machines.TextOptions(), machines.MachineOptions()
    )


def as_it_is(of):
    """The parameters of an estimator, its kernel by what it says of itself."""
    found = of.as_dict()
    kernel = found.pop("kernel")
    return {**found, "kernel": kernel if isinstance(kernel, str) else kernel.structure.as_dict()}


def test_the_command_line_makes_the_machine_that_python_makes():
    """C was 10 there and 1 here."""
    assert as_it_is(settings.single(options(), LearningOptions())) == as_it_is(textsvm.SVC().settings)
    assert textsvm.SVC().kernel == "auto"
    for made, default in (
        (settings.single(options(), LearningOptions(regress="score")), textsvm.SVR()),
        (settings.one_class(options(), None), textsvm.OneClassSVM()),
        (settings.single(options(), LearningOptions(multilabel=True)), textsvm.MultilabelSVC()),
    ):
        ours, theirs = as_it_is(made), as_it_is(default.settings)
        assert type(made) is type(default.settings)
        assert made.new_kernel().structure.as_dict() == default.settings.new_kernel().structure.as_dict()
        assert {**ours, "kernel": None} == {**theirs, "kernel": None}
    short = dataclasses.replace(options(), text=machines.TextOptions(max_length=5))
    assert settings.one_class(short, None).max_length == 5
    both = tune.KernelGrid(["gap"], p="3,4", decay="0.3,0.6").grid(tuning=True)  # the first varies fastest
    assert [(kernel.p, kernel.decay) for kernel in both] == [(3, 0.3), (4, 0.3), (3, 0.6), (4, 0.6)]


@pytest.mark.parametrize("name", KERNELS.simple())
def test_a_named_kernel_is_the_one_of_python(name):
    made = settings.single(options(kernel=[name]), LearningOptions())
    assert made.new_kernel().structure.as_dict() == KERNELS[name]().structure.as_dict()
    assert as_it_is(made) == as_it_is(textsvm.SVC(made.kernel).settings)


@pytest.mark.parametrize("name", ["a+b", "b=c", "en c,x+y", "e:f*g", "h,bits=8", '"quoted"', "i"])
def test_the_folder_of_encoder_is_taken_as_it_is(tmp_path, monkeypatch, name):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    static_folder(tmp_path / name)
    whole, rounded = settings.encoder_of(name, []).encoder, settings.encoder_of(f"{name}, bits=8", [])
    assert whole.name == name
    assert whole == textsvm.Encoder(name)._loaded()
    assert rounded.encoder == whole.rounded() != whole
    if '"' not in name:
        assert parse(spell(textsvm.Encoder(name))).encoder == name


@pytest.mark.parametrize("name", ["a+b", "b=c", "x,bits=eight", "x,bits=7", "", "~no-user/e", "x" * 300])
def test_a_folder_of_encoder_that_is_not_there(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongUsage, match=f"^--encoder {re.escape(name[:100])}(?!.*is no kernel)"):
        settings.encoder_of(name, [])


@pytest.mark.parametrize("of", ["spectrum:3+encoder:e", "title=encoder:e", "gap:3*encoder:e", "encoder:f"])
def test_two_encoders_are_refused(tmp_path, of):
    """That of --encoder had no effect."""
    pytest.importorskip("tokenizers")
    e, f = (str(static_folder(tmp_path / name, seed=k)) for k, name in enumerate("ef"))
    of = of.replace(":e", f":{e}").replace(":f", f":{f}")
    both = dataclasses.replace(options(kernel=[of]), encoder=[e])
    for make in (
        lambda: settings.single(both, LearningOptions()),
        lambda: settings.single(both, LearningOptions(regress="score")),
        lambda: settings.single(both, LearningOptions(multilabel=True)),
        lambda: settings.grid(both, LearningOptions()),
        lambda: settings.one_class(both, None),
    ):
        with pytest.raises(
            WrongUsage, match=r"does not go with --kernel .*, which names an encoder; leave o"
        ):
            make()
    if of != f"encoder:{f}":
        return
    for machine in (textsvm.SVC, textsvm.SVR, textsvm.MultilabelSVC, textsvm.OneClassSVM):
        with pytest.raises(
            textsvm.InputError, match="the kernel has an encoder; leave the parameter encoder"
        ):
            machine(of, encoder=e).settings.check()
    fitted = textsvm.SVC(of, encoder=f).fit(["bread", "car"], [0, 1])
    assert [part.encoder.name for part in encoders_of(fitted.kernel_)] == ["f"]
