"""What a hospital's export may hold: it loads by its schema, or is refused with the row and the reason."""

import pytest
from data.records.conftest import ADMISSIONS, CODES, MAIN, REST, SCHEMA, Export

from hush.errors import Mistake

DAYS = 'admitted = "came"\ndischarged = "left"\n'


def dropped(records, rule: str, of: str = "rows") -> int:
    (found,) = [one for one in records.counts if (one.name, one.of) == (rule, of)]
    return found.dropped


def test_their_own_column_names_load(export: Export) -> None:
    records = export()
    assert records.names == ("years", "sex=F", "sex=M", "0093", "250.83", "250.830", "486", "V58")
    assert records.clients.tolist() == ["North", "North", "South", "South", "South"]
    assert records.targets.tolist() == [1, 0, 0, 1, 0]
    assert records.inputs[:].tolist() == [
        pytest.approx([0.4, 1, 0, 1, 1, 0, 0, 0]),
        pytest.approx([0.5, 0, 1, 0, 0, 1, 0, 0]),
        pytest.approx([0.6, 1, 0, 0, 1, 0, 1, 0]),
        pytest.approx([0.7, 0, 1, 0, 0, 0, 0, 1]),
        pytest.approx([0.8, 1, 0, 0, 0, 0, 0, 0]),
    ]


@pytest.mark.parametrize(
    ("keep", "rule", "left"),
    [
        ('age = "years"\nmin_age = 50', "min_age", ["c2", "c3", "c4", "c5"]),
        ('age = "years"\nmax_age = 50', "max_age", ["c1", "c2"]),
        ('exclude = { sex = ["M"] }', "exclude sex", ["c1", "c3", "c5"]),
        ("exclude = { years = [40, 80] }", "exclude years", ["c2", "c3", "c4"]),
        (f"{DAYS}min_days = 3", "min_days", ["c1", "c2", "c3", "c4"]),
        (f"{DAYS}min_days = 4", "min_days", ["c1", "c4"]),
        ('stay = "score"\nmin_days = 20', "min_days", ["c3", "c4", "c5"]),
        ("min_rows_per_client = 3", "min_rows_per_client", ["c3", "c4", "c5"]),
    ],
)
def test_a_rule_keeps_and_counts(export: Export, keep: str, rule: str, left: list[str]) -> None:
    records = export(keep)
    years = {"c1": 0.4, "c2": 0.5, "c3": 0.6, "c4": 0.7, "c5": 0.8}
    assert records.inputs[:][:, 0].tolist() == pytest.approx([years[case] for case in left])
    assert dropped(records, rule) == 5 - len(left)


def test_the_client_cut_counts_clients_and_is_named_as_fitted(export: Export) -> None:
    records = export("min_rows_per_client = 3")
    assert dropped(records, "min_rows_per_client", "clients") == 1
    assert any("at least 3 rows" in line for line in records.fitted)


def test_a_duplicate_admission_is_refused_or_one_is_kept(export: Export) -> None:
    twice = ADMISSIONS + "c2,North,55,M,2024-01-02,2024-01-05,10,alive\n"
    with pytest.raises(Mistake, match=r"row 6 of admissions.csv: case = 'c2', an admission that came before.*'first'"):
        export(admissions=twice)
    first, last = export('duplicates = "first"', twice), export('duplicates = "last"', twice)
    assert first.inputs[:][1, 0] == pytest.approx(0.5)
    assert last.inputs[:][4, 0] == pytest.approx(0.55)
    assert (dropped(first, "duplicates"), dropped(last, "duplicates")) == (1, 1)
    at = first.names.index("250.830")
    assert first.inputs[:][1, at] == last.inputs[:][4, at] == 1  # the admission keeps its codes


def test_dates_in_the_wrong_order_are_refused_or_dropped(export: Export) -> None:
    wrong = ADMISSIONS.replace("2024-02-20", "2024-02-02")
    with pytest.raises(Mistake, match=r"row 4 of admissions.csv: left = '2024-02-02', which is before came.*'drop'"):
        export(DAYS, wrong)
    records = export(f'{DAYS}wrong_dates = "drop"', wrong)
    assert dropped(records, "wrong_dates") == 1
    assert len(records.targets) == 4
    with pytest.raises(Mistake, match=r"row 2 of admissions.csv: score = '-1', which is a stay of less than no days"):
        export('stay = "score"', ADMISSIONS.replace(",10,alive", ",-1,alive"))


