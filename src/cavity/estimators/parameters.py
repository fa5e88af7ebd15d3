"""Parameters of estimators: default, constraint and description of each in one place, for all estimators that have it.

A class that is decorated with `estimator` has its parameters as fields, with those of its bases before its own. From
these come the constructor, the checks, and the section of its docstring about them.
"""

import dataclasses
import inspect
import re
import textwrap
from typing import Any, TypeVar, dataclass_transform

from cavity.estimators.constraints import Constraint

Class = TypeVar("Class", bound=type)
COLUMNS = 120
TITLES = ("Parameters", "Attributes", "Examples")


def parameter(kind: str, text: str, constraint: Constraint | None = None, *, default: Any, kw_only: bool = True) -> Any:
    """A parameter: the kind of its values, what it is for, what is allowed by itself, and its default."""
    return dataclasses.field(
        default=default, kw_only=kw_only, metadata={"kind": kind, "text": text, "constraint": constraint}
    )


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter,))
def estimator(cls: Class) -> Class:
    """A class whose annotated members are its parameters."""
    dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)
    cls.__doc__ = documented(cls)
    return cls


def documented(cls: Any) -> str:
    """The docstring of a class with a section on all parameters, and attributes of its base before its own."""
    lead, sections = in_sections(inspect.cleandoc(vars(cls).get("__doc__") or ""))
    inherited = in_sections(cls.__bases__[-1].__doc__ or "")[1]
    attributes = [part for part in (inherited.get("Attributes"), sections.get("Attributes")) if part]
    sections["Parameters"] = "\n".join(map(described, dataclasses.fields(cls)))
    sections["Attributes"] = "\n".join(attributes)
    told = [f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in TITLES if sections.get(title)]
    return "\n\n".join([lead, *told]) + "\n"


def in_sections(text: str) -> tuple[str, dict[str, str]]:
    """What comes before the first underlined title of a docstring, and what is under each of these."""
    lead, *parts = re.split(rf"^({'|'.join(TITLES)})\n-+\n", text, flags=re.MULTILINE)
    return lead.strip(), {title: part.strip() for title, part in zip(parts[::2], parts[1::2], strict=True)}


def described(field: Any) -> str:
    """A parameter's entry in a docstring."""
    default = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
    text = textwrap.fill(field.metadata["text"], COLUMNS, initial_indent="    ", subsequent_indent="    ")
    return f"{field.name} : {field.metadata['kind']}, default={default}" + (f"\n{text}" if text else "")
