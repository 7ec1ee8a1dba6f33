"""The machine that learns and unlearns: after anything that happens it is at the optimum of what is left.

LIBSVM, as in scikit-learn, trained from scratch on what is left, is the judge.
"""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from refusals import refuses
from sklearn.svm import SVC as LibSVM
from sklearn.svm import LinearSVC

from textsvm.solvers import online as module
from textsvm.solvers import online_rows
from textsvm.solvers.online import OnlineMachine

TOL = 1e-5
#: Sets of features: some the same, some empty.
BAGS = st.frozensets(st.integers(0, 11), max_size=6)


def vector(bag):
    keys = np.array(sorted(bag), np.uint64)
    return keys, np.full(len(keys), 1 / np.sqrt(max(len(keys), 1)), np.float32)


def gram(bags):
    X = np.zeros((len(bags), 1 + max((max(bag, default=0) for bag in bags), default=0)))
    for i, bag in enumerate(bags):
        keys, values = vector(bag)
        X[i, keys.astype(int)] = values
    return X @ X.T


def from_scratch(lessons, C, free_bias=True):
    """The objective of LIBSVM on {name: (bag, positive)}; without a bias that of LIBLINEAR."""
    if not free_bias:
        return without_bias(lessons, C)
    bags, labels = zip(*lessons.values(), strict=True)
    if len(set(labels)) < 2:
        return 0.0
    K = gram(bags)
    model = LibSVM(kernel="precomputed", C=C, tol=1e-8).fit(K, labels)
    coef, support = model.dual_coef_[0], model.support_
    return 0.5 * coef @ K[np.ix_(support, support)] @ coef - np.abs(coef).sum()


def without_bias(lessons, C):
    """All examples as positive ones, as y <w, x> has it, and an empty negative one, which is worth C.

    LIBLINEAR stops when the projected gradients of one pass are equal, even if they are not 0. This depends
    on the order of the examples, so it is asked for ten orders.
    """
    X = np.zeros((len(lessons) + 1, 2 + max(max(bag, default=0) for bag, _ in lessons.values())))
    for row, (bag, positive) in zip(X, lessons.values(), strict=False):
        keys, values = vector(bag)
        row[keys.astype(int)] = values if positive else -values
    y = np.append(np.ones(len(lessons)), -1)
    objectives = []
    for seed in range(10):
        model = LinearSVC(
            loss="hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=1_000_000, random_state=seed
        )
        w = model.fit(X, y).coef_[0]
        objectives.append(-0.5 * w @ w - C * np.maximum(0, 1 - X[:-1] @ w).sum())
    return max(objectives)


def objective(alphas, lessons):
    """1/2 b'Kb - sum of alphas, the function that the machine minimises, of dual variables by name."""
    K = gram([bag for bag, _ in lessons.values()])
    coef = np.array([alphas[name] * (1 if positive else -1) for name, (_, positive) in lessons.items()])
    return 0.5 * coef @ K @ coef - np.abs(coef).sum()


def judge(machine, lessons, free_bias=True):
    """The machine knows exactly these lessons and is at the optimum of them."""
    C = machine.C
    assert machine.settle()
    alphas = machine.alphas
    assert set(alphas) == set(lessons)
    assert len(machine) == len(lessons)
    assert all(0 <= alpha <= C for alpha in alphas.values())
    coef = np.array([alphas[name] * (1 if positive else -1) for name, (_, positive) in lessons.items()])
    if free_bias:
        assert abs(coef.sum()) <= 1e-9 * max(1, np.abs(coef).sum())
    else:
        assert machine.bias == 0
    assert machine.violation <= TOL
    if not lessons:
        assert machine.decision(*vector({1, 2})) == 0
        return
    expected = from_scratch(lessons, C, free_bias)
    assert objective(alphas, lessons) == pytest.approx(expected, rel=1e-5, abs=1e-9)
    K = gram([bag for bag, _ in lessons.values()])
    given = [machine.decision(*vector(bag)) for bag, _ in lessons.values()]
    np.testing.assert_allclose(given, K @ coef + machine.bias, atol=1e-5 * max(1, np.abs(coef).sum()))


