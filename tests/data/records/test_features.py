import pytest
from data.records.conftest import ADMISSIONS, MAIN, SCHEMA, Export

from hush.errors import Mistake

NUMBER = "years = { min = 0, max = 100 }"


def schema(number: str = NUMBER, levels: str = '["F", "M"]') -> str:
    return SCHEMA.replace(NUMBER, number).replace('["F", "M"]', levels)


def column(records, name: str) -> list[float]:
    return records.inputs[:][:, records.names.index(name)].tolist()


HOLE = ADMISSIONS.replace(",60,F", ",,F")


@pytest.mark.parametrize(
    ("policy", "value"),
    [('missing = "median"', 0.6), ('missing = "zero"', 0.0), ("missing = 25", 0.25), ("missing = 12.5", 0.125)],
)
def test_a_missing_number(export: Export, policy: str, value: float) -> None:
    records = export(admissions=HOLE, schema=schema(f"years = {{ min = 0, max = 100, {policy} }}"))
    assert column(records, "years") == pytest.approx([0.4, 0.5, value, 0.7, 0.8])
    (rule,) = [rule for rule in records.counts if rule.name == "no years"]
    assert (rule.changed, rule.dropped) == (1, 0)
    assert any("median" in line for line in records.fitted) == ("median" in policy)


def test_a_missing_number_is_refused_by_default_or_dropped(export: Export) -> None:
    with pytest.raises(Mistake, match=r"row 3 of admissions.csv: years is missing, .*numeric.years.missing = 'median'"):
        export(admissions=HOLE)
    records = export(admissions=HOLE, schema=schema('years = { min = 0, max = 100, missing = "drop" }'))
    assert len(records.targets) == 4


def test_bounds_that_are_fitted_are_named(export: Export) -> None:
    fitted = export(schema=schema("years = {}"))
    assert column(fitted, "years") == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert "years: its smallest and largest value, to scale it" in fitted.fitted
    half = export(schema=schema("years = { min = 0 }"))
    assert column(half, "years") == pytest.approx([0.5, 0.625, 0.75, 0.875, 1])
    assert "years: its largest value, to scale it" in half.fitted
    assert not any("years" in line for line in export().fitted)


def test_a_constant_number_is_zero(export: Export) -> None:
    same = "case,house,years,sex,came,left,score,how\nc1,N,7,F,,,,dead\nc2,N,7,M,,,,alive\n"
    assert column(export(admissions=same, schema=schema("years = {}")), "years") == [0, 0]


def test_a_number_outside_its_public_bounds(export: Export) -> None:
    with pytest.raises(
        Mistake, match=r"row 4 of admissions.csv: years = '70', which is not in 45 to 65.*'clamp'.*1 more"
    ):
        export('exclude = { case = ["c1"] }', schema=schema("years = { min = 45, max = 65 }"))
    clamped = export(schema=schema('years = { min = 45, max = 65, outside = "clamp" }'))
    assert column(clamped, "years") == pytest.approx([0, 0.25, 0.75, 1, 1])
    assert [rule.changed for rule in clamped.counts if rule.name == "years outside"] == [3]
    assert len(export(schema=schema('years = { min = 45, max = 65, outside = "drop" }')).targets) == 2


@pytest.mark.parametrize("text", ["old", "NaN", "inf", "4 0"])
def test_what_is_no_number_is_refused(export: Export, text: str) -> None:
    with pytest.raises(Mistake, match=rf"row 1 of admissions.csv: years = '{text}', is no finite number"):
        export(admissions=ADMISSIONS.replace("40,F", f"{text},F"))


