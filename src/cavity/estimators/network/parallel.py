"""Several networks at the same time."""

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event
from typing import Any

from cavity.inference.threads import available


def jobs_of(n_jobs: int | None) -> int:
    """How many networks may be fitted at the same time."""
    return available() if n_jobs in (None, -1) else int(n_jobs or 1)


def in_parallel(function: Any, *arguments: Any, at_once: int, over: Event) -> list[Any]:
    """Calls at the same time: compiled loops do not hold Python's lock. Where one fails, `over` ends the others."""
    if at_once == 1:
        return [function(*each) for each in zip(*arguments, strict=True)]
    with ThreadPoolExecutor(at_once) as pool:
        calls = [pool.submit(function, *each) for each in zip(*arguments, strict=True)]
        try:
            for call in wait(calls, return_when=FIRST_EXCEPTION).done:
                call.result()
        except BaseException:  # what a call raised, or an interrupt while waiting
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [call.result() for call in calls]