class Life(RuleBasedStateMachine):
    """Lessons come, go, change, are aged out; machines are stored and made again."""

    @initialize(
        C=st.sampled_from([0.1, 1.0, 10.0]), memory=st.sampled_from([0, 1 << 20]), free_bias=st.booleans()
    )
    def begin(self, C, memory, free_bias):
        self.machine, self.lessons = OnlineMachine(C, TOL, memory=memory, free_bias=free_bias), {}
        self.free_bias = free_bias

    @rule(name=st.integers(0, 15), bag=BAGS, positive=st.booleans())
    def learn(self, name, bag, positive):
        self.machine.add(name, *vector(bag), positive)
        self.lessons[name] = (bag, positive)

    @rule(bags=st.lists(BAGS, min_size=4, max_size=12), positive=st.booleans())
    def learn_many(self, bags, positive):
        for name, bag in enumerate(bags):
            self.learn(name, bag, positive ^ (name % 3 == 0))

    @rule(name=st.integers(0, 15))
    def unlearn(self, name):
        if name in self.lessons:
            self.machine.remove(name)
            del self.lessons[name]
        else:
            with pytest.raises(KeyError):
                self.machine.remove(name)

    @rule(name=st.integers(0, 15))
    def change_of_mind(self, name):
        if name in self.lessons:
            bag, positive = self.lessons[name]
            self.learn(name, bag, not positive)

    @rule()
    def settle(self):
        judge(self.machine, self.lessons, self.free_bias)

    @rule(share=st.sampled_from([1.0, 0.5]), noise=st.booleans())
    def made_from_a_store(self, share, noise):
        self.machine.settle()
        alphas, C = self.machine.alphas, self.machine.C
        self.machine = OnlineMachine(C, TOL, free_bias=self.free_bias)
        for k, (name, (bag, positive)) in enumerate(self.lessons.items()):
            alpha = share * alphas[name] if not noise or k % 2 else C / 2
            self.machine.add(name, *vector(bag), positive, alpha)

    @rule()
    def pickled(self):
        self.machine = pickle.loads(pickle.dumps(self.machine))

    @rule(most=st.integers(1, 8))
    def aged(self, most):
        self.machine.settle()
        alphas = self.machine.alphas
        self.machine.budget = most
        self.machine.settle()
        gone = self.machine.forgotten
        assert len(self.machine) == min(most, len(self.lessons))
        others = sum(alpha == 0 for alpha in alphas.values())
        assert all(alphas[name] == 0 for name in gone[:others])
        for name in gone:
            del self.lessons[name]
        self.machine.budget, self.machine.forgotten = None, []

    @invariant()
    def knows_its_lessons(self):
        if hasattr(self, "machine"):
            assert set(self.machine.alphas) == set(self.lessons)

    def teardown(self):
        if hasattr(self, "machine"):
            judge(self.machine, self.lessons, self.free_bias)


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def mails(n, seed=0, noise=0.1):
    """n lessons of two kinds that share features; some have the wrong label."""
    rng = np.random.default_rng(seed)
    lessons = {}
    for name in range(n):
        positive = bool(rng.random() < 0.4)
        weight = np.where((np.arange(400) % 2 == 1) == positive, 3.0, 1.0) / np.arange(1, 401)
        bag = rng.choice(400, rng.integers(5, 40), replace=False, p=weight / weight.sum())
        lessons[name] = (frozenset(bag.tolist()), positive ^ bool(rng.random() < noise))
    return lessons


def taught(lessons, machine):
    for name, (bag, positive) in lessons.items():
        machine.add(name, *vector(bag), positive)
    machine.settle()
    return machine


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0, 30_000, 1 << 24])
def test_one_at_a_time_is_from_scratch(memory):
    """With rows of K for two examples, for some, and for all."""
    lessons, machine = mails(150), OnlineMachine(2.0, TOL, memory=memory)
    for name, (bag, positive) in lessons.items():
        machine.add(name, *vector(bag), positive)
        assert machine.settle()
    judge(machine, lessons)
    for name in range(0, 150, 2):
        machine.remove(name)
        machine.settle()
        del lessons[name]
    judge(machine, lessons)
    judge(taught(lessons, OnlineMachine(2.0, TOL)), lessons)
    assert memory or len(machine._K) == 2


def test_an_example_that_agrees_changes_nothing():
    lessons = mails(200, noise=0.0)
    machine = taught(lessons, OnlineMachine(10.0, TOL))
    bag, positive = lessons[machine.redundant(1)[0]]
    before = machine.alphas
    machine.add("again", *vector(bag), positive)
    assert machine.settle()
    assert machine.pairs == 0
    assert machine.alphas == before | {"again": 0.0}
    machine.remove("again")
    assert machine.settle()
    assert machine.pairs == 0
    assert machine.alphas == before


@pytest.mark.parametrize("positive", [True, False])
def test_one_class_decides_all(positive):
    machine = OnlineMachine(1.0)
    for name in range(3):
        machine.add(name, *vector({name}), positive)
    assert machine.settle()
    assert machine.decision(*vector({7})) == (1 if positive else -1)
    assert set(machine.alphas.values()) == {0.0}
    for name in range(3):
        machine.remove(name)
    judge(machine, {})


