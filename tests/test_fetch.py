"""Fetchers: every table passes the same checks, and no test touches the network."""

import hashlib
import io
import shutil
import zipfile
from dataclasses import replace
from urllib.error import URLError

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pyarrow import csv, parquet

from fairanchor import datasets
from fairanchor.datasets import _public, _sources

FETCHERS = {
    "law_school": datasets.fetch_law_school,
    "credit_card": datasets.fetch_credit_card,
    "bank_marketing": datasets.fetch_bank_marketing,
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(url, **options):
        raise AssertionError(f"a test wanted to download {url}")

    monkeypatch.setattr(_public, "fetch_file", refuse)


def served(monkeypatch, content):
    """Let the next downloads be ``content``; the list records their addresses."""
    addresses = []

    def fetch_file(url, *, folder, local_filename):
        if not (folder / local_filename).exists():  # as the function of scikit-learn
            addresses.append(url)
            (folder / local_filename).write_bytes(content)

    monkeypatch.setattr(_public, "fetch_file", fetch_file)
    return addresses


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


# A table of four rows that passes for Bank Marketing.

BANK_HEADER = ";".join(f'"{name}"' for name in (*_sources.BANK_MARKETING.features, "marital", "y"))


def bank_csv(groups=("married", "single", "divorced", "unknown")):
    lines = [
        ";".join([str(i + j / 2) for j in range(10)] + [f'"{group}"', '"no"'])
        for i, group in enumerate(groups)
    ]
    return "\n".join([BANK_HEADER, *lines]).encode()


@pytest.fixture
def fetch_small_bank():
    sizes = {"married": 1, "single": 1, "divorced": 1}
    source = replace(_sources.BANK_MARKETING, group_sizes=sizes, n_rows=3)
    return _public._fetcher(source)


def bank_archive(content):
    inner = zipped(**{"bank-additional/bank-additional-full.csv": content})
    return zipped(**{"bank-additional.zip": inner, "bank.zip": b"another file"})


@pytest.mark.parametrize("name", FETCHERS)
def test_local_parquet_gives_what_the_loader_gives(data_dir, name):
    fetched = FETCHERS[name](data_home=data_dir, download_if_missing=False)
    loaded = getattr(datasets, f"load_{name}")(data_dir)
    assert_array_equal(fetched.data, loaded.data)
    assert_array_equal(fetched.target, loaded.target)
    assert_array_equal(fetched.sensitive_features, loaded.sensitive_features)
    assert fetched.n_clusters == loaded.n_clusters


def test_the_published_form_of_law_school_is_read(data_dir, tmp_path):
    loaded = datasets.load_law_school(data_dir)
    table = parquet.read_table(data_dir / "law_school.parquet")
    header = [f"@attribute {name} real" for name in table.column_names]
    # The header of the published file names two values for tier, which has six.
    header[table.column_names.index("tier")] = "@attribute tier {0, 1}"
    rows = zip(*table.to_pydict().values(), strict=True)
    lines = [",".join(f"{value:.6f}" for value in row) for row in rows]
    text = "\n".join(["@relation law", *header, "@data", *lines])
    (tmp_path / "law_dataset.arff").write_text(text)
    fetched = datasets.fetch_law_school(data_home=tmp_path)
    np.testing.assert_allclose(fetched.data, loaded.data, atol=1e-5)
    assert_array_equal(fetched.sensitive_features, loaded.sensitive_features)


@pytest.mark.parametrize("numbered", [True, False])
def test_both_headers_of_the_credit_csv_are_read(data_dir, tmp_path, numbered):
    table = parquet.read_table(data_dir / "credit_card.parquet")
    if numbered:
        table = table.rename_columns(["ID", *(f"X{j}" for j in range(1, 24)), "Y"])
    csv.write_csv(table, tmp_path / "credit_card.csv")
    fetched = datasets.fetch_credit_card(data_home=tmp_path)
    loaded = datasets.load_credit_card(data_dir)
    assert_array_equal(fetched.data, loaded.data)
    assert_array_equal(fetched.target, loaded.target)


def test_nested_archive_is_unpacked_checked_filtered_and_kept(
    monkeypatch, tmp_path, fetch_small_bank
):
    addresses = served(monkeypatch, bank_archive(bank_csv()))
    first = fetch_small_bank(data_home=tmp_path)
    second = fetch_small_bank(data_home=tmp_path)
    assert len(addresses) == 1
    assert addresses[0].startswith("https://")
    assert first.data.tolist() == [[i + j / 2 for j in range(10)] for i in range(3)]
    assert_array_equal(first.data, second.data)
    assert first.sensitive_features.tolist() == ["married", "single", "divorced"]
    kept = [path.name for path in (tmp_path / "fairanchor" / "bank_marketing").iterdir()]
    assert kept == ["bank+marketing.zip"]


def test_a_damaged_download_never_changes_the_table(monkeypatch, tmp_path, fetch_small_bank):
    served(monkeypatch, bank_archive(bank_csv()))
    whole = fetch_small_bank(data_home=tmp_path)
    file = tmp_path / "fairanchor" / "bank_marketing" / "bank+marketing.zip"
    content = file.read_bytes()
    n_errors = 0
    for place in range(0, len(content), 13):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            read = fetch_small_bank(data_home=tmp_path, download_if_missing=False)
        except ValueError:
            n_errors += 1
            assert not file.exists()
        else:
            assert_array_equal(read.data, whole.data)
    assert n_errors > 40


@pytest.mark.parametrize(
    ("download", "message"),
    [
        (
            bank_archive(bank_csv(("married", "single"))),
            "should have 3 rows after the row filter, .* has 2 rows",
        ),
        (
            bank_archive(bank_csv(("married", "married", "divorced", "unknown"))),
            "should have 3 rows after the row filter",
        ),
        (bank_archive(bank_csv().replace(b'"duration"', b'"length"')), "no column ..duration.."),
        (bank_archive(b""), "is not bank_marketing as published: Empty CSV file"),
        (b"<html>moved</html>", "is not the expected file: File is not a zip file"),
        (zipped(**{"other.csv": b"x"}), "There is no item named .bank-additional.zip"),
    ],
)
def test_another_download_raises_an_error_and_is_not_kept(
    monkeypatch, tmp_path, fetch_small_bank, download, message
):
    served(monkeypatch, download)
    with pytest.raises(ValueError, match=message):
        fetch_small_bank(data_home=tmp_path)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_download_that_fails_names_the_address_and_the_alternative(tmp_path, monkeypatch):
    def unreachable(url, **options):
        raise URLError("no route to host")

    monkeypatch.setattr(_public, "fetch_file", unreachable)
    with pytest.raises(OSError, match="no route to host") as caught:
        datasets.fetch_law_school(data_home=tmp_path)
    for words in (_sources.LAW_SCHOOL.url, str(tmp_path), "law_dataset.arff"):
        assert words in str(caught.value)


def test_a_missing_table_is_named_with_its_source(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no copy of adult .*adult\.data and adult\.test"):
        datasets.fetch_adult(data_home=tmp_path, download_if_missing=False)
    assert list(tmp_path.iterdir()) == []


def test_both_parts_of_adult_are_joined(monkeypatch, tmp_path):
    line = "{age}, Private, 77516, Bachelors, 13, Never-married, Sales, Husband, White, {sex}, "
    line += "2174, 0, 40, United-States, {income}"
    train = [line.format(age=39, sex="Male", income="<=50K"), ""]
    test = ["|1x3 Cross validator", line.format(age=25, sex="Female", income=">50K.")]
    archive = zipped(**{"adult.data": "\n".join(train), "adult.test": "\n".join(test)})
    served(monkeypatch, archive)
    source = replace(_sources.ADULT, group_sizes={"Male": 1, "Female": 1}, n_rows=2)
    bunch = _public._fetcher(source)(data_home=tmp_path)
    assert bunch.target.tolist() == ["<=50K", ">50K"]
    assert bunch.data.tolist() == [[39, 13, 2174, 0, 40], [25, 13, 2174, 0, 40]]


# The census: known by its checksum.


@pytest.fixture
def census_sample(data_dir):
    """The first 199 rows of the published file, as its text."""
    table = parquet.read_table(data_dir / "census1990_first199.parquet")
    text = io.BytesIO()
    csv.write_csv(table, text, csv.WriteOptions(quoting_style="none"))
    return text.getvalue(), table


def test_census_is_read_when_it_has_the_checksum(tmp_path, census_sample):
    content, table = census_sample
    checksum = hashlib.sha256(content).hexdigest()
    source = replace(_sources.CENSUS_1990, n_rows=199, sha256=checksum)
    file = tmp_path / "USCensus1990.data.txt"
    file.write_bytes(content)
    bunch = _public._fetcher(source)(data_home=tmp_path)
    assert bunch.data.shape == (199, 66)
    assert_array_equal(bunch.sensitive_features, table["iSex"])
    assert_array_equal(bunch.target, table["iMarital"])
    assert not {"caseid", "iSex", "iMarital"} & set(bunch.feature_names)
    assert_array_equal(bunch.data[:, 0], table["dAge"])


def test_census_of_another_checksum_raises_an_error(tmp_path, census_sample):
    file = tmp_path / "USCensus1990.data.txt"
    file.write_bytes(census_sample[0])
    with pytest.raises(ValueError, match="expected 38e99f50855ddc03"):
        datasets.fetch_census1990(data_home=tmp_path)


def test_a_part_of_the_census_raises_an_error(data_dir, tmp_path):
    shutil.copy(data_dir / "census1990_first199.parquet", tmp_path / "census1990.parquet")
    with pytest.raises(ValueError, match="census1990 should have 2,458,285 rows .* has 199 rows"):
        datasets.fetch_census1990(data_home=tmp_path)
