"""SourceModel: predicts from a source how useful judging it is. A model is data only; loading one never executes code.

The file is one line of JSON (format version, length and SHA-256 of what follows) and an .npz of plain arrays, read with
`allow_pickle=False`. Another version, a truncated or a changed file is refused.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from aliquot.errors import DataError, FormatError, OptionError
from aliquot.io.files import read_bytes
from aliquot.io.writing import write_bytes
from aliquot.sampling.source_features import FeatureVocabulary, Labels, dense_features, labels_for, scale_features
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.text_features import HASH_BITS, SEEN_BITS, SURFACE_FEATURES, EncodedTexts, encode_texts, ngram_scores


@dataclass(frozen=True, eq=False)
class Trees:
    """Nodes of all trees in flat arrays; children are indices in these arrays, -1 for a leaf."""

    root: NDArray[np.int32]  # where each tree starts
    feature: NDArray[np.int32]  # a row goes left where its feature, as float32, is at most the threshold
    threshold: FloatArray
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: FloatArray  # what a leaf adds (already times the learning rate)

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        same = all(len(part) == nodes for part in (self.threshold, self.left, self.right, self.value))
        inner = self.left >= 0
        # Children stand after their parent: so every walk ends.
        after = np.arange(nodes)[inner]
        walks = same and bool(
            (self.left[inner] > after).all()
            and (self.right[inner] > after).all()
            and (self.right[inner] < nodes).all()
            and (self.left[inner] < nodes).all()
            and (self.feature[inner] >= 0).all()
        )
        starts = len(self.root) == 0 or (self.root.min() >= 0 and self.root.max() < nodes)
        if not (walks and starts):
            raise DataError("the trees are broken: a node names a child or a feature that cannot be")


def extract_trees(model: Any) -> Trees:
    """Return the trees of a fitted GradientBoostingRegressor (init="zero")."""
    parts: dict[str, list[Any]] = {name: [] for name in ("root", "feature", "threshold", "left", "right", "value")}
    offset = 0
    for estimator in model.estimators_[:, 0]:
        tree = estimator.tree_
        inner = tree.children_left >= 0
        parts["root"].append(offset)
        parts["feature"].append(np.where(inner, tree.feature, -1))
        parts["threshold"].append(np.where(inner, tree.threshold, 0.0))
        parts["left"].append(np.where(inner, tree.children_left + offset, -1))
        parts["right"].append(np.where(inner, tree.children_right + offset, -1))
        parts["value"].append(np.where(inner, 0.0, model.learning_rate * tree.value[:, 0, 0]))
        offset += len(tree.feature)
    arrays = {name: np.concatenate(found) for name, found in parts.items() if name != "root"}
    return Trees(
        np.array(parts["root"], dtype=np.int32),
        arrays["feature"].astype(np.int32),
        arrays["threshold"],
        arrays["left"].astype(np.int32),
        arrays["right"].astype(np.int32),
        arrays["value"],
    )


def apply_trees(trees: Trees, features: FloatArray) -> FloatArray:
    """Return the sum of all trees' values for each row of features (n x K)."""
    total = np.zeros(len(features))
    if not len(trees.root) or not len(features):
        return total
    if int(trees.feature.max(initial=-1)) >= features.shape[1]:
        raise DataError(f"the trees ask for feature {trees.feature.max()}; there are {features.shape[1]}")
    narrow = features.astype(np.float32)
    rows = np.arange(len(features))
    for root in trees.root.tolist():
        node = np.full(len(features), root, dtype=np.int32)
        inner = trees.left[node] >= 0
        while inner.any():
            goes_left = narrow[rows, trees.feature[node]] <= trees.threshold[node]
            node = np.where(inner, np.where(goes_left, trees.left[node], trees.right[node]), node)
            inner = trees.left[node] >= 0
        total += trees.value[node]
    return total


# -- the model -------------------------------------------------------------------------------------------------------


FORMAT = 1
_MAGIC = "aliquot source model"
_ARRAYS = ("centre", "scale", "slopes", "whitening", "ngrams", "memory", "limits")
_TREES = ("root", "feature", "threshold", "left", "right", "value")
_MAX_BYTES = 1 << 29
CHUNK = 20_000


class Header(msgspec.Struct):
    """The first line of a model file."""

    magic: str
    format: int
    aliquot: str
    bytes: int
    sha256: str


class ModelMetadata(msgspec.Struct):
    """The metadata of a model file."""

    target: str
    kind: str
    vocabulary: FeatureVocabulary = msgspec.field(name="known")
    embedding: str
    trained_on: tuple[tuple[str, str, int], ...]
    scores: dict[str, dict[str, float]]
    signature: str