def test_a_missing_gender_is_unknown_or_refused(export: Export) -> None:
    hole = ADMISSIONS.replace("50,M", "50,")
    with pytest.raises(Mistake, match=r"row 2 of admissions.csv: sex is missing, .*'Unknown'"):
        export(admissions=hole)
    with pytest.raises(Mistake, match=r"row 2 of admissions.csv: sex = 'X', which is not in categorical.sex"):
        export(admissions=ADMISSIONS.replace("50,M", "50,X"))
    for text in ("", "Unknown"):
        odd = ADMISSIONS.replace("50,M", f"50,{text}")
        records = export(admissions=odd, schema=schema(levels='["M", "F", "Unknown"]'))
        assert [column(records, f"sex={level}")[1] for level in ("M", "F", "Unknown")] == [0, 0, 1]
        assert records.names[1:4] == ("sex=M", "sex=F", "sex=Unknown")
        assert [rule.changed for rule in records.counts if rule.name == "sex unknown"] == (
            [] if text == "Unknown" else [1]
        )
        assert not any("sex" in line for line in records.fitted)
    dropped = export(admissions=hole, schema=schema(levels='{ levels = ["M", "F"], missing = "drop" }'))
    assert len(dropped.targets) == 4
    taken = export(admissions=hole, schema=schema(levels='{ levels = ["M", "F"], missing = "F" }'))
    assert column(taken, "sex=F") == [1, 1, 1, 0, 1]


def test_a_value_that_is_not_in_the_list_is_never_taken_as_missing(export: Export) -> None:
    odd = ADMISSIONS.replace(",M,", ",male,").replace(",F,2024-03", ",,2024-03")
    lists = r"sex = 'male', which is not in categorical.sex = M, F, Unknown: correct it, or add to the list 'male'"
    with pytest.raises(Mistake, match=rf"row 2 of admissions.csv: {lists} \(1 more rows like it\)"):
        export(admissions=odd, schema=schema(levels='["M", "F", "Unknown"]'))
    apart = '{ levels = ["M", "F", "Unknown", "Other"], other = "Other" }'
    records = export(admissions=odd, schema=schema(levels=apart))
    assert (column(records, "sex=Unknown"), column(records, "sex=Other")) == ([0, 0, 0, 0, 1], [0, 1, 0, 1, 0])
    changed = {rule.name: (rule.changed, rule.why) for rule in records.counts if rule.changed}
    assert changed == {
        "sex unknown": (1, "sex is missing: taken as Unknown"),
        "sex other": (2, "sex is not in its list: taken as Other"),
    }
    dropped = '{ levels = ["M", "F", "Unknown"], other = "drop" }'
    assert len(export(admissions=odd, schema=schema(levels=dropped)).targets) == 3
    with pytest.raises(Mistake, match=r"categorical.sex: other = 'X' must be 'refuse', 'drop' or a level"):
        export(schema=schema(levels='{ levels = ["M", "F"], other = "X" }'))


@pytest.mark.parametrize("levels", ["[1, 2]", '["1", "2"]', "[1.0, 2.0]", "[]"])
def test_one_number_is_one_category_however_it_is_written(export: Export, levels: str) -> None:
    ways = iter(["1.0", "2", "1", "2.00", " 1 "])
    lines = ADMISSIONS.splitlines()
    mixed = "\n".join([lines[0], *(line.replace(f",{line.split(',')[3]},", f",{next(ways)},") for line in lines[1:])])
    records = export(admissions=mixed, schema=schema(levels=levels))
    assert records.names[1:3] == ("sex=1", "sex=2")
    assert column(records, "sex=1") == [1, 0, 1, 0, 1]
    assert not any(rule.changed for rule in records.counts)
    with pytest.raises(Mistake, match=r"categorical.sex has a level twice"):
        export(admissions=mixed, schema=schema(levels='[1, "1.0"]'))


def test_levels_may_be_numbers(export: Export) -> None:
    coded = ADMISSIONS.replace(",F,", ",1,").replace(",M,", ",2,")
    assert export(admissions=coded, schema=schema(levels="[2, 1]")).names[1:3] == ("sex=2", "sex=1")