def test_dates_in_another_form(export: Export) -> None:
    german = "case,house,years,sex,came,left,how\nc1,N,40,F,01.02.2024,03.03.2024,dead\n"
    assert len(export(f'{DAYS}dates = "%d.%m.%Y"\nmin_days = 31', german).targets) == 1
    with pytest.raises(Mistake, match=r"no row of admissions.csv is left"):
        export(f'{DAYS}dates = "%d.%m.%Y"\nmin_days = 32', german)
    with pytest.raises(Mistake, match=r"row 1 of admissions.csv: came = '01.02.2024', is no date like 2024-01-31"):
        export(DAYS, german)
    timed = german.replace("01.02.2024", "2024-02-01 23:59").replace("03.03.2024", "2024-02-02T00:01:00")
    assert len(export(f"{DAYS}min_days = 1", timed).targets) == 1


@pytest.mark.parametrize(
    ("old", "new", "keep", "words"),
    [
        ("North,50", ",50", "", "row 2 of admissions.csv: house is missing"),
        ("c3,South", ",South", "", "row 3 of admissions.csv: case is missing"),
        ("40,alive", "40,", "", "row 5 of admissions.csv: how is missing.*unlabelled"),
        (",60,", ",,", 'age = "years"\nmin_age = 1', "row 3 of admissions.csv: years is missing.*undecided"),
        (",60,", ",sixty,", 'age = "years"\nmin_age = 1', "row 3 of admissions.csv: years = 'sixty', is no number"),
        ("2024-03-02", "", DAYS, "row 5 of admissions.csv: left is missing.*undecided"),
    ],
)
def test_what_a_rule_needs_must_be_there(export: Export, old: str, new: str, keep: str, words: str) -> None:
    assert old in ADMISSIONS
    with pytest.raises(Mistake, match=words):
        export(keep, ADMISSIONS.replace(old, new))


def test_what_cannot_be_decided_may_be_dropped(export: Export) -> None:
    holes = ADMISSIONS.replace(",60,", ",,").replace("40,alive", "40,")
    schema = MAIN + 'unlabelled = "drop"\n' + REST
    records = export('age = "years"\nmin_age = 1\nundecided = "drop"', holes, schema=schema)
    assert (dropped(records, "unlabelled"), dropped(records, "no years")) == (1, 1)
    assert len(records.targets) == 3


def test_missing_words_are_missing(export: Export) -> None:
    marked = ADMISSIONS.replace("40,alive", "40,?")
    schema = MAIN + 'missing = ["?"]\nunlabelled = "drop"\n' + REST
    assert dropped(export(admissions=marked, schema=schema), "unlabelled") == 1
    excluded = export('exclude = { sex = [""] }', ADMISSIONS.replace("70,M", "70,"))
    assert dropped(excluded, "exclude sex") == 1  # "" is what is missing


def test_every_row_is_accounted_for(export: Export) -> None:
    records = export(f'{DAYS}min_days = 4\nage = "years"\nmin_age = 45', codes=CODES)
    rows = [rule for rule in records.counts if rule.of == "rows"]
    assert 5 - sum(rule.dropped for rule in rows) == len(records.targets) == 1
    left = 5
    for rule in rows:
        assert rule.before == left
        left -= rule.dropped


def test_a_column_that_is_not_there(export: Export) -> None:
    with pytest.raises(Mistake, match=r"age = 'age' is not a column of admissions.csv.*: name one of case, house"):
        export("min_age = 18")
    with pytest.raises(Mistake, match=r"client = 'hause' is not a column .*\(the nearest is 'house'\)"):
        export(schema=SCHEMA.replace("house", "hause"))
    with pytest.raises(Mistake, match=r"codes.code = 'idc' is not a column of codes.csv \(the nearest is 'icd'\)"):
        export(schema=SCHEMA.replace('code = "icd"', 'code = "idc"'))


def test_files_that_are_no_tables(export: Export) -> None:
    with pytest.raises(Mistake, match="no rows"):
        export(admissions=ADMISSIONS.splitlines()[0] + "\n")
    with pytest.raises(Mistake, match="cannot be read as a table"):
        export(admissions="")
    with pytest.raises(Mistake, match=r"codez.csv is not there"):
        export(schema=SCHEMA.replace("codes.csv", "codez.csv"))
    with pytest.raises(Mistake, match="neither CSV nor Parquet"):
        export(schema=SCHEMA.replace("codes.csv", "schema.toml"))