@dataclass(frozen=True, eq=False, repr=False)
class SourceModel:
    """Predicts from a source alone how useful judging it is."""

    target: str  # the utility that was learned
    kind: str  # ridge or gbm
    vocabulary: FeatureVocabulary  # domains and languages seen in training
    centre: FloatArray  # with `scale`, of the dense features; standardised features are cut at 10
    scale: FloatArray
    slopes: FloatArray  # of the standardised dense features
    ngrams: NDArray[np.float32]  # weights of the hashed n-grams; empty where they did not help
    trees: Trees | None  # what boosting adds; None for ridge
    memory: BoolArray  # hashed words and character runs of the training sources
    whitening: FloatArray  # turns standardised surface statistics into uncorrelated ones, for `unlikeness`
    limits: FloatArray  # the training sources' 95th percentiles of unseen characters and of distance
    embedding: str = ""  # the sentence encoder whose vectors are features, or ""
    trained_on: tuple[tuple[str, str, int], ...] = ()  # name, fingerprint and number of sources of each campaign
    # cross-validated Spearman correlations, campaign by campaign, for each candidate
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    signature: str = ""  # how to get it again
    version: str = ""  # the aliquot that made it

    def __post_init__(self) -> None:
        _check_shapes(self)
        arrays = [getattr(self, name) for name in _ARRAYS]
        arrays += [] if self.trees is None else [getattr(self.trees, name) for name in _TREES]
        for array in arrays:
            if array.dtype.kind not in "fib":
                raise DataError(f"source model: an array of type {array.dtype} where numbers are expected")
            if not np.isfinite(array).all():
                raise DataError("source model: a weight is not a finite number")
            array.setflags(write=False)
        if not ((self.scale > 0).all() and (self.limits > 0).all()):
            raise DataError("source model: a scale or a limit is not above 0")
        object.__setattr__(self, "scores", MappingProxyType({k: dict(v) for k, v in self.scores.items()}))

    def __repr__(self) -> str:
        sources = sum(count for _, _, count in self.trained_on)
        return f"SourceModel({self.kind} for {self.target}, {sources} sources of {len(self.trained_on)} campaigns)"

    # -- using it --------------------------------------------------------------------------------------------------

    def predict(
        self,
        sources: Sequence[str | None],
        *,
        pair: Labels = None,
        domain: Labels = None,
        vectors: FloatArray | None = None,
    ) -> FloatArray:
        """Return the predicted utility of each source, higher first; NaN for an empty source.

        The scale is that of the target in standard deviations within a campaign. Texts are treated in chunks, each
        alone: any way of splitting the sources gives the same numbers. `pair` ("en-de") and `domain` are one for all or
        one each; `vectors` are sentence embeddings, for a model trained on them.
        """
        return self.assess(sources, pair=pair, domain=domain, vectors=vectors)[0]

    def assess(
        self,
        sources: Sequence[str | None],
        *,
        pair: Labels = None,
        domain: Labels = None,
        vectors: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return predicted utility and unlikeness of each source."""
        if self.embedding and (vectors is None or len(vectors) != len(sources)):
            raise OptionError(f"this model was trained on embeddings of {self.embedding}; give one vector a source")
        pairs, domains = labels_for(pair, len(sources), "pair"), labels_for(domain, len(sources), "domain")
        parts = [
            self._assess_chunk(
                encode_texts(sources[start : start + CHUNK]),
                pairs[start : start + CHUNK],
                domains[start : start + CHUNK],
                None if vectors is None else vectors[start : start + CHUNK],
            )
            for start in range(0, len(sources), CHUNK)
        ]
        if not parts:
            return np.zeros(0), np.zeros(0)
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _assess_chunk(
        self, cut: EncodedTexts, pairs: list[str | None], domains: list[str | None], vectors: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        dense = dense_features(cut, self.vocabulary, self.memory, pairs, domains, vectors)
        standard = scale_features(dense, self.centre, self.scale)
        values = (standard * self.slopes).sum(axis=1)  # row by row: a matrix product rounds by the number of rows
        if len(self.ngrams):
            values += ngram_scores(cut, self.ngrams)
        if self.trees is not None:
            values += apply_trees(self.trees, standard)
        unlike = (unlikeness_parts(dense, standard, self.whitening) / self.limits).max(axis=1)
        has_text = cut.lengths > 0
        return np.where(has_text, values, np.nan), np.where(has_text, unlike, np.nan)

    def unlikeness(self, sources: Sequence[str | None]) -> FloatArray:
        """How unlike the training sources each source is: 1 = as unlike as their 95th percentile is to the others.

        The larger of two: the share of character runs that training never saw, and the distance of the surface
        statistics from their mean, each over the training sources' own 95th percentile. NaN for an empty source.
        """
        k = self.vocabulary.width - self.vocabulary.dimensions
        light = replace(
            self,
            vocabulary=replace(self.vocabulary, dimensions=0),
            centre=self.centre[:k],
            scale=self.scale[:k],
            slopes=self.slopes[:k],
            ngrams=self.ngrams[:0],
            trees=None,
            embedding="",
        )
        return light.assess(sources)[1]

    # -- files -----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model, whole or not at all."""
        write_bytes(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the model's file, the same for the same model."""
        fields = {name: getattr(self, name) for name in ModelMetadata.__struct_fields__}
        meta = ModelMetadata(**fields | {"scores": {name: dict(parts) for name, parts in self.scores.items()}})
        arrays: dict[str, Any] = {name: getattr(self, name) for name in _ARRAYS if name != "memory"}
        arrays["memory"] = np.packbits(self.memory, axis=1)
        arrays["meta"] = np.frombuffer(msgspec.json.encode(meta), dtype=np.uint8)
        if self.trees is not None:
            arrays |= {f"tree_{name}": getattr(self.trees, name) for name in _TREES}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        payload = buffer.getvalue()
        header = Header(_MAGIC, FORMAT, self.version, len(payload), hashlib.sha256(payload).hexdigest())
        return msgspec.json.encode(header) + b"\n" + payload

    @classmethod
    def load(cls, path: str | Path) -> SourceModel:
        """Read a model that `save` wrote; raise FormatError for anything else."""
        header, payload = _read_payload(read_bytes(path), path)
        try:
            return _from_arrays(_unpack_arrays(payload), header)
        except Exception as error:  # noqa: BLE001  (zipfile, zlib and numpy raise a dozen classes for a damaged archive)
            raise FormatError(
                f"{path}: not a usable source model ({error}); train it again with `aliquot learn`"
            ) from None


def _check_shapes(model: SourceModel) -> None:
    """Raise DataError unless all arrays have the expected shapes."""
    k, surface, size = model.vocabulary.width, len(SURFACE_FEATURES), model.ngrams.size
    expected = {
        "centre": (k,),
        "scale": (k,),
        "slopes": (k,),
        "limits": (2,),
        "whitening": (surface, surface),
        "memory": (2, 1 << SEEN_BITS),
        "ngrams": (size if size & (size - 1) == 0 else 1 << HASH_BITS,),
    }
    for name, shape in expected.items():
        actual = getattr(model, name).shape
        if actual != shape:
            raise DataError(f"source model: {name} has shape {actual} where {shape} is expected")
    if bool(model.embedding) != (model.vocabulary.dimensions > 0):
        raise DataError(f"source model: {model.vocabulary.dimensions} dimensions of the encoder '{model.embedding}'")
    if model.trees is not None and int(model.trees.feature.max(initial=-1)) >= k:
        raise DataError(f"source model: the trees ask for feature {model.trees.feature.max()} of {k}")


def unlikeness_parts(dense: FloatArray, standard: FloatArray, whitening: FloatArray) -> FloatArray:
    """Return the share of unseen character n-grams and the distance of surface statistics from their mean (n x 2)."""
    k = len(SURFACE_FEATURES)
    white = np.einsum("ij,jk->ik", standard[:, :k], whitening)  # no matrix product: it rounds by the number of rows
    return np.column_stack([dense[:, k + 1], np.sqrt((white**2).mean(axis=1))])


def _read_payload(raw: bytes, path: str | Path) -> tuple[Header, bytes]:
    """Return header and payload of a model file; raise FormatError if it is incomplete or changed."""
    line, _, payload = raw.partition(b"\n")
    try:
        header = msgspec.json.decode(line[:4096], type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise FormatError(f"{path}: is not a source model; make one with `aliquot learn DATA... -o FILE`") from None
    if header.magic != _MAGIC:
        raise FormatError(f"{path}: is not a source model; make one with `aliquot learn DATA... -o FILE`")
    if header.format != FORMAT:
        raise FormatError(
            f"{path}: a source model of format {header.format}, made by aliquot {header.aliquot}; this aliquot reads "
            f"format {FORMAT}: train it again with `aliquot learn`, or use the aliquot that made it"
        )
    if len(payload) < header.bytes:
        raise FormatError(f"{path}: the model ends too early ({len(payload)} of {header.bytes} bytes); copy it again")
    if hashlib.sha256(payload).hexdigest() != header.sha256:
        raise FormatError(f"{path}: the model was damaged or changed after it was written; copy or train it again")
    return header, payload


def _unpack_arrays(payload: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
            raise DataError("the model is implausibly large; it is not one that aliquot wrote")
    with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
        return dict(stored)


def _from_arrays(stored: dict[str, Any], header: Header) -> SourceModel:
    meta = msgspec.json.decode(stored["meta"].tobytes(), type=ModelMetadata)
    trees = Trees(*(stored[f"tree_{name}"] for name in _TREES)) if "tree_root" in stored else None
    return SourceModel(
        **msgspec.structs.asdict(meta),
        trees=trees,
        version=header.aliquot,
        memory=np.unpackbits(stored["memory"], axis=1).astype(np.bool_),
        **{name: stored[name] for name in _ARRAYS if name != "memory"},
    )
