"""What all estimators share: a fit that fails leaves no trace, and parameters are checked."""

import dataclasses
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(method: Method) -> Method:
    """A method that leaves all attributes of its object as they were if it raises, or is interrupted."""

    @wraps(method)
    def whole(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *args, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return whole  # type: ignore[return-value]


class Estimator(BaseEstimator):
    """Base of all estimators, whose parameters are declared as `cavity.estimators.parameters` says.

    `fit` and `partial_fit` of any class that is derived from it are all or nothing.

    Attributes of a fitted model are bound anew by these and never changed in place: that is what makes it hold.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        for name in {"fit", "partial_fit"} & vars(cls).keys():
            setattr(cls, name, all_or_nothing(vars(cls)[name]))
        super().__init_subclass__(**options)

    def _check_parameters(self) -> None:
        """Raise a ValueError that names the first parameter whose value is none."""
        for field in dataclasses.fields(self):
            if field.metadata["constraint"] is not None:
                field.metadata["constraint"](field.name, getattr(self, field.name))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")
