"""Estimators from the options of the command line."""

import pytest

import textsvm
from textsvm.cli import estimators, kernels, machines
from textsvm.cli.machines import ClusterOptions
from textsvm.cli.options import LearningOptions
from textsvm.kernels import KERNELS


def options(**kernel):
    """Of `textsvm train` without any but those of the kernel."""
    return machines.ModelOptions(
        kernels.KernelOptions(**kernel), machines.TextOptions(), machines.MachineOptions(), ClusterOptions()
    )


def as_it_is(settings):
    """The parameters of an estimator, its kernel by what it says of itself."""
    found = settings.as_dict()
    kernel = found.pop("kernel")
    return {**found, "kernel": kernel if isinstance(kernel, str) else kernel.structure.as_dict()}


def test_the_command_line_makes_the_machine_that_python_makes():
    """C was 10 there and 1 here."""
    assert as_it_is(estimators.single(options(), LearningOptions())) == as_it_is(textsvm.SVC().settings)
    assert textsvm.SVC().kernel == "auto"
    for made, default in (
        (estimators.single(options(), LearningOptions(regress="score")), textsvm.SVR()),
        (estimators.one_class(options(), None), textsvm.OneClassSVM()),
        (estimators.single(options(), LearningOptions(multilabel=True)), textsvm.MultilabelSVC()),
    ):
        ours, theirs = as_it_is(made), as_it_is(default.settings)
        assert type(made) is type(default.settings)
        assert made.new_kernel().structure.as_dict() == default.settings.new_kernel().structure.as_dict()
        assert {**ours, "kernel": None} == {**theirs, "kernel": None}


@pytest.mark.parametrize("name", KERNELS.simple())
def test_a_named_kernel_is_the_one_of_python(name):
    made = estimators.single(options(kernel=[name]), LearningOptions())
    assert made.new_kernel().structure.as_dict() == KERNELS[name]().structure.as_dict()
    assert as_it_is(made) == as_it_is(textsvm.SVC(made.kernel).settings)