def test_levels_that_are_fitted_are_named(export: Export) -> None:
    records = export(schema=schema(levels="[]"))
    assert records.names[1:3] == ("sex=F", "sex=M")
    assert "sex: the list of its 2 values" in records.fitted
    holes = export(admissions=ADMISSIONS.replace("50,M", "50,"), schema=schema(levels="[]"))
    assert holes.names[1:4] == ("sex=F", "sex=M", "sex=Unknown")
    assert column(holes, "sex=Unknown") == [0, 1, 0, 0, 0]


def test_labels(export: Export) -> None:
    plain = SCHEMA.replace('positive = ["dead"]\n', "")
    numbers = ADMISSIONS.replace("dead", "1").replace("alive", "0")
    assert export(admissions=numbers, schema=plain).targets.tolist() == [1, 0, 0, 1, 0]
    classes = numbers.replace("40,0", "40,2")
    assert export(admissions=classes, schema=plain).targets.tolist() == [1, 0, 0, 1, 2]
    with pytest.raises(Mistake, match=r"row 1 of admissions.csv: how = 'dead', which is no class.*positive"):
        export(schema=plain)
    with pytest.raises(Mistake, match=r"row 5 of admissions.csv: how = '0.5', which is no class"):
        export(admissions=numbers.replace("40,0", "40,0.5"), schema=plain)
    with pytest.raises(Mistake, match=r"no row of admissions.csv has how = 'Dead': write positive as it stands"):
        export(schema=SCHEMA.replace('["dead"]', '["Dead"]'))
    assert export('exclude = { case = ["c1", "c4"] }').targets.tolist() == [0, 0, 0]  # the rules may leave none
    assert export(schema=SCHEMA.replace('["dead"]', '["dead", "alive"]')).targets.tolist() == [1] * 5
    by_number = MAIN.replace('label = "how"\npositive = ["dead"]', 'label = "score"\npositive = [5, 30]')
    assert export(schema=SCHEMA.replace(MAIN, by_number)).targets.tolist() == [1, 0, 0, 1, 0]


GERMAN = ADMISSIONS.replace(",", ";").replace(";40;", ";40,5;").replace(";50;", ";50,25;")


def test_numbers_with_a_decimal_comma(export: Export) -> None:
    text = SCHEMA.replace(MAIN, MAIN + 'separator = ";"\n')
    hint = r"row 1 of admissions.csv: years = '40,5', is no finite number: say decimal = ',' if .* \(1 more rows"
    with pytest.raises(Mistake, match=hint):
        export(admissions=GERMAN, schema=text)
    with pytest.raises(Mistake, match=r"years = '40,5', is no number: say decimal = ','"):
        export("min_age = 18\nage = 'years'", admissions=GERMAN, schema=text)
    comma = text.replace(MAIN, MAIN + "decimal = ','\n")
    records = export(admissions=GERMAN, schema=comma)
    assert column(records, "years") == pytest.approx([0.405, 0.5025, 0.6, 0.7, 0.8])
    for value in ("1.200,5", "1.200"):
        with pytest.raises(Mistake, match=rf"row 3 .*years = '{value}', is no finite number: write it without a point"):
            export(admissions=GERMAN.replace(";60;", f";{value};"), schema=comma)
    with pytest.raises(Mistake, match=r"decimal = ';' is wrong"):
        export(admissions=GERMAN, schema=comma.replace("decimal = ','", "decimal = ';'"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_do_not_shift_the_rows(export: Export, end: str) -> None:
    lines = ADMISSIONS.splitlines()
    spaced = end.join([*lines[:3], "", *lines[3:], "", ""])
    records = export(admissions=spaced)
    assert column(records, "years") == pytest.approx([0.4, 0.5, 0.6, 0.7, 0.8])
    assert records.counts == export().counts
    with pytest.raises(Mistake, match=r"row 4 of admissions.csv: years = 'old'"):
        export(admissions=spaced.replace(",70,", ",old,"))
    with pytest.raises(Mistake, match=r"row 3 of admissions.csv: house is missing"):
        export(admissions=spaced.replace("c3,South", "c3,"))
