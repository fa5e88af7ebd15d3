"""Labels of classes: which there are, of one fit or of a stream of chunks, and what all classifiers predict by."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted


class Classifier(ClassifierMixin):
    """A classifier with a function of its own for each class of several, or one for the second of two."""

    classes_: np.ndarray

    def _learn_classes(self, y: np.ndarray, weight: np.ndarray) -> None:
        """Those of the rows that weigh something."""
        check_classification_targets(y)
        self.classes_ = unique_labels(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least two classes; got one class, {self.classes_.tolist()}, among rows of positive "
                "weight."
            )

    def _check_classes(self, y: np.ndarray, weight: np.ndarray, classes: Any, first: bool) -> None:
        """Those that the first call of `partial_fit` lists, and labels of a chunk, which must be among them."""
        check_classification_targets(y)
        if first:
            if classes is None or len(unique_labels(classes)) < 2:
                raise ValueError(
                    "classes must list all labels in the first call of partial_fit, at least two labels; got "
                    f"{classes!r}."
                )
            self.classes_ = unique_labels(classes)
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(f"classes must be those of the first call, {self.classes_}; got {classes}.")
        unknown = np.setdiff1d(y[weight > 0], self.classes_)
        if len(unknown):
            raise ValueError(f"y must hold labels among classes={self.classes_}; got {unknown}.")

    def _signs(self, y: np.ndarray) -> list[np.ndarray]:
        """±1 for every class that has a function."""
        positive = self.classes_ if len(self.classes_) > 2 else self.classes_[1:]
        return [np.where(y == label, 1.0, -1.0) for label in positive]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the posterior predictive class probabilities."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posterior predictive probabilities of the classes, in the order of `classes_`."""
        probability = np.exp(self.predict_log_proba(X))
        return probability / probability.sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_log_proba(X), axis=1)]
