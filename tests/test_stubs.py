"""The types that are promised belong to the functions that there are."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import fairanchor
from fairanchor import datasets, metrics, plotting, report

STUBS = {
    "__init__": fairanchor,
    "datasets/__init__": datasets,
    "metrics": metrics,
    "plotting": plotting,
    "report/__init__": report,
}


def stub_of(name):
    return ast.parse((Path(fairanchor.__file__).parent / f"{name}.pyi").read_text()).body


def public(nodes, kind):
    return {node.name: node for node in nodes if isinstance(node, kind) and node.name[0] != "_"}


def names_of(function):
    """Parameters of a function of a stub, with those that have a default."""
    given = function.args
    positional = [one.arg for one in given.args]
    defaults = set(positional[len(positional) - len(given.defaults) :])
    keywords = [one.arg for one in given.kwonlyargs]
    defaults |= {
        name for name, value in zip(keywords, given.kw_defaults, strict=True) if value is not None
    }
    names = [name for name in positional + keywords if name not in ("self", "cls")]
    return names, defaults


def assert_same_parameters(node, function, title):
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "self"]
    names, defaults = names_of(node)
    assert names == [p.name for p in named], title
    assert defaults == {p.name for p in named if p.default is not p.empty}, title


@pytest.mark.parametrize("name", STUBS)
def test_every_public_name_has_its_type(name):
    body = stub_of(name)
    stubbed = {**public(body, ast.ClassDef), **public(body, ast.FunctionDef)}
    imported = {a.asname for node in body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert set(stubbed) | (imported - {None}) == set(STUBS[name].__all__)


@pytest.mark.parametrize("name", STUBS)
def test_functions_have_the_parameters_of_their_types(name):
    for title, node in public(stub_of(name), ast.FunctionDef).items():
        assert_same_parameters(node, getattr(STUBS[name], title), title)


@pytest.mark.parametrize("name", STUBS)
def test_methods_have_the_parameters_of_their_types(name):
    for title, node in public(stub_of(name), ast.ClassDef).items():
        owner = getattr(STUBS[name], title)
        methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        for own_name, method in methods.items():
            value = getattr(owner, own_name)
            function = value.fget if isinstance(value, property) else value
            assert_same_parameters(method, function, f"{title}.{own_name}")
        own = {
            own_name
            for own_name, value in vars(owner).items()
            if not own_name.startswith(("_", "set_"))
            and callable(getattr(value, "__func__", value))
        }
        assert own <= set(methods), title


def attributes_of(stub):
    """Attributes of the classes of a stub, with those of their bases."""
    classes = {node.name: node for node in stub if isinstance(node, ast.ClassDef)}

    def declared(node):
        own = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}
        names = [base.id for base in node.bases if isinstance(base, ast.Name)]
        bases = [classes[name] for name in names if name in classes]
        return own.union(*map(declared, bases))

    return {name: declared(node) for name, node in classes.items()}


@pytest.mark.parametrize("name", STUBS)
def test_every_documented_attribute_has_its_type(name):
    typed = attributes_of(stub_of(name))
    for title in public(stub_of(name), ast.ClassDef):
        text = inspect.getdoc(getattr(STUBS[name], title))
        section = re.search(r"^Attributes\n-+\n(.*?)(?:^\w+\n-+\n|\Z)", text + "\n", re.M | re.S)
        if section is None:
            continue
        lines = re.findall(r"^(\w[\w, ]*) : ", section.group(1), re.M)
        documented = {one.strip() for line in lines for one in line.split(",")}
        assert documented, title
        assert documented <= typed[title], title


def test_the_types_are_installed():
    assert Path(fairanchor.__file__).with_name("py.typed").exists()