def test_a_huge_C():
    lessons = mails(60, noise=0.0)
    lessons |= {name + 100: (bag, not positive) for name, (bag, positive) in list(lessons.items())[:3]}
    machine = taught(lessons, OnlineMachine(1e6, TOL))
    judge(machine, lessons)
    assert max(machine.alphas.values()) == 1e6
    machine.remove(0)
    del lessons[0]
    judge(machine, lessons)


def test_it_gives_up_and_goes_on(monkeypatch, set_values):
    """A bound on pairs and one on time end a call; later calls arrive."""
    lessons = mails(150, noise=0.3)
    machine = OnlineMachine(100.0, TOL)
    set_values(module, MAX_PAIRS=50, STRETCH=25)
    taught(lessons, machine)
    assert machine.pairs == 50
    assert machine.violation > TOL
    monkeypatch.undo()
    assert not machine.settle(0.0)
    judge(machine, lessons)


def test_memory_does_not_grow_with_what_has_gone(monkeypatch):
    monkeypatch.setattr(online_rows, "FEW", 64)
    machine = OnlineMachine(2.0, budget=50)
    for round in range(8):
        for name, (bag, positive) in mails(100, seed=round).items():
            machine.add((round, name), *vector({key + 400 * round for key in bag}), positive)
        machine.settle()
        if round == 1:
            most = len(pickle.dumps(machine))  # without rows of the kernel matrix
    assert len(machine) == 50
    assert len(machine.forgotten) == 750
    assert len(pickle.dumps(machine)) <= 2 * most


def test_the_budget_takes_the_most_redundant_first():
    lessons = mails(200, noise=0.0)
    machine = taught(lessons, OnlineMachine(10.0, TOL))
    alphas = machine.alphas
    others = sum(alpha == 0 for alpha in alphas.values())
    margins = {
        name: machine.decision(*vector(bag)) * (1 if positive else -1)
        for name, (bag, positive) in lessons.items()
    }
    machine.budget = 200 - others // 2
    machine.settle()
    gone = machine.forgotten
    kept = [name for name, alpha in alphas.items() if alpha == 0 and name not in gone]
    assert min(margins[name] for name in gone) >= max(margins[name] for name in kept) - 1e-4
    left = {name: lesson for name, lesson in lessons.items() if name in machine}
    # The others were not needed.
    assert objective(machine.alphas, left) == pytest.approx(objective(alphas, lessons))


def test_of_equals_the_oldest_goes():
    machine = OnlineMachine(1.0, TOL)
    for name in "abcd":
        machine.add(name, *vector({1}), True)
    machine.add("other", *vector({2}), False)
    machine.settle()
    machine.add("e", *vector({1}), True)
    machine.settle()
    zero = [name for name in "abcde" if machine.alphas[name] == 0]
    assert machine.redundant(len(zero)) == zero


def test_what_is_left_out_is_what_training_without_it_gives():
    lessons = mails(120)
    machine = taught(lessons, OnlineMachine(1.0, TOL))
    values, positive = machine.left_out()
    alphas = machine.alphas
    assert positive.tolist() == [kind for _, kind in lessons.values()]
    for name in [name for name in lessons if alphas[name] == 0][:10]:
        without = copy.deepcopy(machine)
        without.remove(name)
        without.settle()
        assert values[name] == pytest.approx(without.decision(*vector(lessons[name][0])), abs=1e-3)
    sign = np.where(positive, 1, -1)
    known = np.array([machine.decision(*vector(bag)) for bag, _ in lessons.values()])
    whole = machine.left_out(1.0)[0]
    np.testing.assert_allclose(values, known + module.SHARE * (whole - known), atol=1e-4)
    assert (sign * values <= sign * known + 1e-4).all()


def test_weights_are_the_decision():
    machine = taught(mails(50), OnlineMachine(1.0))
    keys, weights = machine.weights()
    assert (np.diff(keys.astype(np.int64)) > 0).all()
    by_key = dict(zip(keys.tolist(), weights.tolist(), strict=True))
    asked, values = vector({1, 5, 9, 5000})
    expected = sum(by_key.get(int(key), 0.0) * value for key, value in zip(asked, values, strict=True))
    assert machine.decision(asked, values) == pytest.approx(expected + machine.bias, abs=1e-5)


def test_what_is_refused():
    machine = OnlineMachine()
    refuses("same value", machine.add, "a", np.array([1, 2], np.uint64), [0.5, 0.6], True)
    refuses("distinct", machine.add, "a", np.array([2, 1, 2], np.uint64), [0.5, 0.5, 0.5], True)
    refuses("alpha", machine.add, "a", *vector({1}), True, 11.0)
    assert len(machine) == 0
    assert "a" not in machine
