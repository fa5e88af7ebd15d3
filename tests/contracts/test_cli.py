"""`cavity demo` prints one line per algorithm and writes a figure."""

import builtins

import pytest

from cavity.cli import main


def test_demo(tmp_path, capsys):
    figure = tmp_path / "figure.png"
    assert main(["demo", "--output", str(figure)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ["ADF", "SEP", "AEP", "EP", "VI"]
    log_likelihood = {line.split()[0]: float(line.split()[1]) for line in lines[1:6]}
    assert all(-0.2 < value < -0.05 for value in log_likelihood.values())
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_missing_extra_is_named(monkeypatch, capsys, tmp_path):
    real = builtins.__import__

    def without_sklearn(name, *args, **kwargs):
        if name.startswith("sklearn"):
            raise ModuleNotFoundError(name, name="sklearn")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_sklearn)
    assert main(["demo", "--output", str(tmp_path / "figure.png")]) == 1
    assert "pip install 'cavity[demo]'" in capsys.readouterr().err


def test_a_missing_command_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "demo" in capsys.readouterr().err
