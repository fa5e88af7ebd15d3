"""A model that was fitted stays as it was where a later fit fails."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

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
